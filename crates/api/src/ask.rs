//! Owns the documents by which one node asks another about places and jobs, and the trait for asking.
//! Opens no connection and touches no file: `node` does.
//!
//! A document is JSON with a version, a name and its content: `{"version":1,"ask":"list","with":{…}}`. A question for a job of another node
//! names it: `"for":{"asker":…,"job":…}`. Unknown fields are ignored, and an unknown question is refused as `unsupported`.

mod buffer;
mod claims;
mod cluster;
mod head;
mod jobs;
mod places;
mod refusal;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::head::Head;
use crate::grant::Mandate;
use crate::job::Text;
use crate::json::VALUES_MAX;
use crate::rest::Timestamp;

pub use buffer::{
    AnswerBuffer, AskExtent, BufferAnswer, BufferQuestion, EXTENT_PART_BYTES_MAX, ExtentPart,
    NEXT_MAX,
};
pub use claims::{ClaimPlace, LEASE_MS, MEMBERS_MAX, Mark, ReleaseClaim, RenewClaim};
pub use cluster::{
    Announce, AnswerCluster, CLUSTER_QUESTIONS, Carried, ClusterAnswer, ClusterQuestion,
    JoinCluster, Joined, KnownNode,
};
pub use godwit_model::Peer;
pub use head::SMALL_BYTES;
pub use jobs::{
    GrantJob, JobPast, JobSeen, ManifestAfter, ManifestChunk, NodeFault, PastAfter, ReachSite,
    RunJob, RunningJob, SteerJob, SteerVerb,
};
pub use places::{
    CleanPlace, Cleaned, EntryKind, EntryView, ExportRoom, FailedPlace, KeptFiles, LIST_MAX,
    ListPlace, Listing, MakeDirectory, NAMED_MAX, OVERLAPS_MAX, PlaceOverlap, RemovePlace, Removed,
    RenamePlace, SealPlace, Sealed, mode_text,
};
pub use refusal::{Refusal, code};

/// Version of the documents. Documents of other versions are refused.
pub const ASK_VERSION: u32 = 1;

/// Most values of a reply: samples of a job have short ones.
const ANSWER_VALUES_MAX: usize = 128 << 10;

/// A question to a site.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "ask", content = "with", rename_all = "snake_case")]
pub enum Question {
    /// Exports that the asker may use, with their free space.
    Exports {},
    /// A page of a directory.
    List(ListPlace),
    /// One entry.
    Stat {
        /// Path of the entry, export first.
        path: Text,
    },
    /// Makes a directory.
    MakeDirectory(MakeDirectory),
    /// Removes an entry.
    Remove(RemovePlace),
    /// Renames an entry within its export.
    Rename(RenamePlace),
    /// Removes leftover temporary files.
    Clean(CleanPlace),
    /// Which of these places are one directory, or lie in one another, by whatever exports and mounts.
    Overlaps {
        /// Paths of the places, export first: at most [`OVERLAPS_MAX`].
        paths: Vec<Text>,
    },
    /// Seals a directory with an ASC MHL history.
    Seal(SealPlace),
    /// Claims a destination for the members of a job.
    Claim(ClaimPlace),
    /// Extends the lease of a claim.
    Renew(RenewClaim),
    /// Ends a claim.
    Release(ReleaseClaim),
    /// The nodes of the asked site that serve a place, for an asker with a right to the place.
    Nodes {
        /// Path of the place, export first.
        path: Text,
        /// Identity of a node that listed the asked node as a member of its site. The asked node refuses unless it lists the named node, too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<String>,
    },
    /// Whether the asked node can connect to another site, for a job of the asker with one end here.
    Reach(ReachSite),
    /// Gives another site access for a job.
    Grant(GrantJob),
    /// Revokes the access for a job.
    Revoke {
        /// Asker's id of the job.
        job: String,
        /// Identities that keep their access. A node of an older version revokes all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        keep: Vec<String>,
    },
    /// Runs a job for the asker.
    Run(Box<RunJob>),
    /// The state of a job that runs for the asker.
    Job {
        /// Asker's id of the job.
        job: String,
    },
    /// Steers a job that runs for the asker.
    Steer(SteerJob),
    /// The next part of the log and of the samples of a job that runs for the asker. A node of the same cluster may ask for any job.
    Past(PastAfter),
    /// The next part of the manifest of a job, for a node of the same cluster.
    Manifest(ManifestAfter),
    /// The progress of the jobs that the asked node runs, for a node of the same cluster.
    Running {},
    /// The figures of the asked node's host now, for a node whose transfer runs there.
    Host {},
    /// A question about the transfer buffer of a node of the same cluster.
    Buffer(BufferQuestion),
    /// A part of an extent in the buffer of a node of the same cluster.
    Extent(Box<AskExtent>),
    /// A question within a cluster.
    Cluster(Box<ClusterQuestion>),
}

