//! Owns a stream's measurements, which other threads read while the stream's thread is busy or blocked. Does not
//! interpret them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::TcpInfo;

/// The latest measurement of a stream. The stream's thread updates it several times a second, even during a blocked
/// send or receive.
#[derive(Debug, Default)]
pub struct StreamMeter {
    measure: Mutex<StreamMeasure>,
    /// 0 for no pace.
    pace: AtomicU64,
}

/// A stream's measurements since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamMeasure {
    /// Bytes read from the socket, with all overhead of framing and TLS.
    pub bytes_in: u64,
    /// Bytes written to the socket, with all overhead of framing and TLS.
    pub bytes_out: u64,
    /// Time that sends spent waiting for room in the socket.
    pub blocked_sending: Duration,
    /// Time that receives of payloads spent waiting for bytes.
    pub blocked_receiving: Duration,
    /// The kernel's view; `None` if the connection is not TCP.
    pub tcp: Option<TcpInfo>,
}

impl StreamMeter {
    /// The latest measurement.
    pub fn read(&self) -> StreamMeasure {
        *self.measure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits the bytes a second that the stream sends, from its next measurement on; 0 is no limit.
    pub fn set_pace(&self, bytes_per_second: u64) {
        self.pace.store(bytes_per_second, Ordering::Relaxed);
    }

    /// The current limit in bytes a second; 0 is no limit.
    pub fn pace(&self) -> u64 {
        self.pace.load(Ordering::Relaxed)
    }

    pub(crate) fn store(&self, measure: StreamMeasure) {
        *self.measure.lock().unwrap_or_else(PoisonError::into_inner) = measure;
    }
}
