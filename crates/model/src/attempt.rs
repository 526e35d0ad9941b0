//! Owns how an attempt of a job ended, with its one spelling in the state and the API.
//! Ends no attempt: `state` does.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::JobState;

/// How an attempt of a job ended. As text, it is the next state of the job, `backoff` or `restart`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AttemptOutcome {
    /// The job went to this state.
    State(JobState),
    /// The attempt failed, and another one follows.
    Backoff,
    /// The node of the attempt was lost, or stopped.
    Restart,
    /// The word of another version.
    Foreign(Box<str>),
}

impl AttemptOutcome {
    /// The text of [`Self::Backoff`].
    pub const BACKOFF: &str = "backoff";
    /// The text of [`Self::Restart`].
    pub const RESTART: &str = "restart";

    /// The outcome of a text from the state or a peer.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        match word {
            Self::BACKOFF => Self::Backoff,
            Self::RESTART => Self::Restart,
            _ => JobState::from_name(word).map_or_else(|| Self::Foreign(word.into()), Self::State),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::State(state) => state.name(),
            Self::Backoff => Self::BACKOFF,
            Self::Restart => Self::RESTART,
            Self::Foreign(word) => word,
        }
    }
}

impl Serialize for AttemptOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for AttemptOutcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|word| Self::of_word(&word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_of_another_version_survives() {
        for word in [
            "complete",
            "queued",
            "backoff",
            "restart",
            "of_a_newer_version",
        ] {
            let json = serde_json::to_string(word).unwrap();
            let outcome: AttemptOutcome = serde_json::from_str(&json).unwrap();
            let is_foreign = matches!(outcome, AttemptOutcome::Foreign(_));
            assert_eq!(is_foreign, word == "of_a_newer_version");
            assert_eq!(serde_json::to_string(&outcome).unwrap(), json);
        }
    }
}
