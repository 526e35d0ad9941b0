//! Looks at one name or at one path: kind, link target, attributes. Does not find names (`walk` does) and
//! does not enter directories.

use super::attributes::meta_of;
use super::directories::{Directories, Directory, Trouble};
use super::scan::is_put_aside;
use super::walk::Found;
use super::xattr::Reader;
use crate::error::{StoreError, StoreErrorKind};
use crate::extended::{Extended, Lost};
use crate::meta::{Kind, Meta};
use crate::path::RelPath;
use crate::storage::{Choice, Look, Pick, ScanEntry, ScanItem};
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::sync::Arc;

/// Looks at a chosen name, and appends it to `out` with its path in `memory`; `None` if the name is not
/// chosen.
pub(super) fn look_chosen(
    found: Found<'_>,
    memory: Vec<u8>,
    choice: Option<&dyn Choice>,
    reader: Option<&mut Reader>,
    out: &mut Vec<ScanItem>,
) -> Result<Option<Pick>, StoreError> {
    let path = found.path_in(memory)?;
    let read = |path: &RelPath| {
        look(found.directory, found.name, reader, false)
            .map_err(|trouble| trouble.at(OPERATION, path))
    };
    choose((path, found.kind), choice, read, out)
}

/// Chooses a name of this kind according to the listing, and appends it to `out` with the metadata that `look` returns.
pub(super) fn choose(
    (path, kind): (RelPath, FileType),
    choice: Option<&dyn Choice>,
    look: impl FnOnce(&RelPath) -> Result<Looked, StoreError>,
    out: &mut Vec<ScanItem>,
) -> Result<Option<Pick>, StoreError> {
    let expected = kind == FileType::Directory;
    let known = kind != FileType::Unknown;
    let mut pick = match choice {
        Some(choice) if known => choice.pick(&path, expected),
        _ => Pick::Take,
    };
    if pick == Pick::Leave {
        return Ok(None);
    }
    let looked = look(&path)?;
    let is_directory = looked.meta.kind == Kind::Directory;
    if let Some(choice) = choice
        && (!known || is_directory != expected)
    {
        // The kind is known only now, or has changed since the listing: another rule may apply.
        pick = choice.pick(&path, is_directory);
    }
    if pick == Pick::Leave {
        return Ok(None);
    }
    out.push(ScanItem::Entry(looked.at(path)));
    Ok(Some(pick))
}

/// Extended attributes of a name in a directory.
pub(super) fn look_beside(
    reader: &mut Reader,
    directory: impl AsFd,
    name: &[u8],
) -> Result<(Extended, Lost), Trouble> {
    let directory = directory.as_fd();
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(reader.read(directory, name, meta_of(&stat).kind)?)
}

/// An entry without its path.
#[derive(Clone, Debug)]
pub(super) struct Looked {
    pub(super) meta: Meta,
    target: Vec<u8>,
    extended: Extended,
    lost: Lost,
}

impl Looked {
    /// The state of an entry that a scan has found.
    pub(super) fn of(entry: &ScanEntry) -> Self {
        Self {
            meta: entry.meta,
            target: entry.target.clone(),
            extended: entry.extended.clone(),
            lost: entry.lost,
        }
    }

    /// About how much memory it occupies, in bytes.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + self.target.len() + self.extended.weight()
    }

    /// The entry with its path.
    pub(super) fn at(self, path: RelPath) -> ScanEntry {
        ScanEntry {
            path,
            meta: self.meta,
            target: self.target,
            extended: self.extended,
            lost: self.lost,
        }
    }
}

/// Looks at one name; `is_start` if a scan begins there.
pub(super) fn look(
    directory: impl AsFd,
    name: &[u8],
    reader: Option<&mut Reader>,
    is_start: bool,
) -> Result<Looked, Trouble> {
    let directory = directory.as_fd();
    let meta = meta_of(&rustix::fs::statat(
        directory,
        name,
        AtFlags::SYMLINK_NOFOLLOW,
    )?);
    let target = match meta.kind {
        Kind::Symlink => rustix::fs::readlinkat(directory, name, Vec::new())?.into_bytes(),
        _ => Vec::new(),
    };
    let (extended, lost) = match reader {
        Some(reader) if is_start || !is_put_aside(&meta) => {
            reader.read(directory, name, meta.kind)?
        }
        _ => Default::default(),
    };
    Ok(Looked {
        meta,
        target,
        extended,
        lost,
    })
}

const OPERATION: &str = "look at";

/// The metadata of the entry at `path`; `None` if there is no entry.
pub(super) fn stat(directories: &Directories, path: &RelPath) -> Result<Option<Meta>, StoreError> {
    unless_absent(directories.within(OPERATION, path, stat_in))
}

fn stat_in(directory: &Directory, name: &[u8]) -> Result<Option<Meta>, Trouble> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(meta_of(&stat))),
        // The entry is absent, unless its directory was removed.
        Err(Errno::NOENT) if !directory.is_gone() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn unless_absent(found: Result<Option<Meta>, StoreError>) -> Result<Option<Meta>, StoreError> {
    match found {
        Err(error) if error.kind == StoreErrorKind::NotFound => Ok(None),
        found => found,
    }
}

/// Looks at many paths in turn, most of them in the same directory as the previous one.
pub(super) struct InRow<'a> {
    directories: &'a Directories,
    last: Option<(Vec<u8>, Arc<Directory>)>,
}

impl<'a> InRow<'a> {
    pub(super) fn new(directories: &'a Directories) -> Self {
        Self {
            directories,
            last: None,
        }
    }

    fn directory(&mut self, path: &[u8]) -> Result<&Directory, Errno> {
        let last = match self.last.take() {
            Some(last) if last.0 == path => last,
            _ => (path.to_vec(), self.directories.get(path)?.0),
        };
        Ok(&self.last.insert(last).1)
    }
}

impl Look for InRow<'_> {
    fn stat(&mut self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        let Some((parent, name)) = path.split() else {
            return stat(self.directories, path);
        };
        match self
            .directory(parent)
            .map(|directory| stat_in(directory, name))
        {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(_)) => {
                // The error may come from the kept handle.
                self.last = None;
                stat(self.directories, path)
            }
            Err(errno) => unless_absent(Err(StoreError::from_errno(OPERATION, path, errno))),
        }
    }
}
