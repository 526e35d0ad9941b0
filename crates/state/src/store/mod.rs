//! Owns the file of the state: opening it, checking it, and applying commands in transactions.
//! Does not know the source of commands: a consensus log or a test.

mod backup;
mod dump;

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use crate::apply::{self, Stop, sql};
use crate::fault::{Fault, FaultKind};
use crate::model::{
    Applied, Command, CommandError, FormerNode, Object as _, Timestamp, level_trouble,
};
use crate::read::committed_level;
use crate::schema::{self, Schema};
use crate::seal;

pub(crate) use backup::{check_copy, copy_into, sync_directory};

/// How long a connection waits for another one. Readers and the one writer hardly block each other in WAL mode. A restore of a snapshot
/// blocks other connections while it copies.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The file of the state, opened for writing. Each file has one store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    file: PathBuf,
}

/// Position of the last command in the file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Position {
    /// Index in the log; 0 before the first command.
    pub index: u64,
    /// The position in the log's own form, as JSON text.
    pub log_id: String,
    /// The voters, in the log's own form.
    pub membership: String,
}

impl Store {
    /// Opens the file, makes it if it is missing, checks it, and migrates it to the newest version.
    ///
    /// # Errors
    /// When the file is damaged, from a newer program, of another kind, or unusable. The file is left unchanged.
    pub fn open(file: &Path) -> Result<Self, Fault> {
        // The log is synced before each acknowledgement, and this file before the log is cut. Changes lost here in a power cut are
        // applied again.
        let mut connection = open_database(file, &schema::STATE, "NORMAL")?;
        seal::prepare(&mut connection, file)?;
        seal::watch(&connection).map_err(|error| Fault::sqlite(file, error))?;
        Ok(Self {
            connection,
            file: file.to_owned(),
        })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The position of the last command in the file; `None` if there is none.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn position(&self) -> Result<Option<Position>, Fault> {
        position(&self.connection).map_err(|error| Fault::sqlite(&self.file, error))
    }

    /// Refuses a state that a program of this level does not support. A single node can migrate from any older level.
    ///
    /// # Errors
    /// The state's level is above the program's; or the state has several nodes, and its level is two or more below.
    pub fn check_level(&self, known: u32) -> Result<(), Fault> {
        let fault = |error| Fault::sqlite(&self.file, error);
        let committed = committed_level(&self.connection).map_err(fault)?;
        let nodes: u32 = self
            .connection
            .query_row(
                "SELECT count(*) FROM objects WHERE kind = 'node'",
                [],
                |row| row.get(0),
            )
            .map_err(fault)?;
        if known > committed && nodes < 2 {
            return Ok(());
        }
        match level_trouble(known, committed) {
            Some(trouble) => Err(Fault::new(&self.file, FaultKind::Level(trouble))),
            None => Ok(()),
        }
    }

    /// Begins a transaction for some commands.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn batch(&mut self) -> Result<Batch<'_>, Fault> {
        let file = &self.file;
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| Fault::sqlite(file, error))?;
        Ok(Batch { transaction, file })
    }

    /// Applies one command in a separate transaction.
    ///
    /// # Errors
    /// When the file cannot be written. Nothing has changed then.
    pub fn apply(&mut self, index: u64, command: &Command) -> Result<Applied, Fault> {
        let mut batch = self.batch()?;
        let applied = batch.apply(index, command)?;
        batch.mark(&Position {
            index,
            ..Position::default()
        })?;
        batch.commit()?;
        Ok(applied)
    }

    /// Syncs all applied commands to the disk.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn sync(&mut self) -> Result<(), Fault> {
        // SQLite syncs the file itself whenever it moves pages from its log. SQLite holds no locks on its log, so closing this second
        // handle of it releases none.
        let mut log = self.file.clone().into_os_string();
        log.push("-wal");
        let log = PathBuf::from(log);
        match File::open(&log) {
            Ok(file) => file.sync_all().map_err(|error| Fault::io(&log, error)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Fault::io(&log, error)),
        }
    }
}

/// A transaction. Without `commit`, it changes nothing.
#[derive(Debug)]
pub struct Batch<'a> {
    transaction: Transaction<'a>,
    file: &'a Path,
}

