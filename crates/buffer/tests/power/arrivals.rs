//! Cuts power while files arrive at a buffer in use and drain: each acknowledged file drains unchanged, or still waits.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use godwit_buffer::extent::SourceId;
use godwit_buffer::service::{Arrivals, Buffer, Drain, Log, Mounted};
use godwit_buffer::volume::{Format, format};
use godwit_seeded::Seeded;

use super::disk::{Disk, Power};
use super::world::{DISK_BYTES, EXTENT};

const NODE: &str = "gw1-test";
const SOURCE: SourceId = SourceId([7; 16]);
const SOON: Duration = Duration::from_millis(1);

/// Files by their numbers, which decide their contents.
struct World {
    seeded: Seeded,
    power: Power,
    disks: Vec<Disk>,
    /// Acknowledged, and not drained.
    owed: BTreeSet<u64>,
    /// On their way in or out at the cut.
    open: BTreeSet<u64>,
    number: u64,
    drained: u64,
}

fn contents(number: u64) -> Vec<u8> {
    let mut seeded = Seeded(number);
    let bytes = 1 + seeded.below(4 * u64::from(EXTENT));
    let words = (0..bytes.div_ceil(8)).flat_map(|_| seeded.draw().to_le_bytes());
    words.take(usize::try_from(bytes).expect("small")).collect()
}

fn number_of(what: &[u8]) -> u64 {
    u64::from_le_bytes(what.try_into().expect("eight bytes"))
}

impl World {
    fn new(seed: u64) -> Self {
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
        Self {
            seeded: Seeded(seed),
            power,
            disks,
            owed: BTreeSet::new(),
            open: BTreeSet::new(),
            number: 0,
            drained: 0,
        }
    }

    /// Opens the buffer, and compares what waits with what was acknowledged.
    fn open(&mut self) -> Buffer {
        let mounted = self.disks.iter().map(|disk| {
            let path = PathBuf::from("disk");
            Mounted::over(path, Arc::new(disk.clone()), NODE).expect("a volume")
        });
        let log: Log = Arc::new(|_: &str| {});
        let buffer = Buffer::start(mounted.collect(), Vec::new(), log).expect("threads");
        let waiting = buffer.arrivals().list(SOURCE, b"", None, usize::MAX);
        let waiting: BTreeSet<u64> = waiting.iter().map(|one| number_of(&one.what)).collect();
        let lost: Vec<&u64> = self.owed.difference(&waiting).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        for number in waiting.difference(&self.owed) {
            assert!(self.open.contains(number), "{number} came back");
        }
        self.owed = waiting;
        self.open.clear();
        buffer
    }

    fn arrive(&mut self, arrivals: &Arrivals) {
        self.number += 1;
        let number = self.number;
        let data = contents(number);
        let path = format!("f/{number}");
        let Some(arriving) = arrivals.begin(SOURCE, path.as_bytes(), data.len() as u64) else {
            return;
        };
        let written = data.chunks(10_000).enumerate().all(|(at, block)| {
            let offset = at as u64 * 10_000;
            arriving.write(offset, block).is_ok()
        });
        // Some transfers end before.
        if !written || self.seeded.one_in(8) || !arriving.make_durable() {
            return;
        }
        self.open.insert(number);
        let landed = arriving.land(&number.to_le_bytes());
        if landed.is_ok_and(|mark| arrivals.confirm(mark)) {
            self.open.remove(&number);
            self.owed.insert(number);
        }
    }

    fn drain(&mut self, arrivals: &Arrivals, drain: Drain) {
        let number = number_of(drain.what());
        let data = contents(number);
        assert_eq!(drain.bytes(), data.len() as u64);
        let mut read = vec![0; data.len()];
        if !drain.read(0, &mut read) {
            assert!(self.power.is_off(), "{number} cannot be read");
            return;
        }
        assert!(read == data, "{number} is wrong");
        match self.seeded.below(4) {
            0 => {
                drain.failed("slow storage fails".to_owned(), true);
                arrivals.retry(SOURCE, b"");
            }
            1 => drop(drain),
            _ => {
                self.owed.remove(&number);
                self.open.insert(number);
                drain.placed(number);
                self.drained += 1;
            }
        }
    }
}

#[test]
fn power_cuts_lose_no_file_that_arrived_and_bring_none_back_that_drained() {
    let mut drained = 0;
    for seed in 300..304 {
        eprintln!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..12 {
            let buffer = world.open();
            let arrivals = buffer.arrivals();
            let operations = 1 + world.seeded.below(150);
            world.power.cut_after(operations);
            while !world.power.is_off() {
                let drain = match world.seeded.one_in(3) {
                    true => arrivals.next(SOON),
                    false => None,
                };
                match drain {
                    Some(drain) => world.drain(&arrivals, drain),
                    None => world.arrive(&arrivals),
                }
            }
            buffer.close();
            drop((arrivals, buffer));
            world.disks.iter().for_each(Disk::cut);
            world.power.come_back();
        }
        drained += world.drained;
        let buffer = world.open();
        let arrivals = buffer.arrivals();
        arrivals.retry(SOURCE, b"");
        while let Some(drain) = arrivals.next(SOON) {
            let number = number_of(drain.what());
            let mut read = vec![0; contents(number).len()];
            assert!(drain.read(0, &mut read) && read == contents(number));
            drain.placed(number);
        }
        assert_eq!(arrivals.sums().files, 0);
        buffer.close();
    }
    assert!(drained > 20, "{drained}");
}
