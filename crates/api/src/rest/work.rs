//! The documents of the work of a divided job: who controls it, who sends where, and who holds what.
//! Decides nothing, and names no single item: there may be many.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Reason, Timestamp};

/// The work of a divided job that has not ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct WorkView {
    /// Id of the job.
    pub job: String,
    /// When the node that tells this read it.
    pub at: Timestamp,
    /// Name of the node that tells this.
    pub told_by: String,
    /// Why that node may not know the newest state, and what is needed; None if all is well.
    pub problem: Option<String>,
    /// The node that controls the work; None while no node runs the job, and nothing is done.
    pub controller: Option<String>,
    /// Epoch of the controller: a higher one took over.
    pub epoch: u64,
    /// Text that names the claim at the destination.
    pub claim: String,
    /// The trees that are copied.
    pub roots: Vec<WorkRootView>,
    /// The nodes of the destination.
    pub targets: Vec<WorkTargetView>,
    /// Which node sends where; empty until the controller has claimed the destination.
    pub pairs: Vec<WorkPairView>,
    /// A node of the destination is out of reach and may still write: no file is put together, and no tree is closed.
    pub waits_for_target: bool,
    /// Nodes of the source that lost their items and may still write: likewise.
    pub waits_for_writers: Vec<String>,
    /// What is settled.
    pub done: WorkDoneView,
    /// What is open, by kind; a kind of which nothing is open is left out.
    pub open: Vec<WorkOpenView>,
    /// What each node holds; every node that sends is named.
    pub nodes: Vec<WorkNodeView>,
    /// What a node told last that could not do its work.
    pub trouble: Option<Reason>,
}

/// A tree that is copied.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct WorkRootView {
    /// The directory, export first.
    pub source: String,
    /// What becomes its copy, export first.
    pub destination: String,
}

/// A node of the destination.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct WorkTargetView {
    /// Name.
    pub name: String,
    /// Identity that the node proves.
    pub identity: String,
    /// Addresses of its data port.
    pub addresses: Vec<String>,
}

/// Where a node of the source sends.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct WorkPairView {
    /// Node of the source.
    pub node: String,
    /// Names of the nodes of the destination, in turn for each lease.
    pub to: Vec<String>,
    /// Share of the job's limit in bytes per second.
    pub limit: Option<u64>,
}

/// What an item of work is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkKindName {
    /// Walks below a directory and brings its small files.
    Scan,
    /// Brings a range of a large file.
    Part,
    /// Makes a large file of its parts.
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
    /// What they are.
    pub kind: WorkKindName,
    /// Items that any node may take.
    pub ready: u64,
    /// Items that nodes hold.
    pub held: u64,
    /// Items that wait for others.
    pub waiting: u64,
    /// Bytes of all parts among them.
    pub part_bytes: u64,
}

/// What a node holds.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct WorkNodeView {
    /// Name.
    pub node: String,
    /// Scans.
    pub scans: u64,
    /// Parts.
    pub parts: u64,
    /// Files to put together.
    pub assembles: u64,
    /// Trees to finish.
    pub closes: u64,
    /// Bytes of its parts.
    pub part_bytes: u64,
}

/// Counters of the work of a job.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct WorkDoneView {
    /// Scans that are done.
    pub scans: u64,
    /// Scans that failed.
    pub scans_failed: u64,
    /// Parts that are done.
    pub parts: u64,
    /// Parts that failed or were not needed: the close looks at their files.
    pub parts_left: u64,
    /// Large files that were put together.
    pub assembled: u64,
    /// Large files that were left to the close.
    pub files_left: u64,
    /// Trees that are finished.
    pub closed: u64,
    /// Leases that were given.
    pub leases: u64,
    /// Files that were delivered.
    pub files: u64,
    /// Bytes that were delivered.
    pub bytes: u64,
}
