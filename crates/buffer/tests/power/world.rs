//! Owns a buffer on disks of a test, with real contents: the ledger, two volumes, callers that fill and read, and slow storage. Remembers
//! what was acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use godwit_buffer::backing::Backing;
use godwit_buffer::extent::{
    Content, FileKey, Flow, Generation, Recovered, SourceId, Ticket, VolumeIndex,
};
use godwit_buffer::ledger::{
    Action, Admission, Begun, DrainSettings, Drained, IfFull, Ledger, Notice, ReadEnd, Settings,
    Span, WriteFault,
};
use godwit_buffer::volume::{Format, GetError, OpenError, PutError, Volume, format};
use godwit_seeded::{Seeded, mix};
use godwit_store::digest::DigestKind;
use godwit_sys::page_buffer::PageBuffer;

use super::disk::{Disk, Power};

pub(crate) const EXTENT: u32 = 16 << 10;
pub(crate) const DISK_BYTES: usize = 2_200_000 / 4096 * 4096;
const NODE: &str = "gw1-node";

pub(crate) struct World {
    pub(crate) seeded: Seeded,
    pub(crate) power: Power,
    pub(crate) disks: Vec<Disk>,
    volumes: Vec<Volume<Disk>>,
    ledger: Ledger,
    now: Duration,
    writes: Vec<(Ticket, Content)>,
    reads: Vec<(Ticket, Content)>,
    drains: Vec<(Ticket, Content)>,
    generation: u64,
    /// Acknowledged data that slow storage does not have.
    pub(crate) owed: BTreeSet<(FileKey, u64)>,
    /// Only copies that the ledger has named as lost.
    pub(crate) lost: Vec<Span>,
    pub(crate) tally: BTreeMap<&'static str, u64>,
    buffer: PageBuffer,
}

/// The contents of a range.
pub(crate) fn data(file: &FileKey, offset: u64, bytes: u32) -> Vec<u8> {
    let mut seed = mix(file.generation.stamp ^ offset << 8);
    for byte in &file.path {
        seed = mix(seed ^ u64::from(*byte));
    }
    let mut seeded = Seeded(seed);
    let words = (0..bytes.div_ceil(8)).flat_map(|_| seeded.draw().to_le_bytes());
    words.take(bytes as usize).collect()
}

