//! Owns the storage in a file system: every call is relative to a directory handle beneath the root and follows no link.
//! Does not schedule: calls block the thread that makes them.

mod acl;
mod apply;
mod attributes;
mod direct;
mod directories;
mod gate;
mod kept;
mod look;
mod medium;
mod mount;
mod names;
mod options;
mod pages;
mod parallel_scan;
mod present;
mod read;
mod root;
mod scan;
mod special;
mod sweep;
mod sync;
mod syncs;
mod walk;
mod write;
mod xattr;

use crate::error::{StoreError, StoreErrorKind};
use crate::extended::{Extended, Lost};
use crate::meta::{FinalMeta, Kind, Meta, Timestamp};
use crate::path::{RelPath, TempName};
use crate::storage::{
    Capabilities, Choice, Create, Known, Look, May, ReadFile, Replace, Scan, Storage, SurveyItem,
    WriteFile,
};
pub use attributes::Confine;
use attributes::{Allowed, mode_of};
use directories::Directories;
pub use options::FsOptions;
pub use pages::{ScanPages, ScanSeat};
use read::FsReadFile;
pub use root::{DirectoryId, RootDirectory};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use sync::SyncState;
pub use syncs::Syncs;
use walk::Walk;
use write::FsWriteFile;
use xattr::{Reader, Wanted};

/// A tree in a file system.
#[derive(Debug)]
pub struct FsStorage {
    directories: Arc<Directories>,
    spill: PathBuf,
    options: FsOptions,
    sync: SyncState,
}

impl FsStorage {
    /// Opens the tree at the directory `root`; the path of the root itself may lead through links. `spill_dir` is the directory for
    /// nameless files of scans that do not fit in memory.
    pub fn open(root: &Path, confine: Confine, spill_dir: &Path) -> Result<Self, StoreError> {
        Self::open_with(root, spill_dir, FsOptions::new(confine))
    }

    /// Opens the tree at the directory `root` with these options.
    pub fn open_with(
        root: &Path,
        spill_dir: &Path,
        options: FsOptions,
    ) -> Result<Self, StoreError> {
        Self::below(RootDirectory::followed(root)?, spill_dir, options)
    }

    /// The tree below a directory that is open already.
    pub fn below(
        root: RootDirectory,
        spill_dir: &Path,
        options: FsOptions,
    ) -> Result<Self, StoreError> {
        let (syncs, most) = (options.syncs.clone(), options.directories_max);
        let lasting = Arc::clone(&options.lasting);
        let directories = Directories::below(root, options.openat2, most, syncs, lasting)
            .map_err(|error| StoreError::from_errno("open", &RelPath::root(), error))?;
        Ok(Self {
            directories: Arc::new(directories),
            spill: spill_dir.to_owned(),
            options,
            sync: SyncState::default(),
        })
    }

    fn allowed(&self) -> Allowed {
        Allowed {
            set_id: self.options.allow_set_id,
            owner: self.options.allow_owner,
            privileged_xattrs: self.options.allow_privileged_xattrs,
        }
    }

    /// The attributes to read of an entry beyond its basic metadata.
    fn wanted(&self) -> Wanted {
        Wanted {
            xattrs: self.options.read_xattrs,
            acls: self.options.read_acls,
            // An unprivileged user can read some of these attributes but cannot set them again.
            privileged: self.options.allow_privileged_xattrs
                && rustix::process::geteuid().is_root(),
        }
    }
}

impl Storage for FsStorage {
    fn free_bytes(&self) -> Option<u64> {
        self.directories.free_bytes()
    }

    fn origin(&self) -> Option<[u8; 16]> {
        self.options.origin
    }

    fn scan_chosen(
        &self,
        start: &RelPath,
        choice: Option<Arc<dyn Choice>>,
    ) -> Result<Box<dyn Scan>, StoreError> {
        self.scan_shared(start, choice, None)
    }

    fn scan_shared(
        &self,
        start: &RelPath,
        choice: Option<Arc<dyn Choice>>,
        seat: Option<&ScanSeat>,
    ) -> Result<Box<dyn Scan>, StoreError> {
        let scan = scan::FsScan::begin(
            &self.directories,
            start,
            choice,
            (&self.spill, self.options.spill_bytes),
            self.wanted(),
            seat,
        )?;
        Ok(Box::new(scan))
    }

    fn stat(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        look::stat(&self.directories, path)
    }

