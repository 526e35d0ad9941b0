//! Owns a disk with a cache that a power cut empties: any part of the writes since the last sync survives, in any order, torn at sectors.
//! It also fails, writes short, and flips bits, as a test asks.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use godwit_buffer::backing::Backing;
use godwit_seeded::Seeded;
use rustix::io::Errno;

const SECTOR: usize = 512;

/// The power of all disks of a test.
#[derive(Clone, Default)]
pub(crate) struct Power(Arc<Mutex<Option<u64>>>);

impl Power {
    /// Power ends with the operation after this number of others.
    pub(crate) fn cut_after(&self, operations: u64) {
        *self.0.lock().expect("no panic before") = Some(operations);
    }

    pub(crate) fn is_off(&self) -> bool {
        *self.0.lock().expect("no panic before") == Some(0)
    }

    pub(crate) fn come_back(&self) {
        *self.0.lock().expect("no panic before") = None;
    }

    /// Counts an operation. Returns whether there is power for it.
    fn spend(&self) -> bool {
        let mut left = self.0.lock().expect("no panic before");
        match &mut *left {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                *left > 0
            }
            None => true,
        }
    }
}

/// Faults: each number is the number of operations for one fault; 0 means none.
#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) read: u64,
    pub(crate) write: u64,
    pub(crate) no_space: u64,
    pub(crate) sync: u64,
    /// Bits that flip on their way from a disk whose own bytes are right.
    pub(crate) flip: u64,
}

struct Inner {
    durable: Vec<u8>,
    cache: BTreeMap<usize, [u8; SECTOR]>,
    seeded: Seeded,
    faults: Faults,
    /// Faults and flips happen only from this byte on.
    faulty_from: u64,
}

#[derive(Clone)]
pub(crate) struct Disk {
    inner: Arc<Mutex<Inner>>,
    power: Power,
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).expect("small")
}

impl Disk {
    pub(crate) fn new(bytes: usize, seed: u64, power: &Power) -> Self {
        let inner = Inner {
            durable: vec![0; bytes],
            cache: BTreeMap::new(),
            seeded: Seeded(seed),
            faults: Faults::default(),
            faulty_from: 0,
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
            power: power.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no panic before")
    }

    pub(crate) fn set_faults(&self, faults: Faults, faulty_from: u64) {
        let mut inner = self.lock();
        inner.faults = faults;
        inner.faulty_from = faulty_from;
    }

    /// The cache is lost; some of it arrived.
    pub(crate) fn cut(&self) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        // Sometimes nothing or everything arrives.
        let share = inner.seeded.below(5);
        for (sector, bytes) in std::mem::take(&mut inner.cache) {
            if inner.seeded.below(4) < share {
                inner.durable[sector * SECTOR..][..SECTOR].copy_from_slice(&bytes);
            }
        }
    }

    /// Flips one bit below the cache, at or behind `from`.
    pub(crate) fn rot(&self, from: u64, bytes: u64) {
        let mut inner = self.lock();
        let place = at(from + inner.seeded.below(bytes));
        let bit = inner.seeded.below(8);
        inner.durable[place] ^= 1 << bit;
    }
}

impl Inner {
    fn fails(&mut self, one_in: u64, offset: u64) -> bool {
        one_in > 0 && offset >= self.faulty_from && self.seeded.one_in(one_in)
    }

    fn store(&mut self, offset: u64, data: &[u8]) {
        assert!(
            at(offset).is_multiple_of(4096) && data.len().is_multiple_of(SECTOR),
            "{offset} {}",
            data.len()
        );
        assert!(
            at(offset) + data.len() <= self.durable.len(),
            "{offset} is outside"
        );
        for (index, sector) in data.chunks_exact(SECTOR).enumerate() {
            let sector = sector.first_chunk().expect("whole");
            self.cache.insert(at(offset) / SECTOR + index, *sector);
        }
    }

    /// A part of the data arrives.
    fn store_some(&mut self, offset: u64, data: &[u8]) {
        let pages = data.len() as u64 / 4096;
        let some = at(self.seeded.below(pages + 1)) * 4096;
        self.store(offset, &data[..some]);
    }
}

impl Backing for Disk {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        if self.power.is_off() || inner.fails(inner.faults.read, offset) {
            return Err(Errno::IO.into());
        }
        buffer.copy_from_slice(&inner.durable[at(offset)..][..buffer.len()]);
        for (index, sector) in buffer.chunks_exact_mut(SECTOR).enumerate() {
            if let Some(cached) = inner.cache.get(&(at(offset) / SECTOR + index)) {
                sector.copy_from_slice(cached);
            }
        }
        if inner.fails(inner.faults.flip, offset) {
            let place = at(inner.seeded.below(buffer.len() as u64));
            buffer[place] ^= 4;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut inner = self.lock();
        if self.power.is_off() {
            return Err(Errno::IO.into());
        }
        if !self.power.spend() {
            inner.store_some(offset, data);
            return Err(Errno::IO.into());
        }
        let (write, no_space) = (inner.faults.write, inner.faults.no_space);
        for (one_in, error) in [(write, Errno::IO), (no_space, Errno::NOSPC)] {
            if inner.fails(one_in, offset) {
                inner.store_some(offset, data);
                return Err(error.into());
            }
        }
        inner.store(offset, data);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if self.power.is_off() {
            return Err(Errno::IO.into());
        }
        let is_cut = !self.power.spend();
        let sync = self.lock().faults.sync;
        if is_cut || self.lock().fails(sync, u64::MAX) {
            // The kernel forgets the writes of a failed sync.
            self.cut();
            return Err(Errno::IO.into());
        }
        let mut inner = self.lock();
        let inner = &mut *inner;
        for (sector, bytes) in std::mem::take(&mut inner.cache) {
            inner.durable[sector * SECTOR..][..SECTOR].copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if self.power.is_off() {
            return Err(Errno::IO.into());
        }
        self.lock().store(offset, &vec![0; at(bytes)]);
        Ok(())
    }
}
