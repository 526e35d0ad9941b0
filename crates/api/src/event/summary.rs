//! The last event of a job: how it ended, and its figures.
//! Counts nothing itself.

use serde::{Deserialize, Serialize};

use super::{Blame, names};

/// The last event of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Summary {
    /// Of a copy or a synchronisation.
    Transfer(Box<TransferSummary>),
    /// Of a verification.
    Verify(VerifySummary),
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Everything arrived.
    Complete,
    /// Some entries failed; all others arrived.
    Partial,
    /// The transfer was stopped; the same command resumes it.
    Interrupted,
    /// The transfer could not be done.
    #[default]
    #[serde(other)]
    Failed,
}

impl Status {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// A figure of each side; `None` where that side cannot tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sides<T> {
    /// The sending side.
    pub source: Option<T>,
    /// The receiving side.
    pub destination: Option<T>,
}

/// What limits a transfer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Limited {
    /// The stage, as in `destination storage`.
    pub stage: String,
    /// How it shows, for people.
    pub told: LimitedTold,
}

/// Figure and advice beside a stage.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct LimitedTold {
    /// As in `290 MB/s written, writers busy 97 % of the time`.
    pub figure: String,
    /// What could be done.
    pub advice: Option<String>,
}

/// Entries that arrived without a part of their metadata, by the kind of that part.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct NotKept {
    /// The owner.
    pub owner: u64,
    /// The group.
    pub group: u64,
    /// Set-user-id and set-group-id bits.
    pub set_id: u64,
    /// One or more `user.*` attributes.
    pub xattrs: u64,
    /// One or more `security.*` or `trusted.*` attributes.
    pub security_xattrs: u64,
    /// An access list.
    pub acls: u64,
    /// The link to a name in another source.
    pub hard_link: u64,
    /// The time.
    #[serde(default)]
    pub time: u64,
    /// The mode.
    #[serde(default)]
    pub mode: u64,
}

/// A manifest that was written.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct ManifestDone {
    /// The file.
    #[serde(flatten, with = "names::path")]
    pub path: Vec<u8>,
    /// The lines of entries in it.
    pub entries: u64,
    /// The digest of the manifest, as its last lines have it.
    pub digest: String,
    /// The size of the file.
    #[serde(default)]
    pub bytes: u64,
}

/// How a transfer ended, and its figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransferSummary {
    /// How it ended.
    pub status: Status,
    /// Why it did not end well.
    #[serde(flatten)]
    pub blame: Blame,
    /// File contents delivered, without holes; `None` where only the end of the input would tell.
    pub bytes: Option<u64>,
    /// Files delivered.
    pub files: u64,
    /// Entries that were there already.
    pub skipped: u64,
    /// Entries that the user left out; a directory counts once, with all that is in it.
    pub excluded: u64,
    /// Entries of which only the metadata was set.
    pub adjusted: u64,
    /// Entries that only the destination had, and that were removed.
    pub deleted: u64,
    /// Entries that failed, each told before.
    pub failed: u64,
    /// File contents that were sent more than once, over all runs.
    pub resent_bytes: u64,
    /// Seconds since the job began.
    pub seconds: f64,
    /// Processor time.
    pub cpu_seconds: Sides<f64>,
    /// Peak resident memory.
    pub max_rss_bytes: Sides<u64>,
    /// What limited the transfer most.
    #[serde(flatten, with = "names::bottleneck")]
    pub bottleneck: Option<Limited>,
    /// Nothing was done: all figures say what would be.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
    /// The manifest that was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<ManifestDone>,
    /// Entries that arrived without a part of their metadata.
    pub not_kept: NotKept,
    /// The transfer came to a beginning, so that there is something to sum up; never sent to others.
    #[serde(skip)]
    pub began: bool,
}

/// What a verification found.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The copy is what the manifest says.
    Same,
    /// Entries differ, are missing or extra.
    Different,
    /// The verification was stopped.
    #[default]
    Interrupted,
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Different => "different",
            Self::Interrupted => "interrupted",
        }
    }
}

/// How a verification ended, and its figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifySummary {
    /// What was found.
    pub status: Verdict,
    /// Why it did not end well.
    #[serde(flatten)]
    pub blame: Blame,
    /// Entries checked.
    pub entries: u64,
    /// Files among them.
    #[serde(default)]
    pub files: u64,
    /// Contents read.
    pub bytes: u64,
    /// Entries that are not what they should be.
    pub different: u64,
    /// Entries that are not in the manifest.
    pub extra: u64,
    /// Seconds since the job began.
    pub seconds: f64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "this is how serde asks whether to leave a field out"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}
