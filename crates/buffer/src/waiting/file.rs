//! Owns the words about one waiting file, and about all of them: phase, trouble, sums.
//! Orders none.

use std::sync::Arc;
use std::time::Duration;

use crate::extent::FileKey;

/// The phase of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The file drains as soon as its turn comes.
    Ready,
    /// The last drain of the file failed. The next try is at this time.
    Later(Duration),
    /// The file drains.
    Draining,
    /// A later file of its name is being written.
    Held,
    /// The file was tried often enough, and waits for a user.
    Aside,
}

impl Phase {
    /// The name in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Later(_) => "later",
            Self::Draining => "draining",
            Self::Held => "held",
            Self::Aside => "aside",
        }
    }
}

/// The meaning of a failed drain for the log of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// No other file is in trouble.
    First,
    /// Other files are in trouble, too.
    Again,
    /// The file was put aside.
    Aside,
}

/// A file that waits, as users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingFile {
    /// The file.
    pub file: Arc<FileKey>,
    /// The words that say where it goes.
    pub what: Arc<[u8]>,
    /// Since when it is durable.
    pub since: Duration,
    /// Its phase.
    pub phase: Phase,
    /// Drains that failed.
    pub tries: u32,
    /// Why the last one failed.
    pub reason: Option<String>,
}

/// Sums over all files that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files whose last drain failed, and those put aside.
    pub troubled: u64,
    /// Files put aside.
    pub aside: u64,
    /// Since when the oldest one waits.
    pub oldest: Option<Duration>,
}
