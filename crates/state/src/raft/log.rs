//! Owns `raft.db`: the entries of the log and the vote, on the disk before they are acknowledged.
//! Does not apply entries: `machine` does.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::entry::RaftEntry as _;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::alias::{EntryOf, VoteOf};
use openraft::{LogState, OptionalSend, RaftLogReader};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row, TransactionBehavior, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Guard, LogId, Types, blocking};
use crate::apply::sql;
use crate::fault::Fault;
use crate::schema;
use crate::seal;
use crate::store::open_database;

const VOTE: &str = "vote";
const PURGED: &str = "purged";

/// The log. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    connection: Mutex<Connection>,
    file: PathBuf,
    guard: Arc<Guard>,
}

impl Log {
    /// Opens the file, creates it if it is missing, and checks it. Other processes are excluded until the last write
    /// ends.
    pub(crate) fn open(file: &Path, guard: Arc<Guard>) -> Result<Self, Fault> {
        let connection = open_database(file, &schema::RAFT, "FULL")?;
        check_all(&connection).map_err(|error| Fault::sqlite_opening(file, error))?;
        Ok(Self {
            shared: Arc::new(Shared {
                connection: Mutex::new(connection),
                file: file.to_owned(),
                guard,
            }),
        })
    }

    /// The last entry that was deleted because a snapshot contains it, and the last entry.
    pub(crate) fn ends(&self) -> io::Result<(Option<LogId>, Option<LogId>)> {
        let connection = self.shared.lock();
        let purged: Option<LogId> = self.shared.mark(&connection, PURGED)?;
        let last: Option<String> = connection
            .prepare_cached(
                "SELECT body, log_index, sum FROM entries ORDER BY log_index DESC LIMIT 1",
            )
            .and_then(|mut statement| statement.query_row([], entry_body).optional())
            .map_err(|error| self.shared.fault(error))?;
        let last = match last {
            Some(body) => Some(self.shared.entry(&body)?.log_id()),
            None => purged,
        };
        Ok((purged, last))
    }

    /// The highest term in the log.
    pub(crate) fn term(&self) -> io::Result<u64> {
        let vote: Option<VoteOf<Types>> = self.shared.mark(&self.shared.lock(), VOTE)?;
        let (_, last) = self.ends()?;
        let of_last = last.map_or(0, |last| last.committed_leader_id().term);
        Ok(vote.map_or(0, |vote| vote.leader_id().term).max(of_last))
    }

    /// Starts the log after an entry that is contained in a restored state, with a vote of the same term.
    pub(crate) fn begin_after(&self, last: LogId, vote: VoteOf<Types>) -> io::Result<()> {
        self.shared.write(|connection| {
            set_mark(connection, PURGED, &last)?;
            set_mark(connection, VOTE, &vote)
        })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, error: rusqlite::Error) -> io::Error {
        Fault::sqlite(&self.file, error).into()
    }

    /// Writes in one transaction, which is durable afterwards.
    fn write(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> io::Result<()> {
        let mut connection = self.lock();
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| self.fault(error))?;
        work(&transaction)
            .and_then(|()| transaction.commit())
            .map_err(|error| self.fault(error))
    }

    fn mark<T: DeserializeOwned>(
        &self,
        connection: &Connection,
        name: &str,
    ) -> io::Result<Option<T>> {
        let body: Option<String> = connection
            .prepare_cached("SELECT body, name, sum FROM marks WHERE name = ?1")
            .and_then(|mut statement| statement.query_row([name], mark_body).optional())
            .map_err(|error| self.fault(error))?;
        body.map(|body| serde_json::from_str(&body).map_err(|error| self.unreadable(&error)))
            .transpose()
    }

    fn entry(&self, body: &str) -> io::Result<EntryOf<Types>> {
        serde_json::from_str(body).map_err(|error| self.unreadable(&error))
    }

    fn entries(&self, range: (i64, i64)) -> io::Result<Vec<EntryOf<Types>>> {
        let connection = self.lock();
        let bodies: Vec<String> = connection
            .prepare_cached(
                "SELECT body, log_index, sum FROM entries WHERE log_index >= ?1 AND log_index <= ?2 ORDER BY log_index",
            )
            .and_then(|mut statement| {
                statement
                    .query_map(params![range.0, range.1], entry_body)?
                    .collect()
            })
            .map_err(|error| self.fault(error))?;
        drop(connection);
        bodies.iter().map(|body| self.entry(body)).collect()
    }

