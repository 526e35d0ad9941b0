//! Owns the records of transfers at a node: start, end and refusals, for the log and for accounting.
//! Writes nothing down.

use serde::{Deserialize, Serialize};

use crate::event::Encryption;
use crate::failure::Code;
use crate::rest::{Bottleneck, Timestamp};

/// Direction of a transfer, as the node sees it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferDirection {
    /// Data comes in.
    Receive,
    /// Data goes out.
    Send,
    /// A peer lets this node compare data.
    Verify,
    /// Between two exports of the node.
    Local,
    /// Between two other sites.
    ThirdParty,
}

impl TransferDirection {
    /// The word in log and accounting.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Send => "send",
            Self::Verify => "verify",
            Self::Local => "local",
            Self::ThirdParty => "third_party",
        }
    }
}

/// The start of a transfer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct TransferStart {
    /// Id of the transfer; of a job, its id and the number of the attempt.
    pub id: String,
    /// Job that the transfer belongs to.
    pub job: Option<String>,
    /// Identity of the peer, on the data port.
    pub identity: Option<String>,
    /// Address of the peer, or name of the site.
    pub peer: Option<String>,
    /// User to whom the job belongs.
    pub owner: Option<String>,
    /// Direction of the data.
    pub direction: TransferDirection,
    /// Export and path of each source and destination, as the peer or the job names them. Only the first ones if there are many.
    pub places: Vec<String>,
    /// Id of the request or job that the peer works for, as the peer sent it.
    pub label: Option<String>,
    /// Id of the request that submitted the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The cipher of its connections. None within one machine, and while a job has not named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// The identities that pay for the peer where a bound is for one identity: the peer itself, or the askers that let it in. Empty if
    /// the transfer has no peer. No part of the record.
    #[serde(skip)]
    pub counted_as: Vec<String>,
}

/// A transfer that ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct TransferRecord {
    /// The start of the transfer.
    #[serde(flatten)]
    pub start: TransferStart,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// Content bytes that this transfer made durable at the destination.
    pub bytes: u64,
    /// Files that this transfer completed.
    pub files: u64,
    /// Entries that failed.
    pub failed: u64,
    /// Mean rate over the whole time, in bytes per second.
    pub bytes_per_second: f64,
    /// Number of streams.
    pub streams: u64,
    /// The stage that limited the transfer.
    #[serde(default, deserialize_with = "Bottleneck::known")]
    pub bottleneck: Option<Bottleneck>,
    /// `complete`, `partial`, `interrupted`, or a code of the failure catalogue.
    pub code: Code,
    /// Why the transfer is not complete.
    pub message: Option<String>,
}

impl TransferRecord {
    /// Seconds from the beginning to the end.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let millis = self.ended.0.saturating_sub(self.started.0).max(0);
        #[expect(
            clippy::cast_precision_loss,
            reason = "a time span of 285,000 years is exact"
        )]
        let seconds = millis as f64 / 1_000.0;
        seconds
    }

    /// Computes the rate from bytes and times.
    #[must_use]
    pub fn with_rate(mut self) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a rate needs no more than 53 bits"
        )]
        let bytes = self.bytes as f64;
        self.bytes_per_second = bytes / self.seconds().max(0.001);
        self
    }
}

/// A refused transfer or question.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct TransferRefusal {
    /// Identity of the peer.
    pub identity: String,
    /// Address of the peer.
    pub peer: String,
    /// Direction of the requested transfer.
    pub direction: Option<TransferDirection>,
    /// Requested places.
    pub places: Vec<String>,
    /// A code of the failure catalogue.
    pub code: Code,
    /// Reason and remedy, for the operator.
    pub message: String,
}

/// News about the transfers of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum TransferNews {
    /// One begins.
    Started(TransferStart),
    /// One ended.
    Ended(Box<TransferRecord>),
    /// One was refused.
    Refused(TransferRefusal),
    /// A peer without any grant was refused.
    Stranger(StrangerAction),
}

/// The step at which a stranger was refused.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum StrangerAction {
    /// The stranger connected without identification or request.
    Connect,
    /// The stranger requested a transfer, or asked a question.
    Ask,
    /// The stranger tried to join the cluster without a valid invitation.
    Join,
}

impl StrangerAction {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Connect, Self::Ask, Self::Join];

    /// The name in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Ask => "ask",
            Self::Join => "join",
        }
    }
}

/// Receives news about transfers; must return quickly.
pub type NewsSink = dyn Fn(&TransferNews) + Send + Sync;

/// The first places of many, with a note about the others.
#[must_use]
pub fn shown_places(mut places: Vec<String>) -> Vec<String> {
    let more = places.len().saturating_sub(PLACES_MAX);
    if more > 0 {
        places.truncate(PLACES_MAX);
        places.push(format!("and {more} more"));
    }
    places
}

/// Most places that a record lists: enough to identify the transfer.
const PLACES_MAX: usize = 8;
