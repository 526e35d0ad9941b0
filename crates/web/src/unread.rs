//! Owns the end of clients that do not read: a connection whose answer stands still for too long is cut off.
//! Knows nothing of answers.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::sleep;

/// How often it is looked whether anything stands still.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Ends the connection of a request.
#[derive(Clone, Default)]
pub(crate) struct Cut(pub(crate) Arc<Notify>);

/// Since when something waits for a client.
#[derive(Clone, Default)]
pub(crate) struct Waiting(Arc<Mutex<Option<Instant>>>);

impl Waiting {
    /// Something waits, since now if nothing did.
    pub(crate) fn begin(&self) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.get_or_insert_with(Instant::now);
    }

    /// Nothing waits any more.
    pub(crate) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Cuts the connection off when something has waited longer than `most`; ends with all else that knows this.
    pub(crate) fn watch(&self, most: Duration, cut: Cut) {
        let waiting: Weak<Mutex<Option<Instant>>> = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            loop {
                sleep(LOOK_EVERY.min(most)).await;
                let Some(waiting) = waiting.upgrade() else {
                    return;
                };
                let since = *waiting.lock().unwrap_or_else(PoisonError::into_inner);
                if since.is_some_and(|since| since.elapsed() > most) {
                    cut.0.notify_one();
                    return;
                }
            }
        });
    }
}

/// A socket that tells when it has room for nothing.
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