    fn unreadable(&self, error: &serde_json::Error) -> io::Error {
        let what = format!(
            "{}: an entry is from a newer program, or damaged: {error}",
            self.file.display()
        );
        io::Error::new(io::ErrorKind::InvalidData, what)
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<EntryOf<Types>>> {
        let first = match range.start_bound() {
            Bound::Included(index) => sql(*index),
            Bound::Excluded(index) => sql(*index).saturating_add(1),
            Bound::Unbounded => 0,
        };
        let last = match range.end_bound() {
            Bound::Included(index) => sql(*index),
            Bound::Excluded(index) => sql(*index) - 1,
            Bound::Unbounded => i64::MAX,
        };
        let shared = Arc::clone(&self.shared);
        blocking(&self.shared.guard, move || shared.entries((first, last))).await
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<Types>>> {
        let shared = Arc::clone(&self.shared);
        blocking(&self.shared.guard, move || {
            shared.mark(&shared.lock(), VOTE)
        })
        .await
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let log = self.clone();
        let (last_purged_log_id, last_log_id) =
            blocking(&self.shared.guard, move || log.ends()).await?;
        Ok(LogState {
            last_purged_log_id,
            last_log_id,
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<Types>) -> io::Result<()> {
        let (shared, vote) = (Arc::clone(&self.shared), *vote);
        blocking(&self.shared.guard, move || {
            shared.write(|connection| set_mark(connection, VOTE, &vote))
        })
        .await
    }

    /// Appends all entries with one sync. Proposals that arrive meanwhile share the next one.
    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let rows = entries
            .into_iter()
            .map(|entry| Ok((sql(entry.index()), serde_json::to_string(&entry)?)))
            .collect::<io::Result<Vec<(i64, String)>>>()?;
        let shared = Arc::clone(&self.shared);
        let result = blocking(&self.shared.guard, move || {
            shared.write(|connection| {
                let mut statement = connection.prepare_cached(
                    "INSERT INTO entries (log_index, body, sum) VALUES (?1, ?2, ?3)",
                )?;
                for (index, body) in &rows {
                    let sum = seal::sum([ValueRef::from(body.as_str()), ValueRef::Integer(*index)]);
                    statement.execute(params![index, body, sum])?;
                }
                Ok(())
            })
        })
        .await;
        let reported = match &result {
            Ok(()) => Ok(()),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        callback.io_completed(reported);
        result
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let from = last.map_or(0, |log_id| sql(log_id.index).saturating_add(1));
        let shared = Arc::clone(&self.shared);
        blocking(&self.shared.guard, move || {
            shared.write(|connection| {
                connection
                    .execute("DELETE FROM entries WHERE log_index >= ?1", [from])
                    .map(drop)
            })
        })
        .await
    }

    async fn purge(&mut self, log_id: LogId) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        blocking(&self.shared.guard, move || {
            shared.write(|connection| {
                set_mark(connection, PURGED, &log_id)?;
                connection
                    .execute(
                        "DELETE FROM entries WHERE log_index <= ?1",
                        [sql(log_id.index)],
                    )
                    .map(drop)
            })
        })
        .await
    }
}

fn check_all(connection: &Connection) -> rusqlite::Result<()> {
    let mut entries = connection.prepare("SELECT body, log_index, sum FROM entries")?;
    let mut rows = entries.query([])?;
    while let Some(row) = rows.next()? {
        seal::check("entries", row)?;
    }
    let mut marks = connection.prepare("SELECT body, name, sum FROM marks")?;
    let mut rows = marks.query([])?;
    while let Some(row) = rows.next()? {
        seal::check("marks", row)?;
    }
    Ok(())
}

fn entry_body(row: &Row<'_>) -> rusqlite::Result<String> {
    seal::check("entries", row)?;
    row.get(0)
}

fn mark_body(row: &Row<'_>) -> rusqlite::Result<String> {
    seal::check("marks", row)?;
    row.get(0)
}

fn set_mark<T: Serialize>(connection: &Connection, name: &str, mark: &T) -> rusqlite::Result<()> {
    let body = serde_json::to_string(mark)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let sum = seal::sum([ValueRef::from(body.as_str()), ValueRef::from(name)]);
    connection
        .prepare_cached(
            "INSERT INTO marks (name, body, sum) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE SET body = ?2, sum = ?3",
        )?
        .execute(params![name, body, sum])
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kill does not lose the data that a power cut would lose. Only in this mode does SQLite sync at each commit, so
    /// the test checks the mode.
    #[test]
    fn each_commit_is_synced() {
        let directory = tempfile::tempdir().expect("a directory");
        let guard = Guard::new(tempfile::tempfile().expect("a file"));
        let log = Log::open(&directory.path().join("raft.db"), guard).expect("a log");
        let connection = log.shared.lock();
        let pragma = |name: &str| -> String {
            connection
                .query_row(
                    &format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}"),
                    [],
                    |row| row.get(0),
                )
                .expect("a pragma")
        };
        assert_eq!(
            (pragma("journal_mode"), pragma("synchronous")),
            ("wal".to_owned(), "2".to_owned())
        );
    }
}
