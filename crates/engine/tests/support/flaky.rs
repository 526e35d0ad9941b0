//! A stream that breaks at any point. Does not depend on frames.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use godwit_net::{Connection, Stream, StreamCounters, StreamError, TcpInfo, Wake, Waker};
use godwit_proto::Prelude;

/// A stream that breaks after a given number of data calls, unless the budget of breaks is used up.
pub(crate) struct Flaky {
    pub(crate) inner: Connection,
    pub(crate) left: u64,
    pub(crate) breaks: Arc<AtomicI64>,
    /// Frames that its other end sends only after sends to it fail.
    pub(crate) last_words: Option<(Connection, Vec<u8>)>,
}

impl Flaky {
    fn step(&mut self) -> Result<(), StreamError> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 && self.breaks.fetch_sub(1, Ordering::SeqCst) > 0 {
            if let Some((other, frames)) = &mut self.last_words {
                other.send_all(frames)?;
                return Err(StreamError::Network {
                    peer: self.inner.peer(),
                    operation: "send",
                    source: ErrorKind::BrokenPipe.into(),
                });
            }
            return Err(StreamError::Closed {
                peer: self.inner.peer(),
            });
        }
        Ok(())
    }
}

impl Stream for Flaky {
    fn send(&mut self, head: &[u8], payload: &[u8]) -> Result<(), StreamError> {
        self.step()?;
        self.inner.send(head, payload)
    }
    fn send_all(&mut self, frames: &[u8]) -> Result<(), StreamError> {
        self.step()?;
        self.inner.send_all(frames)
    }
    fn try_recv(&mut self) -> Result<Option<(Prelude, Vec<u8>)>, StreamError> {
        self.inner.try_recv()
    }
    fn recv_payload(&mut self, into: &mut [u8]) -> Result<(), StreamError> {
        self.step()?;
        self.inner.recv_payload(into)
    }
    fn wait(&mut self, timeout: Duration) -> Result<Wake, StreamError> {
        self.inner.wait(timeout)
    }
    fn wait_woken(&mut self, timeout: Duration) -> Result<Wake, StreamError> {
        self.inner.wait_woken(timeout)
    }
    fn waker(&self) -> Waker {
        self.inner.waker()
    }
    fn peer(&self) -> String {
        self.inner.peer()
    }
    fn set_plain_payload(&mut self, plain: bool) {
        self.inner.set_plain_payload(plain);
    }
    fn set_stall_limit(&mut self, limit: Duration) {
        self.inner.set_stall_limit(limit);
    }
    fn carries_blocks(&self) -> bool {
        self.inner.carries_blocks()
    }
    fn early_bytes_left(&self) -> u64 {
        self.inner.early_bytes_left()
    }
    fn counters(&self) -> StreamCounters {
        self.inner.counters()
    }
    fn meter(&self) -> Arc<godwit_net::StreamMeter> {
        self.inner.meter()
    }

    fn measure(&mut self) {
        self.inner.measure();
    }

    fn tcp_info(&self) -> Option<TcpInfo> {
        self.inner.tcp_info()
    }
    fn shutdown(&mut self) {
        self.inner.shutdown();
    }
}
