//! The bytes of a pipe, read once and in order, as the one file of a transfer. Does not decide how a transfer ends if its pipe fails.
//!
//! The pipe is read one byte ahead, so that the last block is recognised; its size is sent in the end record. Blocks are kept until
//! WRITTEN. The entry may be settled without its bytes (skipped, failed at either end, or in a dry run). Then the sender closes the
//! source, so that the scan ends although the pipe does not. The receiver keeps nothing under a temporary name, because no run can
//! resume a pipe.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use godwit_engine::{Offers, ReadError, Source, SourceFile, Work, lock, only_once};
use godwit_proto::{EntryId, EntryKind, Fault, FaultCode, Generation, Record, Side, UNKNOWN_BYTES};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How often the wait for a silent pipe is interrupted to check whether the transfer still runs.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// A pipe, or another input that can be read only once.
#[derive(Clone)]
pub struct PipeSource(Arc<Shared>);

struct Shared {
    generation: u64,
    mtime: Duration,
    begun: AtomicBool,
    closed: AtomicBool,
    input: Mutex<Input>,
    over: Mutex<bool>,
    changed: Condvar,
}

struct Input {
    fd: OwnedFd,
    /// A byte read in advance to find out whether more follow.
    carry: Option<u8>,
}

impl PipeSource {
    /// The bytes of `fd` until its end. `mtime` is the time since 1970 that the file gets.
    ///
    /// # Errors
    /// No random number is available; it identifies this reading, which no later run continues.
    pub fn new(fd: OwnedFd, mtime: Duration) -> std::io::Result<Self> {
        let mut generation = [0; 8];
        getrandom::fill(&mut generation).map_err(std::io::Error::other)?;
        Ok(Self(Arc::new(Shared {
            generation: u64::from_le_bytes(generation),
            mtime,
            begun: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            input: Mutex::new(Input { fd, carry: None }),
            over: Mutex::new(false),
            changed: Condvar::new(),
        })))
    }

    /// The work of this source: one entry. The entry is announced as the last one only when the pipe has ended. `None` on the second
    /// call, because a pipe cannot be read again.
    pub fn work(&self) -> Option<Box<dyn Work>> {
        if self.0.begun.swap(true, Ordering::Relaxed) {
            return None;
        }
        Some(Box::new(PipeWork {
            pipe: self.clone(),
            offered: false,
        }))
    }

    fn record(&self) -> Record {
        Record {
            kind: EntryKind::FILE,
            generation: Generation(self.0.generation),
            bytes: UNKNOWN_BYTES,
            mtime_seconds: i64::try_from(self.0.mtime.as_secs()).unwrap_or(i64::MAX),
            mtime_nanoseconds: self.0.mtime.subsec_nanos(),
            mode: 0o644,
            ..Record::default()
        }
    }

    fn end(&self) {
        *lock(&self.0.over) = true;
        self.0.changed.notify_all();
    }
}

struct PipeWork {
    pipe: PipeSource,
    offered: bool,
}

impl Work for PipeWork {
    fn next_batch(&mut self, out: &mut Offers) -> bool {
        if !std::mem::replace(&mut self.offered, true) {
            out.entries.push(self.pipe.record());
            return true;
        }
        let mut over = lock(&self.pipe.0.over);
        while !*over {
            over = self
                .pipe
                .0
                .changed
                .wait(over)
                .unwrap_or_else(PoisonError::into_inner);
        }
        false
    }
}

impl Source for PipeSource {
    fn open(&self, _record: &Record) -> Result<Arc<dyn SourceFile>, Fault> {
        Ok(Arc::new(self.clone()))
    }

    fn read_whole(&self, _record: &Record, _buffer: &mut [u8]) -> Result<usize, ReadError> {
        Err(ReadError::Failed(only_once()))
    }

    fn reads_again(&self) -> bool {
        false
    }

    fn close(&self) {
        self.0.closed.store(true, Ordering::Relaxed);
        self.end();
    }

    fn refresh(&self, _record: &Record) -> Result<Record, Fault> {
        Err(only_once())
    }
}

impl SourceFile for PipeSource {
    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> Result<(), ReadError> {
        Err(ReadError::Failed(only_once()))
    }

    fn read_next(&self, buffer: &mut [u8]) -> Result<(usize, bool), ReadError> {
        let mut input = lock(&self.0.input);
        let mut filled = 0;
        if let (Some(carry), Some(first)) = (input.carry.take(), buffer.first_mut()) {
            *first = carry;
            filled = 1;
        }
        // One byte more than fits shows whether the block is the last one.
        let mut more = [0];
        loop {
            let is_full = filled == buffer.len();
            let into = if is_full {
                &mut more[..]
            } else {
                &mut buffer[filled..]
            };
            let read = self.wait_and_read(&input.fd, into)?;
            if read == 0 {
                self.end();
                return Ok((filled, true));
            }
            if is_full {
                input.carry = Some(more[0]);
                return Ok((filled, false));
            }
            filled += read;
        }
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ReadError> {
        Ok(Some(offset..UNKNOWN_BYTES))
    }

    fn generation(&self) -> Result<u64, ReadError> {
        Ok(self.0.generation)
    }
}

impl PipeSource {
    fn wait_and_read(&self, fd: &OwnedFd, into: &mut [u8]) -> Result<usize, ReadError> {
        loop {
            if self.0.closed.load(Ordering::Relaxed) {
                return Err(ReadError::Failed(fault(
                    FaultCode::IO,
                    None,
                    "the transfer ended before standard input did".to_owned(),
                )));
            }
            let mut fds = [PollFd::new(fd, PollFlags::IN)];
            match poll(&mut fds, Some(&LOOK_EVERY)) {
                Ok(0) | Err(Errno::INTR) => continue,
                // A regular file is always ready; reading reports any error.
                Ok(_) | Err(_) => {}
            }
            match rustix::io::read(fd, &mut *into) {
                Ok(read) => return Ok(read),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => {
                    self.end();
                    let code = u16::try_from(errno.raw_os_error()).ok();
                    let message = format!("standard input cannot be read: {errno}");
                    return Err(ReadError::Failed(fault(FaultCode::IO, code, message)));
                }
            }
        }
    }
}

fn fault(code: FaultCode, errno: Option<u16>, message: String) -> Fault {
    Fault {
        entry: EntryId(0),
        side: Side::SOURCE,
        code,
        errno,
        message,
    }
}
