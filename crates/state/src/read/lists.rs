//! Owns reading of named objects, events and the audit log.
//! See `jobs` and `page` for jobs.

use rusqlite::{OptionalExtension as _, params};

use super::row::{bad, object, to_u64};
use super::{Deliveries, Reader, object_by_id};
use crate::apply::sql;
use crate::bounds::PAGE_ROWS_MAX;
use crate::fault::Fault;
use crate::model::{AuditOutcome, Event, Object, Timestamp, Topic};
use crate::seal::select_objects;

/// Selects lines of the audit log.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AuditFilter {
    /// Name of the actor.
    pub actor: Option<String>,
    /// At this time or later.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
    /// Only lines older than this one.
    pub before: Option<u64>,
}

/// A line of the audit log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditLine {
    /// Number of the line. Later lines have greater numbers.
    pub seq: u64,
    /// Time of the request.
    pub at: Timestamp,
    /// Name of the actor.
    pub actor: String,
    /// Role of the actor.
    pub role: Option<String>,
    /// Requested action.
    pub action: String,
    /// Object of the action.
    pub object: String,
    /// How the request ended.
    pub outcome: AuditOutcome,
    /// Address of the sender.
    pub remote: Option<String>,
    /// Id of the request.
    pub request: Option<String>,
    /// In a cluster, the node that proposed the change.
    pub via: Option<String>,
}

impl Reader {
    /// The object with that id.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn object<T: Object>(&self, id: &str) -> Result<Option<T>, Fault> {
        self.with(|db| object_by_id(db, id))
    }

    /// All objects of a kind, by id.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn objects<T: Object>(&self) -> Result<Vec<T>, Fault> {
        self.with(|db| {
            db.prepare_cached(select_objects!("kind = ?1 ORDER BY id"))?
                .query_map([T::KIND], object)?
                .collect()
        })
    }

    /// The objects of a kind with this second key: the hash of a token, the identity of a site, the subject of an access rule.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn objects_by<T: Object>(&self, lookup: &str) -> Result<Vec<T>, Fault> {
        self.with(|db| {
            db.prepare_cached(select_objects!("kind = ?1 AND lookup = ?2 ORDER BY id"))?
                .query_map([T::KIND, lookup], object)?
                .collect()
        })
    }

    /// Index of the last applied command.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn applied_index(&self) -> Result<u64, Fault> {
        self.with(|db| {
            let index = db
                .prepare_cached("SELECT log_index FROM applied")?
                .query_row([], |row| to_u64(row, 0))
                .optional()?;
            Ok(index.unwrap_or(0))
        })
    }

    /// Number of the newest event; 0 before the first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn last_event(&self) -> Result<u64, Fault> {
        self.with(|db| {
            db.prepare_cached("SELECT ifnull(max(seq), 0) FROM events")?
                .query_row([], |row| to_u64(row, 0))
        })
    }

    /// Number of the oldest event that is kept; 0 if there is none.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn first_event(&self) -> Result<u64, Fault> {
        self.with(|db| {
            db.prepare_cached("SELECT ifnull(min(seq), 0) FROM events")?
                .query_row([], |row| to_u64(row, 0))
        })
    }

    /// Events after number `after`, the oldest first, at most `limit`.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>, Fault> {
        let limit = i64::try_from(limit.min(PAGE_ROWS_MAX)).unwrap_or(i64::MAX);
        self.with(|db| {
            db.prepare_cached(
                "SELECT seq, log_index, at, topic, object, change, body FROM events WHERE seq > ?1 \
                 ORDER BY seq LIMIT ?2",
            )?
            .query_map(params![sql(after), limit], |row| {
                let topic: String = row.get(3)?;
                Ok(Event {
                    seq: to_u64(row, 0)?,
                    index: to_u64(row, 1)?,
                    at: Timestamp(row.get(2)?),
                    topic: Topic::from_name(&topic)
                        .ok_or_else(|| bad(3, format!("no topic: {topic:?}").into()))?,
                    object: row.get(4)?,
                    change: row.get(5)?,
                    body: row.get(6)?,
                })
            })?
            .collect()
        })
    }

    /// Reads deliveries to webhooks.
    #[must_use]
    pub const fn deliveries(&self) -> Deliveries<'_> {
        Deliveries(self)
    }

    /// Lines of the audit log, the newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Vec<AuditLine>, Fault> {
        let limit = i64::try_from(limit.clamp(1, PAGE_ROWS_MAX)).unwrap_or(i64::MAX);
        let actor = match filter.actor {
            Some(_) => "actor = ?1",
            None => "?1 IS NULL",
        };
        let select = format!(
            "SELECT seq, at, actor, role, action, object, outcome, remote, request, via FROM audit \
             WHERE {actor} AND at >= ?2 AND at < ?3 AND seq < ?4 ORDER BY seq DESC LIMIT ?5"
        );
        self.with(|db| {
            db.prepare_cached(&select)?
                .query_map(
                    params![
                        filter.actor,
                        filter.since.map_or(i64::MIN, |time| time.0),
                        filter.until.map_or(i64::MAX, |time| time.0),
                        filter.before.map_or(i64::MAX, sql),
                        limit
                    ],
                    |row| {
                        Ok(AuditLine {
                            seq: to_u64(row, 0)?,
                            at: Timestamp(row.get(1)?),
                            actor: row.get(2)?,
                            role: row.get(3)?,
                            action: row.get(4)?,
                            object: row.get(5)?,
                            outcome: AuditOutcome::of_word(row.get_ref(6)?.as_str()?),
                            remote: row.get(7)?,
                            request: row.get(8)?,
                            via: row.get(9)?,
                        })
                    },
                )?
                .collect()
        })
    }
}
