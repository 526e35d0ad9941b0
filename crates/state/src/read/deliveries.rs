//! Owns reading of deliveries to webhooks. Does not deliver.

use rusqlite::params;

use super::Reader;
use super::row::{time, to_u64};
use crate::bounds::PAGE_ROWS_MAX;
use crate::fault::Fault;
use crate::model::Timestamp;
use crate::seal::{self, DELIVERIES_AND_SUM};

/// An unfinished delivery to a webhook.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PendingDelivery {
    /// Id, for `Op::Delivery`.
    pub id: u64,
    /// Id of the webhook.
    pub webhook: String,
    /// Id of the job.
    pub job: String,
    /// The state that the job entered.
    pub event: String,
    /// The body to send, as JSON text.
    pub body: String,
    /// Number of attempts so far.
    pub attempts: u32,
    /// When to send the delivery.
    pub next_attempt: Timestamp,
}

/// A delivery to a webhook, for lists.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeliveryLine {
    /// Id. Later deliveries have greater ids.
    pub id: u64,
    /// Id of the job.
    pub job: String,
    /// The state that the job entered.
    pub event: String,
    /// When the last attempt ended, or when the delivery was added if there was none.
    pub at: Timestamp,
    /// Number of attempts so far.
    pub attempts: u32,
    /// When the next attempt starts; `None` once the delivery has ended.
    pub next_attempt: Option<Timestamp>,
    /// How the last attempt ended.
    pub status: String,
}

/// Reads deliveries to webhooks.
#[derive(Clone, Copy)]
pub struct Deliveries<'a>(pub(super) &'a Reader);

impl Deliveries<'_> {
    /// Deliveries that are due at `now`, at most `each` of one webhook. Without this bound, deliveries of one webhook could hide those of all others.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn due(&self, now: Timestamp, each: usize) -> Result<Vec<PendingDelivery>, Fault> {
        let each = i64::try_from(each).unwrap_or(i64::MAX);
        let limit = i64::try_from(PAGE_ROWS_MAX).unwrap_or(i64::MAX);
        self.0.with(|db| {
            db.prepare_cached(&format!(
                "SELECT {DELIVERIES_AND_SUM} FROM deliveries WHERE id IN (\
                     SELECT id FROM (\
                         SELECT id, row_number() OVER (PARTITION BY webhook ORDER BY next_attempt, id) AS place \
                         FROM deliveries WHERE next_attempt IS NOT NULL AND next_attempt <= ?1\
                     ) WHERE place <= ?2\
                 ) ORDER BY next_attempt, id LIMIT ?3"
            ))?
            .query_map(params![now.0, each, limit], |row| {
                seal::check("deliveries", row)?;
                Ok(PendingDelivery {
                    id: to_u64(row, 0)?,
                    webhook: row.get(1)?,
                    job: row.get(2)?,
                    event: row.get(3)?,
                    body: row.get(4)?,
                    attempts: row.get(5)?,
                    next_attempt: Timestamp(row.get(6)?),
                })
            })?
            .collect()
        })
    }

    /// The latest deliveries to a webhook, the newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn to(&self, webhook: &str, limit: usize) -> Result<Vec<DeliveryLine>, Fault> {
        let limit = i64::try_from(limit.clamp(1, PAGE_ROWS_MAX)).unwrap_or(i64::MAX);
        self.0.with(|db| {
            db.prepare_cached(
                "SELECT id, job, event, at, attempts, next_attempt, status FROM deliveries \
                 WHERE webhook = ?1 ORDER BY id DESC LIMIT ?2",
            )?
            .query_map(params![webhook, limit], |row| {
                Ok(DeliveryLine {
                    id: to_u64(row, 0)?,
                    job: row.get(1)?,
                    event: row.get(2)?,
                    at: Timestamp(row.get(3)?),
                    attempts: row.get(4)?,
                    next_attempt: time(row, 5)?,
                    status: row.get(6)?,
                })
            })?
            .collect()
        })
    }

    /// When the next delivery is due.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn next(&self) -> Result<Option<Timestamp>, Fault> {
        self.0.with(|db| {
            db.prepare_cached(
                "SELECT min(next_attempt) FROM deliveries WHERE next_attempt IS NOT NULL",
            )?
            .query_row([], |row| time(row, 0))
        })
    }
}