/// Names of the questions that this version knows.
pub const QUESTIONS: [&str; 26] = [
    "exports",
    "list",
    "stat",
    "make_directory",
    "remove",
    "rename",
    "clean",
    "overlaps",
    "seal",
    "claim",
    "renew",
    "release",
    "nodes",
    "reach",
    "grant",
    "revoke",
    "run",
    "job",
    "steer",
    "past",
    "manifest",
    "running",
    "host",
    "buffer",
    "extent",
    "cluster",
];

/// The answer of a site.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "reply", content = "with", rename_all = "snake_case")]
pub enum Answer {
    /// Exports that the asker may use.
    Exports(Vec<ExportRoom>),
    /// A page of a directory.
    Listing(Listing),
    /// One entry; also a new or renamed entry.
    Entry(EntryView),
    /// Counts of removed entries.
    Removed(Removed),
    /// Counts of removed temporary files.
    Cleaned(Cleaned),
    /// Each pair of places that overlap.
    Overlaps(Vec<PlaceOverlap>),
    /// The new generation of an ASC MHL history.
    Sealed(Sealed),
    /// Nodes of a site, with their addresses.
    Nodes(Vec<Peer>),
    /// Success without a result.
    Done {},
    /// A job that runs for the asker.
    Job(Box<JobSeen>),
    /// A part of the log and of the samples of such a job.
    Past(JobPast),
    /// A part of the manifest of a job.
    Manifest(ManifestChunk),
    /// Jobs that the asked node runs.
    Running(Vec<RunningJob>),
    /// Figures of a host, by name.
    Host(BTreeMap<String, f64>),
    /// About a transfer buffer.
    Buffer(BufferAnswer),
    /// A part of an extent. Its document has bytes, not words.
    #[serde(skip)]
    Extent(ExtentPart),
    /// An answer within a cluster.
    Cluster(Box<ClusterAnswer>),
    /// The question was refused.
    Refused(Refusal),
}

#[derive(Serialize)]
struct Sent<'a, T> {
    version: u32,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    mandate: Option<&'a Mandate>,
    #[serde(flatten)]
    body: &'a T,
}

impl Question {
    /// Whether the question is about jobs and their access, not about entries at places.
    #[must_use]
    pub const fn is_about_jobs(&self) -> bool {
        match self {
            Self::Exports {}
            | Self::List(_)
            | Self::Stat { .. }
            | Self::MakeDirectory(_)
            | Self::Remove(_)
            | Self::Rename(_)
            | Self::Clean(_)
            | Self::Overlaps { .. }
            | Self::Seal(_)
            | Self::Claim(_)
            | Self::Renew(_)
            | Self::Release(_) => false,
            Self::Nodes { .. }
            | Self::Reach(_)
            | Self::Grant(_)
            | Self::Revoke { .. }
            | Self::Run(_)
            | Self::Job { .. }
            | Self::Steer(_)
            | Self::Past(_)
            | Self::Manifest(_)
            | Self::Running {}
            | Self::Host {}
            | Self::Buffer(_)
            | Self::Extent(_)
            | Self::Cluster(_) => true,
        }
    }

