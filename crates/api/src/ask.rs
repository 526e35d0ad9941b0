//! The documents by which one node asks another about places and jobs, and the trait of whatever asks for a node.
//! Opens no connection and touches no file: `node` does.
//!
//! A document is JSON with a version, a name and its content: `{"version":1,"ask":"list","with":{…}}`. A question for a job of another
//! node names it: `"for":{"asker":…,"job":…}`. Unknown fields are passed over, and an unknown question is refused as `unsupported`.

mod claims;
mod cluster;
mod jobs;
mod places;
mod refusal;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::grant::Mandate;
use crate::job::Text;
use crate::rest::Timestamp;

pub use claims::{ClaimPlace, LEASE_MS, MEMBERS_MAX, Mark, ReleaseClaim, RenewClaim};
pub use cluster::{
    Announce, AnswerCluster, CLUSTER_QUESTIONS, Carried, ClusterAnswer, ClusterQuestion,
    JoinCluster, Joined, KnownNode,
};
pub use jobs::{
    GrantJob, JobPast, JobSeen, ManifestAfter, ManifestPiece, PastAfter, ReachSite, RunJob,
    RunningJob, SteerJob, SteerVerb,
};
pub use places::{
    CleanPlace, Cleaned, EntryKind, EntryView, ExportRoom, FailedPlace, KeptFiles, LIST_MAX,
    ListPlace, Listing, MakeDirectory, NAMED_MAX, RemovePlace, Removed, RenamePlace, mode_text,
};
pub use refusal::{Refusal, code};

/// Version of the documents. A document of another version is not understood.
pub const ASK_VERSION: u32 = 1;

/// A question to a site.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "ask", content = "with", rename_all = "snake_case")]
pub enum Question {
    /// Which exports the asker may use, and how much room they have.
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
    /// Removes temporary files that nobody needs.
    Clean(CleanPlace),
    /// Claims a destination for the members of a job.
    Claim(ClaimPlace),
    /// Lets a claim last longer.
    Renew(RenewClaim),
    /// Ends a claim.
    Release(ReleaseClaim),
    /// The nodes of the asked site that serve a place, for who may ask about it.
    Nodes {
        /// Path of the place, export first.
        path: Text,
        /// Identity of a node that has named the asked one as of its site. The asked node refuses unless it knows that one likewise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<String>,
    },
    /// Whether the asked node can connect to another site, for a job of the asker with one end here.
    Reach(ReachSite),
    /// Lets another site in for a job.
    Grant(GrantJob),
    /// Takes back what was granted for a job.
    Revoke {
        /// Asker's id of the job.
        job: String,
        /// Identities that keep theirs. A node of an older version takes back all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        keep: Vec<String>,
    },
    /// Runs a job for the asker.
    Run(Box<RunJob>),
    /// How far a job is that runs for the asker.
    Job {
        /// Asker's id of the job.
        job: String,
    },
    /// Steers a job that runs for the asker.
    Steer(SteerJob),
    /// The next part of the log and of the samples of a job that runs for the asker, or of any for a node of the same cluster.
    Past(PastAfter),
    /// The next part of the manifest of a job, for a node of the same cluster.
    Manifest(ManifestAfter),
    /// How far the jobs are that the asked node runs, for a node of the same cluster.
    Running {},
    /// A question within a cluster.
    Cluster(Box<ClusterQuestion>),
}

/// Names of the questions that this version knows.
pub const QUESTIONS: [&str; 21] = [
    "exports",
    "list",
    "stat",
    "make_directory",
    "remove",
    "rename",
    "clean",
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
    "cluster",
];

