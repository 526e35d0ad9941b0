//! Owns the words of the work of a divided job: its items, how they are leased and settled, and the counters that they leave.
//! Does not apply them (`apply::work`) and looks at no file.
//!
//! An item is a unit of work that any node of the source can do, and can do twice without harm. A **scan** walks below a directory, or
//! below one share of its names, brings the small files that it meets, and tells of the directories and large files that it leaves to
//! others. A **part** brings a range of a large file, an **assemble** makes the file of its parts, and a **close** finishes the tree of
//! one root once nothing else is open.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{CommandError, FailureGroup, Looked, Reason, Runner};
use crate::bounds;

/// Most finds of one command, and most items of one settlement.
pub const WORK_LIST_MAX: usize = 1_024;
/// Most bytes of all paths of one command.
pub const WORK_PATHS_BYTES_MAX: usize = 128 << 10;
/// Most shares of one directory.
pub const SHARES_MAX: u32 = 1_024;
/// Most parts of one file.
pub const FILE_PARTS_MAX: u64 = 1_024;
/// Most roots of one job.
pub const ROOTS_MAX: usize = 64;
/// Most nodes of the destination of one job.
pub const TARGETS_MAX: usize = 256;

/// A change of the work of one job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WorkOp {
    /// The controller begins, or takes over: all leases of earlier epochs return. Where all is settled the closes are done once more.
    Open(OpenWork),
    /// The controller says which node sends where.
    Pairs(Box<SetPairs>),
    /// A node cannot work on the job, and gets no items until the next controller asks again.
    Decline {
        /// Epoch of the controller.
        epoch: u64,
        /// The node.
        node: String,
        /// Why not.
        why: Reason,
    },
    /// A node takes items.
    Lease(TakeWork),
    /// A node tells what the scan of an item found.
    Found {
        /// The item.
        number: u64,
        /// The lease under which the node holds the item.
        lease: u64,
        /// At most [`WORK_LIST_MAX`], with at most [`WORK_PATHS_BYTES_MAX`] of paths.
        finds: Vec<Found>,
    },
    /// A node tells how items ended that it holds under one lease.
    Settle(Box<Settle>),
    /// All items return that the node holds.
    Return {
        /// The node.
        node: String,
    },
}

impl WorkOp {
    /// The name of the change.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Pairs(_) => "pairs",
            Self::Decline { .. } => "decline",
            Self::Lease(_) => "lease",
            Self::Found { .. } => "found",
            Self::Settle(_) => "settle",
            Self::Return { .. } => "return",
        }
    }
}

/// The beginning of the work of a job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OpenWork {
    /// Epoch of the job that the controller claimed.
    pub epoch: u64,
    /// Text that names the claim at the destinations. Work that is open already keeps its own.
    pub claim: String,
    /// The trees to copy. Work that is open already keeps its own.
    pub roots: Vec<WorkRoot>,
    /// Files with more bytes are cut into parts of at least so many.
    pub part_bytes: u64,
}

/// A tree to copy.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkRoot {
    /// The directory, export first.
    pub source: String,
    /// The one file in the directory that is meant; none means all that is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What becomes its copy, export first.
    pub destination: String,
    /// What the controller's node sees of the source, so that others find out whether they see the same; empty says nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sight: Vec<u64>,
}

/// Which node sends where.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SetPairs {
    /// Epoch of the controller.
    pub epoch: u64,
    /// The nodes of the destination, at most [`TARGETS_MAX`]: those that members may send to, and those whose claim may still hold.
    pub targets: Vec<Target>,
    /// Each node that may lease items.
    pub pairs: Vec<Pair>,
    /// A node of the destination is out of reach, and its claim may still hold: nothing is put together or closed.
    pub waits: bool,
    /// What was taken from nodes of the source and cannot be written late any more.
    pub fenced: Vec<Taken>,
}

/// A node of the destination.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Name, for people.
    pub name: String,
    /// Identity that the node proves.
    pub identity: String,
    /// Addresses of its data port, in the order in which they are dialled.
    pub addresses: Vec<String>,
}

