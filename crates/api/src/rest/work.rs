//! The documents of the work of a divided job: its controller, its senders, and the work that each node holds.
//! Decide nothing, and name no single item: there may be many.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Peer, Reason, Timestamp};

/// The work of a divided job that has not ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct WorkView {
    /// Id of the job.
    pub job: String,
    /// When the answering node read this.
    pub at: Timestamp,
    /// Name of the answering node.
    pub reported_by: String,
    /// Why the answering node may not know the newest state, and the remedy; null if it knows it.
    pub problem: Option<String>,
    /// The node that controls the work; null while no node runs the job. Then nothing is done.
    pub controller: Option<String>,
    /// Epoch of the controller. A higher epoch has taken over.
    pub epoch: u64,
    /// Id of the claim at the destination.
    pub claim: String,
    /// The copied trees.
    pub roots: Vec<WorkRootView>,
    /// The nodes of the destination.
    pub targets: Vec<Peer>,
    /// The receivers of each sending node; empty until the controller has claimed the destination.
    pub pairs: Vec<WorkPairView>,
    /// A node of the destination is unreachable and may still write. Meanwhile no file is assembled, and no tree is finished. False while no node runs the job.
    pub waits_for_target: bool,
    /// Nodes of the source whose transfers were cut off and may still write. Meanwhile no file is assembled, and no tree is finished. Empty while no node runs the job.
    pub waits_for_writers: Vec<String>,
    /// Counters of settled work.
    pub done: WorkDoneView,
    /// Open items by kind. Kinds without open items are missing.
    pub open: Vec<WorkOpenView>,
    /// Held items of each sending node.
    pub nodes: Vec<WorkNodeView>,
    /// Last problem that a node reported.
    pub trouble: Option<Reason>,
}

/// A copied tree.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct WorkRootView {
    /// The source directory, export first.
    pub source: String,
    /// The directory of the copy, export first.
    pub destination: String,
}

/// The receivers of a node of the source.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct WorkPairView {
    /// Node of the source.
    pub node: String,
    /// Names of the nodes of the destination, in turn for each lease.
    pub to: Vec<String>,
    /// Share of the job's limit, in bytes per second.
    pub limit: Option<u64>,
}

/// Kind of an item of work.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkKindName {
    /// Scans below a directory and copies its small files.
    Scan,
    /// Copies a range of a large file.
    Part,
    /// Assembles a large file from its parts.
    Assemble,
    /// Finishes a tree.
    Close,
}

impl WorkKindName {
    /// The name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Part => "part",
            Self::Assemble => "assemble",
            Self::Close => "close",
        }
    }
}

/// Open items of one kind.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct WorkOpenView {
    /// Kind of the items.
    pub kind: WorkKindName,
    /// Items that any node may take.
    pub ready: u64,
    /// Items that nodes hold.
    pub held: u64,
    /// Items that wait for other items.
    pub waiting: u64,
    /// Bytes of all parts among them.
    pub part_bytes: u64,
}

/// Items that a node holds.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct WorkNodeView {
    /// Name.
    pub node: String,
    /// Held scans.
    pub scans: u64,
    /// Held parts.
    pub parts: u64,
    /// Files to assemble.
    pub assembles: u64,
    /// Trees to finish.
    pub closes: u64,
    /// Bytes of the held parts.
    pub part_bytes: u64,
}

/// Counters of the work of a job.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct WorkDoneView {
    /// Finished scans.
    pub scans: u64,
    /// Scans that failed.
    pub scans_failed: u64,
    /// Finished parts.
    pub parts: u64,
    /// Parts that failed or were not needed. The final check of the tree handles their files.
    pub parts_left: u64,
    /// Assembled large files.
    pub assembled: u64,
    /// Large files left to the final check of the tree.
    pub files_left: u64,
    /// Finished trees.
    pub closed: u64,
    /// Number of leases so far.
    pub leases: u64,
    /// Delivered files.
    pub files: u64,
    /// Delivered bytes.
    pub bytes: u64,
}
