//! Owns the checksums of important rows: which rows have one, how it is computed, and when it is checked. Does not read or write the rows
//! for other purposes: `apply`, `read` and `raft` do.
//!
//! The column `sum` contains the CRC of the other columns. Triggers of the writing connection clear it with each change of a row, and
//! record the row. At the end of each command, the checksums of those rows are computed. Therefore a row without a checksum belongs to the
//! command in progress. All checksums are checked when the file is opened, and the checksum of a row whenever the row is read.
//!
//! A program without support for checksums leaves old ones unchanged. It also leaves the column `sealed` of `applied` behind the index of
//! the last command. In that case all checksums are computed again.

use std::fmt;
use std::path::Path;

use crc_fast::{CrcAlgorithm, Digest};
use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params_from_iter};

use crate::fault::{Fault, FaultKind};

/// A table whose rows have checksums.
struct Sealed {
    table: &'static str,
    /// The one or two key columns.
    key: &'static [&'static str],
    /// All columns except `sum`, in the order in which they are read.
    columns: &'static str,
}

/// The columns of a table, and the same followed by the checksum.
macro_rules! columns {
    ($all:ident, $and_sum:ident, $columns:literal) => {
        const $all: &str = $columns;
        pub(crate) const $and_sum: &str = concat!($columns, ", sum");
    };
}

columns!(
    JOBS,
    JOBS_AND_SUM,
    "id, created, owner, label, state, reason_code, reason_text, since, next_attempt, \
     priority, rate_limit, not_before, deadline, retry, attempts, retries, epoch, runner_node, runner_instance, \
     idempotency_key, started, ended, summary, schedule, sources, destination, request, due"
);
columns!(
    ATTEMPTS,
    ATTEMPTS_AND_SUM,
    "number, epoch, node, started, ended, outcome, reason_code, reason_text, bytes, files, goes_into, tag, route, job"
);
columns!(
    WORK,
    WORK_AND_SUM,
    "job, epoch, claim, roots, pairs, trouble, closed, open, closes, counts, targets, id, part_bytes, next_number"
);
columns!(
    ITEMS,
    ITEMS_AND_SUM,
    "number, kind, state, root, path, piece, pieces, bytes, generation, parent, waits, failed, lease, node, \
     instance, digest, work"
);
columns!(
    DELIVERIES,
    DELIVERIES_AND_SUM,
    "id, webhook, job, event, body, attempts, next_attempt, at, status"
);

/// Selects objects for [`object_body`].
macro_rules! select_objects {
    ($where:literal) => {
        concat!(
            "SELECT body, kind, id, lookup, changed, sum FROM objects WHERE ",
            $where
        )
    };
}
pub(crate) use select_objects;

const TABLES: &[Sealed] = &[
    Sealed {
        table: "applied",
        key: &["one"],
        columns: "one, log_index, position, membership, sealed",
    },
    Sealed {
        table: "cluster",
        key: &["one"],
        columns: "level, one",
    },
    Sealed {
        table: "jobs",
        key: &["id"],
        columns: JOBS,
    },
    Sealed {
        table: "job_specs",
        key: &["job"],
        columns: "spec, job",
    },
    Sealed {
        table: "attempts",
        key: &["job", "number"],
        columns: ATTEMPTS,
    },
    Sealed {
        table: "objects",
        key: &["kind", "id"],
        columns: "body, kind, id, lookup, changed",
    },
    Sealed {
        table: "work",
        key: &["job"],
        columns: WORK,
    },
    Sealed {
        table: "work_items",
        key: &["work", "number"],
        columns: ITEMS,
    },
    Sealed {
        table: "deliveries",
        key: &["id"],
        columns: DELIVERIES,
    },
];

/// A row that differs from the written one.
#[derive(Debug)]
pub(crate) struct Broken {
    table: String,
    key: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, key } = self;
        write!(f, "row {key} of {table} does not match its checksum")
    }
}

impl std::error::Error for Broken {}

/// The broken row of an error.
pub(crate) fn broken(error: &rusqlite::Error) -> Option<&Broken> {
    match error {
        rusqlite::Error::FromSqlConversionFailure(_, _, inner) => inner.downcast_ref(),
        _ => None,
    }
}

/// Checks a row whose last column is its checksum. Call it before using any other column.
pub(crate) fn check(table: &str, row: &Row<'_>) -> rusqlite::Result<()> {
    let columns = row.as_ref().column_count() - 1;
    match row.get::<_, Option<i64>>(columns) {
        Ok(None) => return Ok(()),
        Ok(Some(sum)) if sum == sum_of(row, columns)? => return Ok(()),
        _ => {}
    }
    let key = TABLES
        .iter()
        .find(|sealed| sealed.table == table)
        .map_or(&["log_index", "name"] as &[&str], |sealed| sealed.key);
    let key: Vec<String> = key
        .iter()
        .filter_map(|name| row.get_ref(*name).ok())
        .map(shown)
        .collect();
    let broken = Broken {
        table: table.to_owned(),
        key: key.join(" "),
    };
    Err(rusqlite::Error::FromSqlConversionFailure(
        columns,
        Type::Integer,
        Box::new(broken),
    ))
}

