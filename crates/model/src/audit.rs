//! Owns how an audited request ended, with its one spelling in the log, the state and the API.
//! Writes no line: `state` does.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::failure::Code;

/// How an audited request ended. As text, it is `ok` or the code of the refusal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AuditOutcome {
    /// The request was carried out.
    Done,
    /// The request was refused. Lines of other versions may have codes that are not in the catalogue.
    Refused(Code),
}

const DONE: &str = "ok";

impl AuditOutcome {
    /// The outcome of a text from a line or a peer.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        match word {
            DONE => Self::Done,
            _ => Self::Refused(Code::of_word(word)),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Done => DONE,
            Self::Refused(code) => code.as_str(),
        }
    }
}

impl Serialize for AuditOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for AuditOutcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|word| Self::of_word(&word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureCode;

    #[test]
    fn an_outcome_of_another_version_survives() {
        for word in ["ok", "permission", "of_an_older_version", ""] {
            let json = serde_json::to_string(word).unwrap();
            let outcome: AuditOutcome = serde_json::from_str(&json).unwrap();
            assert_eq!(outcome == AuditOutcome::Done, word == "ok");
            assert_eq!(serde_json::to_string(&outcome).unwrap(), json);
        }
        let denied = AuditOutcome::of_word("permission");
        assert_eq!(
            denied,
            AuditOutcome::Refused(FailureCode::Permission.into())
        );
    }
}
