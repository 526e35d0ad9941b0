//! Owns the versions of both database files: making one, and migrating an older one.
//! Does not define the meaning of the tables: `apply`, `read` and `raft` do.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::fault::{Fault, FaultKind};

/// A kind of database file.
pub(crate) struct Schema {
    /// Number in the file's header that identifies SQLite files of one kind.
    application_id: i32,
    /// Migrations from version n to n + 1, from 0 on.
    steps: &'static [&'static str],
}

/// The state: "GwSt".
pub(crate) const STATE: Schema = Schema {
    application_id: 0x4777_5374,
    steps: &[
        include_str!("v1.sql"),
        include_str!("v2.sql"),
        include_str!("v3.sql"),
        include_str!("v4.sql"),
        include_str!("v5.sql"),
        include_str!("v6.sql"),
        include_str!("v7.sql"),
        include_str!("v8.sql"),
        include_str!("v9.sql"),
    ],
};

/// The log and the vote: "GwRa".
pub(crate) const RAFT: Schema = Schema {
    application_id: 0x4777_5261,
    steps: &[include_str!("raft_v1.sql"), include_str!("raft_v2.sql")],
};

impl Schema {
    /// The version that this program writes.
    pub(crate) fn newest(&self) -> usize {
        self.steps.len()
    }

    /// Refuses a file of another kind or of a newer version. Returns its version.
    pub(crate) fn check(&self, connection: &Connection, file: &Path) -> Result<usize, Fault> {
        let fault = |error| Fault::sqlite_opening(file, error);
        let id: i32 = connection
            .pragma_query_value(None, "application_id", |row| row.get(0))
            .map_err(fault)?;
        let version: i32 = connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(fault)?;
        let version = usize::try_from(version).unwrap_or(usize::MAX);
        let tables: u32 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(fault)?;
        let new = id == 0 && version == 0 && tables == 0;
        if !new && id != self.application_id {
            return Err(Fault::new(file, FaultKind::Foreign));
        }
        if version > self.newest() {
            let newest = self.newest();
            return Err(Fault::new(file, FaultKind::Newer { version, newest }));
        }
        Ok(version)
    }

    /// Migrates a file to the newest version, with one transaction for each step.
    pub(crate) fn migrate(&self, connection: &mut Connection, file: &Path) -> Result<(), Fault> {
        let fault = |error| Fault::sqlite_opening(file, error);
        let version = self.check(connection, file)?;
        for (index, step) in self.steps.iter().enumerate().skip(version) {
            let transaction = connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(fault)?;
            transaction.execute_batch(step).map_err(fault)?;
            transaction
                .pragma_update(None, "application_id", self.application_id)
                .map_err(fault)?;
            transaction
                .pragma_update(
                    None,
                    "user_version",
                    u32::try_from(index + 1).unwrap_or(u32::MAX),
                )
                .map_err(fault)?;
            transaction.commit().map_err(fault)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: &str = "CREATE TABLE a (x); INSERT INTO a VALUES (1);";
    const GROW: &str = "ALTER TABLE a ADD COLUMN y; UPDATE a SET y = x + 1;";
    const BREAK: &str = "UPDATE a SET x = 9; UPDATE missing SET x = 1;";
    const FIRST: Schema = Schema {
        application_id: 7,
        steps: &[CREATE],
    };

    fn version(connection: &Connection) -> u32 {
        connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .expect("a version")
    }

    #[test]
    fn an_older_file_is_brought_forward_once() {
        let file = Path::new("test.db");
        let mut connection = Connection::open_in_memory().expect("open");
        FIRST.migrate(&mut connection, file).expect("version 1");
        let second = Schema {
            steps: &[CREATE, GROW],
            ..FIRST
        };
        for _ in 0..2 {
            second.migrate(&mut connection, file).expect("version 2");
            assert_eq!(version(&connection), 2);
        }
        let y: i64 = connection
            .query_row("SELECT y FROM a", [], |row| row.get(0))
            .expect("the row");
        assert_eq!(y, 2);
        let error = FIRST.migrate(&mut connection, file).expect_err("newer");
        assert!(error.to_string().contains("version 2"), "{error}");
    }

    #[test]
    fn a_step_that_fails_changes_nothing() {
        let mut connection = Connection::open_in_memory().expect("open");
        let file = Path::new("test.db");
        FIRST.migrate(&mut connection, file).expect("version 1");
        let broken = Schema {
            steps: &[CREATE, BREAK],
            ..FIRST
        };
        broken.migrate(&mut connection, file).expect_err("fails");
        assert_eq!(version(&connection), 1);
        let x: i64 = connection
            .query_row("SELECT x FROM a", [], |row| row.get(0))
            .expect("the row");
        assert_eq!(x, 1);
    }
}
