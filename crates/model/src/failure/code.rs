//! A code as programs exchange and keep it: a code of the catalogue, or the word of another version of this program.
//! Does not know the meaning of foreign words.

use std::cmp::Ordering;
use std::fmt::{self, Display};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::FailureCode;

/// A code from a peer or a file. A word outside the catalogue is kept unchanged.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Code(Form);

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Form {
    Known(FailureCode),
    /// A word that is not in the catalogue.
    Foreign(Box<str>),
}

impl Code {
    /// The code of a word from a peer or a file.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        let foreign = || Form::Foreign(word.into());
        Self(FailureCode::parse(word).map_or_else(foreign, Form::Known))
    }

    /// The row of the catalogue, where it has one.
    #[must_use]
    pub fn known(&self) -> Option<FailureCode> {
        match &self.0 {
            Form::Known(code) => Some(*code),
            Form::Foreign(_) => None,
        }
    }

    /// The word for programs.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Form::Known(code) => code.as_str(),
            Form::Foreign(word) => word,
        }
    }

    /// Whether `codes` contains this code.
    #[must_use]
    pub fn is_one_of(&self, codes: &[FailureCode]) -> bool {
        self.known().is_some_and(|code| codes.contains(&code))
    }
}

impl Default for Code {
    fn default() -> Self {
        FailureCode::Other.into()
    }
}

impl From<FailureCode> for Code {
    fn from(code: FailureCode) -> Self {
        Self(Form::Known(code))
    }
}

impl PartialEq<FailureCode> for Code {
    fn eq(&self, code: &FailureCode) -> bool {
        self.known() == Some(*code)
    }
}

impl PartialOrd for Code {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

// Lists are in the order of the words, which is the same in all versions.
impl Ord for Code {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|word| Self::of_word(&word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_another_version_survives() {
        for word in ["no_space", "waiting", "of_a_newer_version", ""] {
            let json = serde_json::to_string(word).unwrap();
            let code: Code = serde_json::from_str(&json).unwrap();
            assert_eq!(code.as_str(), word);
            assert_eq!(serde_json::to_string(&code).unwrap(), json);
            assert_eq!(code.known(), FailureCode::parse(word));
        }
        assert!(Code::of_word("no_space") == FailureCode::NoSpace);
    }
}
