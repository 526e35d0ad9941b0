//! Owns ASC MHL histories: the folder `ascmhl` of a data set, with a generation of digests for each copy or check.
//! Moves no data, and knows neither transfers nor peers.
//!
//! The format is ASC MHL 2.0 of the American Society of Cinematographers: <https://github.com/ascmitc/mhl-specification>.
//! A **generation** is an XML file with the digests of all files. The **chain** lists the generations with the C4 digest of each.
//! A directory below may have a separate history, which the history above refers to.

mod chain;
mod digest;
mod generation;
mod history;
mod place;
mod read;
mod rejoin;
mod seal;
mod tree;
mod verify;
mod write;

pub use digest::{Digest, Format};
pub use generation::{Action, Process, Tool};
pub use rejoin::{Chains, rejoin};
pub use seal::{Sealed, seal, seal_real};
pub use verify::{Checked, Recorded};

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The folder of a history.
pub const FOLDER: &str = "ascmhl";

/// The reason for which a history is neither read nor written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused something.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file of a history is malformed or not the one that the chain lists.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The fault, as a sentence without its subject.
        reason: String,
    },
    /// The caller has set its stop flag.
    #[error("interrupted")]
    Stopped,
}

impl Error {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    fn malformed(path: &Path, reason: impl Into<String>) -> Self {
        Self::Malformed {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}

/// The caller's view of the work: a flag that stops it, a receiver of the bytes that it reads, and the memory that it may take.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// The work ends when this flag is true.
    pub stop: &'a AtomicBool,
    /// Is called by any thread with each amount of bytes.
    pub read: &'a (dyn Fn(u64) + Sync),
    /// Most bytes for the files of the histories, and as many for those of the data set. The counts are low: the work takes up to sixteen
    /// times as much memory.
    pub room: u64,
}

/// The room of a program that works for its own user.
pub const ROOM_MAX: u64 = 8 << 30;

/// The flag of work that nothing stops.
static GOES_ON: AtomicBool = AtomicBool::new(false);

/// The watch of short work that must not be left half done.
fn to_the_end() -> Watch<'static> {
    Watch {
        stop: &GOES_ON,
        read: &|_| {},
        room: ROOM_MAX,
    }
}

impl Watch<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A file of a history. Its owner chooses its length, which may take years to read, so the caller can stop that.
struct Reading<'a> {
    file: File,
    watch: &'a Watch<'a>,
}

impl Read for Reading<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.watch.is_stopped() {
            true => Err(io::Error::other("interrupted")),
            false => self.file.read(buffer),
        }
    }
}

/// The names in a text: of the files of a generation, or of the generations of a chain.
///
/// # Errors
/// The text is neither. The error is a sentence without its subject.
pub fn names_in(text: &[u8]) -> Result<Vec<String>, String> {
    match read::generation(text, ROOM_MAX) {
        Ok(generation) => {
            let files = generation.files.into_iter();
            Ok(files.map(|file| file.path).collect())
        }
        Err(reason) => match read::chain(text) {
            Ok(links) => Ok(links.into_iter().map(|link| link.file).collect()),
            Err(_) => Err(reason),
        },
    }
}

/// A difference between a data set and its history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// The file is in the history alone.
    Missing,
    /// Another kind of entry has the name of the file.
    Type,
    /// The file has another size.
    Size {
        /// Bytes in the history.
        recorded: u64,
        /// Bytes now.
        found: u64,
    },
    /// The file has another digest.
    Content {
        /// The kind of digest.
        format: Format,
        /// The digest in the history.
        recorded: Digest,
        /// The digest now.
        found: Digest,
    },
    /// The file cannot be read.
    Unread(String),
    /// The file is not in the history.
    Extra,
}
