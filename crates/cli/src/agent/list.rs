//! The list of names that follows an errand: received, kept on disk, and read from disk as often as needed.
//! Does not look at the names.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use godwit_engine::names::ListBytes;
use godwit_engine::{IfPanicking, PANICKED};
use godwit_proto::agent::LIST_PART_BYTES_MAX;
use godwit_store::spill::unnamed_file;

/// The received part of a list.
pub(super) struct ReceivedList {
    kept: File,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: u64,
    ended: bool,
    problem: Option<BrokenOff>,
}

/// Why the rest of a list is missing.
enum BrokenOff {
    /// The connection ended, a part was too long, or the disk was full.
    Io(io::Error),
    /// The thread that takes the list panicked.
    Panicked,
}

impl From<&BrokenOff> for io::Error {
    fn from(reason: &BrokenOff) -> Self {
        match reason {
            BrokenOff::Io(error) => Self::new(
                error.kind(),
                format!("the list of names broke off: {error}"),
            ),
            BrokenOff::Panicked => Self::other(PANICKED),
        }
    }
}

impl ReceivedList {
    pub(super) fn new(spill: &Path) -> io::Result<Self> {
        Ok(Self {
            kept: unnamed_file(spill)?,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Receives the whole list. If the input breaks off, reading the list fails.
    pub(super) fn take(&self, input: &mut impl Read) {
        let _panic = IfPanicking(|| {
            self.locked().problem = Some(BrokenOff::Panicked);
            self.changed.notify_all();
        });
        let taken = self.take_parts(input);
        let mut state = self.locked();
        match taken {
            Ok(()) => state.ended = true,
            Err(error) => state.problem = Some(BrokenOff::Io(error)),
        }
        self.changed.notify_all();
    }

    fn take_parts(&self, input: &mut impl Read) -> io::Result<()> {
        let mut buffer = vec![0; LIST_PART_BYTES_MAX];
        let mut bytes = 0;
        loop {
            let mut length = [0; 4];
            input.read_exact(&mut length)?;
            let length = u32::from_le_bytes(length) as usize;
            if length == 0 {
                return Ok(());
            }
            let part = buffer
                .get_mut(..length)
                .ok_or_else(|| io::Error::other("a part of the list is longer than the limit"))?;
            input.read_exact(part)?;
            self.kept.write_all_at(part, bytes)?;
            bytes += length as u64;
            self.locked().bytes = bytes;
            self.changed.notify_all();
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ListBytes for ReceivedList {
    fn read_at(&self, offset: u64, buffer: &mut [u8], wait: Duration) -> io::Result<Option<usize>> {
        let mut state = self.locked();
        let nothing =
            |state: &State| state.bytes <= offset && !state.ended && state.problem.is_none();
        if nothing(&state) {
            state = self
                .changed
                .wait_timeout(state, wait)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
        if nothing(&state) {
            return Ok(None);
        }
        let there = state.bytes.saturating_sub(offset);
        if let Some(problem) = state.problem.as_ref().filter(|_| there == 0) {
            return Err(problem.into());
        }
        drop(state);
        let bytes = usize::try_from(there).map_or(buffer.len(), |there| there.min(buffer.len()));
        self.kept.read_at(&mut buffer[..bytes], offset).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> (tempfile::TempDir, ReceivedList) {
        let directory = tempfile::tempdir().expect("a directory");
        let list = ReceivedList::new(directory.path()).expect("made");
        (directory, list)
    }

    fn read(list: &ReceivedList, offset: u64) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = [0; 100];
        let read = list.read_at(offset, &mut buffer, Duration::ZERO)?;
        Ok(read.map(|bytes| buffer[..bytes].to_vec()))
    }

    #[test]
    fn a_list_is_read_as_it_comes_and_again() {
        let (_directory, list) = list();
        assert_eq!(read(&list, 0).expect("no fault"), None);
        list.take(&mut &b"\x04\0\0\0one\n\x04\0\0\0two\n\0\0\0\0more"[..]);
        for _ in 0..2 {
            assert_eq!(
                read(&list, 0).expect("no fault"),
                Some(b"one\ntwo\n".to_vec())
            );
            assert_eq!(read(&list, 5).expect("no fault"), Some(b"wo\n".to_vec()));
            assert_eq!(read(&list, 8).expect("no fault"), Some(Vec::new()));
        }
    }

    struct Panicking;

    impl Read for Panicking {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            panic!("on purpose");
        }
    }

    #[test]
    fn a_list_whose_taker_panics_keeps_no_thread_waiting() {
        let (_directory, list) = list();
        let taken = std::thread::scope(|scope| scope.spawn(|| list.take(&mut Panicking)).join());
        assert!(taken.is_err());
        let error = read(&list, 0).expect_err("there is no list");
        assert_eq!(error.to_string(), PANICKED);
    }

    #[test]
    fn a_list_that_breaks_off_never_passes_for_a_whole_one() {
        for bytes in [&b"\x04\0\0\0one\n"[..], b"\x04\0\0\0one\n\x01\0\x01\0x"] {
            let (_directory, list) = list();
            list.take(&mut &*bytes);
            assert_eq!(read(&list, 0).expect("it came"), Some(b"one\n".to_vec()));
            assert!(read(&list, 4).is_err());
        }
    }
}
