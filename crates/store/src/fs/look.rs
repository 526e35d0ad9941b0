//! Looks at one name: what it is, where it points, what goes with it.
//! Does not find names (`walk` does) and does not go into directories.

use super::attributes::meta_of;
use super::directories::Trouble;
use super::scan::is_put_aside;
use super::walk::Found;
use super::xattr::Reader;
use crate::error::StoreError;
use crate::extended::{Extended, Lost};
use crate::meta::{Kind, Meta};
use crate::path::RelPath;
use crate::storage::{Choice, Pick, ScanEntry, ScanItem};
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType};

/// Looks at what is chosen and appends it to `out`; `None` if it is not.
pub(super) fn look_chosen(
    found: Found<'_>,
    choice: Option<&dyn Choice>,
    reader: Option<&mut Reader>,
    out: &mut Vec<ScanItem>,
) -> Result<Option<Pick>, StoreError> {
    let path = found.path()?;
    let expected = found.kind == FileType::Directory;
    let known = found.kind != FileType::Unknown;
    let mut pick = match choice {
        Some(choice) if known => choice.pick(&path, expected),
        _ => Pick::Take,
    };
    if pick == Pick::Leave {
        return Ok(None);
    }
    let looked = look(found.directory, found.name, reader, false)
        .map_err(|trouble| trouble.at("look at", &path))?;
    let is_directory = looked.meta.kind == Kind::Directory;
    if let Some(choice) = choice
        && (!known || is_directory != expected)
    {
        // Told only now, or replaced by another kind since it was listed: another rule may hold for it.
        pick = choice.pick(&path, is_directory);
    }
    if pick == Pick::Leave {
        return Ok(None);
    }
    out.push(ScanItem::Entry(looked.at(path)));
    Ok(Some(pick))
}

/// What goes with a name alone.
pub(super) fn look_beside(
    reader: &mut Reader,
    directory: impl AsFd,
    name: &[u8],
) -> Result<(Extended, Lost), Trouble> {
    let directory = directory.as_fd();
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(reader.read(directory, name, meta_of(&stat).kind)?)
}

/// All of an entry but its path.
pub(super) struct Looked {
    pub(super) meta: Meta,
    target: Vec<u8>,
    extended: Extended,
    lost: Lost,
}

impl Looked {
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

/// Looks at one name; `is_start` if it is where a scan begins.
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
