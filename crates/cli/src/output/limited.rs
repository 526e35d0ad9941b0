//! What limits a transfer, as it is told: the stage for programs, figure and advice for people.
//! Finds nothing out; the engine does.

use serde::Serialize;

/// The stage that limits, and how it shows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Limited {
    /// As in `destination storage`.
    pub(crate) stage: String,
    pub(crate) told: LimitedTold,
}

/// What is told of it beside its name.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct LimitedTold {
    /// As in `290 MB/s written, writers busy 97 % of the time`.
    pub(crate) figure: String,
    /// What could be done.
    pub(crate) advice: Option<String>,
}

impl Limited {
    pub(crate) fn of(finding: godwit_engine::Finding) -> Self {
        Self {
            stage: finding.stage.as_str().to_owned(),
            told: LimitedTold {
                figure: finding.figure,
                advice: finding.advice,
            },
        }
    }

    /// As [`Self::of`], where both ends are here: no network is between them that could limit anything.
    pub(crate) fn of_local(finding: godwit_engine::Finding) -> Option<Self> {
        (finding.stage != godwit_engine::Bottleneck::Network).then(|| Self::of(finding))
    }

    /// For people: the limit is the user's own.
    pub(super) fn line(&self) -> String {
        let stage = match self.stage.as_str() {
            "limit" => "--limit",
            other => other,
        };
        if self.told.figure.is_empty() {
            return stage.to_owned();
        }
        format!("{stage}: {}", self.told.figure)
    }
}
