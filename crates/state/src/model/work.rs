//! Owns the types of the work of a divided job: its items, their leases and settlements, and its counters. Does not apply them
//! (`apply::work`), and reads no files.
//!
//! An item is a unit of work that any node of the source can do, and can repeat without harm. A **scan** walks below a directory, or below
//! one share of its names. It copies the small files that it finds, and reports the directories and large files that it leaves to others. A
//! **part** copies a range of a large file, and an **assemble** joins the parts of a file. A **close** finishes the tree of one root once
//! no other item is open. It may leave regions of a large tree to other closes, and is leased again when those are settled.

mod path;

use serde::{Deserialize, Serialize};

use super::looked::is_zero;
use super::{FailureGroup, Looked, Peer, Reason, Runner};
pub use path::WorkPath;

/// Most finds of one command, and most items of one settlement.
pub const WORK_LIST_MAX: usize = 1_024;
/// Most bytes of all paths of one command.
pub const WORK_PATHS_BYTES_MAX: usize = 128 << 10;
/// Most shares of one directory.
pub const SHARES_MAX: u32 = 1_024;
/// Most parts of one file.
pub const FILE_PARTS_MAX: u64 = 1_024;
/// Most items that the finds of one command add: about a second of work. Most parts of a file fall with the number of open items.
pub const FOUND_ITEMS_MAX: u64 = 1 << 16;
/// Most shares of a directory's subdirectories in closes.
pub const CLOSE_SHARES_MAX: u32 = 1 << 16;
/// Most roots of one job.
pub const ROOTS_MAX: usize = 64;
/// Most nodes of the destination of one job.
pub const TARGETS_MAX: usize = 256;

/// A change of the work of one job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WorkOp {
    /// The controller starts or takes over: all leases of earlier epochs are returned. If all items are settled, the closes are done again.
    Open(OpenWork),
    /// The controller sets the receivers of each sending node.
    Pairs(Box<SetPairs>),
    /// A node cannot work on the job, and gets no items until the next controller opens the work.
    Decline {
        /// Epoch of the controller.
        epoch: u64,
        /// The node.
        node: String,
        /// The reason.
        why: Reason,
    },
    /// A node leases items.
    Lease(TakeWork),
    /// A node reports the finds of a scan.
    Found {
        /// The item.
        number: u64,
        /// The lease under which the node holds the item.
        lease: u64,
        /// At most [`WORK_LIST_MAX`], with at most [`WORK_PATHS_BYTES_MAX`] of paths.
        finds: Vec<Found>,
    },
    /// A node reports the ends of items of one lease.
    Settle(Box<Settle>),
    /// All items of the node are returned.
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
    /// Text that names the claim at the destinations. Work that is already open keeps its text.
    pub claim: String,
    /// The trees to copy. Work that is already open keeps its trees.
    pub roots: Vec<WorkRoot>,
    /// Larger files are divided into parts of at least this many bytes.
    pub part_bytes: u64,
}

/// A tree to copy.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkRoot {
    /// The directory; its first component is the export.
    pub source: String,
    /// The one file of the directory to copy; `None` to copy the whole directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The directory of the copy; its first component is the export.
    pub destination: String,
    /// Observation of the source at the controller's node, so that other nodes can compare theirs. An empty one equals every other.
    #[serde(default, rename = "sight", skip_serializing_if = "Vec::is_empty")]
    pub observation: Vec<u64>,
}

/// The receivers of each sending node.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SetPairs {
    /// Epoch of the controller.
    pub epoch: u64,
    /// The nodes of the destination, at most [`TARGETS_MAX`]: those that members may send to, and those whose claim may still be valid.
    pub targets: Vec<Peer>,
    /// Each node that may lease items.
    pub pairs: Vec<Pair>,
    /// A node of the destination is unreachable, and its claim may still be valid. Meanwhile no file is assembled, and no tree is closed.
    pub waits: bool,
    /// Items taken from nodes of the source whose late writes are no longer possible.
    pub fenced: Vec<Taken>,
}

/// The receivers of a node of the source.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// Node of the source.
    pub node: String,
    /// Positions in the list of targets, in turn for each lease. If one cannot be reached, the next one is used.
    pub to: Vec<u32>,
    /// Share of the job's limit in bytes per second; 0 for none.
    pub limit: u64,
}

/// Items were taken from a node of the source that may not know about it. Its late writes must not change an assembled file.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Taken {
    /// The node.
    pub node: String,
    /// Index of the command that took the items.
    pub index: u64,
}

/// The destination of the items of a job's work.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct WorkTargets {
    /// The nodes of the destination.
    pub nodes: Vec<Peer>,
    /// A node of the destination is unreachable, and its claim may still be valid.
    pub waits: bool,
    /// Items taken from nodes of the source that may still write them.
    pub taken: Vec<Taken>,
    /// Nodes of the source that cannot work on the job, each with the reason.
    pub declined: Vec<(String, Reason)>,
}

impl WorkTargets {
    /// Whether files may be assembled, and the tree may be closed.
    #[must_use]
    pub const fn is_fenced(&self) -> bool {
        !self.waits && self.taken.is_empty()
    }
}

/// A request of a node for items.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TakeWork {
    /// Epoch of the controller for which the node works.
    pub epoch: u64,
    /// The node.
    pub runner: Runner,
    /// Most scans.
    pub scans_max: u32,
    /// Most bytes of parts, not counting the first part.
    pub bytes_max: u64,
}