    /// Whether the answer comes at once. Then the connection can be reused even if the asker stopped waiting.
    #[must_use]
    pub fn is_short(&self) -> bool {
        match self {
            Self::Cluster(question) => question.is_short(),
            _ => false,
        }
    }

    /// Whether the question may be repeated when its arrival is uncertain.
    #[must_use]
    pub fn may_be_repeated(&self) -> bool {
        match self {
            Self::Cluster(question) => question.may_be_repeated(),
            question => question.is_about_jobs(),
        }
    }

    /// The question as a document.
    #[must_use]
    pub fn to_document(&self) -> Vec<u8> {
        document(self, None)
    }

    /// The question as a document that names the job it serves.
    #[must_use]
    pub fn to_document_for(&self, mandate: Option<&Mandate>) -> Vec<u8> {
        document(self, mandate)
    }

    /// Whether the question may name a job of another node. Such a question is about the place of that job, gives or revokes access for the
    /// job, or comes from a node that continues the job for the asker.
    #[must_use]
    pub const fn takes_mandate(&self) -> bool {
        match self {
            Self::Exports {}
            | Self::List(_)
            | Self::Stat { .. }
            | Self::MakeDirectory(_)
            | Self::Claim(_)
            | Self::Renew(_)
            | Self::Release(_)
            | Self::Nodes { .. }
            | Self::Grant(_)
            | Self::Revoke { .. }
            | Self::Run(_)
            | Self::Job { .. }
            | Self::Steer(_)
            | Self::Past(_) => true,
            Self::Remove(_)
            | Self::Rename(_)
            | Self::Clean(_)
            | Self::Overlaps { .. }
            | Self::Seal(_)
            | Self::Reach { .. }
            | Self::Manifest(_)
            | Self::Running {}
            | Self::Host {}
            | Self::Buffer(_)
            | Self::Extent(_)
            | Self::Cluster(_) => false,
        }
    }

    /// Reads the job of another node from a document, if the document names one.
    ///
    /// # Errors
    /// The document cannot be read, or names no job.
    pub fn mandate_of(document: &[u8]) -> Result<Option<Mandate>, Refusal> {
        let invalid = |what: String| Refusal::new(code::INVALID, format!("for: {what}"));
        let head = Head::of(document).map_err(|error| invalid(error.to_string()))?;
        if let Some(mandate) = &head.mandate {
            mandate
                .check()
                .map_err(|error| invalid(error.to_string()))?;
        }
        Ok(head.mandate)
    }

    /// Reads a document of any peer.
    ///
    /// # Errors
    /// The document is invalid, or has too many parts. The refusal is for the asker.
    pub fn parse(document: &[u8]) -> Result<Self, Refusal> {
        Self::read(head::bounded(document, VALUES_MAX), document)
    }

    /// Reads a document of a node of the same cluster. A message of the consensus may have any shape.
    ///
    /// # Errors
    /// The document is invalid. The refusal is for the asker.
    pub fn parse_of_member(document: &[u8]) -> Result<Self, Refusal> {
        let head = Head::of(document);
        Self::read(head.map_err(|error| error.to_string()), document)
    }

    fn read(head: Result<Head, String>, document: &[u8]) -> Result<Self, Refusal> {
        let invalid = |error: String| {
            let message = format!("the question cannot be read: {error}");
            Refusal::new(code::INVALID, message)
        };
        let head = head.map_err(invalid)?;
        if head.version != ASK_VERSION || !QUESTIONS.contains(&head.name.as_str()) {
            return Err(Refusal::new(
                code::UNSUPPORTED,
                format!(
                    "this node does not know the question {:?} of version {}; update the older of the two nodes",
                    head.name, head.version
                ),
            ));
        }
        serde_json::from_slice(document).map_err(|error| invalid(error.to_string()))
    }
}

