//! Owns the rows of the named objects. See `users`, `tokens`, `schedules`, `sites`, `invites` and `nodes` for the rules that connect objects,
//! and `model` for the acceptable values of a single object.

use rusqlite::{Connection, params};

use super::notices::Notices;
use super::{Context, Stop, sql};
use crate::model::{Change, CommandError, Effect, Object, Topic};
use crate::read::object_by_id;
use crate::seal::{object_body, select_objects};

/// The rows of the named objects, as a command changes them.
#[derive(Clone, Copy)]
pub(super) struct Objects<'a>(pub(super) &'a Context<'a>);

impl Objects<'_> {
    /// Adds, replaces or removes an object without links to others.
    pub(super) fn change<T: Object>(&self, change: &Change<T>) -> Result<Effect, Stop> {
        match change {
            Change::Create(object) => {
                let id = object.id();
                if object_by_id::<T>(self.0.db, &id)?.is_some() {
                    let kind = T::KIND.to_owned();
                    return Err(CommandError::Conflict { kind, id }.into());
                }
                self.put(object)
            }
            Change::Put(object) => self.put(object),
            Change::Remove(id) => self.remove::<T>(id),
        }
    }

    pub(super) fn put<T: Object>(&self, object: &T) -> Result<Effect, Stop> {
        object.check()?;
        let id = object.id();
        if object_by_id::<T>(self.0.db, &id)?.is_none() {
            let count: i64 = self
                .0
                .db
                .prepare_cached("SELECT count(*) FROM objects WHERE kind = ?1")?
                .query_row([T::KIND], |row| row.get(0))?;
            if count >= sql(T::COUNT_MAX) {
                return Err(CommandError::TooMany {
                    kind: T::KIND.to_owned(),
                    max: T::COUNT_MAX,
                }
                .into());
            }
        }
        self.0
            .db
            .prepare_cached(
                "INSERT INTO objects (kind, id, lookup, body, changed) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT (kind, id) DO UPDATE SET lookup = ?3, body = ?4, changed = ?5",
            )?
            .execute(params![
                T::KIND,
                id,
                object.lookup(),
                serde_json::to_string(object)?,
                self.0.at.0
            ])?;
        self.announce::<T>(&id)
    }

    pub(super) fn remove<T: Object>(&self, id: &str) -> Result<Effect, Stop> {
        let count = self
            .0
            .db
            .prepare_cached("DELETE FROM objects WHERE kind = ?1 AND id = ?2")?
            .execute(params![T::KIND, id])?;
        if count == 0 {
            return Err(CommandError::not_found(T::KIND, id).into());
        }
        self.announce::<T>(id)
    }

    fn announce<T: Object>(&self, id: &str) -> Result<Effect, Stop> {
        Notices(self.0).event(Topic::Object, &format!("{}/{id}", T::KIND), "{}")?;
        Ok(Effect::Done)
    }
}

/// All objects of a kind, by id.
pub(super) fn all<T: Object>(db: &Connection) -> Result<Vec<T>, Stop> {
    let mut statement = db.prepare_cached(select_objects!("kind = ?1 ORDER BY id"))?;
    let bodies = statement.query_map([T::KIND], object_body)?;
    bodies
        .map(|body| Ok(serde_json::from_str(&body?)?))
        .collect()
}
