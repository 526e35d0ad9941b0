//! Owns the world of the model: the ledger, the reference, the logs and contents of the volumes. Chooses the kind of each step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::reference::Reference;
use godwit_buffer::extent::{
    BlockDigest, FileKey, Generation, Place, Record, Recovered, SlotIndex, SourceId, State, Ticket,
    VolumeIndex,
};
use godwit_buffer::health::Health;
use godwit_buffer::ledger::{Commit, DrainSettings, Ledger, Notice, Order, Settings};
use godwit_seeded::{Seeded, mix};
use godwit_store::digest::{Digest, DigestKind};

const EXTENT: u32 = 4096;
const SETTINGS: Settings = Settings {
    high: 950,
    low: 900,
    drain: DrainSettings {
        order: Order::Oldest,
        rate: None,
        at_once: 3,
    },
    extent_bytes: EXTENT,
};

pub(crate) type Owed = (FileKey, u64, [u8; 32]);

pub(crate) struct World {
    pub(crate) seeded: Seeded,
    pub(crate) now: Duration,
    pub(crate) ledger: Ledger,
    pub(crate) reference: Reference,
    /// The log of each volume.
    pub(crate) logs: Vec<BTreeMap<SlotIndex, Recovered>>,
    /// The contents of the slots.
    pub(crate) media: BTreeMap<Place, BlockDigest>,
    pub(crate) writes: Vec<(Ticket, Duration)>,
    pub(crate) reads: Vec<(Ticket, Duration)>,
    pub(crate) drains: Vec<Ticket>,
    pub(crate) commits: Vec<Commit>,
    /// Acknowledged data that slow storage does not have.
    pub(crate) owed: BTreeSet<Owed>,
    pub(crate) full_until: BTreeMap<VolumeIndex, Duration>,
    pub(crate) slow: BTreeSet<VolumeIndex>,
    pub(crate) lost: u64,
    pub(crate) tally: BTreeMap<&'static str, u64>,
}

