//! Cuts off clients that do not read: a connection ends when its answer stands still for too long.
//! Knows nothing of answers.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::sleep;

/// How often stalls are checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Ends a connection.
#[derive(Clone, Default)]
pub(crate) struct Cut(pub(crate) Arc<Notify>);

/// All pending output for one client. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Unread(Arc<Mutex<Since>>);

#[derive(Default)]
struct Since {
    next: u64,
    waiting: HashMap<u64, Instant>,
}

/// Time since which one output waits for the client; forgotten when dropped.
pub(crate) struct Waiting {
    unread: Unread,
    id: u64,
}

impl Unread {
    /// Adds an output; the output does not wait yet.
    pub(crate) fn waiting(&self) -> Waiting {
        let mut since = self.since();
        since.next += 1;
        Waiting {
            unread: self.clone(),
            id: since.next,
        }
    }

    /// Cuts the connection off when an output has waited longer than `most`. Ends when all clones are dropped.
    pub(crate) fn watch(&self, most: Duration, cut: Cut) {
        let own: Weak<Mutex<Since>> = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            loop {
                sleep(LOOK_EVERY.min(most)).await;
                let Some(unread) = own.upgrade().map(Unread) else {
                    return;
                };
                let oldest = unread.since().waiting.values().min().copied();
                if oldest.is_some_and(|since| since.elapsed() > most) {
                    cut.0.notify_one();
                    return;
                }
            }
        });
    }

    fn since(&self) -> MutexGuard<'_, Since> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Notes that the output waits, from now on if it did not.
    pub(crate) fn begin(&self) {
        let mut since = self.unread.since();
        since.waiting.entry(self.id).or_insert_with(Instant::now);
    }

    /// Notes that the output no longer waits.
    pub(crate) fn end(&self) {
        self.unread.since().waiting.remove(&self.id);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.end();
    }
}

/// A socket that notes when it is full.
pub(crate) struct Watched<S> {
    pub(crate) socket: S,
    pub(crate) waiting: Waiting,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> Watched<S> {
    fn note<T>(&self, poll: Poll<T>) -> Poll<T> {
        match &poll {
            Poll::Pending => self.waiting.begin(),
            Poll::Ready(_) => self.waiting.end(),
        }
        poll
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.note(poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.socket).poll_flush(context);
        self.note(poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.socket).poll_shutdown(context);
        self.note(poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.socket).poll_write_vectored(context, parts);
        self.note(poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