impl Target {
    /// Checks the bounds.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        bounds::name("name", &self.name)?;
        bounds::name("identity", &self.identity)?;
        bounds::count("addresses", self.addresses.len(), bounds::LIST_MAX)?;
        for address in &self.addresses {
            bounds::text("address", address)?;
        }
        Ok(())
    }
}

/// Where a node of the source sends.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// Node of the source.
    pub node: String,
    /// Places in the list of targets, in turn for each lease; where one cannot be reached the next one is taken.
    pub to: Vec<u32>,
    /// Share of the job's limit in bytes per second; 0 is none.
    pub limit: u64,
}

/// Items were taken from a node of the source that may not know it: what it sends late must not change a file that is put together.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Taken {
    /// The node.
    pub node: String,
    /// Index of the command that took them.
    pub index: u64,
}

/// Where the items of a job's work go.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct WorkTargets {
    /// The nodes of the destination.
    pub nodes: Vec<Target>,
    /// A node of the destination is out of reach, and its claim may still hold.
    pub waits: bool,
    /// What was taken from nodes of the source and may still be written.
    pub taken: Vec<Taken>,
    /// Nodes of the source that cannot work on the job, each with the reason.
    pub declined: Vec<(String, Reason)>,
}

impl WorkTargets {
    /// Whether files may be put together, and the tree may be closed.
    #[must_use]
    pub const fn is_fenced(&self) -> bool {
        !self.waits && self.taken.is_empty()
    }
}

/// A node takes items.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TakeWork {
    /// Epoch of the controller that the node works for.
    pub epoch: u64,
    /// The node.
    pub runner: Runner,
    /// Scans at most.
    pub scans_max: u32,
    /// Bytes of parts at most, but for the first part.
    pub bytes_max: u64,
}

/// What a scan found and leaves to others.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Found {
    /// A directory, in so many shares of its names.
    Scan {
        /// Below the root.
        path: WorkPath,
        /// 1 leaves the directory whole.
        shares: u32,
    },
    /// A file that is brought in parts.
    File {
        /// Below the root.
        path: WorkPath,
        /// Length of the contents.
        bytes: u64,
        /// State of the file.
        generation: u64,
    },
}

impl Found {
    /// Where the find is, below the root.
    #[must_use]
    pub const fn path(&self) -> &WorkPath {
        match self {
            Self::Scan { path, .. } | Self::File { path, .. } => path,
        }
    }
}

/// An item that a node holds.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkItem {
    /// Number within the work of the job.
    pub number: u64,
    /// Number of the root.
    pub root: u32,
    /// What is to be done.
    pub task: Task,
}

/// What is to be done.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Task {
    /// Walks below a directory and brings its small files.
    Scan {
        /// Below the root; empty is the root itself.
        path: WorkPath,
        /// Which share of the names in the directory.
        share: u32,
        /// Of how many.
        shares: u32,
    },
    /// Brings a range of a file.
    Part {
        /// Below the root.
        path: WorkPath,
        /// Where the range begins.
        offset: u64,
        /// Its length.
        bytes: u64,
        /// State of the file when it was cut.
        generation: u64,
    },
    /// Makes a file of its parts.
    Assemble {
        /// Below the root.
        path: WorkPath,
        /// State of the file when it was cut.
        generation: u64,
        /// All parts.
        parts: Vec<WorkPart>,
    },
    /// Finishes the tree of the root.
    Close {},
}

/// A part that is done.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkPart {
    /// Where the range begins.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// Digest as text.
    pub digest: String,
}

/// How items ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Settle {
    /// The node that holds the items.
    pub runner: Runner,
    /// The lease under which the node holds them.
    pub lease: u64,
    /// The items. Those that the node holds no more are passed over.
    pub items: Vec<Settled>,
    /// Files that the node delivered meanwhile.
    pub files: u64,
    /// Bytes that the node delivered meanwhile.
    pub bytes: u64,
    /// Why the node could not do its work, if it could not.
    pub trouble: Option<Reason>,
    /// A transfer of the lease was cut: what it sent may still be written.
    #[serde(default)]
    pub cut: bool,
    /// Entries that the node found or did beside its items. Programs of an earlier level leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked: Option<Looked>,
}

/// How one item ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Settled {
    /// Number of the item.
    pub number: u64,
    /// How it ended.
    pub outcome: Settlement,
}