/// A find that a scan leaves to others.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Found {
    /// A directory, divided into shares of its names.
    Scan {
        /// Path below the root.
        path: WorkPath,
        /// Number of shares; with 1 the directory is not divided.
        shares: u32,
    },
    /// A region of the tree that a close leaves to others. If the path equals the path of the close, these are shares of the close's own
    /// region.
    Close {
        /// Path below the root.
        path: WorkPath,
        /// Number of shares of the directories in it; 1 for all of them.
        shares: u32,
    },
    /// A file that is copied in parts.
    File {
        /// Path below the root.
        path: WorkPath,
        /// Length of the contents.
        bytes: u64,
        /// State of the file.
        generation: u64,
    },
}

impl Found {
    /// Path of the find, below the root.
    #[must_use]
    pub const fn path(&self) -> &WorkPath {
        match self {
            Self::Scan { path, .. } | Self::Close { path, .. } | Self::File { path, .. } => path,
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
    /// The task of the item.
    pub task: Task,
}

/// The task of an item.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Task {
    /// Scans below a directory and copies its small files.
    Scan {
        /// Path below the root; empty for the root itself.
        path: WorkPath,
        /// Number of the share of the directory's names.
        share: u32,
        /// Number of shares.
        shares: u32,
    },
    /// Copies a range of a file.
    Part {
        /// Path below the root.
        path: WorkPath,
        /// Offset of the range.
        offset: u64,
        /// Length of the range.
        bytes: u64,
        /// State of the file when it was divided.
        generation: u64,
    },
    /// Assembles a file from its parts.
    Assemble {
        /// Path below the root.
        path: WorkPath,
        /// State of the file when it was divided.
        generation: u64,
        /// All parts.
        parts: Vec<WorkPart>,
    },
    /// Finishes the tree of the root.
    Close {},
    /// Finishes a region of that tree.
    Region {
        /// Path below the root.
        path: WorkPath,
        /// Number of the share of its directories, with all their contents.
        share: u32,
        /// Number of shares; with 1, the directory at the path belongs to the region.
        shares: u32,
        /// Whether the directories in the region are already finished, so that only the rest remains.
        flat: bool,
    },
}

/// A finished part.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkPart {
    /// Offset of the range.
    pub offset: u64,
    /// Length of the range.
    pub bytes: u64,
    /// Digest as text.
    pub digest: String,
}

/// The ends of items.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Settle {
    /// The node that holds the items.
    pub runner: Runner,
    /// The lease under which the node holds the items.
    pub lease: u64,
    /// The items. Items that the node no longer holds are ignored.
    pub items: Vec<Settled>,
    /// Files that the node delivered since its last report.
    pub files: u64,
    /// Bytes that the node delivered since its last report.
    pub bytes: u64,
    /// The reason why the node could not do its work, if it failed.
    pub trouble: Option<Reason>,
    /// A transfer of the lease was cut off, so its data may still be written.
    #[serde(default)]
    pub cut: bool,
    /// Entries that the node found or finished besides its items. Programs of an earlier level do not send this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked: Option<Looked>,
}

/// The end of one item.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Settled {
    /// Number of the item.
    pub number: u64,
    /// The result of the item.
    pub outcome: Settlement,
}

/// The result of one item.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Settlement {
    /// The item is done, and durable at the destination.
    Done {
        /// Digest of a part, as text.
        digest: Option<String>,
    },
    /// The tree of a root is finished.
    Closed(Box<Closed>),
    /// The item cannot be done, or is not needed. The close of its root handles the file or directory.
    Failed {},
    /// The item is returned, to be leased again.
    Back {},
}

/// The report of the close of a root.
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
    /// The receivers of each sending node; empty until the controller has claimed the destinations.
    pub pairs: Vec<Pair>,
    /// The destination of the items.
    pub targets: WorkTargets,
    /// Latest problem that a node reported.
    pub trouble: Option<Reason>,
    /// The reports of the closes of roots.
    pub closed: Vec<Closed>,
    /// Items that are not settled, except closes.
    pub open: u64,
    /// Closes that are not settled.
    pub closes: u64,
    /// Counters of settled work.
    pub counts: WorkCounts,
}

impl Work {
    /// Whether all items are settled.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.open == 0 && self.closes == 0
    }

    /// Whether a close is leased only while no other node holds one. The close of a file also examines its directory, which contains other
    /// files of the job. Nodes of an earlier level close as before.
    #[must_use]
    pub fn closes_alone(&self) -> bool {
        self.counts.reports_names && self.has_files()
    }

    /// Whether one of several sources is a file.
    #[must_use]
    pub fn has_files(&self) -> bool {
        self.roots.len() > 1 && self.roots.iter().any(|root| root.file.is_some())
    }
}

/// Counters of the work of a job.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct WorkCounts {
    /// Finished scans.
    pub scans: u64,
    /// Scans that failed.
    pub scans_failed: u64,
    /// Finished parts.
    pub parts: u64,
    /// Parts that failed or were not needed, including the other parts of their files. The close handles these files.
    pub parts_left: u64,
    /// Assembled files.
    pub assembled: u64,
    /// Files that were not assembled. The close handles them.
    pub files_left: u64,
    /// Number of leases so far.
    pub leases: u64,
    /// Delivered files.
    pub files: u64,
    /// Delivered bytes.
    pub bytes: u64,
    /// Entries that were found, and how many of them are finished.
    pub looked: Looked,
    /// Finished closes, each for a tree or for a region of one.
    #[serde(skip_serializing_if = "is_zero")]
    pub closes: u64,
    /// All scans of the work report files with several names, so the close may be divided.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reports_names: bool,
}
