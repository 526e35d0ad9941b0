//! The documents by which one node asks another about places and jobs, and the trait of whatever asks for a node.
//! Opens no connection and touches no file: `node` does.
//!
//! A document is JSON with a version, a name and its content: `{"version":1,"ask":"list","with":{…}}`. Fields that are not known
//! are passed over, and a question that is not known is refused as `unsupported`, so that neighbouring versions can talk.

mod claims;
mod jobs;
mod places;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::job::Text;
use crate::rest::Timestamp;

pub use claims::{ClaimPlace, LEASE_MS, MEMBERS_MAX, ReleaseClaim, RenewClaim};
pub use jobs::{GrantJob, JobSeen, RunJob, SteerJob, SteerVerb};
pub use places::{
    CleanPlace, Cleaned, EntryKind, EntryView, ExportRoom, FailedPlace, KeptFiles, LIST_MAX,
    ListPlace, Listing, MakeDirectory, NAMED_MAX, RemovePlace, Removed, RenamePlace, mode_text,
};

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
    /// Whether the asked node can connect to another site.
    Reach {
        /// The other site.
        peer: Peer,
    },
    /// Lets another site in for a job.
    Grant(GrantJob),
    /// Takes back all that was granted for a job.
    Revoke {
        /// Asker's id of the job.
        job: String,
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
}

/// Names of the questions that this version knows.
const QUESTIONS: [&str; 16] = [
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
    "reach",
    "grant",
    "revoke",
    "run",
    "job",
    "steer",
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
    /// It is done, and there is nothing to say.
    Done {},
    /// A job that runs for the asker.
    Job(Box<JobSeen>),
    /// Why the question was not answered.
    Refused(Refusal),
}

/// Why a question was not answered, for programs and for people.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Refusal {
    /// One of [`code`].
    pub code: String,
    /// What happened to which place or peer, whose fault it is, and what to do next.
    pub message: String,
    /// The same question may be answered later.
    #[serde(default)]
    pub retryable: bool,
}

/// Codes of refusals.
pub mod code {
    /// The other node does not know the question.
    pub const UNSUPPORTED: &str = "unsupported";
    /// The document makes no sense.
    pub const INVALID: &str = "invalid";
    /// The asker is known and may not do this.
    pub const NOT_GRANTED: &str = "not_granted";
    /// The asker's identity is not known there.
    pub const UNKNOWN_IDENTITY: &str = "unknown_identity";
    /// There is no such export.
    pub const NO_SUCH_EXPORT: &str = "no_such_export";
    /// The path leaves the export.
    pub const OUTSIDE: &str = "outside";
    /// No such job runs for the asker.
    pub const NO_SUCH_JOB: &str = "no_such_job";
    /// The claim has ended, was never set, or has another epoch by now.
    pub const NO_SUCH_CLAIM: &str = "no_such_claim";
    /// Nothing stands at the path.
    pub const NOT_FOUND: &str = "not_found";
    /// The path is no directory.
    pub const NOT_A_DIRECTORY: &str = "not_a_directory";
    /// Something stands at the path already, or a directory is not empty.
    pub const EXISTS: &str = "exists";
    /// The file system of the other node does not allow it.
    pub const PERMISSION: &str = "permission";
    /// The file system of the other node is full.
    pub const NO_SPACE: &str = "no_space";
    /// The file system of the other node failed.
    pub const IO: &str = "io";
    /// Too many questions at once.
    pub const BUSY: &str = "busy";
    /// The asker gave the work up.
    pub const GIVEN_UP: &str = "given_up";
    /// The site cannot be reached.
    pub const UNREACHABLE: &str = "unreachable";
    /// The site was reached, and then did not answer as it should.
    pub const BROKEN: &str = "broken";
}

