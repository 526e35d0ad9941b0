//! Owns the rule for gathered sources: where their contents go, and which entry of one name stays.
//! Gathers nothing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::job::JobView;

/// Where the contents of gathered sources go, and which entry stays if several have one name.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Merge {
    /// Each source goes below the name of its site, so names do not meet.
    #[default]
    BySite,
    /// All go into the destination itself. An entry that differs from one with its name is refused, and named as failed.
    Refuse,
    /// All go into the destination itself. Of files with one name the newest stays.
    Newest,
}

impl Merge {
    /// All words, in this order.
    pub const WORDS: [&str; 3] = ["by-site", "refuse", "newest"];

    /// The value of this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "by-site" => Some(Self::BySite),
            "refuse" => Some(Self::Refuse),
            "newest" => Some(Self::Newest),
            _ => None,
        }
    }

    /// The rule as a sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::BySite => "Each source is below the name of its site.",
            Self::Refuse => {
                "All sources are in one directory. An entry that differs from one with its name was refused."
            }
            Self::Newest => {
                "All sources are in one directory. Of files with one name the newest stays."
            }
        }
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "this is how serde asks whether to leave a field out"
    )]
    pub(super) fn is_by_site(&self) -> bool {
        *self == Self::BySite
    }
}

/// The place that distinguishes a job of a parent: its destination, or its source if all have one destination.
#[must_use]
pub fn own_place<'a>(job: &'a JobView, all: &[JobView]) -> &'a str {
    let is_merged = all.len() > 1 && all.iter().all(|one| one.destination == job.destination);
    let source = job.sources.first().filter(|_| is_merged);
    source.unwrap_or(&job.destination)
}
