//! Owns what one generation says: files with their digests, ignored patterns.
//! Reads and writes no XML.

use crate::digest::{Digest, Format};

/// How a digest came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The first digest of the file.
    Original,
    /// It is equal to an earlier one, or was taken together with one that is.
    Verified,
    /// It differs from an earlier one.
    Failed,
}

impl Action {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Verified => "verified",
            Self::Failed => "failed",
        }
    }
}

/// The work that a generation records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The data was checked where it lies.
    InPlace,
    /// The data was copied.
    Transfer,
}

impl Process {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::InPlace => "in-place",
            Self::Transfer => "transfer",
        }
    }
}

/// The program that writes a generation.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The name of the machine.
    pub host: String,
}

/// A file of a generation that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileEntry {
    /// The path below the directory of the history.
    pub(crate) path: String,
    pub(crate) size: Option<u64>,
    /// The path in earlier generations.
    pub(crate) previous: Option<String>,
    pub(crate) digests: Vec<(Format, Digest)>,
    /// One of the digests failed: the entry says nothing about the right contents.
    pub(crate) has_failed: bool,
}

/// A generation that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) files: Vec<FileEntry>,
    pub(crate) ignored: Vec<String>,
}
