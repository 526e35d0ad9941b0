//! Owns the steps that bring a waiting file to its place at slow storage: a temporary file, its contents from flash, metadata, sync, rename,
//! sync of the names. Chooses no file.
//!
//! A crash may repeat the steps. A file in place with the size, the time and the contents of the waiting one is that file. If the entry there has another
//! state than at the arrival, someone wrote it since: the later writer wins, and the waiting file is not placed.

use godwit_buffer::service::Drain;
use godwit_store::{
    Create, FinalMeta, Kind, Meta, RelPath, Replace, Storage, StoreError, StoreErrorKind, TempName,
    above_to_sync,
};

use super::what::What;
use super::{Arrivals, Due};

/// Bytes read from flash at once.
const READ_BYTES: usize = 4 << 20;
/// The mode bits that the owner of a directory needs.
const OWNER_BITS: u32 = 0o700;
/// File systems round times to this step.
const TIME_STEP_SECONDS: u64 = 2;
/// No file has this generation, so flash serves none of the contents.
const NO_GENERATION: u64 = 0;
/// Marks temporary names of drains.
const TAG: u64 = 0x6472_6169_6e00_0001;

/// A file could not be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Why.
    pub reason: String,
    /// A wait may help.
    pub may_pass: bool,
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        let may_pass = matches!(
            error.kind,
            StoreErrorKind::NoSpace
                | StoreErrorKind::ReadOnly
                | StoreErrorKind::NotFound
                | StoreErrorKind::Changed
                | StoreErrorKind::Io
        );
        Self {
            reason: error.to_string(),
            may_pass,
        }
    }
}

impl Failed {
    fn for_good(reason: &str) -> Self {
        Self {
            reason: reason.to_owned(),
            may_pass: false,
        }
    }
}

/// Brings a waiting file to its place in `storage`, the export itself. Returns the generation that the file has there.
///
/// # Errors
/// The file still waits, and nothing of it is left at slow storage.
pub fn place(storage: &dyn Storage, arrivals: &Arrivals, due: &Due) -> Result<u64, Failed> {
    let drain = &due.drain;
    let what = What::decode(drain.what())
        .ok_or_else(|| Failed::for_good("its record was written by another version"))?;
    let path = RelPath::parse(drain.path())
        .map_err(|_invalid| Failed::for_good("its path is not a path in an export"))?;
    let placing = Placing {
        storage,
        arrivals,
        drain,
        temp: TempName::new(TAG ^ drain.stamp(), &path),
        path,
        what,
    };
    let mut opened = Vec::new();
    let placed = placing.run(&mut opened);
    placing.close(&opened);
    placed
}

struct Placing<'a> {
    storage: &'a dyn Storage,
    arrivals: &'a Arrivals,
    drain: &'a Drain,
    path: RelPath,
    temp: TempName,
    what: What,
}

/// The waiting file is not what came last.
fn taken() -> Failed {
    Failed::for_good("another entry got this name at the export after the file had arrived")
}

/// The volume may be out.
fn unread() -> Failed {
    Failed {
        reason: "flash does not return its contents as they were written".to_owned(),
        may_pass: true,
    }
}

/// Whether a file in place has not been written to since it got its name, which changes `ctime` alone.
fn is_as_written(there: &Meta, written: &Meta) -> bool {
    (there.inode, there.bytes, there.mtime) == (written.inode, written.bytes, written.mtime)
}

/// Directories that were opened for their owner, with their metadata before.
type Opened = Vec<(RelPath, Meta)>;

