//! Owns the removal of temporary files that an earlier transfer left. Does not know which transfers
//! still need their files; the tag identifies the transfer.

use super::directories::Directories;
use super::walk::{Found, Step, Walk};
use crate::error::{StoreError, StoreErrorKind};
use crate::path::{RelPath, TempName};
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

/// Removes the temporary files of `tag` at and below `start`, except those that `keep` names.
pub(super) fn sweep(
    walk: &mut Walk,
    directories: &Directories,
    start: &RelPath,
    tag: u64,
    keep: &dyn Fn(&RelPath) -> bool,
) -> Result<u64, StoreError> {
    let temp = TempName::new(tag, start);
    let above = start.parent().unwrap_or_default();
    let mut removed = 0;
    if !above.join(temp.as_bytes()).is_ok_and(|path| keep(&path)) {
        let beside = directories.within("sweep", start, |directory, _| {
            Ok(remove(directory, temp.as_bytes())?)
        });
        removed += u64::from(unless_absent(beside)?.unwrap_or(false));
    }
    let kind = directories.within("sweep", start, |directory, name| {
        Ok(kind_of(directory, name)?)
    });
    if unless_absent(kind)? == Some(FileType::Directory) {
        walk.enter(start)?;
    }
    let mut failure = None;
    // Directories that held removed entries.
    let mut ours = Vec::new();
    loop {
        let found = match walk.next() {
            Step::End => break,
            // A directory that we may not list contains no files of ours.
            Step::Fault(error)
                if matches!(
                    error.kind,
                    StoreErrorKind::Permission | StoreErrorKind::NotFound
                ) =>
            {
                continue;
            }
            Step::Fault(error) => {
                failure.get_or_insert(error);
                continue;
            }
            Step::Name(found) => found,
        };
        match sweep_found(found, tag, keep) {
            Ok(Swept::Removed) => removed += 1,
            Ok(Swept::Below(path)) => {
                walk.enter(&path)?;
                if path
                    .file_name()
                    .is_some_and(|name| TempName::is_ours(name, tag))
                {
                    ours.push(path);
                }
            }
            Ok(Swept::Other) => {}
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    for path in ours.iter().rev() {
        directories.forget(path.as_bytes());
        let gone = directories.within("sweep", path, |directory, name| {
            Ok(rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?)
        });
        match unless_absent(gone) {
            // The directory holds entries that we do not know.
            Err(error) if error.kind == StoreErrorKind::Exists => {}
            Err(error) => failure = failure.or(Some(error)),
            Ok(gone) => removed += u64::from(gone.is_some()),
        }
    }
    failure.map_or(Ok(removed), Err)
}

enum Swept {
    Removed,
    Below(RelPath),
    Other,
}

fn sweep_found(
    found: Found<'_>,
    tag: u64,
    keep: &dyn Fn(&RelPath) -> bool,
) -> Result<Swept, StoreError> {
    let kind = match found.kind {
        FileType::Unknown => kind_of(found.directory, found.name).unwrap_or(FileType::Unknown),
        kind => kind,
    };
    if kind == FileType::Directory {
        return found.path().map(Swept::Below);
    }
    if !TempName::is_ours(found.name, tag) || keep(&found.path()?) {
        return Ok(Swept::Other);
    }
    match remove(found.directory, found.name) {
        Ok(true) => Ok(Swept::Removed),
        Ok(false) => Ok(Swept::Other),
        Err(errno) => Err(StoreError::from_errno("remove", &found.path()?, errno)),
    }
}

fn remove(directory: impl AsFd, name: &[u8]) -> Result<bool, Errno> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

fn kind_of(directory: impl AsFd, name: &[u8]) -> Result<FileType, Errno> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

fn unless_absent<T>(result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Err(error) if error.kind == StoreErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}