pub(crate) fn pick<T: Copy>(seeded: &mut Seeded, from: &[T]) -> Option<T> {
    let at = seeded.below(from.len().max(1) as u64);
    from.get(usize::try_from(at).expect("small")).copied()
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut seeded = Seeded(seed);
        let slots: Vec<u32> = (0..=seeded.below(3))
            .map(|at| 8 + 5 * u32::try_from(at).expect("small"))
            .collect();
        let mut world = Self {
            seeded,
            now: Duration::from_secs(1_000_000),
            ledger: Ledger::new(SETTINGS),
            reference: Reference::default(),
            logs: slots.iter().map(|_| BTreeMap::new()).collect(),
            media: BTreeMap::new(),
            writes: Vec::new(),
            reads: Vec::new(),
            drains: Vec::new(),
            commits: Vec::new(),
            owed: BTreeSet::new(),
            full_until: BTreeMap::new(),
            slow: BTreeSet::new(),
            lost: 0,
            tally: BTreeMap::new(),
        };
        world.reference.slots = slots;
        world.restart();
        world
    }

    /// A power cut: everything in memory is gone.
    pub(crate) fn restart(&mut self) {
        self.ledger = Ledger::new(SETTINGS);
        let slots = std::mem::take(&mut self.reference.slots);
        self.reference = Reference {
            out: slots.iter().map(|_| false).collect(),
            slots,
            ..Reference::default()
        };
        self.writes.clear();
        self.reads.clear();
        self.drains.clear();
        self.commits.clear();
        self.full_until.clear();
        self.slow.clear();
        for at in 0..self.logs.len() {
            let extents: Vec<Recovered> = self.logs[at].values().cloned().collect();
            let volume = self
                .ledger
                .attach(self.reference.slots[at], extents.clone());
            self.reference.load(volume, &extents);
        }
    }

    pub(crate) fn file(&mut self) -> Arc<FileKey> {
        Arc::new(FileKey {
            source: SourceId([0; 16]),
            path: vec![b'a' + u8::try_from(self.seeded.below(5)).expect("small")],
            generation: Generation {
                bytes: (1 + self.seeded.below(2)) * 3 * u64::from(EXTENT) - 5,
                stamp: 0,
            },
        })
    }

    pub(crate) fn offset(&mut self) -> u64 {
        self.seeded.below(6) * u64::from(EXTENT)
    }

    pub(crate) fn digest(&mut self, file: &FileKey, offset: u64) -> BlockDigest {
        let rare = u64::from(self.seeded.one_in(50));
        let number =
            mix(u64::from(file.path[0]) ^ file.generation.bytes << 8 ^ offset << 20 ^ rare << 60);
        let mut value = [0; 32];
        value[..8].copy_from_slice(&number.to_le_bytes());
        BlockDigest {
            kind: DigestKind::Crc64Nvme,
            value: Digest(value),
        }
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    pub(crate) fn step(&mut self) {
        match self.seeded.below(100) {
            0..5 => self.reserve(),
            5..9 => self.release(),
            9..30 => self.begin(),
            30..47 => self.end_write(),
            47..62 => self.poll(),
            62..70 => self.end_commit(),
            70..77 => self.end_drain(),
            77..88 => self.read(),
            88..93 => self.keep_or_change(),
            93..96 => self.now += Duration::from_millis(self.seeded.below(2000)),
            96 if self.seeded.one_in(25) => self.now += Duration::from_secs(31),
            97 if self.seeded.one_in(4) => self.abandon(),
            98 if self.seeded.one_in(20) => self.corrupt(),
            99 if self.seeded.one_in(200) => {
                self.count("restart");
                self.restart();
            }
            _ => {}
        }
        self.take_notices();
        self.compare();
    }

    /// The volume was out, and is back, since the commit began.
    pub(crate) fn stale(&self, commit: &Commit) -> bool {
        commit.slots.iter().chain(&commit.freed).any(|slot| {
            let place = Place {
                volume: commit.volume,
                slot: *slot,
            };
            let entry = self
                .reference
                .entries
                .iter()
                .find(|entry| entry.ticket.place == place);
            !entry.is_some_and(|entry| matches!(entry.state, State::Written | State::Freeing))
        })
    }

    pub(crate) fn apply(&mut self, volume: VolumeIndex, record: &Record) {
        let log = &mut self.logs[usize::from(volume.0)];
        match record {
            Record::Holds {
                slot,
                content,
                is_dirty,
                since,
                keep,
            } => {
                for one in log.values_mut() {
                    if one.content.file == content.file {
                        one.keep = *keep;
                    }
                }
                let one = Recovered {
                    slot: *slot,
                    content: content.clone(),
                    is_dirty: *is_dirty,
                    since: *since,
                    keep: *keep,
                };
                assert!(
                    log.insert(*slot, one).is_none(),
                    "a slot is freed before it is used again"
                );
            }
            Record::Clean(slot) => {
                if let Some(one) = log.get_mut(slot) {
                    one.is_dirty = false;
                }
            }
            Record::Free(slot) => {
                log.remove(slot);
            }
            Record::Keep(file, keep) => {
                for one in log.values_mut().filter(|one| one.content.file == *file) {
                    one.keep = *keep;
                }
            }
            Record::Arrived(..) | Record::Placed(..) => unreachable!("no file arrives here"),
        }
    }

    pub(crate) fn take_notices(&mut self) {
        while let Some(notice) = self.ledger.poll_notice() {
            self.take_notice(notice);
        }
    }

    pub(crate) fn take_notice(&mut self, notice: Notice) {
        match notice {
            Notice::Granted(id) => panic!("{id:?} was granted outside a poll"),
            Notice::Failed(ticket, span) => {
                if let Some(entry) = self.reference.at(ticket).cloned() {
                    assert_eq!((&*entry.file, entry.offset), (&*span.file, span.offset));
                    self.reference.fail(ticket);
                    self.count("failed");
                }
            }
            Notice::Lost(_) => self.lost -= 1,
            Notice::Health(volume, health) => {
                self.slow.remove(&volume);
                match health {
                    Health::Slow => drop(self.slow.insert(volume)),
                    Health::Out(_) if !self.reference.out[usize::from(volume.0)] => {
                        self.reference.strand(volume);
                        self.count("out");
                    }
                    _ => {}
                }
            }
        }
    }

    pub(crate) fn compare(&mut self) {
        assert_eq!(self.lost, 0, "each lost extent is named");
        let status = self.ledger.status();
        for (at, volume) in status.volumes.iter().enumerate() {
            assert_eq!(
                volume.slots,
                self.reference.counts(at),
                "states on volume {at}: {:?}",
                State::ALL
            );
        }
        assert_eq!(status.promised, self.reference.promised(), "promised");
        assert_eq!(status.available, self.reference.available(), "available");
        if self.seeded.one_in(16) {
            self.nothing_owed_is_missing();
        }
    }

    /// Each acknowledged extent that slow storage does not have is in a log, dirty, or was damaged.
    pub(crate) fn nothing_owed_is_missing(&self) {
        for (file, offset, digest) in &self.owed {
            let mut logs = self.logs.iter().flat_map(BTreeMap::values);
            let found = logs.any(|one| {
                let content = &one.content;
                one.is_dirty
                    && *content.file == *file
                    && content.offset == *offset
                    && content.digest.value.0 == *digest
            });
            assert!(found, "{file} {offset} is gone");
        }
    }
}
