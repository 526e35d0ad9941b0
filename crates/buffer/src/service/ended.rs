//! Owns the ends of arrivals that have no durable record yet: a log may still list these files as waiting. Chooses no file.
//!
//! A volume that was out names such a file again when it comes back. By then a later file may be in its place, or it may have
//! been removed. So it must not drain again.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::arrive::DURABLE_WITHIN;
use super::drain::{Arrivals, LOOK_EVERY};
use super::{Shared, lock};
use crate::extent::{FileKey, SourceId};
use crate::ledger::{Incoming, Mark};

/// How long those who give files up wait for drains that have begun.
const GIVES_UP_WITHIN: Duration = Duration::from_secs(2);

/// Files that have ended, and whose logs may not know it.
#[derive(Debug, Default)]
pub(super) struct Ended(Mutex<HashSet<Arc<FileKey>>>);

impl Ended {
    pub(super) fn note(&self, file: &Arc<FileKey>) {
        lock(&self.0).insert(Arc::clone(file));
    }

    pub(super) fn has(&self, file: &FileKey) -> bool {
        lock(&self.0).contains(file)
    }
}

impl Arrivals {
    /// Takes back a file that landed, and whose record is not durable: its sender sends it again. A drain that has begun ends.
    pub fn withdraw(&self, file: &Arc<FileKey>) {
        if let Ok(Some(held)) = self.hold(file, Duration::ZERO) {
            // Its volume does not work: an end without a record is noted.
            held.forget();
        }
    }

    /// Gives up the waiting files at and below a path: they are lost. Returns their number, and the number of those that could not be given
    /// up, because they drain now or their log does not take it.
    #[must_use]
    pub fn give_up(&self, source: SourceId, below: &[u8]) -> (u64, u64) {
        self.give_up_files(&self.below(source, below))
    }

    /// As [`Self::give_up`], for these files.
    #[must_use]
    pub fn give_up_files(&self, files: &[Arc<FileKey>]) -> (u64, u64) {
        let until = Instant::now() + GIVES_UP_WITHIN;
        let (mut gone, mut refused) = (0, 0);
        for file in files {
            let left = until.saturating_duration_since(Instant::now());
            let is_gone = match self.hold(file, left) {
                Ok(None) => continue,
                Ok(Some(held)) => held.forget(),
                Err(_late) => false,
            };
            match is_gone {
                true => gone += 1,
                false => refused += 1,
            }
        }
        (gone, refused)
    }
}

impl Shared {
    /// Waits until a record is durable. Returns false if it is lost.
    pub(super) fn wait_until_durable(&self, mark: Mark) -> bool {
        let until = Instant::now() + DURABLE_WITHIN;
        let mut ledger = self.lock();
        loop {
            match Incoming::of(&mut ledger).is_durable(mark) {
                Some(is_durable) => return is_durable,
                None if Instant::now() >= until => return false,
                None => {}
            }
            self.changed.notify_all();
            let waited = self.changed.wait_timeout(ledger, LOOK_EVERY);
            ledger = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The log forgets a file, and then its extents are removed. Returns whether that is durable.
    pub(super) fn forget(&self, file: &Arc<FileKey>) -> bool {
        let mark = Incoming::of(&mut self.lock()).cancel(file);
        let is_durable = mark.is_some_and(|mark| self.wait_until_durable(mark));
        if is_durable {
            Incoming::of(&mut self.lock()).remove(file);
            self.changed.notify_all();
        } else {
            self.desk.ended.note(file);
        }
        is_durable
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Buffer, Log, open_volumes};
    use super::*;
    use crate::extent::State;
    use crate::in_use::Places;
    use crate::make::{self, Request};

    const NODE: &str = "gw1-test";
    const SOURCE: SourceId = SourceId([3; 16]);

    #[test]
    fn a_file_that_ended_without_a_record_does_not_come_back_with_its_volume() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("flash");
        let request = Request {
            path: path.clone(),
            bytes: Some(20 << 20),
            extent_bytes: 1 << 20,
            node: NODE.to_owned(),
            force: None,
            id: [1; 16],
            salt: 7,
            now: Duration::from_secs(1),
        };
        make::make(&request, &Places::default()).expect("made");
        let (opened, failed) = open_volumes(&[path], NODE);
        let log: Log = Arc::new(|_: &str| {});
        let buffer = Buffer::start(opened, failed, log).expect("threads");
        let arrivals = buffer.arrivals();
        for name in ["ended", "waits"] {
            let arriving = arrivals.begin(SOURCE, name.as_bytes(), 5).expect("room");
            arriving.write(0, b"12345").expect("taken");
            assert!(arriving.make_durable());
            assert!(arrivals.confirm(arriving.land(b"words").expect("room")));
        }
        let shared = &buffer.0;
        let (file, what) = arrivals.latest(SOURCE, b"ended").expect("it waits");
        // As if its volume was out.
        shared.desk.ended.note(&file);
        shared.desk.remove(&file);
        shared.desk.know_again(shared, &file, what);
        assert!(arrivals.latest(SOURCE, b"ended").is_none());
        let (file, what) = arrivals.latest(SOURCE, b"waits").expect("it waits");
        shared.desk.know_again(shared, &file, what);
        assert_eq!(arrivals.sums().files, 1, "the other one waits once");
        let until = Instant::now() + Duration::from_secs(60);
        while buffer.figures().slots[State::Dirty as usize] != 1 {
            assert!(Instant::now() < until, "its extents go");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(arrivals.give_up(SOURCE, b""), (1, 0));
        assert_eq!(arrivals.sums().files, 0);
    }
}