    fn look(&self) -> Box<dyn Look + '_> {
        Box::new(look::InRow::new(&self.directories))
    }

    fn extended(&self, path: &RelPath) -> Result<(Extended, Lost), StoreError> {
        let mut reader = Reader::new(self.wanted());
        self.directories
            .within("read the attributes of", path, |directory, name| {
                look::look_beside(&mut reader, directory, name)
            })
    }

    fn read_link(&self, path: &RelPath) -> Result<Vec<u8>, StoreError> {
        self.directories
            .within(
                "read the link",
                path,
                |directory, name| match rustix::fs::readlinkat(directory, name, Vec::new()) {
                    Ok(target) => Ok(target.into_bytes()),
                    Err(Errno::INVAL) => Err(StoreErrorKind::TypeConflict.into()),
                    Err(error) => Err(error.into()),
                },
            )
    }

    fn open(&self, path: &RelPath) -> Result<Box<dyn ReadFile>, StoreError> {
        let (fd, _) = self.directories.within("open", path, read::open_regular)?;
        Ok(Box::new(FsReadFile::new(fd, path, self.options.direct)?))
    }

    fn reads_apart(&self, path: &RelPath) -> bool {
        let parent = || path.parent().unwrap_or_default();
        let own = self.directories.get(path.as_bytes());
        own.or_else(|_| self.directories.get(parent().as_bytes()))
            .is_ok_and(|(directory, _)| !medium::has_to_seek(&*directory))
    }

    fn read_whole(&self, path: &RelPath, buffer: &mut [u8]) -> Result<(Meta, usize), StoreError> {
        self.directories.within("read", path, |directory, name| {
            read::read_whole(directory, name, buffer)
        })
    }

    fn read_known(
        &self,
        path: &RelPath,
        known: Known,
        buffer: &mut [u8],
    ) -> Result<usize, StoreError> {
        self.directories.within("read", path, |directory, name| {
            read::read_known(directory, name, known, buffer)
        })
    }

    fn make_directory(&self, path: &RelPath, mode_now: u32) -> Result<bool, StoreError> {
        let meta = FinalMeta {
            mode: mode_now,
            ..FinalMeta::default()
        };
        names::make_directory(&self.directories, path, mode_of(self.allowed().mode(&meta)))
    }

    fn open_directory(&self, path: &RelPath) -> Result<(), StoreError> {
        if rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let opened = self
            .directories
            .within("open", path, names::open_directory)?;
        if opened {
            // The kept handle was opened with fewer rights.
            self.directories.forget(path.as_bytes());
        }
        Ok(())
    }

    fn make_symlink(
        &self,
        path: &RelPath,
        target: &[u8],
        meta: &FinalMeta,
        temp: &TempName,
        replace: Replace,
    ) -> Result<Lost, StoreError> {
        let finish = (self.allowed(), replace, self.options.rename_noreplace);
        self.directories
            .renaming("make the link", path, |directory, name| {
                names::make_symlink(directory, name, target, meta, temp, finish)
            })
    }

    fn make_special(
        &self,
        path: &RelPath,
        kind: Kind,
        rdev: u64,
        meta: &FinalMeta,
        temp: &TempName,
        replace: Replace,
    ) -> Result<Lost, StoreError> {
        let what = special::Special {
            kind,
            rdev,
            devices_allowed: self.options.allow_devices,
        };
        let finish = (self.allowed(), replace, self.options.rename_noreplace);
        self.directories
            .renaming(what.operation(), path, |directory, name| {
                special::make(directory, name, &what, meta, temp, finish)
            })
    }

    fn make_link(
        &self,
        path: &RelPath,
        first: &RelPath,
        temp: &TempName,
        replace: Replace,
    ) -> Result<(), StoreError> {
        names::make_link(&self.directories, path, first, temp, replace)
    }

    fn create(
        &self,
        path: &RelPath,
        temp: &TempName,
        how: Create,
        bytes: Option<u64>,
    ) -> Result<Box<dyn WriteFile>, StoreError> {
        self.sync.begin(temp);
        let fd = self.directories.within("create", path, |directory, _| {
            write::create(directory, temp, how, bytes)
        });
        let file = fd
            .and_then(|fd| FsWriteFile::new(fd, path, self.allowed(), self.options.direct))
            .inspect_err(|_| {
                // Another writer here may have opened the shared file, and must still learn of failed syncs.
                if how != Create::Shared {
                    self.sync.end(temp);
                }
            })?;
        Ok(Box::new(file))
    }

    fn write_whole(
        &self,
        path: &RelPath,
        temp: &TempName,
        meta: &FinalMeta,
        content: &[u8],
    ) -> Result<Lost, StoreError> {
        self.sync.begin(temp);
        let exact = self.options.umask_cleared;
        let result = self.directories.within("write", path, |directory, _| {
            write::write_whole(directory, temp, meta, content, self.allowed(), exact)
        });
        result.inspect_err(|_| self.sync.end(temp))
    }

    fn write_named(
        &self,
        path: &RelPath,
        temp: &TempName,
        meta: &FinalMeta,
        content: &[u8],
        replace: Replace,
        sync: bool,
    ) -> Result<(Lost, bool), StoreError> {
        let exact = self.options.umask_cleared;
        let noreplace = self.options.rename_noreplace;
        let result = self.directories.renaming("write", path, |directory, name| {
            let at_once = !sync || directory.is_in_memory();
            if !at_once {
                self.sync.begin(temp);
            }
            let lost = write::write_whole(directory, temp, meta, content, self.allowed(), exact)?;
            if at_once {
                names::commit(directory, name, temp, replace, noreplace).inspect_err(|_| {
                    // Only the first error is reported; a leftover is swept later.
                    let _ = write::unlink(directory, temp);
                })?;
            }
            Ok((lost, at_once))
        });
        result.inspect_err(|_| self.sync.end(temp))
    }

    fn sync_batch(&self, files: &[(&RelPath, TempName)], bytes: u64) -> Result<(), StoreError> {
        self.sync.sync_files(&self.directories, files, bytes)
    }

    fn commit(&self, path: &RelPath, temp: &TempName, replace: Replace) -> Result<(), StoreError> {
        let noreplace = self.options.rename_noreplace;
        self.directories
            .renaming("rename", path, |directory, name| {
                names::commit(directory, name, temp, replace, noreplace)
            })?;
        self.sync.end(temp);
        Ok(())
    }

    fn sync_directories(&self, directories: &[RelPath]) -> Result<(), StoreError> {
        self.sync.sync_directories(&self.directories, directories)
    }

    fn open_temp(&self, path: &RelPath, temp: &TempName) -> Result<Box<dyn ReadFile>, StoreError> {
        let open = |directory: &directories::Directory, _: &[u8]| {
            write::open_temp(directory, temp, OFlags::RDONLY)
        };
        let fd = self.directories.within("open", path, open)?;
        Ok(Box::new(FsReadFile::new(fd, path, self.options.direct)?))
    }

    fn discard(&self, path: &RelPath, temp: &TempName) -> Result<(), StoreError> {
        self.sync.end(temp);
        let removed = self.directories.within("remove", path, |directory, _| {
            Ok(write::unlink(directory, temp)?)
        });
        match removed {
            Err(error) if error.kind == StoreErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn set_directory_meta(&self, path: &RelPath, meta: &FinalMeta) -> Result<Lost, StoreError> {
        self.directories
            .within("set the attributes of", path, |directory, name| {
                names::set_directory_meta(directory, name, meta, self.allowed())
            })
    }

    fn time_of(&self, path: &RelPath) -> Result<Option<Timestamp>, StoreError> {
        present::time_of(&self.directories, path)
    }

    fn restore_mtime(&self, path: &RelPath, mtime: Timestamp) -> Result<(), StoreError> {
        present::restore_mtime(&self.directories, path, mtime)
    }

    fn sweep(
        &self,
        start: &RelPath,
        tag: u64,
        keep: &dyn Fn(&RelPath) -> bool,
    ) -> Result<u64, StoreError> {
        let mut walk = Walk::new(&self.directories, &self.spill, self.options.spill_bytes);
        sweep::sweep(&mut walk, &self.directories, start, tag, keep)
    }

    fn survey(
        &self,
        start: &RelPath,
        each: &mut dyn FnMut(SurveyItem) -> bool,
    ) -> Result<(), StoreError> {
        let mut walk = Walk::new(&self.directories, &self.spill, self.options.spill_bytes);
        present::survey(&mut walk, &self.directories, start, each)
    }

    fn is_mount(&self, path: &RelPath) -> bool {
        present::is_mount_at(&self.directories, path)
    }

    fn lasts(&self, path: &RelPath) -> bool {
        self.directories.lasts(path)
    }

    fn names_in(&self, path: &RelPath, each: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
        present::names_in(&self.directories, path, each)
    }

    fn agrees(&self, path: &RelPath, there: &Meta, wanted: &FinalMeta) -> bool {
        let extended = &wanted.extended;
        let plain = extended.xattrs.is_none() && extended.acls.is_none();
        present::agrees(there, wanted, self.allowed())
            && (plain || matches!(self.extended(path), Ok((found, _)) if extended.is_like(&found)))
    }

    fn set_meta(&self, path: &RelPath, meta: &FinalMeta) -> Result<Lost, StoreError> {
        self.directories
            .within("set the attributes of", path, |directory, name| {
                present::set_meta(directory, name, meta, self.allowed())
            })
    }

    fn sync_attributes(&self) -> Result<(), StoreError> {
        self.sync.sync_whole(&self.directories)
    }

    fn remove_entry(&self, path: &RelPath, is_directory: bool) -> Result<(), StoreError> {
        present::remove_entry(&self.directories, path, is_directory)
    }

    fn rename(&self, from: &RelPath, to: &RelPath, replace: Replace) -> Result<(), StoreError> {
        names::rename(&self.directories, from, to, replace)
    }

    fn scratch(&self, path: &RelPath) -> Result<std::fs::File, StoreError> {
        write::scratch(&self.directories, path)
    }

    fn hold_to(&self, may: May, tag: u64, base: &RelPath) {
        self.directories.gate().set(may, tag, base);
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            holes: true,
            symlinks: true,
            hard_links: true,
            durable: true,
        }
    }
}
