//! The events of a job as owned values: what `--json` prints, what agents send to their clients, what a sink receives.
//! Prints nothing; names and order of the fields are a contract that `docs/events.md` lists.

mod blame;
mod connection;
mod names;
mod summary;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::failure::{Code, Failure};
use crate::job::PartDigest;

pub use blame::{Blame, ErrorTold};
pub use connection::{ConnectionLost, ConnectionRegained, LostChannel};
pub use summary::{
    Limited, LimitedTold, ManifestDone, NotKept, Sides, Status, Summary, TransferSummary, Verdict,
    VerifySummary,
};

/// One event of a job. A reader passes over events and fields that it does not know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A transfer begins, or begins anew.
    Started(Started),
    /// How far a transfer is.
    Progress(Progress),
    /// The tuner has changed a number.
    Tuning(Tuning),
    /// The network paths of a transfer that has several.
    Channels(Channels),
    /// Nothing reaches the other end, or nothing comes back; told again while that lasts.
    ConnectionLost(ConnectionLost),
    /// The other end answers again.
    ConnectionRegained(ConnectionRegained),
    /// An entry failed; the others go on.
    Failed(Failed),
    /// What becomes of an entry, or would in a dry run.
    Item(Item),
    /// An item of the job is done.
    WorkDone(WorkDone),
    /// An item of the job failed; the others go on.
    WorkFailed(WorkFailed),
    /// Between an agent and its client: an entry that failed, by its name below the source.
    Fault(Fault),
    /// Between an agent and its client: one line of a manifest.
    Entry {
        /// The line, without the newline at its end.
        #[serde(flatten, with = "names::line")]
        line: Vec<u8>,
    },
    /// Between an agent and its client: no data moves any more.
    Ended {},
    /// The job has stopped until it is resumed.
    Paused {},
    /// Something worth knowing that needs no action.
    Note {
        /// For people.
        message: String,
    },
    /// The job cannot go on.
    Error(ErrorTold),
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
    /// Takes one event.
    fn tell(&self, event: Event);

    /// Tells something worth knowing that needs no action.
    fn note(&self, message: &str) {
        self.tell(Event::Note {
            message: message.to_owned(),
        });
    }

    /// Tells why the job cannot go on.
    fn error(&self, failure: &Failure) {
        self.tell(Event::Error(failure.into()));
    }
}

/// A transfer begins, or begins anew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// The id of the transfer, in hexadecimal digits.
    pub transfer: String,
    /// The sources, as the user named them.
    #[serde(flatten, with = "names::sources")]
    pub sources: Vec<Vec<u8>>,
    /// The place that will really be written.
    #[serde(flatten, with = "names::destination")]
    pub destination: Vec<u8>,
    /// The transfer continues an earlier run.
    pub resumed: bool,
}

/// How far a transfer is.
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
    /// Files of the last seconds that were delivered, or were there already.
    #[serde(default)]
    pub files_per_second: Option<f64>,
    /// The source is still being scanned.
    #[serde(default)]
    pub scanning: bool,
    /// Streams attached now.
    pub streams: u32,
    /// What limits the transfer now.
    #[serde(flatten, with = "names::bottleneck")]
    pub bottleneck: Option<Limited>,
    /// What each stage did in the last seconds, by name of the figure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<String, f64>,
    /// Seconds since the job began.
    pub seconds: f64,
    /// The network paths, also of a transfer with one; never sent to others.
    #[serde(skip)]
    pub channels: Vec<Channel>,
    /// This is the state at the end; never sent to others.
    #[serde(skip)]
    pub at_end: bool,
    /// Amounts of this run; never sent to others.
    #[serde(skip)]
    pub moved: Moved,
}

/// Amounts that a run of a transfer has delivered so far, beside those of earlier runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Moved {
    /// Bytes of contents that are safe at the destination.
    pub bytes: u64,
    /// Complete files.
    pub files: u64,
    /// Bytes that were sent more than once.
    pub again: u64,
    /// Bytes that earlier runs of the same transfer had delivered.
    pub held_bytes: u64,
    /// Files that earlier runs of the same transfer had completed.
    pub held_files: u64,
}

/// The tuner has changed a number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// The name of the number: streams, readers, writers.
    pub what: String,
    /// The channel of the streams, where there are several channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<u32>,
    /// The number until now.
    pub from: u32,
    /// The number from now on.
    pub to: u32,
    /// Why the tuner changed it.
    pub reason: String,
    /// Seconds since the job began.
    pub seconds: f64,
}

/// The network paths of a transfer that has several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Channels {
    /// Each channel.
    pub channels: Vec<Channel>,
    /// Seconds since the job began.
    pub seconds: f64,
    /// The figures are those of the whole transfer; never sent to others.
    #[serde(skip)]
    pub at_end: bool,
}

/// The figures of one channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    /// Counted from 0.
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
    /// What went wrong, for people.
    pub message: String,
    /// The number of the source that the entry belongs to, counted from 0; `None` where that is not known.
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

/// What becomes of an entry, or would in a dry run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// What is done.
    pub action: Action,
    /// What the entry is.
    pub kind: ItemKind,
    /// The name below the source; with several sources, behind the name of the source.
    #[serde(flatten, with = "names::path")]
    pub path: Vec<u8>,
    /// The size of the contents; `None` where nobody knows it.
    pub bytes: Option<u64>,
}

/// What is done with an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Its contents are sent.
    Send,
    /// It is made; it has no contents to send.
    Make,
    /// Its metadata is set.
    Adjust,
    /// It is left as it is.
    Skip,
    /// It is removed from the destination.
    Delete,
}

impl Action {
    /// The word for it.
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

/// What an entry is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A further name of a file.
    Link,
    /// Anything else.
    #[serde(other)]
    Other,
}

/// An item of the job is done, and durable at the destination. It may be told again after a lost connection, and a failure that
/// follows overrides it; the summary comes after all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkDone {
    /// The number of the item in the job, counted from 0.
    pub number: usize,
    /// The digest of the part, or of the file that was put together; `None` for a file that was there already.
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
    /// What went wrong, for people.
    pub message: String,
}

/// An entry that failed, as an agent tells its client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// The name below the source; with several sources, behind the name of the source.
    #[serde(flatten, with = "names::name")]
    pub name: Vec<u8>,
    /// The side at fault.
    pub side: String,
    /// The word for the reason.
    pub code: Code,
    /// What went wrong, for people.
    pub message: String,
}

/// The counters of both ends; `None` where an end cannot tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Counters of the sending end, by name.
    pub source: Option<BTreeMap<String, u64>>,
    /// Counters of the receiving end, by name.
    pub destination: Option<BTreeMap<String, u64>>,
    /// Peak resident memory; never sent to others, for the summary has it.
    #[serde(skip)]
    pub max_rss_bytes: Sides<u64>,
}

/// An entry is not what the manifest says.
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
    /// A failure of which only the name and the reason are known.
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
        // No map has odd keys, and floats that are not finite become null.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads one line; `None` for what is no event.
    #[must_use]
    pub fn from_line(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

#[cfg(test)]
mod tests;
