//! Owns the versions of both database files: making one, and migrating an older one.
//! Does not define the meaning of the tables: `apply`, `read` and `raft` do.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::fault::{Fault, FaultKind};
use crate::seal;

/// A kind of database file.
pub(crate) struct Schema {
    /// Number in the file's header that identifies SQLite files of one kind.
    application_id: i32,
    /// Migrations from version n to n + 1, from 0 on.
    steps: &'static [&'static str],
    /// The first version whose programs add columns for checksums, if any do.
    sealed_from: Option<usize>,
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
    sealed_from: Some(7),
};

/// The log and the vote: "GwRa".
pub(crate) const RAFT: Schema = Schema {
    application_id: 0x4777_5261,
    steps: &[include_str!("raft_v1.sql"), include_str!("raft_v2.sql")],
    sealed_from: None,
};

/// A row of a schema: kind, name, table and text. A row that SQLite makes has no text.
type Part = (String, String, String, Option<String>);

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

    /// Refuses a file whose schema differs from those that programs of its version made. A trigger, a constraint or an index of another
    /// program would change what commands do.
    pub(crate) fn check_parts(&self, connection: &Connection, file: &Path) -> Result<(), Fault> {
        let version = self.check(connection, file)?;
        let fault = |error| Fault::sqlite_opening(file, error);
        let found = parts(connection).map_err(fault)?;
        let made = self.made(version).map_err(fault)?;
        let name = |part: &Part| (part.0.clone(), part.1.clone());
        let odd = found.iter().find(|part| !made.contains(*part));
        let names: BTreeSet<_> = found.iter().map(name).collect();
        let missing = made.iter().find(|part| !names.contains(&name(part)));
        let what = match (odd, missing) {
            (Some((kind, name, ..)), _) => {
                format!("it has the {kind} {name}, which no program made")
            }
            (None, Some((kind, name, ..))) => format!("it lacks the {kind} {name}"),
            (None, None) => return Ok(()),
        };
        let what = what.escape_debug().to_string();
        Err(Fault::new(file, FaultKind::Damaged(what)))
    }

    /// All parts that programs made in files of this version, with the columns of checksums added at any time or not yet.
    fn made(&self, version: usize) -> rusqlite::Result<BTreeSet<Part>> {
        let sealed = self.sealed_from.map_or(0..0, |from| from..version + 1);
        let mut made = BTreeSet::new();
        for sealed_at in sealed.map(Some).chain([None]) {
            let connection = Connection::open_in_memory()?;
            for (index, step) in self.steps.iter().enumerate().take(version) {
                connection.execute_batch(step)?;
                if sealed_at.is_some_and(|at| index + 1 >= at) {
                    seal::add_columns(&connection)?;
                }
            }
            made.extend(parts(&connection)?);
        }
        Ok(made)
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

fn parts(connection: &Connection) -> rusqlite::Result<BTreeSet<Part>> {
    connection
        .prepare("SELECT type, name, tbl_name, sql FROM main.sqlite_schema")?
        .query_map([], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?
        .collect()
}

#[cfg(test)]
mod tests {
    use rusqlite::types::ValueRef;

    use super::*;

    const CREATE: &str = "CREATE TABLE a (x); INSERT INTO a VALUES (1);";
    const GROW: &str = "ALTER TABLE a ADD COLUMN y; UPDATE a SET y = x + 1;";
    const BREAK: &str = "UPDATE a SET x = 9; UPDATE missing SET x = 1;";
    const FIRST: Schema = Schema {
        application_id: 7,
        steps: &[CREATE],
        sealed_from: None,
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

    /// Each file contains the texts of its tables, with their comments, and a file with other texts is refused. So a step stays as it is,
    /// to the letter: a change comes as a further step.
    #[test]
    fn a_step_keeps_each_letter() {
        let sums = |schema: &Schema| -> Vec<i64> {
            let steps = schema.steps.iter();
            steps
                .map(|step| seal::sum([ValueRef::from(*step)]))
                .collect()
        };
        let of_state = [
            -9_059_200_669_920_434_368,
            4_949_763_523_581_869_100,
            5_747_253_478_797_536_634,
            -7_336_163_698_513_825_808,
            -2_675_349_607_122_910_330,
            -664_838_773_296_092_922,
            -5_834_850_046_743_651_445,
            6_132_335_823_292_324_581,
            -1_454_025_902_442_637_610,
        ];
        assert_eq!(sums(&STATE), of_state);
        let of_raft = [-4_915_339_351_719_682_234, 741_126_660_301_605_696];
        assert_eq!(sums(&RAFT), of_raft);
    }

    #[test]
    fn a_file_has_the_parts_of_its_version_and_no_others() {
        let file = Path::new("test.db");
        for schema in [&STATE, &RAFT] {
            for version in 1..=schema.newest() {
                let older = Schema {
                    steps: &schema.steps[..version],
                    ..*schema
                };
                let mut connection = Connection::open_in_memory().expect("open");
                older.migrate(&mut connection, file).expect("its version");
                schema.check_parts(&connection, file).expect("its parts");
                if schema.sealed_from.is_some_and(|from| version >= from) {
                    seal::add_columns(&connection).expect("checksums");
                    schema.check_parts(&connection, file).expect("with them");
                    schema.migrate(&mut connection, file).expect("the newest");
                    schema.check_parts(&connection, file).expect("and later");
                }
            }
        }
        for odd in [
            "CREATE TRIGGER odd AFTER INSERT ON audit BEGIN DELETE FROM audit; END",
            "CREATE VIEW odd AS SELECT * FROM objects",
            "CREATE UNIQUE INDEX odd ON audit (actor)",
            "CREATE TABLE odd (x)",
            "DROP INDEX jobs_key",
            "DROP TABLE sent_again",
            "ALTER TABLE audit ADD COLUMN odd DEFAULT 1",
            "DROP INDEX jobs_state; CREATE UNIQUE INDEX jobs_state ON jobs (state)",
        ] {
            let mut connection = Connection::open_in_memory().expect("open");
            STATE.migrate(&mut connection, file).expect("made");
            connection.execute_batch(odd).expect("changed");
            let error = STATE.check_parts(&connection, file).expect_err(odd);
            assert!(matches!(error.kind, FaultKind::Damaged(_)), "{error}");
        }
    }
}