impl Refusal {
    /// A refusal that will not go away by itself.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            retryable: false,
        }
    }

    /// A refusal that may go away by itself.
    pub fn later(code: &str, message: impl Into<String>) -> Self {
        Self {
            retryable: true,
            ..Self::new(code, message)
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

#[derive(Serialize)]
struct Sent<'a, T> {
    version: u32,
    #[serde(flatten)]
    body: &'a T,
}

#[derive(Deserialize)]
struct Head {
    version: u32,
    #[serde(default)]
    ask: String,
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
            Self::Reach { .. }
            | Self::Grant(_)
            | Self::Revoke { .. }
            | Self::Run(_)
            | Self::Job { .. }
            | Self::Steer(_) => true,
        }
    }

    /// The question as a document.
    #[must_use]
    pub fn to_document(&self) -> Vec<u8> {
        document(self)
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
        document(self)
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

fn document<T: Serialize>(body: &T) -> Vec<u8> {
    let sent = Sent {
        version: ASK_VERSION,
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
    fn answer(&self, asker: &str, question: &Question, may: &MayUse<'_>)
    -> Result<Answer, Refusal>;
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
    ) -> Result<Answer, Refusal>;

    /// Whether this node can connect to a site.
    ///
    /// # Errors
    /// Says what became of each address.
    fn reach(&self, site: &Peer) -> Result<(), Refusal>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::ClaimId;

    #[test]
    fn questions_and_answers_are_read_as_they_are_written() {
        let question = Question::List(ListPlace {
            path: Text(b"data/\xff".to_vec()),
            cursor: Some(Text::from("a")),
            limit: 5,
        });
        let document = question.to_document();
        assert_eq!(Question::parse(&document), Ok(question));
        let exports = Question::Exports {};
        assert_eq!(Question::parse(&exports.to_document()), Ok(exports));
        let answer = Answer::Exports(Vec::new());
        assert_eq!(Answer::parse(&answer.to_document()), Ok(answer));
        let no = Refusal::later(code::BUSY, "too many");
        let refused = Answer::Refused(no.clone());
        assert_eq!(Answer::parse(&refused.to_document()), Err(no));
    }

    #[test]
    fn questions_of_other_versions_are_unsupported_and_nonsense_is_invalid() {
        for (text, expected) in [
            (r#"{"version":2,"ask":"list","with":{}}"#, code::UNSUPPORTED),
            (
                r#"{"version":1,"ask":"fly","with":{"a":1}}"#,
                code::UNSUPPORTED,
            ),
            (r#"{"version":1}"#, code::UNSUPPORTED),
            (r#"{"version":1,"ask":"list","with":{}}"#, code::INVALID),
            (r#"{"ask":"list"}"#, code::INVALID),
            ("{", code::INVALID),
            ("", code::INVALID),
        ] {
            let refusal = Question::parse(text.as_bytes()).expect_err(text);
            assert_eq!(refusal.code, expected, "{text}: {refusal}");
        }
        let more = r#"{"version":1,"ask":"stat","new":1,"with":{"path":"a","new":[]}}"#;
        assert!(Question::parse(more.as_bytes()).is_ok());
    }

    #[test]
    fn every_question_is_known() {
        let path = || Text::from("a");
        let peer = || Peer {
            name: "b".to_owned(),
            addresses: vec!["h:1".to_owned()],
            identity: "gw1-a".to_owned(),
        };
        let all = [
            Question::Exports {},
            Question::List(ListPlace::default()),
            Question::Stat { path: path() },
            Question::MakeDirectory(MakeDirectory::default()),
            Question::Remove(RemovePlace::default()),
            Question::Rename(RenamePlace::default()),
            Question::Clean(CleanPlace::default()),
            Question::Claim(ClaimPlace {
                claim: ClaimId([1; 16]),
                epoch: 1,
                path: path(),
                members: vec!["gw1-a".to_owned()],
                lease_ms: 1_000,
            }),
            Question::Renew(RenewClaim {
                claim: ClaimId([1; 16]),
                epoch: 1,
                lease_ms: 1_000,
            }),
            Question::Release(ReleaseClaim {
                claim: ClaimId([1; 16]),
                epoch: 1,
            }),
            Question::Reach { peer: peer() },
            Question::Grant(GrantJob {
                job: "1".to_owned(),
                identity: "gw1-a".to_owned(),
                paths: vec![path()],
                write: true,
                until: Timestamp(5),
            }),
            Question::Revoke {
                job: "1".to_owned(),
            },
            Question::Run(Box::new(RunJob {
                job: "1".to_owned(),
                again: true,
                request: Some("r-1".to_owned()),
                new: serde_json::from_str(r#"{"sources":["here:/a"],"destination":"b:/c"}"#)
                    .expect("a job"),
                other: Some(peer()),
            })),
            Question::Job {
                job: "1".to_owned(),
            },
            Question::Steer(SteerJob {
                verb: Some(SteerVerb::Pause),
                ..SteerJob::default()
            }),
        ];
        assert_eq!(all.len(), QUESTIONS.len());
        for question in all {
            assert_eq!(Question::parse(&question.to_document()), Ok(question));
        }
    }
}
