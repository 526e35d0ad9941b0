//! Owns the handle by which one thread ends another thread's wait. Carries no message: the woken thread checks its
//! state.
//!
//! `Waker::end` ends any wait of a transfer's streams, even in the middle of a payload, so a silent peer blocks no
//! thread. A blocked send has `limits::END_GRACE` left, so that a final frame can follow it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// Ends the wait of the thread that owns a stream. It is cheap to clone, and cheap to use before an earlier wake is
/// handled.
#[derive(Clone, Debug)]
pub struct Waker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    event: OwnedFd,
    /// Readable from [`Waker::end`] on.
    end: OwnedFd,
    ended: AtomicBool,
    /// True from a wake until the owner has handled it; more wakes then need no system call.
    pending: AtomicBool,
}

impl Waker {
    /// A waker without a waiting thread.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self {
            shared: Arc::new(Shared {
                event: eventfd(0, flags)?,
                end: eventfd(0, flags)?,
                ended: AtomicBool::new(false),
                pending: AtomicBool::new(false),
            }),
        })
    }

    /// Ends the current wait, or else the next one.
    pub fn wake(&self) {
        if self.shared.pending.swap(true, Ordering::SeqCst) {
            return;
        }
        // Any number except zero wakes. So few unhandled wakes cannot fill the counter, and a full counter would wake
        // as well.
        let _ = rustix::io::write(&self.shared.event, &1_u64.to_le_bytes());
    }

    /// Like [`Self::wake`], but permanently: the stream's owner no longer needs the stream. A receive in the middle of
    /// a payload ends at once; a blocked send has a short time left.
    pub fn end(&self) {
        if !self.shared.ended.swap(true, Ordering::SeqCst) {
            let _ = rustix::io::write(&self.shared.end, &1_u64.to_le_bytes());
        }
        self.wake();
    }

    /// Whether [`Self::end`] was called.
    pub fn is_ended(&self) -> bool {
        self.shared.ended.load(Ordering::SeqCst)
    }

    /// A descriptor that becomes readable with [`Self::end`], and stays so.
    pub(crate) fn end_fd(&self) -> BorrowedFd<'_> {
        self.shared.end.as_fd()
    }

    /// Whether the waker was used since the last call; clears the wake.
    pub fn take(&self) -> bool {
        let pending = self.shared.pending.load(Ordering::SeqCst);
        if pending {
            self.clear();
        }
        pending
    }

    /// Waits for a wake, at most `timeout`; returns whether there was one, and clears it.
    ///
    /// # Errors
    /// Only if the kernel refuses to wait.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        if self.take() {
            return Ok(true);
        }
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&self.shared.event, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => Ok(false),
            Ok(_) => {
                self.clear();
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Clears a wake; for a waiter whose poll found the descriptor readable.
    ///
    /// The event is emptied before the flag is cleared. A wake between these two steps writes nothing, but the caller
    /// sees its cause, because it checks its state afterwards. A wake that has set the flag but not yet written causes
    /// one spurious return later.
    pub fn clear(&self) {
        let mut count = [0_u8; 8];
        let _ = rustix::io::read(&self.shared.event, &mut count);
        self.shared.pending.store(false, Ordering::SeqCst);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(waker: &Waker) -> bool {
        let mut fds = [PollFd::new(waker, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn a_wake_is_seen_once_however_often_it_was_given() {
        let waker = Waker::new().unwrap();
        assert!(!waker.take());
        waker.wake();
        waker.clone().wake();
        assert!(readable(&waker));
        assert!(waker.take());
        assert!(!waker.take());
        assert!(!readable(&waker));
        waker.wake();
        assert!(readable(&waker));
    }
}