impl Answer {
    /// The answer as a document.
    #[must_use]
    pub fn to_document(&self) -> Vec<u8> {
        match self {
            Self::Extent(part) => part.to_document(),
            answer => document(answer, None),
        }
    }

    /// Reads the reply of another site to a question; a refusal is an error. Within a cluster a reply may have any shape.
    ///
    /// # Errors
    /// The site refused, or the document is invalid or has too many parts.
    pub fn parse_to(question: &Question, document: &[u8]) -> Result<Self, Refusal> {
        if matches!(question, Question::Extent(_))
            && let Some(part) = ExtentPart::parse(document)?
        {
            return Ok(Self::Extent(part));
        }
        if !matches!(question, Question::Cluster(_)) {
            head::bounded(document, ANSWER_VALUES_MAX).map_err(unread)?;
        }
        Self::parse(document)
    }

    /// Reads a document; a refusal is an error.
    ///
    /// # Errors
    /// The site refused, or the document is invalid.
    pub fn parse(document: &[u8]) -> Result<Self, Refusal> {
        let head = Head::of(document).map_err(|error| unread(error.to_string()))?;
        if head.version != ASK_VERSION {
            return Err(Refusal::new(
                code::BROKEN,
                format!(
                    "the reply has version {}, which this node does not know; update the older one of the two nodes",
                    head.version
                ),
            ));
        }
        match serde_json::from_slice(document) {
            Ok(Self::Refused(refusal)) => Err(refusal),
            Ok(answer) => Ok(answer),
            Err(error) => Err(unread(error.to_string())),
        }
    }
}

fn unread(error: String) -> Refusal {
    Refusal::new(code::BROKEN, format!("the reply cannot be read: {error}"))
}

fn document<T: Serialize>(body: &T, mandate: Option<&Mandate>) -> Vec<u8> {
    let sent = Sent {
        version: ASK_VERSION,
        mandate,
        body,
    };
    // Plain fields always serialize.
    serde_json::to_vec(&sent).unwrap_or_default()
}

/// Called repeatedly during the work on a question, with the number of finished steps. `false` stops the work.
pub type GoOn<'a> = dyn FnMut(u64) -> bool + 'a;

/// Answers questions about jobs that a node runs for others, and about access for those jobs.
pub trait AnswerJobs: Send + Sync {
    /// Answers a question of the node with this identity. `may` checks whether the asker may read a path, export first, or write to it, at
    /// a given time.
    ///
    /// # Errors
    /// The asker lacks the right, or the node refuses the job.
    fn answer(
        &self,
        asker: &str,
        mandate: Option<&Mandate>,
        question: &Question,
        may: &MayUse<'_>,
    ) -> Result<Answer, Refusal>;
}

/// Checks whether the asker may read a path, or write to it, at a given time.
pub type MayUse<'a> = dyn Fn(&Text, bool, Timestamp) -> Result<(), Refusal> + 'a;

/// Asks sites for a node.
pub trait AskSites: Send + Sync {
    /// Asks a site, or this node itself if no site is given. Blocks until the answer arrives.
    ///
    /// # Errors
    /// The site cannot be reached, or refuses.
    fn ask(
        &self,
        site: Option<&Peer>,
        question: &Question,
        go_on: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        self.ask_for(None, site, question, go_on)
    }

    /// Asks for a job of another node, if there is a mandate. The site then answers by the rights of that job alone.
    ///
    /// # Errors
    /// The site cannot be reached, refuses, or knows no mandates.
    fn ask_for(
        &self,
        mandate: Option<&Mandate>,
        site: Option<&Peer>,
        question: &Question,
        go_on: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal>;

    /// Checks whether this node can connect to a site, by any of its addresses and within this time.
    ///
    /// # Errors
    /// The refusal lists the result for each address. Only this node's operator may see it: another party may have chosen the addresses.
    fn reach(&self, site: &Peer, within: Duration) -> Result<(), Refusal>;
}

#[cfg(test)]
mod tests;