impl Batch<'_> {
    /// Applies a command. A refused command changes only the audit log.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn apply(&mut self, index: u64, command: &Command) -> Result<Applied, Fault> {
        let fault = |error| Fault::sqlite(self.file, error);
        let savepoint = self.transaction.savepoint().map_err(fault)?;
        // Without this, a panic would repeat on every replica and after every start.
        let result = catch_unwind(AssertUnwindSafe(|| {
            apply::apply(&savepoint, index, command)
        }))
        .unwrap_or_else(|_| {
            Err(Stop::Refused(CommandError::Internal {
                what: format!("a panic in {}", command.op.action()),
            }))
        });
        let applied = match result {
            Ok(effect) => {
                savepoint.commit().map_err(fault)?;
                Ok(effect)
            }
            Err(Stop::Refused(error)) => {
                savepoint.finish().map_err(fault)?;
                Err(error)
            }
            Err(Stop::Broken(error)) => return Err(fault(error)),
        };
        apply::audit(&self.transaction, command, &applied).map_err(fault)?;
        seal::seal(&self.transaction).map_err(fault)?;
        Ok(applied)
    }

    /// The fault of a cluster with a level that this program does not support.
    pub(crate) fn beyond(&self, known: u32, level: u32) -> Fault {
        let trouble = level_trouble(known, level).unwrap_or_default();
        Fault::new(self.file, FaultKind::Level(trouble))
    }

    /// Records a node that a recovery removed. No command does this: the recovering node is alone with its state.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn note_former(&mut self, node: &FormerNode, at: Timestamp) -> Result<(), Fault> {
        let fault = |error| Fault::sqlite(self.file, error);
        let body = serde_json::to_string(node).map_err(|error| {
            let what = FaultKind::Damaged(error.to_string());
            Fault::new(self.file, what)
        })?;
        self.transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO objects (kind, id, body, changed) VALUES (?1, ?2, ?3, ?4)",
            )
            .and_then(|mut statement| {
                statement.execute(params![FormerNode::KIND, node.id(), body, at.0])
            })
            .and_then(|_| seal::seal(&self.transaction))
            .map_err(fault)
    }

    /// Stores the position of the last command.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn mark(&mut self, position: &Position) -> Result<(), Fault> {
        self.transaction
            .prepare_cached(
                "INSERT INTO applied (one, log_index, position, membership, sealed) VALUES (1, ?1, ?2, ?3, ?1) \
                 ON CONFLICT (one) DO UPDATE SET log_index = ?1, position = ?2, membership = ?3, sealed = ?1",
            )
            .and_then(|mut statement| {
                statement.execute(params![
                    sql(position.index),
                    position.log_id,
                    position.membership
                ])
            })
            .and_then(|_| seal::seal(&self.transaction))
            .map_err(|error| Fault::sqlite(self.file, error))
    }

    /// Commits all changes.
    ///
    /// # Errors
    /// When the file cannot be written. Nothing has changed then.
    pub fn commit(self) -> Result<(), Fault> {
        let file = self.file;
        self.transaction
            .commit()
            .map_err(|error| Fault::sqlite(file, error))
    }
}

/// Opens a database file, makes it readable by its owner only, checks it and migrates it to the newest version.
pub(crate) fn open_database(
    file: &Path,
    schema: &Schema,
    synchronous: &str,
) -> Result<Connection, Fault> {
    let fault = |error| Fault::sqlite_opening(file, error);
    // SQLite creates its other files with the mode of this file.
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(file)
        .map_err(|error| Fault::io(file, error))?;
    let mut connection = Connection::open(file).map_err(fault)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(fault)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Until the file has passed its check, closing it must not move SQLite's log into it.
    let leave_log = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    connection.set_db_config(leave_log, true).map_err(fault)?;
    let version = schema.check(&connection, file)?;
    check_integrity(&connection, file)?;
    if version > 0 {
        schema.check_parts(&connection, file)?;
    }
    connection.set_db_config(leave_log, false).map_err(fault)?;
    connection
        .pragma_update(None, "journal_mode", "WAL")
        .map_err(fault)?;
    connection
        .pragma_update(None, "synchronous", synchronous)
        .map_err(fault)?;
    schema.migrate(&mut connection, file)?;
    Ok(connection)
}

/// Checks the structure of the whole file for damage.
pub(crate) fn check_integrity(connection: &Connection, file: &Path) -> Result<(), Fault> {
    let found: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| Fault::sqlite_opening(file, error))?;
    if found == "ok" {
        return Ok(());
    }
    Err(Fault::new(file, FaultKind::Damaged(found)))
}

/// Creates the directory of the state, with access for its owner only.
pub(crate) fn make_directory(directory: &Path) -> Result<(), Fault> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| Fault::io(directory, error))
}

/// Bytes of the file system that are free for this process.
pub(crate) fn free_bytes(path: &Path) -> Result<u64, Fault> {
    let free = rustix::fs::statvfs(path).map_err(|error| Fault::io(path, error.into()))?;
    Ok(free.f_bavail.saturating_mul(free.f_frsize))
}

pub(crate) fn position(connection: &Connection) -> rusqlite::Result<Option<Position>> {
    connection
        .prepare_cached("SELECT log_index, position, membership FROM applied")?
        .query_row([], |row| {
            Ok(Position {
                index: row.get::<_, i64>(0)?.unsigned_abs(),
                log_id: row.get(1)?,
                membership: row.get(2)?,
            })
        })
        .optional()
}
