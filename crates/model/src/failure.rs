//! Codes of failures, refusals and reasons: each with its meaning, its culprit, its advice and its exit code.
//! Prints nothing, and decides nothing about retries.

mod catalogue;
mod code;

use std::fmt::{self, Display};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use catalogue::CATALOGUE;
pub use catalogue::FailureCode;
pub use code::Code;

/// Kind of thing that fails with a code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// A whole job or command.
    Job,
    /// One entry of a data set; the other entries continue.
    Entry,
    /// A request of a user, or a question of another node.
    Request,
    /// Nothing has to fail: the code says why a job is in its state.
    Reason,
}

/// The party that must act before a retry can work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Culprit {
    /// The sending side.
    Source,
    /// The receiving side.
    Destination,
    /// The path between the two sides.
    Network,
    /// The other side, in both directions of data.
    Peer,
    /// The user who gave the command.
    User,
    /// The machine that reports the failure.
    ThisMachine,
    /// The authors of the program.
    Bug,
    /// The side that is reported with the failed entry.
    NamedSide,
}

impl Culprit {
    /// The word for programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Destination => "destination",
            Self::Network => "network",
            Self::Peer => "peer",
            Self::User => "user",
            Self::ThisMachine => "this_machine",
            Self::Bug => "bug",
            Self::NamedSide => "named_side",
        }
    }
}

/// Whether the same job may succeed later with nothing changed by anyone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Retry {
    /// A retry may work.
    Transient,
    /// A retry does not work.
    Permanent,
}

impl Retry {
    /// The word for programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
        }
    }
}

/// The exit code of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exit {
    /// Everything that was asked for is done.
    Complete = 0,
    /// Nothing useful was done, or the outcome is unknown.
    Failed = 1,
    /// The command or a setting makes no sense.
    Usage = 2,
    /// Some entries failed and were listed; all others are complete.
    Partial = 3,
    /// The peer has another identity than expected, or does not let us in.
    Authentication = 4,
    /// Stopped before the end; the same command resumes it.
    Interrupted = 5,
}

impl From<FailureCode> for Exit {
    fn from(code: FailureCode) -> Self {
        code.row().exit
    }
}

/// One row of the catalogue.
struct Row {
    word: &'static str,
    scope: Scope,
    /// The number on the wire.
    number: Option<u32>,
    culprit: Culprit,
    retry: Retry,
    exit: Exit,
    meaning: &'static str,
    advice: &'static str,
}

impl FailureCode {
    /// The word for programs; it never changes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.row().word
    }

    /// The kind of thing that fails with this code.
    #[must_use]
    pub fn scope(self) -> Scope {
        self.row().scope
    }

    /// The number: an error code of the wire for a job, a fault code for an entry; `None` for a code that travels as text.
    #[must_use]
    pub fn number(self) -> Option<u32> {
        self.row().number
    }

    /// The code of a number; an unknown number has a separate code.
    #[must_use]
    pub fn of_number(scope: Scope, number: u32) -> Self {
        let is_it = |code: &&Self| code.scope() == scope && code.number() == Some(number);
        let unknown = match scope {
            Scope::Job | Scope::Request | Scope::Reason => Self::PeerFailed,
            Scope::Entry => Self::Other,
        };
        Self::ALL.iter().find(is_it).copied().unwrap_or(unknown)
    }

    /// Whose fault it is.
    #[must_use]
    pub fn culprit(self) -> Culprit {
        self.row().culprit
    }

    /// Whether a retry can help.
    #[must_use]
    pub fn retry(self) -> Retry {
        self.row().retry
    }

    /// The exit code of a command that ends with it.
    #[must_use]
    pub fn exit(self) -> Exit {
        self.row().exit
    }

    /// The meaning of the code, in one sentence.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        self.row().meaning
    }

    /// The next step for the user, in one sentence.
    #[must_use]
    pub fn advice(self) -> &'static str {
        self.row().advice
    }

    /// Whether the job was stopped, and the same job resumes it.
    #[must_use]
    pub fn is_interruption(self) -> bool {
        self.exit() == Exit::Interrupted
    }

    fn row(self) -> &'static Row {
        &CATALOGUE[self as usize]
    }
}

impl Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for FailureCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for FailureCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Self::parse(&word)
            .ok_or_else(|| de::Error::custom(format!("{word} is no code of a failure")))
    }
}