fn settings() -> Settings {
    Settings {
        extent_bytes: EXTENT,
        drain: DrainSettings {
            at_once: 4,
            ..DrainSettings::default()
        },
        ..Settings::default()
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let power = Power::default();
        let disks: Vec<Disk> = (0..2)
            .map(|at| Disk::new(DISK_BYTES, seed * 2 + at, &power))
            .collect();
        for (at, disk) in (1..).zip(&disks) {
            let wanted = Format {
                id: [at; 16],
                salt: u64::from(at),
                node: NODE.to_owned(),
                serial: "disk".to_owned(),
                bytes: DISK_BYTES as u64,
                extent_bytes: EXTENT,
                made: Duration::ZERO,
            };
            format(disk, &wanted).expect("formatted");
        }
        let mut world = Self {
            seeded: Seeded(seed),
            power,
            disks,
            volumes: Vec::new(),
            ledger: Ledger::new(settings()),
            now: Duration::from_secs(1_000_000),
            writes: Vec::new(),
            reads: Vec::new(),
            drains: Vec::new(),
            generation: 0,
            owed: BTreeSet::new(),
            lost: Vec::new(),
            tally: BTreeMap::new(),
            buffer: PageBuffer::new(EXTENT as usize).expect("memory"),
        };
        world.open();
        world
    }

    /// Opens all volumes, as after a start.
    pub(crate) fn open(&mut self) {
        self.volumes.clear();
        self.writes.clear();
        self.reads.clear();
        self.drains.clear();
        self.ledger = Ledger::new(settings());
        for disk in self.disks.clone() {
            let (volume, extents) = Volume::open(disk, NODE).expect("the log opens");
            self.ledger.attach(volume.layout().slots, extents);
            self.volumes.push(volume);
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    fn pick<T>(&mut self, from: fn(&mut Self) -> &mut Vec<T>) -> Option<T> {
        let many = from(self).len() as u64;
        let at = if many == 0 {
            return None;
        } else {
            self.seeded.below(many)
        };
        Some(from(self).swap_remove(usize::try_from(at).expect("small")))
    }

    fn file(&mut self) -> Arc<FileKey> {
        Arc::new(FileKey {
            source: SourceId([1; 16]),
            path: format!("run42/{}", self.seeded.below(12)).into_bytes(),
            generation: Generation {
                bytes: 5 * u64::from(EXTENT) - 777,
                stamp: self.generation - self.seeded.below(2).min(self.generation),
            },
        })
    }

    pub(crate) fn step(&mut self) {
        self.now += Duration::from_millis(self.seeded.below(200));
        match self.seeded.below(20) {
            0..5 => self.begin(),
            5..10 => self.write(),
            10..15 => self.poll(),
            15 => self.drain(),
            16..19 => self.read(),
            _ if self.seeded.one_in(40) => {
                self.generation += 1;
                let file = self.file();
                self.ledger
                    .observe(file.source, &file.path, file.generation);
            }
            _ => {}
        }
        while let Some(notice) = self.ledger.poll_notice() {
            if let Notice::Lost(span) = notice {
                self.owed.remove(&((*span.file).clone(), span.offset));
                self.lost.push(span);
            }
        }
    }

    fn begin(&mut self) {
        let (file, offset) = (self.file(), self.seeded.below(5) * u64::from(EXTENT));
        let flow = if self.seeded.one_in(2) {
            Flow::In
        } else {
            Flow::Out
        };
        let Admission::Granted(id) = self.ledger.reserve(1, IfFull::PassThrough) else {
            self.count("full");
            return;
        };
        if let Begun::Here(ticket) = self.ledger.begin(self.now, id, &file, offset, flow) {
            let bytes = u32::try_from((file.generation.bytes - offset).min(u64::from(EXTENT)))
                .expect("small");
            let kind = if self.seeded.one_in(2) {
                DigestKind::Blake3
            } else {
                DigestKind::Crc64Nvme
            };
            let content = Content::of(&file, offset, &data(&file, offset, bytes), kind);
            self.writes.push((ticket, content));
        }
        self.ledger.release(id);
    }

    fn write(&mut self) {
        let Some((ticket, content)) = self.pick(|world| &mut world.writes) else {
            return;
        };
        let bytes = data(&content.file, content.offset, content.bytes);
        self.buffer[..bytes.len()].copy_from_slice(&bytes);
        let is_wrong = self.seeded.one_in(100);
        if is_wrong {
            self.buffer[3] ^= 1;
        }
        let volume = &self.volumes[usize::from(ticket.place.volume.0)];
        let put = volume.put(ticket.place.slot, &content, &mut self.buffer);
        let end = match put {
            Ok(()) => Ok(content.digest),
            Err(PutError::Damaged) => {
                assert!(is_wrong, "right data is taken");
                Err(WriteFault::GaveUp)
            }
            Err(PutError::Io(error)) if error.kind() == std::io::ErrorKind::StorageFull => {
                Err(WriteFault::NoSpace)
            }
            Err(PutError::Io(_)) => Err(WriteFault::Failed),
        };
        assert!(!is_wrong || end.is_err(), "wrong data is not taken");
        if end == Err(WriteFault::Failed) {
            self.count("write failed");
        }
        self.ledger.handle_written(self.now, ticket, end);
    }

    pub(crate) fn poll(&mut self) {
        while let Some(action) = self.ledger.poll_action(self.now) {
            match action {
                Action::Commit(commit) => {
                    let done = self.volumes[usize::from(commit.volume.0)].commit(&commit);
                    let incoming: Vec<(FileKey, u64)> = commit
                        .records
                        .iter()
                        .filter_map(|record| match record {
                            godwit_buffer::extent::Record::Holds {
                                content,
                                is_dirty: true,
                                ..
                            } => Some(((*content.file).clone(), content.offset)),
                            _ => None,
                        })
                        .collect();
                    if done.is_ok() {
                        self.owed.extend(incoming);
                        self.count("commit");
                    } else {
                        self.count("commit failed");
                    }
                    self.ledger.handle_committed(
                        self.now,
                        commit.volume,
                        commit.number,
                        done.is_ok(),
                    );
                }
                Action::Drain(ticket, content) => self.drains.push((ticket, content)),
                Action::Probe(volume) => {
                    let disk = &self.disks[usize::from(volume.0)];
                    let mut page = PageBuffer::new(4096).expect("memory");
                    let is_good = disk.read_at(0, &mut page).is_ok();
                    self.ledger.handle_probed(self.now, volume, is_good);
                }
                Action::Reopen(volume) => self.reopen(volume),
            }
            if self.power.is_off() {
                return;
            }
        }
    }

    fn reopen(&mut self, index: VolumeIndex) {
        let disk = self.disks[usize::from(index.0)].clone();
        let extents: Option<Vec<Recovered>> = match Volume::open(disk, NODE) {
            Ok((volume, extents)) => {
                self.volumes[usize::from(index.0)] = volume;
                self.count("reopen");
                Some(extents)
            }
            Err(OpenError::Io(_)) => None,
            Err(error) => panic!("{error}"),
        };
        self.ledger.handle_reopened(index, extents);
    }

    /// Reads an extent. Right bytes are right; everything else is an error.
    fn get(&mut self, ticket: Ticket, content: &Content) -> Result<(), GetError> {
        let volume = &self.volumes[usize::from(ticket.place.volume.0)];
        let read = volume.get(ticket.place.slot, content, &mut self.buffer)?;
        let expected = data(&content.file, content.offset, content.bytes);
        assert!(
            read == expected,
            "{} at {} is served wrong",
            content.file,
            content.offset
        );
        Ok(())
    }

    fn drain(&mut self) {
        let Some((ticket, content)) = self.pick(|world| &mut world.drains) else {
            return;
        };
        let end = match self.get(ticket, &content) {
            _ if self.seeded.one_in(20) => Drained::TargetFailed,
            Ok(()) => {
                self.owed.remove(&((*content.file).clone(), content.offset));
                self.count("drained");
                Drained::Done
            }
            Err(GetError::Io(_)) => Drained::Unread,
            Err(GetError::Damaged) => {
                self.count("damaged");
                Drained::Damaged
            }
        };
        self.ledger.handle_drained(self.now, ticket, end);
    }

    fn read(&mut self) {
        if self.seeded.one_in(2) {
            let (file, offset) = (self.file(), self.seeded.below(5) * u64::from(EXTENT));
            if let Some(found) = self.ledger.find(self.now, &file, offset) {
                assert_eq!((&found.1.file, found.1.offset), (&file, offset));
                self.reads.push(found);
            }
            return;
        }
        let Some((ticket, content)) = self.pick(|world| &mut world.reads) else {
            return;
        };
        let end = match self.get(ticket, &content) {
            Ok(()) => {
                self.count("served");
                ReadEnd::Good
            }
            Err(GetError::Io(_)) => ReadEnd::Failed,
            Err(GetError::Damaged) => {
                self.count("damaged");
                ReadEnd::Damaged
            }
        };
        self.ledger.handle_read(self.now, ticket, end);
    }

    /// Everything that was acknowledged and not drained is there, dirty and right; nothing else is wrong.
    pub(crate) fn check(&mut self) {
        let mut there = BTreeSet::new();
        for at in 0..self.volumes.len() {
            for extent in self.volumes[at].extents() {
                let content = extent.content;
                let read = self.volumes[at]
                    .get(extent.slot, &content, &mut self.buffer)
                    .expect("right");
                let expected = data(&content.file, content.offset, content.bytes);
                assert!(read == expected, "{} at {}", content.file, content.offset);
                if extent.is_dirty {
                    there.insert(((*content.file).clone(), content.offset));
                }
            }
        }
        for owed in &self.owed {
            assert!(there.contains(owed), "{} at {} is lost", owed.0, owed.1);
        }
    }
}
