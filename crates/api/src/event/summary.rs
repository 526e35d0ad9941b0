//! Owns the last event of a job: its outcome and its figures.
//! Counts nothing itself.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Blame, names};
use crate::rest::{Amount, Bottleneck, Moved};

/// The last event of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Summary {
    /// The summary of a copy or a synchronisation.
    Transfer(Box<TransferSummary>),
    /// The summary of a verification.
    Verify(VerifySummary),
}

/// The outcome of a transfer.
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
    /// The outcome as a word.
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

/// A figure of each side; `None` for a side without the figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sides<T> {
    /// The sending side.
    pub source: Option<T>,
    /// The receiving side.
    pub destination: Option<T>,
}

/// The limit of a transfer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Limited {
    /// The stage.
    pub stage: Bottleneck,
    /// Figure and advice, for people.
    pub evidence: Evidence,
}

/// Figure and advice beside a stage.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Figure, such as `290 MB/s written, writers busy 97 % of the time`.
    pub figure: String,
    /// Advice on what would help.
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

/// The cipher of a transfer's connections, and its library.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Encryption {
    /// The cipher of TLS that both ends agreed on.
    pub cipher: String,
    /// The library that implements it at the end that reports: the one that connected, or the node that recorded the transfer.
    pub library: String,
    /// Contents are sent in clear. The cipher protects only names, digests and control data.
    #[serde(skip_serializing_if = "is_false")]
    pub plain_contents: bool,
}

impl Encryption {
    /// The cipher and its library in words, if a summary of a job names them.
    #[must_use]
    pub fn words_of(summary: &Value) -> Option<String> {
        let reported = Self::deserialize(summary.get("encryption")?).ok()?;
        (!reported.cipher.is_empty()).then(|| reported.to_string())
    }
}

impl fmt::Display for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let but = match self.plain_contents {
            true => ", contents plain",
            false => "",
        };
        write!(f, "{} by {}{but}", self.cipher, self.library)
    }
}

/// A manifest that was written.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct ManifestDone {
    /// Path of the file.
    #[serde(flatten, with = "names::path")]
    pub path: Vec<u8>,
    /// Number of lines of entries in the file.
    pub entries: u64,
    /// The digest of the manifest, as in its last lines.
    pub digest: String,
    /// The size of the file.
    #[serde(default)]
    pub bytes: u64,
}

/// The outcome and the figures of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransferSummary {
    /// The outcome.
    pub status: Status,
    /// The failure, if any.
    #[serde(flatten)]
    pub blame: Blame,
    /// Bytes of file contents delivered, without holes; `None` if only the end of the input would reveal it.
    pub bytes: Option<u64>,
    /// Files delivered.
    pub files: u64,
    /// Entries that existed already.
    pub skipped: u64,
    /// Files among these that other transfers of the same job had delivered: nodes of a divided job, or earlier attempts. The bytes include
    /// parts of files that this attempt resumes.
    #[serde(default, skip_serializing_if = "Amount::is_none")]
    pub delivered: Amount,
    /// Entries that the user left out. A directory counts once, with all its contents.
    pub excluded: u64,
    /// Entries of which only the metadata was set.
    pub adjusted: u64,
    /// Entries that existed only at the destination and were removed.
    pub deleted: u64,
    /// Entries that failed. Each was reported before.
    pub failed: u64,
    /// File contents that were sent more than once, over all runs.
    pub resent_bytes: u64,
    /// Seconds since the job began.
    pub seconds: f64,
    /// Processor time.
    pub cpu_seconds: Sides<f64>,
    /// Peak resident memory.
    pub max_rss_bytes: Sides<u64>,
    /// The stage that limited the transfer for most of the time.
    #[serde(flatten, with = "names::bottleneck")]
    pub bottleneck: Option<Limited>,
    /// The cipher of the connections; None within one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// A dry run: the figures say what would have been done.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
    /// The manifest that was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<ManifestDone>,
    /// Entries that arrived without a part of their metadata.
    pub not_kept: NotKept,
    /// The transfer began, so there is something to sum up. Never sent to others.
    #[serde(skip)]
    pub began: bool,
}

impl TransferSummary {
    /// Amounts that the transfer moved.
    #[must_use]
    pub fn moved(&self) -> Moved {
        Moved {
            bytes: self.bytes.unwrap_or(0),
            files: self.files,
            bytes_again: self.resent_bytes,
        }
    }
}

/// Result of a verification.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The copy matches the manifest.
    Same,
    /// Entries differ, are missing or extra.
    Different,
    /// The verification was stopped.
    #[default]
    Interrupted,
}

impl Verdict {
    /// The result as a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Different => "different",
            Self::Interrupted => "interrupted",
        }
    }
}

/// The outcome and the figures of a verification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifySummary {
    /// The result.
    pub status: Verdict,
    /// The failure, if any.
    #[serde(flatten)]
    pub blame: Blame,
    /// Entries checked.
    pub entries: u64,
    /// Files among them.
    #[serde(default)]
    pub files: u64,
    /// Contents read.
    pub bytes: u64,
    /// Entries that differ from the manifest.
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
