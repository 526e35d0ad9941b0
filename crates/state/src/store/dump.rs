//! Owns a text form of the whole state, for the comparison of two replicas. It is not a backup: it
//! contains secrets, and no program can read it back.

use std::fmt::Write as _;

use rusqlite::types::ValueRef;

use super::Store;
use crate::fault::Fault;

impl Store {
    /// All rows of all tables except the position in the log, in a fixed order.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn dump(&self) -> Result<String, Fault> {
        self.dump_rows()
            .map_err(|error| Fault::sqlite(&self.file, error))
    }

    fn dump_rows(&self) -> rusqlite::Result<String> {
        let tables: Vec<String> = self
            .connection
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'applied' ORDER BY name")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let mut dump = String::new();
        for table in tables {
            // Checksums add no information, and older programs have none.
            let names: Vec<String> = self
                .connection
                .prepare("SELECT name FROM pragma_table_info(?1) WHERE name <> 'sum'")?
                .query_map([&table], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            let columns = names.len();
            let order: Vec<String> = (1..=columns).map(|column| column.to_string()).collect();
            let mut statement = self.connection.prepare(&format!(
                "SELECT {} FROM {table} ORDER BY {}",
                names.join(", "),
                order.join(", ")
            ))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                dump.push_str(&table);
                for column in 0..columns {
                    let _ = match row.get_ref(column)? {
                        ValueRef::Null => write!(dump, "|"),
                        ValueRef::Integer(number) => write!(dump, "|{number}"),
                        ValueRef::Real(number) => write!(dump, "|{number}"),
                        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                            write!(dump, "|{}", String::from_utf8_lossy(bytes))
                        }
                    };
                }
                dump.push('\n');
            }
        }
        Ok(dump)
    }
}