impl Placing<'_> {
    fn run(&self, opened: &mut Opened) -> Result<u64, Failed> {
        let there = self.opening(opened, &|| self.storage.stat(&self.path))?;
        match there {
            Some(there) if self.what.there == Some(there.generation()) => {}
            Some(there) if self.is_like_ours(&there) && self.has_our_contents()? => {
                self.sync_names()?;
                // Someone may have written the same size and time, so flash serves none of it.
                return Ok(NO_GENERATION);
            }
            Some(_) => return Err(taken()),
            None => {}
        }
        let written = match self.write(opened, there.as_ref()) {
            Ok(written) => written,
            Err(failed) => {
                // The next try replaces a file that cannot be removed now.
                let _ = self.keeping_time(&|| self.storage.discard(&self.path, &self.temp));
                return Err(failed);
            }
        };
        self.sync_names()?;
        match (self.storage.stat(&self.path)?, written) {
            (Some(there), Some(written)) if is_as_written(&there, &written) => {
                Ok(there.generation())
            }
            // A later writer replaced, changed or removed it at once.
            _ => Ok(NO_GENERATION),
        }
    }

    /// Writes the file under its temporary name, and renames it. Returns its metadata before it had its name.
    fn write(&self, opened: &mut Opened, there: Option<&Meta>) -> Result<Option<Meta>, Failed> {
        let bytes = self.drain.bytes();
        let create = || {
            self.keeping_time(&|| {
                self.storage
                    .create(&self.path, &self.temp, Create::Fresh, Some(bytes))
            })
        };
        let file = match self.opening(opened, &create) {
            Err(error) if error.kind == StoreErrorKind::NotFound => {
                let parent = self.path.parent().unwrap_or_default();
                self.opening(opened, &|| self.storage.make_directory(&parent, 0o755))?;
                create()?
            }
            made => made?,
        };
        let mut buffer = vec![0; READ_BYTES];
        let mut at = 0;
        while at < bytes {
            let some = usize::try_from(bytes - at).unwrap_or(usize::MAX);
            let some = some.min(READ_BYTES);
            let Some(data) = buffer.get_mut(..some) else {
                break;
            };
            if !self.drain.read(at, data) {
                return Err(unread());
            }
            file.write_at(at, data)?;
            file.write_out(at..at + some as u64);
            at += some as u64;
        }
        let lost = file.finish(bytes, &self.what.meta)?;
        if !lost.is_nothing() {
            self.arrivals.arrivals.log(&format!(
                "buffer: {}: not all attributes of the file could be kept: {lost:?}",
                self.path
            ));
        }
        self.storage.sync_batch(&[(&self.path, self.temp)], bytes)?;
        drop(file);
        let temp = self.path.parent().unwrap_or_default();
        let temp = temp.join(self.temp.as_bytes()).ok();
        let written = temp.and_then(|temp| self.storage.stat(&temp).ok()?);
        let replace = match there {
            Some(_) => Replace::Atomically,
            None => Replace::Never,
        };
        // The contents took their time.
        let now = self.opening(opened, &|| self.storage.stat(&self.path))?;
        if now.map(|now| now.generation()) != there.map(Meta::generation) {
            return Err(taken());
        }
        let commit = || self.keeping_time(&|| self.storage.commit(&self.path, &self.temp, replace));
        self.opening(opened, &commit)?;
        Ok(written)
    }

    /// Adds or removes a name, and restores the time of its directory: that is the sender's already, or will be set by its transfer.
    fn keeping_time<T>(&self, act: &dyn Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let _placing = self.arrivals.placing();
        let parent = self.path.parent().unwrap_or_default();
        let time = self.storage.time_of(&parent).ok().flatten();
        let done = act();
        if let Some(time) = time {
            // The directory may belong to another user.
            let _ = self.storage.restore_mtime(&parent, time);
        }
        done
    }

    fn sync_names(&self) -> Result<(), Failed> {
        let directories = above_to_sync(&self.path);
        Ok(self.storage.sync_directories(&directories)?)
    }

    /// Whether the file in place has the contents of the waiting one.
    fn has_our_contents(&self) -> Result<bool, Failed> {
        let there = self.storage.open(&self.path)?;
        let bytes = self.drain.bytes();
        let (mut own, mut other) = (vec![0; READ_BYTES], vec![0; READ_BYTES]);
        let mut at = 0;
        while at < bytes {
            let some = usize::try_from(bytes - at).unwrap_or(usize::MAX);
            let some = some.min(READ_BYTES);
            let (Some(own), Some(other)) = (own.get_mut(..some), other.get_mut(..some)) else {
                return Ok(false);
            };
            if !self.drain.read(at, own) {
                return Err(unread());
            }
            if there.read_at(at, other)? != some || own != other {
                return Ok(false);
            }
            at += some as u64;
        }
        Ok(true)
    }

    fn is_like_ours(&self, there: &Meta) -> bool {
        there.kind == Kind::File
            && there.bytes == self.drain.bytes()
            && there.mtime.seconds.abs_diff(self.what.meta.mtime.seconds) < TIME_STEP_SECONDS
    }

    /// Does something below directories whose mode may deny access to their owner: those are opened for a while.
    fn opening<T>(
        &self,
        opened: &mut Opened,
        act: &dyn Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match act() {
            Err(error) if error.kind == StoreErrorKind::Permission => {
                for directory in self.path.above_from_root() {
                    let Ok(Some(there)) = self.storage.stat(&directory) else {
                        break;
                    };
                    let is_closed = there.mode & OWNER_BITS != OWNER_BITS;
                    if there.kind == Kind::Directory
                        && is_closed
                        && self.storage.open_directory(&directory).is_ok()
                    {
                        opened.push((directory, there));
                    }
                }
                act()
            }
            done => done,
        }
    }

    /// Gives opened directories the mode and the time that they had, innermost first. A directory keeps a mode that was set meanwhile.
    fn close(&self, opened: &Opened) {
        let _placing = self.arrivals.placing();
        for (directory, before) in opened.iter().rev() {
            let is_as_opened =
                |now: Meta| now.inode == before.inode && now.mode == before.mode | OWNER_BITS;
            let now = self.storage.stat(directory);
            if now.is_ok_and(|now| !now.is_some_and(is_as_opened)) {
                continue;
            }
            let meta = FinalMeta {
                mode: before.mode,
                mtime: before.mtime,
                ..FinalMeta::default()
            };
            if let Err(error) = self.storage.set_directory_meta(directory, &meta) {
                self.arrivals.arrivals.log(&format!(
                    "buffer: {directory}: the mode of the directory could not be restored: {error}"
                ));
            }
        }
    }
}
