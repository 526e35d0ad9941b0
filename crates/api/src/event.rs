//! Owns the events of a job as owned values: the output of `--json`, the messages of agents to clients, and the input of sinks.
//! Prints nothing; names and order of the fields are a contract that `docs/events.md` lists.

mod blame;
mod connection;
mod names;
mod summary;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::failure::{Code, Failure};
use crate::job::PartDigest;
use crate::rest::Moved;

pub use blame::{Blame, ErrorEvent};
pub use connection::{ConnectionLost, ConnectionRegained, LostChannel};
pub use summary::{
    Encryption, Evidence, Limited, ManifestDone, NotKept, Sides, Status, Summary, TransferSummary,
    Verdict, VerifySummary,
};

/// One event of a job. A reader ignores events and fields that it does not know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A transfer starts or restarts.
    Started(Started),
    /// Progress of a transfer.
    Progress(Progress),
    /// The tuner has changed a number, such as the number of streams.
    Tuning(Tuning),
    /// The network paths of a transfer that has several.
    Channels(Channels),
    /// No data reaches the other end, or none comes back. Repeated while the loss lasts.
    ConnectionLost(ConnectionLost),
    /// The other end answers again.
    ConnectionRegained(ConnectionRegained),
    /// An entry failed; the others continue.
    Failed(Failed),
    /// The action on an entry, actual or in a dry run.
    Item(Item),
    /// An item of the job is done.
    WorkDone(WorkDone),
    /// An item of the job failed; the others continue.
    WorkFailed(WorkFailed),
    /// Between an agent and its client: an entry that failed, by its name below the source.
    Fault(Fault),
    /// Between an agent and its client: one line of a manifest.
    Entry {
        /// The line, without the newline at its end.
        #[serde(flatten, with = "names::line")]
        line: Vec<u8>,
    },
    /// Between an agent and its client: the data phase has ended.
    Ended {},
    /// The job has stopped until it is resumed.
    Paused {},
    /// Information that needs no action.
    Note {
        /// Text for people.
        message: String,
    },
    /// The job cannot continue.
    Error(ErrorEvent),
    /// The counters of both ends.
    Stats(Stats),
    /// Verification: an entry is not what the manifest says.
    Different(Different),
    /// Verification: an entry is not in the manifest.
    Extra {
        /// The name of the entry.
        #[serde(flatten, with = "names::path")]
        path: Vec<u8>,
    },
    /// The last event of a job.
    Summary(Summary),
    /// An event of a newer version.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// Receives the events of a job. May be called from any thread.
pub trait EventSink: Send + Sync {
    /// Receives one event.
    fn emit(&self, event: Event);

    /// Sends information that needs no action.
    fn note(&self, message: &str) {
        self.emit(Event::Note {
            message: message.to_owned(),
        });
    }

    /// Reports why the job cannot continue.
    fn error(&self, failure: &Failure) {
        self.emit(Event::Error(failure.into()));
    }
}

/// A transfer starts or restarts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// The id of the transfer, in hexadecimal digits.
    pub transfer: String,
    /// The sources, as the user named them.
    #[serde(flatten, with = "names::sources")]
    pub sources: Vec<Vec<u8>>,
    /// The path that is actually written.
    #[serde(flatten, with = "names::destination")]
    pub destination: Vec<u8>,
    /// The transfer continues an earlier run.
    pub resumed: bool,
}

/// Progress of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Bytes done: delivered by this run or an earlier one, present before, holes, failed.
    pub bytes: u64,
    /// The sizes of all files; `None` until the scan has ended.
    pub bytes_total: Option<u64>,
    /// The rate of the last seconds.
    pub bytes_per_second: Option<f64>,
    /// Files that this transfer has delivered so far.
    pub files: u64,
    /// Files that the scan has found so far: all of them once it has ended.
    #[serde(default)]
    pub files_total: u64,
    /// Files that are settled: delivered by this transfer, or there already.
    #[serde(default)]
    pub files_settled: u64,
    /// Files of the last seconds that were delivered, or were there already.
    #[serde(default)]
    pub files_per_second: Option<f64>,
    /// The source is still being scanned.
    #[serde(default)]
    pub scanning: bool,
    /// Streams attached now.
    pub streams: u32,
    /// The stage that limits the transfer now.
    #[serde(flatten, with = "names::bottleneck")]
    pub bottleneck: Option<Limited>,
    /// Figures of each stage in the last seconds, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<String, f64>,
    /// Seconds since the job began.
    pub seconds: f64,
    /// The network paths, also if there is only one. Never sent to others.
    #[serde(skip)]
    pub channels: Vec<Channel>,
    /// A file whose contents are on their way, by its name below the source; empty where that is unknown. Never sent to others.
    #[serde(skip)]
    pub name: Vec<u8>,
    /// Seconds left, where they are foretold. Never sent to others.
    #[serde(skip)]
    pub seconds_left: Option<f64>,
    /// This is the final state. Never sent to others.
    #[serde(skip)]
    pub at_end: bool,
    /// Amounts of this run; never sent to others.
    #[serde(skip)]
    pub moved: Moved,
    /// Amounts that earlier runs of the same transfer had delivered; never sent to others.
    #[serde(skip)]
    pub held: Moved,
    /// Bytes that this run wrote at the destination, safe or not. These bytes give the rate of a transfer. Never sent to
    /// others.
    #[serde(skip)]
    pub written: u64,
}

