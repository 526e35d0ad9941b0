//! Connects a transfer: dialling, opening, joining and retrying for a client; also runs both ends in one process. Does
//! not read, write or schedule; the two ends do.
//!
//! A new transfer of one small file takes five round trips: TCP, TLS 1.3, OPEN (sent with the end of the TLS
//! handshake), the first manifest with its answer, and the contents with FINISHED. In a pull the first manifest comes
//! with OPENED. There are no further waits. `docs/tuning.md` has the table, and `crates/cli/tests/godwit/distance`
//! checks that the program matches it.

mod client;
mod connect;
mod daemon;
mod early;
mod examine;
mod greet;
mod link;
mod local;
mod tuning;
mod verify;
mod wishing;

use std::sync::Arc;
use std::time::Duration;

use godwit_net::Stream;
use godwit_proto::ErrorCode;

pub use client::{Client, ClientReport, Outage, Watch, run};
pub use connect::{Connector, Refusal};
pub use daemon::{DaemonConnector, DaemonOptions, their_addresses};
pub use examine::{Examination, ExaminationEnd, Examiner, Findings, serve_verification};
pub use greet::{
    GreetError, HELLO_DEADLINE, greet_client, our_hello, receive_frame, receive_rest,
    require_capability, send_error,
};
pub use local::run_local;
pub use verify::{Expectations, VerifyEnd, run_verification};
pub use wishing::WishedChannels;

use crate::counters::Snapshot;
use crate::tuner::Decision;
use crate::{Counters, End, EndCounters, Receiver, Sender, StreamFigures, StreamLoss};

/// This side's end of the transfer.
#[derive(Clone)]
pub enum Engine {
    /// This side sends.
    Sender(Arc<Sender>),
    /// This side receives.
    Receiver(Arc<Receiver>),
}

impl Engine {
    /// Serves a stream until the transfer ends or the stream breaks.
    ///
    /// # Errors
    /// The cause of the stream's loss.
    pub fn run_stream(&self, stream: &mut dyn Stream) -> Result<(), StreamLoss> {
        match self {
            Self::Sender(sender) => sender.run_stream(stream),
            Self::Receiver(receiver) => receiver.run_stream(stream),
        }
    }

