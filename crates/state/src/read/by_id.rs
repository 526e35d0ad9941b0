//! Owns reading of named objects by the order or a prefix of their ids.
//! See `lists` for single objects and whole kinds.

use super::Reader;
use super::row::{object, to_u64};
use crate::fault::Fault;
use crate::model::Object;
use crate::seal::select_objects;

/// Named objects by their ids.
#[derive(Clone, Copy, Debug)]
pub struct ById<'a>(pub &'a Reader);

impl ById<'_> {
    /// The objects of a kind whose ids follow `after`, by id. Stops at `bytes_max` bytes of stored text, but returns at least
    /// one object.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn after<T: Object>(self, after: &str, bytes_max: usize) -> Result<Vec<T>, Fault> {
        self.0.with(|db| {
            let select = select_objects!("kind = ?1 AND id > ?2 ORDER BY id");
            let mut statement = db.prepare_cached(select)?;
            let mut rows = statement.query([T::KIND, after])?;
            let (mut found, mut bytes) = (Vec::new(), 0);
            while let Some(row) = rows.next()? {
                bytes += row.get_ref(0)?.as_bytes()?.len();
                if !found.is_empty() && bytes > bytes_max {
                    break;
                }
                found.push(object(row)?);
            }
            Ok(found)
        })
    }

    /// The objects of a kind whose ids begin with `prefix`, by id.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn below<T: Object>(self, prefix: &str) -> Result<Vec<T>, Fault> {
        let select = select_objects!("kind = ?1 AND id >= ?2 AND id < ?3 ORDER BY id");
        self.0.with(|db| {
            db.prepare_cached(select)?
                .query_map([T::KIND, prefix, &behind(prefix)], object)?
                .collect()
        })
    }

    /// Number of objects of a kind whose ids begin with `prefix`.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn count_below<T: Object>(self, prefix: &str) -> Result<u64, Fault> {
        let select = "SELECT count(*) FROM objects WHERE kind = ?1 AND id >= ?2 AND id < ?3";
        self.0.with(|db| {
            db.prepare_cached(select)?
                .query_row([T::KIND, prefix, &behind(prefix)], |row| to_u64(row, 0))
        })
    }
}

/// A text that follows all texts with this prefix.
pub(super) fn behind(prefix: &str) -> String {
    format!("{prefix}{}", char::MAX)
}