/// The tuner has changed a number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// The name of the number: streams, readers, writers.
    pub what: String,
    /// The channel of the streams, where there are several channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<u32>,
    /// The previous number.
    pub from: u32,
    /// The new number.
    pub to: u32,
    /// Why the tuner changed it.
    pub reason: String,
    /// Seconds since the job began.
    pub seconds: f64,
}

/// The network paths of a transfer that has several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Channels {
    /// The channels.
    pub channels: Vec<Channel>,
    /// Seconds since the job began.
    pub seconds: f64,
    /// The figures of the whole transfer; never sent to other nodes.
    #[serde(skip)]
    pub at_end: bool,
}

/// The figures of one channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    /// Number of the channel, counted from 0.
    pub number: u32,
    /// The interface and the addresses.
    pub name: String,
    /// Streams attached now.
    pub streams: u32,
    /// Bytes that passed over the channel, with all overhead.
    pub bytes: u64,
    /// The rate since the last event, or over the whole transfer at the end.
    pub bytes_per_second: Option<f64>,
    /// The smoothed RTT.
    pub round_trip_seconds: f64,
    /// Bytes that this end sent again.
    #[serde(default)]
    pub resent_bytes: u64,
    /// Streams that were cut off because the channel was dead.
    pub cuts: u64,
}

/// An entry failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// The name of the entry, with the source as the user named it.
    #[serde(flatten, with = "names::path")]
    pub path: Vec<u8>,
    /// Error message for people.
    pub message: String,
    /// The number of the source that the entry belongs to, counted from 0; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<u16>,
    /// The side at fault: `source` or `destination`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// The word for the reason, as in the list of `--failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The number of the entry in the transfer; `None` for an entry that was never announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
}

/// The action on an entry, actual or in a dry run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// The action.
    pub action: Action,
    /// Kind of the entry.
    pub kind: ItemKind,
    /// The name below the source. With several sources, the name of the source comes first.
    #[serde(flatten, with = "names::path")]
    pub path: Vec<u8>,
    /// The size of the contents; `None` if unknown.
    pub bytes: Option<u64>,
}

/// An action on an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Sends the contents.
    Send,
    /// Makes the entry, which has no contents to send.
    Make,
    /// Sets the metadata.
    Adjust,
    /// Leaves the entry as it is.
    Skip,
    /// Removes the entry from the destination.
    Delete,
}

impl Action {
    /// The action as a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Make => "make",
            Self::Adjust => "adjust",
            Self::Skip => "skip",
            Self::Delete => "delete",
        }
    }
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A hard link to another file of the transfer.
    Link,
    /// Any other kind.
    #[serde(other)]
    Other,
}

/// An item of the job is done, and durable at the destination. The event may repeat after a lost connection, and a later failure overrides
/// it. The summary follows all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkDone {
    /// The number of the item in the job, counted from 0.
    pub number: usize,
    /// The digest of the part or of the assembled file; `None` for a file that existed already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<PartDigest>,
}

/// An item of the job failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkFailed {
    /// The number of the item in the job, counted from 0.
    pub number: usize,
    /// The side at fault.
    pub side: String,
    /// The word for the reason, as in the list of `--failed`.
    pub code: Code,
    /// Error message for people.
    pub message: String,
}

/// An entry that failed, as an agent reports it to its client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// The name below the source. With several sources, the name of the source comes first.
    #[serde(flatten, with = "names::name")]
    pub name: Vec<u8>,
    /// The side at fault.
    pub side: String,
    /// The word for the reason.
    pub code: Code,
    /// Error message for people.
    pub message: String,
}

/// The counters of both ends; `None` for an end that has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Counters of the sending end, by name.
    pub source: Option<BTreeMap<String, u64>>,
    /// Counters of the receiving end, by name.
    pub destination: Option<BTreeMap<String, u64>>,
    /// Peak resident memory. Never sent to others, since the summary contains it.
    #[serde(skip)]
    pub max_rss_bytes: Sides<u64>,
}

/// An entry differs from the manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Different {
    /// The name of the entry.
    #[serde(flatten, with = "names::path")]
    pub path: Vec<u8>,
    /// The code of the difference.
    pub kind: Code,
    /// The difference, for people.
    pub message: String,
}

impl Failed {
    /// A failure with only a name and a reason.
    #[must_use]
    pub fn named(path: Vec<u8>, message: String) -> Self {
        Self {
            path,
            message,
            ..Self::default()
        }
    }
}

impl Event {
    /// The event as one line of JSON, without a newline.
    #[must_use]
    pub fn to_line(&self) -> String {
        // All keys are strings, and floats that are not finite become null.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads one line; `None` if the line is no event.
    #[must_use]
    pub fn from_line(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

#[cfg(test)]
mod tests;