    /// Waits for the end, at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<End> {
        match self {
            Self::Sender(sender) => sender.wait(timeout),
            Self::Receiver(receiver) => receiver.wait(timeout),
        }
    }

    /// How the transfer ended, once it has.
    pub fn end(&self) -> Option<End> {
        match self {
            Self::Sender(sender) => sender.end(),
            Self::Receiver(receiver) => receiver.end(),
        }
    }

    /// Cancels the transfer in a way that can be resumed.
    pub fn cancel(&self, reason: &str) {
        match self {
            Self::Sender(sender) => sender.cancel(reason),
            Self::Receiver(receiver) => receiver.cancel(reason),
        }
    }

    /// Ends the transfer with a failure that is reported at both ends.
    pub fn fail(&self, code: ErrorCode, message: &str) {
        match self {
            Self::Sender(sender) => sender.fail(code, message),
            Self::Receiver(receiver) => receiver.fail(code, message),
        }
    }

    /// Stops all threads; a receiver prepares the received data for a later run.
    pub fn join(&self) {
        match self {
            Self::Sender(sender) => sender.join(),
            Self::Receiver(receiver) => receiver.join(),
        }
    }

    /// Ends one stream in order while the transfer continues; its number is in [`StreamFigures`].
    pub fn retire(&self, stream: u64) {
        match self {
            Self::Sender(sender) => sender.retire(stream),
            Self::Receiver(receiver) => receiver.retire(stream),
        }
    }

    /// Tunes the threads of this end's storage; call some times a second.
    pub fn tune(&self) {
        match self {
            Self::Sender(sender) => sender.tune(),
            Self::Receiver(receiver) => receiver.tune(),
        }
    }

    /// Reports a decision on streams to the user; with several channels, `channel` names theirs.
    pub(crate) fn tuned(&self, decision: &Decision, channel: Option<u32>) {
        match self {
            Self::Sender(sender) => sender.observer().tuned(decision, channel),
            Self::Receiver(receiver) => receiver.observer().tuned(decision, channel),
        }
    }

    /// The known counters of both ends.
    pub fn end_counters(&self) -> EndCounters {
        let own = Some(self.counters().snapshot());
        match self {
            Self::Sender(sender) => EndCounters {
                source: own,
                destination: sender.peer_counters(),
            },
            Self::Receiver(receiver) => EndCounters {
                source: receiver.peer_counters(),
                destination: own,
            },
        }
    }

    /// Whether blocks at either end wait for a stream that may carry them.
    pub fn wants_stream(&self) -> bool {
        match self {
            Self::Sender(sender) => sender.wants_stream(),
            Self::Receiver(receiver) => receiver.wants_stream(),
        }
    }

    /// Figures of the attached streams, including figures from the sending end's kernel.
    pub fn streams(&self) -> Vec<StreamFigures> {
        self.counters().streams()
    }

    /// Changes the limit of the transfer, in bytes of content a second; 0 is no limit. A sending daemon gets a request,
    /// and [`limit`](Self::limit) shows when the daemon obeys.
    pub fn set_limit(&self, bytes_per_second: u64) {
        match self {
            Self::Sender(sender) => sender.live().rate().set(bytes_per_second),
            Self::Receiver(receiver) => receiver.ask(Some(bytes_per_second), None),
        }
    }

    /// The limit that the sending end obeys, 0 for none; `None` if unknown.
    pub fn limit(&self) -> Option<u64> {
        match self {
            Self::Sender(sender) => Some(sender.live().rate().get()),
            Self::Receiver(receiver) => receiver
                .peer_counters()
                .map(|counters| counters.limit_bytes_per_second),
        }
    }

    /// Sets whether the transfer yields to all others. A sending daemon gets a request, and
    /// [`background`](Self::background) shows when the daemon obeys.
    pub fn set_background(&self, background: bool) {
        match self {
            Self::Sender(sender) => sender.live().set_background(background),
            Self::Receiver(receiver) => receiver.ask(None, Some(background)),
        }
    }

    /// Whether the sending end yields to all others; `None` if unknown.
    pub fn background(&self) -> Option<bool> {
        match self {
            Self::Sender(sender) => Some(sender.live().background()),
            Self::Receiver(receiver) => receiver.asked().background(),
        }
    }

    /// The limit and the priority that were requested while the transfer runs.
    pub fn asked(&self) -> (Option<u64>, Option<bool>) {
        match self {
            Self::Sender(_) => (self.limit(), self.background()),
            Self::Receiver(receiver) => receiver.asked().asked(),
        }
    }

    /// Streams that this end's process allows the transfer now.
    pub fn streams_max(&self) -> u32 {
        match self {
            Self::Sender(sender) => sender.live().streams_max(),
            Self::Receiver(receiver) => receiver.live().streams_max(),
        }
    }

    /// Number of attached streams.
    pub fn stream_count(&self) -> usize {
        match self {
            Self::Sender(sender) => sender.stream_count(),
            Self::Receiver(receiver) => receiver.stream_count(),
        }
    }

    /// This end's counters.
    pub fn counters(&self) -> &Arc<Counters> {
        match self {
            Self::Sender(sender) => sender.counters(),
            Self::Receiver(receiver) => receiver.counters(),
        }
    }

    /// Most bytes that this end's kernel buffers for one connection in the direction of the contents; 0 if unknown.
    pub fn buffer_bytes(&self) -> u64 {
        let name = match self {
            Self::Sender(_) => "/proc/sys/net/ipv4/tcp_wmem",
            Self::Receiver(_) => "/proc/sys/net/ipv4/tcp_rmem",
        };
        std::fs::read_to_string(name)
            .ok()
            .and_then(|text| text.split_whitespace().nth(2)?.parse().ok())
            .unwrap_or(0)
    }

    /// Peak memory of the other end's process, if that process could attribute it to this transfer.
    pub fn peer_max_rss(&self) -> Option<u64> {
        match self {
            Self::Sender(sender) => match sender.end() {
                Some(End::Finished(finished)) => finished.max_rss_bytes,
                _ => None,
            },
            Self::Receiver(receiver) => receiver.peer_max_rss(),
        }
    }

    /// The other end's counters in its latest report.
    pub fn peer_counters(&self) -> Option<Snapshot> {
        match self {
            Self::Sender(sender) => sender.peer_counters(),
            Self::Receiver(receiver) => receiver.peer_counters(),
        }
    }
}
