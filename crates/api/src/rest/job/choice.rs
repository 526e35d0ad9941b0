//! Owns the words by which a new job chooses how nodes share its work and where destinations get their data.
//! Decides nothing about jobs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether a job is divided among several nodes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Divide {
    /// If a site has several nodes.
    #[default]
    Auto,
    /// Even if each site has one node.
    Always,
    /// Never.
    Never,
}

impl Divide {
    /// All words, in this order.
    pub const WORDS: [&str; 3] = ["auto", "always", "never"];

    /// The value of this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "auto" => Some(Self::Auto),
            "always" => Some(Self::Always),
            "never" => Some(Self::Never),
            _ => None,
        }
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "this is how serde asks whether to leave a field out"
    )]
    pub(super) fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// Whether a destination takes its data from another destination of the job that is complete.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Relay {
    /// Never: all data comes from the sources.
    #[default]
    Never,
    /// After a failed attempt, if the submitter may read at the other destination.
    Auto,
    /// From the beginning: the source sends one copy, and complete destinations pass it on.
    First,
}

impl Relay {
    /// All words, in this order.
    pub const WORDS: [&str; 3] = ["never", "auto", "first"];

    /// The value of this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "never" => Some(Self::Never),
            "auto" => Some(Self::Auto),
            "first" => Some(Self::First),
            _ => None,
        }
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "this is how serde asks whether to leave a field out"
    )]
    pub(super) fn is_never(&self) -> bool {
        *self == Self::Never
    }
}
