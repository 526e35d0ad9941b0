//! Owns the bytes of a buffer in a directory: the file `log`, and a file for each used slot below `extents`. The format of the log is that
//! of a device.
//!
//! The file of a slot is removed when the slot is freed, so that the file system gets its space back. Everything is opened
//! below one handle, without links:
//! the owner of the directory may exchange its names at any time.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::backing::Backing;
use crate::device::{Access, Device, read_exact, write_all};
use crate::extent::SlotIndex;
use crate::layout::Layout;

/// The file with superblocks and log.
const LOG: &str = "log";
/// The directory of the slots.
const EXTENTS: &str = "extents";
/// Slots of a directory below it.
const SLOTS_EACH: u32 = 1024;
/// Up to this many files are synced one by one. For more files, the whole file system is synced.
const SYNC_EACH_MAX: usize = 16;

/// Levels of directories below `extents` that are removed; a buffer has one.
const LEVELS_MAX: u32 = 8;

/// A directory with the bytes of a volume.
#[derive(Debug)]
pub struct Directory {
    handle: File,
    log: Device,
}

impl Directory {
    /// Opens the buffer in a directory.
    ///
    /// # Errors
    /// `NotFound` if there is no buffer. Errors of its log are those of [`Device::open`].
    pub fn open(path: &Path, access: Access) -> io::Result<Self> {
        // The user may name the directory by a link.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?);
        let log = Device::open_below(&handle, LOG, access)?;
        Ok(Self { handle, log })
    }

    /// Makes an empty log in a directory, which is made if it is missing.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make(path: &Path) -> io::Result<Self> {
        match fs::DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        match rustix::fs::openat(&handle, LOG, flags, Mode::from_raw_mode(0o600)) {
            // The log of an earlier buffer, or a link, which the next call refuses.
            Ok(_) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let log = Device::open_below(&handle, LOG, Access::Own)?;
        Ok(Self { handle, log })
    }

    /// The names in a directory that belong to no buffer.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn strangers(path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let name = entry?.file_name();
            if ![LOG, EXTENTS, "lost+found"]
                .iter()
                .any(|ours| name == *ours)
            {
                names.push(name.to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Opens the directory of a slot.
    fn parent_of(&self, slot: SlotIndex) -> io::Result<File> {
        self.parent(slot.0 / SLOTS_EACH)
    }

    fn parent(&self, number: u32) -> io::Result<File> {
        let extents = below(&self.handle, EXTENTS)?;
        Ok(below(&extents, &parent_name(number))?)
    }

    /// Opens the file of a slot, past the page cache where the file system can.
    fn slot(&self, slot: SlotIndex, flags: OFlags) -> io::Result<File> {
        let parent = self.parent_of(slot)?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = |flags: OFlags| {
            let mode = Mode::from_raw_mode(0o600);
            rustix::fs::openat(&parent, slot_name(slot), flags, mode)
        };
        let opened = match open(flags | OFlags::DIRECT) {
            Err(Errno::INVAL) => open(flags),
            opened => opened,
        };
        Ok(File::from(opened?))
    }
}

fn parent_name(number: u32) -> String {
    format!("{number:04}")
}

fn slot_name(slot: SlotIndex) -> String {
    format!("{:07}", slot.0)
}

/// Opens a directory in another one, and follows no link.
fn below(directory: &File, name: &str) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty()).map(File::from)
}

/// The names in a directory, each with its kind.
fn names(directory: &File) -> io::Result<Vec<(CString, FileType)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if ![c".", c".."].contains(&entry.file_name()) {
            names.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    Ok(names)
}

/// Removes what stands below a directory, and follows no link.
fn clear(directory: &File, levels: u32) -> io::Result<()> {
    for (name, kind) in names(directory)? {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match kind {
            FileType::Directory | FileType::Unknown if levels > 0 => {
                rustix::fs::openat(directory, &name, flags, Mode::empty())
            }
            _ => Err(Errno::NOTDIR),
        };
        match opened {
            Ok(inner) => {
                clear(&File::from(inner), levels - 1)?;
                rustix::fs::unlinkat(directory, &name, AtFlags::REMOVEDIR)?;
            }
            Err(Errno::NOTDIR | Errno::LOOP) => {
                rustix::fs::unlinkat(directory, &name, AtFlags::empty())?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl Backing for Directory {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.log.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.log.write_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.log.sync()
    }

    /// A slot that holds nothing has no file, so there is nothing to discard.
    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn has_room(&self, layout: &Layout) -> io::Result<bool> {
        Ok(self.log.length()? >= layout.data_at)
    }

    fn prepare(&self, layout: &Layout) -> io::Result<()> {
        let mode = Mode::from_raw_mode(0o700);
        match rustix::fs::mkdirat(&self.handle, EXTENTS, mode) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let extents = below(&self.handle, EXTENTS)?;
        clear(&extents, LEVELS_MAX)?;
        for number in 0..layout.slots.div_ceil(SLOTS_EACH) {
            rustix::fs::mkdirat(&extents, parent_name(number), mode)?;
        }
        self.log.allot(layout.data_at)?;
        extents.sync_all()?;
        self.handle.sync_all()
    }

    fn read_slot(&self, _: &Layout, slot: SlotIndex, buffer: &mut [u8]) -> io::Result<()> {
        let file = self.slot(slot, OFlags::RDONLY)?;
        read_exact(&file, 0, buffer)
    }

    fn write_slot(&self, _: &Layout, slot: SlotIndex, data: &[u8]) -> io::Result<()> {
        let file = self.slot(slot, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        write_all(&file, 0, data)
    }

    fn sync_slots(&self, _: &Layout, slots: &[SlotIndex]) -> io::Result<()> {
        if slots.len() > SYNC_EACH_MAX {
            return Ok(rustix::fs::syncfs(&self.handle)?);
        }
        let mut parents = BTreeSet::new();
        for slot in slots {
            self.slot(*slot, OFlags::RDONLY)?.sync_all()?;
            parents.insert(slot.0 / SLOTS_EACH);
        }
        for parent in parents {
            self.parent(parent)?.sync_all()?;
        }
        Ok(())
    }

    fn discard_slot(&self, _: &Layout, slot: SlotIndex) -> io::Result<()> {
        let parent = self.parent_of(slot)?;
        Ok(rustix::fs::unlinkat(
            &parent,
            slot_name(slot),
            AtFlags::empty(),
        )?)
    }

    fn sweep(&self, layout: &Layout, is_held: &dyn Fn(SlotIndex) -> bool) -> io::Result<()> {
        for number in 0..layout.slots.div_ceil(SLOTS_EACH) {
            let parent = self.parent(number)?;
            for (name, _) in names(&parent)? {
                let slot = name.to_str().ok().and_then(|name| name.parse().ok());
                if slot.is_some_and(|slot| !is_held(SlotIndex(slot))) {
                    rustix::fs::unlinkat(&parent, &name, AtFlags::empty())?;
                }
            }
        }
        Ok(())
    }
}
