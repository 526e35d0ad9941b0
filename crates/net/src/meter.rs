//! Owns a stream's measurements of itself, for other threads to read while the stream's thread is busy or blocked.
//! Draws no conclusions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::TcpInfo;

/// The latest measurement of a stream. The stream's thread renews it several times a second, even in the middle of a
/// blocked send or receive.
#[derive(Debug, Default)]
pub struct StreamMeter {
    measure: Mutex<StreamMeasure>,
    /// 0 for no pace.
    pace: AtomicU64,
}

/// A stream's measurements since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamMeasure {
    /// Bytes taken from the socket, with all overhead of framing and TLS.
    pub bytes_in: u64,
    /// Bytes given to the socket, with all overhead of framing and TLS.
    pub bytes_out: u64,
    /// Time spent in sends waiting for room in the socket.
    pub blocked_sending: Duration,
    /// Time spent in payloads waiting for bytes.
    pub blocked_receiving: Duration,
    /// The kernel's view; `None` if the connection is not TCP.
    pub tcp: Option<TcpInfo>,
}

impl StreamMeter {
    /// The latest measurement.
    pub fn read(&self) -> StreamMeasure {
        *self.measure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bounds the bytes a second that the stream sends, from its next measurement on; 0 is no bound.
    pub fn set_pace(&self, bytes_per_second: u64) {
        self.pace.store(bytes_per_second, Ordering::Relaxed);
    }

    /// The bound last set on bytes a second; 0 is no bound.
    pub fn pace(&self) -> u64 {
        self.pace.load(Ordering::Relaxed)
    }

    pub(crate) fn store(&self, measure: StreamMeasure) {
        *self.measure.lock().unwrap_or_else(PoisonError::into_inner) = measure;
    }
}