/// How one item ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Settlement {
    /// It is done, and durable at the destination.
    Done {
        /// Digest of a part, as text.
        digest: Option<String>,
    },
    /// The tree of a root is finished.
    Closed(Box<Closed>),
    /// It cannot be done, or need not be; the close of its root does what is to be done about the file or directory.
    Failed {},
    /// It returns to be leased again.
    Back {},
}

/// What the close of a root tells.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Closed {
    /// Number of the root.
    pub root: u32,
    /// Files that the transfer delivered.
    pub files: u64,
    /// Bytes that the transfer delivered.
    pub bytes: u64,
    /// Summary of the transfer as JSON text.
    pub summary: String,
    /// Entries that failed, grouped by reason.
    pub failures: Vec<FailureGroup>,
}

/// The work of a job, without its items.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Work {
    /// Id of the job.
    pub job: String,
    /// Epoch of the controller.
    pub epoch: u64,
    /// Text that names the claim at the destinations.
    pub claim: String,
    /// The trees to copy.
    pub roots: Vec<WorkRoot>,
    /// Which node sends where; empty until the controller has claimed the destinations.
    pub pairs: Vec<Pair>,
    /// Where the items go.
    pub targets: WorkTargets,
    /// What a node told last that could not do its work.
    pub trouble: Option<Reason>,
    /// What the closes of roots have told.
    pub closed: Vec<Closed>,
    /// Items that are not settled, but for closes.
    pub open: u64,
    /// Closes that are not settled.
    pub closes: u64,
    /// What is settled.
    pub counts: WorkCounts,
}

impl Work {
    /// Whether all items are settled.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.open == 0 && self.closes == 0
    }
}

/// Counters of the work of a job.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct WorkCounts {
    /// Scans that are done.
    pub scans: u64,
    /// Scans that failed.
    pub scans_failed: u64,
    /// Parts that are done.
    pub parts: u64,
    /// Parts that failed or were not needed, and the other parts of their files: the close looks at the files.
    pub parts_left: u64,
    /// Files that were put together.
    pub assembled: u64,
    /// Files that were not put together: the close looks at them.
    pub files_left: u64,
    /// Leases that were given.
    pub leases: u64,
    /// Files that were delivered.
    pub files: u64,
    /// Bytes that were delivered.
    pub bytes: u64,
    /// Entries that were found, and those of them that are done.
    pub looked: Looked,
}

/// A path as bytes. In JSON a string, or `{"hex": "…"}` where the bytes are not UTF-8.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkPath(pub Vec<u8>);

impl From<&str> for WorkPath {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

#[derive(Deserialize, Serialize)]
#[serde(untagged, deny_unknown_fields)]
enum PathForm {
    Text(String),
    Bytes { hex: String },
}

impl Serialize for WorkPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let hex = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
                PathForm::Bytes { hex }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for WorkPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = match PathForm::deserialize(deserializer)? {
            PathForm::Text(text) => text.into_bytes(),
            PathForm::Bytes { hex } => {
                let (digits, []) = hex.as_bytes().as_chunks::<2>() else {
                    return Err(D::Error::custom("hex: an odd number of digits"));
                };
                let byte = |pair: &[u8; 2]| {
                    let text = std::str::from_utf8(pair).ok();
                    text.and_then(|text| u8::from_str_radix(text, 16).ok())
                };
                let bytes: Option<Vec<u8>> = digits.iter().map(byte).collect();
                bytes.ok_or_else(|| D::Error::custom("hex: no hexadecimal digits"))?
            }
        };
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_any_bytes_are_read_as_they_are_written() {
        for bytes in [&b""[..], b"a/b", b"\xff\x00\"", "ä".as_bytes()] {
            let path = WorkPath(bytes.to_vec());
            let json = serde_json::to_string(&path).expect("JSON");
            let read: WorkPath = serde_json::from_str(&json).expect(&json);
            assert_eq!(read, path, "{json}");
        }
        for wrong in [r#"{"hex":"0"}"#, r#"{"hex":"zz"}"#, "1"] {
            assert!(serde_json::from_str::<WorkPath>(wrong).is_err(), "{wrong}");
        }
    }
}