/// What a site answers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "reply", content = "with", rename_all = "snake_case")]
pub enum Answer {
    /// Exports that the asker may use.
    Exports(Vec<ExportRoom>),
    /// A page of a directory.
    Listing(Listing),
    /// One entry; also the entry that was made or renamed.
    Entry(EntryView),
    /// What was removed.
    Removed(Removed),
    /// What was cleaned.
    Cleaned(Cleaned),
    /// Nodes of a site, each as others reach it.
    Nodes(Vec<Peer>),
    /// It is done, and there is nothing to say.
    Done {},
    /// A job that runs for the asker.
    Job(Box<JobSeen>),
    /// A part of the log and of the samples of such a job.
    Past(JobPast),
    /// A part of the manifest of a job.
    Manifest(ManifestPiece),
    /// Jobs that the asked node runs.
    Running(Vec<RunningJob>),
    /// An answer within a cluster.
    Cluster(Box<ClusterAnswer>),
    /// Why the question was not answered.
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

#[derive(Deserialize)]
struct Head {
    version: u32,
    #[serde(default)]
    ask: String,
    #[serde(default, rename = "for")]
    mandate: Option<Mandate>,
}

impl Question {
    /// Whether the question is about jobs and access for them, not about entries at places.
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
            | Self::Cluster(_) => true,
        }
    }

    /// Whether it is answered at once, so that its connection may be used again though nobody waits for the answer any more.
    #[must_use]
    pub fn is_short(&self) -> bool {
        match self {
            Self::Cluster(question) => question.is_short(),
            _ => false,
        }
    }

    /// Whether it does no harm to ask again where nobody knows if the question arrived.
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

    /// The same, naming the job that it serves.
    #[must_use]
    pub fn to_document_for(&self, mandate: Option<&Mandate>) -> Vec<u8> {
        document(self, mandate)
    }

    /// Whether a question for a job of another node makes sense: it is about the place of that job, gives or takes the access of the job, or
    /// comes from a node that goes on with the job for the asker.
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
            | Self::Reach { .. }
            | Self::Manifest(_)
            | Self::Running {}
            | Self::Cluster(_) => false,
        }
    }

    /// Reads the job of another node that a document names, if it names one.
    ///
    /// # Errors
    /// The document cannot be read, or names no job.
    pub fn mandate_of(document: &[u8]) -> Result<Option<Mandate>, Refusal> {
        let invalid = |what: String| Refusal::new(code::INVALID, format!("for: {what}"));
        let head: Head =
            serde_json::from_slice(document).map_err(|error| invalid(error.to_string()))?;
        if let Some(mandate) = &head.mandate {
            mandate
                .check()
                .map_err(|error| invalid(error.to_string()))?;
        }
        Ok(head.mandate)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// The document is not understood; the refusal is for the asker.
    pub fn parse(document: &[u8]) -> Result<Self, Refusal> {
        let invalid = |error: serde_json::Error| {
            Refusal::new(
                code::INVALID,
                format!("the question cannot be read: {error}"),
            )
        };
        let head: Head = serde_json::from_slice(document).map_err(invalid)?;
        if head.version != ASK_VERSION || !QUESTIONS.contains(&head.ask.as_str()) {
            return Err(Refusal::new(
                code::UNSUPPORTED,
                format!(
                    "this node does not know the question {:?} of version {}; update the older one of the two nodes",
                    head.ask, head.version
                ),
            ));
        }
        serde_json::from_slice(document).map_err(invalid)
    }
}

impl Answer {
    /// The answer as a document.
    #[must_use]
    pub fn to_document(&self) -> Vec<u8> {
        document(self, None)
    }

    /// Reads a document; a refusal is an error.
    ///
    /// # Errors
    /// The site refused, or the document is not understood.
    pub fn parse(document: &[u8]) -> Result<Self, Refusal> {
        let broken = |what: String| Refusal::new(code::BROKEN, what);
        let head: Head = serde_json::from_slice(document)
            .map_err(|error| broken(format!("the reply cannot be read: {error}")))?;
        if head.version != ASK_VERSION {
            return Err(broken(format!(
                "the reply has version {}, which this node does not know; update the older one of the two nodes",
                head.version
            )));
        }
        match serde_json::from_slice(document) {
            Ok(Self::Refused(refusal)) => Err(refusal),
            Ok(answer) => Ok(answer),
            Err(error) => Err(broken(format!("the reply cannot be read: {error}"))),
        }
    }
}

fn document<T: Serialize>(body: &T, mandate: Option<&Mandate>) -> Vec<u8> {
    let sent = Sent {
        version: ASK_VERSION,
        mandate,
        body,
    };
    // Plain fields: it always becomes JSON.
    serde_json::to_vec(&sent).unwrap_or_default()
}

/// A site as a node reaches it.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Peer {
    /// Name of the site, for messages.
    pub name: String,
    /// Addresses to dial, in this order, each as `HOST[:PORT]`.
    pub addresses: Vec<String>,
    /// Identity that the site must prove.
    pub identity: String,
}

/// Called again and again while a question is worked at, with the steps that are done; `false` gives the work up.
pub type GoOn<'a> = dyn FnMut(u64) -> bool + 'a;

/// Answers questions about jobs that a node runs for others, and about access for them.
pub trait AnswerJobs: Send + Sync {
    /// Answers a question of the node with this identity. `may` says whether the asker may read a path, export first, or write to it,
    /// at a moment.
    ///
    /// # Errors
    /// The asker has not the right, or the node refuses the job.
    fn answer(
        &self,
        asker: &str,
        mandate: Option<&Mandate>,
        question: &Question,
        may: &MayUse<'_>,
    ) -> Result<Answer, Refusal>;
}

/// Whether the asker may read a path, or write to it, at a moment.
pub type MayUse<'a> = dyn Fn(&Text, bool, Timestamp) -> Result<(), Refusal> + 'a;

/// Asks sites for a node.
pub trait AskSites: Send + Sync {
    /// Asks a site, or this node itself where no site is given. Blocks until the answer is there.
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

    /// Asks for a job of another node, if there is a mandate: the site answers by the rights of that job alone.
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

    /// Whether this node can connect to a site, by any of its addresses and within this time.
    ///
    /// # Errors
    /// Says what became of each address. That is for this node's operator: the addresses may be another's choice.
    fn reach(&self, site: &Peer, within: Duration) -> Result<(), Refusal>;
}

#[cfg(test)]
mod tests;