/// The body of an object of [`select_objects`].
pub(crate) fn object_body(row: &Row<'_>) -> rusqlite::Result<String> {
    check("objects", row)?;
    row.get(0)
}

/// The checksum of some values.
pub(crate) fn sum<'a>(values: impl IntoIterator<Item = ValueRef<'a>>) -> i64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    for value in values {
        match value {
            ValueRef::Null => digest.update(&[0]),
            ValueRef::Integer(number) => {
                digest.update(&[1]);
                digest.update(&number.to_le_bytes());
            }
            ValueRef::Real(number) => {
                digest.update(&[2]);
                digest.update(&number.to_bits().to_le_bytes());
            }
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                digest.update(&[3]);
                digest.update(&(bytes.len() as u64).to_le_bytes());
                digest.update(bytes);
            }
        }
    }
    digest.finalize().cast_signed()
}

fn sum_of(row: &Row<'_>, columns: usize) -> rusqlite::Result<i64> {
    let values: Vec<ValueRef<'_>> = (0..columns)
        .map(|column| row.get_ref(column))
        .collect::<Result<_, _>>()?;
    Ok(sum(values))
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).escape_debug().to_string(),
        _ => "?".to_owned(),
    }
}

/// Prepares a file of the newest version: checks its checksums, or computes them if the last writer did not support them.
pub(crate) fn prepare(connection: &mut Connection, file: &Path) -> Result<(), Fault> {
    let fault = |error| Fault::sqlite_opening(file, error);
    let transaction = connection.transaction().map_err(fault)?;
    add_columns(&transaction).map_err(fault)?;
    if is_sealed(&transaction).map_err(fault)? {
        check_all(&transaction, file)?;
    } else {
        check_position(&transaction, file)?;
        seal_all(&transaction).map_err(fault)?;
    }
    transaction.commit().map_err(fault)
}

/// Installs triggers that record each change of a sealed row by this connection.
pub(crate) fn watch(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.execute_batch(
        "CREATE TEMP TABLE gw_unsealed (tab, one, two, PRIMARY KEY (tab, one, two)) WITHOUT ROWID;",
    )?;
    for (number, sealed) in TABLES.iter().enumerate() {
        let Sealed {
            table,
            key,
            columns,
        } = sealed;
        let (one, two) = (
            format!("NEW.{}", key[0]),
            key.get(1)
                .map_or_else(|| "0".to_owned(), |name| format!("NEW.{name}")),
        );
        let condition = condition(key, &[&one, &two]);
        let empty = format!("UPDATE {table} SET sum = NULL WHERE {condition}; ");
        for (name, event, empty) in [
            ("insert", "INSERT".to_owned(), ""),
            ("update", format!("UPDATE OF {columns}"), empty.as_str()),
        ] {
            connection.execute_batch(&format!(
                "CREATE TEMP TRIGGER gw_{table}_{name} AFTER {event} ON main.{table} BEGIN \
                 {empty}INSERT OR IGNORE INTO gw_unsealed (tab, one, two) VALUES ({number}, {one}, {two}); END;"
            ))?;
        }
    }
    Ok(())
}

/// Computes the checksums of the changed rows.
pub(crate) fn seal(connection: &Connection) -> rusqlite::Result<()> {
    type Changed = (usize, rusqlite::types::Value, rusqlite::types::Value);
    let changed: Vec<Changed> = connection
        .prepare_cached("SELECT tab, one, two FROM gw_unsealed")?
        .query_map([], |row| {
            Ok((
                usize::try_from(row.get::<_, i64>(0)?).unwrap_or_default(),
                row.get(1)?,
                row.get(2)?,
            ))
        })?
        .collect::<Result<_, _>>()?;
    if changed.is_empty() {
        return Ok(());
    }
    for (table, one, two) in &changed {
        let sealed = &TABLES[*table];
        let keys: [&dyn ToSql; 2] = [one, two];
        seal_row(connection, sealed, &keys[..sealed.key.len()])?;
    }
    connection
        .prepare_cached("DELETE FROM gw_unsealed")?
        .execute([])
        .map(drop)
}

/// Checks the checksums of a read-only copy, if it has any.
pub(crate) fn check_copy(connection: &Connection, file: &Path) -> Result<(), Fault> {
    let fault = |error| Fault::sqlite_opening(file, error);
    if has_column(connection, "applied", "sealed").map_err(fault)?
        && is_sealed(connection).map_err(fault)?
    {
        check_all(connection, file)?;
    }
    check_position(connection, file)
}

