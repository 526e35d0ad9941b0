//! Owns copies of the state: made while it is in use, and checked before any replacement. Does not use the
//! consensus log; `raft` and `replica` do.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::{Position, Store, check_integrity, position};
use crate::fault::{Fault, FaultKind};
use crate::schema;
use crate::seal;

/// Pages copied at a time: 4 MiB, so that a copy needs little memory.
const PAGES: i32 = 1_024;

impl Store {
    /// Writes a copy of the state as one file, which appears complete and synced or not at all.
    ///
    /// # Errors
    /// When the state cannot be read or the copy cannot be written.
    pub fn backup(&self, copy: &Path) -> Result<Position, Fault> {
        copy_into(&self.file, copy)
    }

    /// Replaces the content with the content of a copy, in one transaction. Readers see one or the other.
    ///
    /// # Errors
    /// When the copy is damaged or of another kind, or the file cannot be written. Nothing has changed then.
    pub fn replace(&mut self, copy: &Path) -> Result<(), Fault> {
        check_copy(copy)?;
        let from = crate::read::open(copy)?;
        run(&from, &mut self.connection, &self.file)?;
        schema::STATE.migrate(&mut self.connection, &self.file)?;
        seal::prepare(&mut self.connection, &self.file)?;
        // This connection records changed rows also while it computes missing checksums. No such record may remain for the next command.
        seal::seal(&self.connection).map_err(|error| Fault::sqlite(&self.file, error))?;
        self.sync()
    }
}

/// Copies the database at `file` to `copy`, which appears complete and synced or not at all.
pub(crate) fn copy_into(file: &Path, copy: &Path) -> Result<Position, Fault> {
    let draft = draft_of(copy)?;
    let result = write_draft(file, &draft).and_then(|position| {
        fs::rename(&draft, copy).map_err(|error| Fault::io(copy, error))?;
        let parent = copy
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        sync_directory(parent.unwrap_or_else(|| Path::new(".")))?;
        Ok(position)
    });
    if result.is_err() {
        // Only the first error is reported.
        let _ = fs::remove_file(&draft);
    }
    result
}

/// Checks that `copy` is a complete state that this program can read. Returns its position in the log.
pub(crate) fn check_copy(copy: &Path) -> Result<Position, Fault> {
    let connection = crate::read::open(copy)?;
    let version = schema::STATE.check(&connection, copy)?;
    if version == 0 {
        return Err(Fault::new(copy, FaultKind::Foreign));
    }
    check_integrity(&connection, copy)?;
    schema::STATE.check_parts(&connection, copy)?;
    seal::check_copy(&connection, copy)?;
    let position = position(&connection).map_err(|error| Fault::sqlite_opening(copy, error))?;
    Ok(position.unwrap_or_default())
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> Result<(), Fault> {
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| Fault::io(directory, error))
}

fn write_draft(file: &Path, draft: &Path) -> Result<Position, Fault> {
    match fs::remove_file(draft) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Fault::io(draft, error));
        }
        _ => {}
    }
    OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(draft)
        .map_err(|error| Fault::io(draft, error))?;
    let from = crate::read::open(file)?;
    let fault = |error| Fault::sqlite(draft, error);
    let mut into = Connection::open(draft).map_err(fault)?;
    // The draft is synced as a whole below, and not read before.
    into.pragma_update(None, "synchronous", "OFF")
        .map_err(fault)?;
    run(&from, &mut into, draft)?;
    // A copy of a database in WAL mode is in WAL mode too; a backup must be one file.
    into.pragma_update(None, "journal_mode", "DELETE")
        .map_err(fault)?;
    let position = position(&into).map_err(fault)?;
    into.close().map_err(|(_, error)| fault(error))?;
    File::open(draft)
        .and_then(|file| file.sync_all())
        .map_err(|error| Fault::io(draft, error))?;
    Ok(position.unwrap_or_default())
}

fn run(from: &Connection, into: &mut Connection, file: &Path) -> Result<(), Fault> {
    let fault = |error| Fault::sqlite(file, error);
    // A read transaction keeps the source unchanged, so that the copy does not restart at each write.
    let unchanged = from.unchecked_transaction().map_err(fault)?;
    position(from).map_err(fault)?;
    Backup::new(from, into)
        .and_then(|backup| backup.run_to_completion(PAGES, Duration::from_millis(1), None))
        .map_err(fault)?;
    unchanged.finish().map_err(fault)
}

fn draft_of(copy: &Path) -> Result<PathBuf, Fault> {
    let Some(name) = copy.file_name() else {
        let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, "not the name of a file");
        return Err(Fault::io(copy, error));
    };
    let mut draft = name.to_owned();
    draft.push(".draft");
    Ok(copy.with_file_name(draft))
}