fn seal_row(connection: &Connection, sealed: &Sealed, key: &[&dyn ToSql]) -> rusqlite::Result<()> {
    let Sealed { table, columns, .. } = sealed;
    let condition = condition(sealed.key, &["?1", "?2"]);
    let sum = connection
        .prepare_cached(&format!("SELECT {columns} FROM {table} WHERE {condition}"))?
        .query_row(params_from_iter(key), |row| {
            sum_of(row, row.as_ref().column_count())
        })
        .optional()?;
    // The row may have been removed by the same command.
    let Some(sum) = sum else { return Ok(()) };
    let sum_at = format!("?{}", key.len() + 1);
    connection
        .prepare_cached(&format!(
            "UPDATE {table} SET sum = {sum_at} WHERE {condition}"
        ))?
        .execute(params_from_iter(
            key.iter().copied().chain([&sum as &dyn ToSql]),
        ))
        .map(drop)
}

fn condition(key: &[&str], values: &[&str]) -> String {
    let equal: Vec<String> = key
        .iter()
        .zip(values)
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    equal.join(" AND ")
}

/// Whether the program that applied the last command computed checksums.
fn is_sealed(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .query_row("SELECT sealed IS log_index FROM applied", [], |row| {
            row.get(0)
        })
        .optional()
        .map(Option::unwrap_or_default)
}

fn seal_all(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("UPDATE applied SET sealed = log_index", [])?;
    for sealed in TABLES {
        let Sealed { table, key, .. } = sealed;
        let mut keys = connection.prepare(&format!("SELECT {} FROM {table}", key.join(", ")))?;
        let mut rows = keys.query([])?;
        while let Some(row) = rows.next()? {
            let values: Vec<rusqlite::types::Value> = (0..key.len())
                .map(|column| row.get(column))
                .collect::<Result<_, _>>()?;
            let values: Vec<&dyn ToSql> = values.iter().map(|value| value as &dyn ToSql).collect();
            seal_row(connection, sealed, &values)?;
        }
    }
    Ok(())
}

fn check_all(connection: &Connection, file: &Path) -> Result<(), Fault> {
    let fault = |error| Fault::sqlite_opening(file, error);
    for Sealed { table, columns, .. } in TABLES {
        connection
            .prepare(&format!("SELECT {columns}, sum FROM {table}"))
            .and_then(|mut statement| {
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    check(table, row)?;
                }
                Ok(())
            })
            .map_err(fault)?;
    }
    check_position(connection, file)
}

/// Checks the index of the last command, which is stored in two places.
fn check_position(connection: &Connection, file: &Path) -> Result<(), Fault> {
    let differs: Option<bool> = connection
        .query_row(
            "SELECT CASE position WHEN '' THEN 0 ELSE json_extract(position, '$.index') IS NOT log_index END FROM applied",
            [],
            |row| row.get(0),
        )
        .optional()
        .map_err(|error| Fault::sqlite_opening(file, error))?;
    match differs {
        Some(true) => Err(Fault::new(
            file,
            FaultKind::Damaged("the state names two last commands".to_owned()),
        )),
        _ => Ok(()),
    }
}

fn has_column(connection: &Connection, table: &str, column: &str) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2)",
        [table, column],
        |row| row.get(0),
    )
}

/// Adds the missing columns of checksums. Tables that a later version makes get theirs with that version.
pub(crate) fn add_columns(connection: &Connection) -> rusqlite::Result<()> {
    for sealed in TABLES {
        add_column(connection, sealed.table, "sum")?;
    }
    add_column(connection, "applied", "sealed")
}

/// Older programs read and write tables with extra columns, so the version of the file stays: they can use snapshots of newer programs.
fn add_column(connection: &Connection, table: &str, column: &str) -> rusqlite::Result<()> {
    if has_column(connection, table, column)? {
        return Ok(());
    }
    connection.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {column} INTEGER"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    /// A column that no checksum covers would be trusted unchecked.
    #[test]
    fn all_columns_of_sealed_tables_are_covered() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("state.db");
        drop(Store::open(&file).expect("open"));
        let db = Connection::open(&file).expect("open");
        for sealed in TABLES {
            let mut found: Vec<String> = db
                .prepare("SELECT name FROM pragma_table_info(?1) WHERE name <> 'sum'")
                .expect("a statement")
                .query_map([sealed.table], |row| row.get(0))
                .expect("columns")
                .collect::<Result<_, _>>()
                .expect("columns");
            let mut covered: Vec<&str> = sealed.columns.split(',').map(str::trim).collect();
            found.sort();
            covered.sort_unstable();
            assert_eq!(found, covered, "{}", sealed.table);
        }
    }
}
