//! Owns the consequences of a change: its event, and its deliveries to webhooks. Does not send: readers follow the
//! events, and a node delivers.

use godwit_model::millis;
use rusqlite::{Connection, params};
use serde::Serialize;

use super::objects::Objects;
use super::{Context, Stop, sql};
use crate::bounds;
use crate::model::{
    Change, CommandError, DRAINED_EVENT, Delivery, Effect, Job, JobState, LEVEL_DELIVERIES,
    LEVEL_KEPT_KEY, Object as _, Reason, SITE_EVENTS, Site, Timestamp, Topic, Webhook,
};
use crate::read::{committed_level, object_by_id, parent_of};
use crate::seal::{object_body, select_objects};

/// Every delivery whose id is a multiple of this also removes the surplus ones.
const DELIVERIES_EACH: i64 = 1_000;

/// Content of an event of a job.
#[derive(Serialize)]
struct JobBody<'a> {
    owner: &'a str,
    state: JobState,
    reason: Option<&'a Reason>,
    #[serde(with = "millis")]
    since: Timestamp,
    #[serde(with = "millis::option")]
    next_attempt: Option<Timestamp>,
    epoch: u64,
}

/// Content of a delivery, in the form of Standard Webhooks.
#[derive(Serialize)]
struct DeliveryBody<T> {
    r#type: String,
    timestamp: String,
    data: T,
}

/// Content of an event of a site.
#[derive(Serialize)]
struct SiteBody {
    answers: bool,
}

#[derive(Serialize)]
struct DeliverySite<'a> {
    site: &'a str,
    answers: bool,
}

#[derive(Serialize)]
struct DeliveryJob<'a> {
    id: &'a str,
    label: &'a str,
    owner: &'a str,
    state: JobState,
    reason: Option<&'a Reason>,
    /// The parent of this job.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
}

/// The events and deliveries that a command causes.
#[derive(Clone, Copy)]
pub(super) struct Notices<'a>(pub(super) &'a Context<'a>);

impl Notices<'_> {
    /// Publishes the change of a job; `moved` is true if its state changed.
    pub(super) fn job(&self, job: &Job, moved: bool) -> Result<(), Stop> {
        let body = serde_json::to_string(&JobBody {
            owner: &job.owner,
            state: job.state,
            reason: job.reason.as_ref(),
            since: job.since,
            next_attempt: job.next_attempt,
            epoch: job.epoch,
        })?;
        self.event(Topic::Job, &job.id, &body)?;
        if moved {
            self.deliver(job, job.state.name())?;
        }
        Ok(())
    }

    /// Publishes that no data of a job waits in a transfer buffer any more. Only webhooks that name this event receive it.
    pub(super) fn drained(&self, job: &Job) -> Result<(), Stop> {
        self.job(job, false)?;
        self.deliver(job, DRAINED_EVENT)
    }

    /// Appends an event; beyond the limit, the oldest event is deleted.
    pub(super) fn event(&self, topic: Topic, object: &str, body: &str) -> Result<(), Stop> {
        self.0
            .db
            .prepare_cached(
                "INSERT INTO events (log_index, at, topic, object, change, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                sql(self.0.index),
                self.0.at.0,
                topic.name(),
                object,
                self.0.action,
                body
            ])?;
        let seq = self.0.db.last_insert_rowid();
        self.0
            .db
            .prepare_cached("DELETE FROM events WHERE seq <= ?1")?
            .execute([seq - bounds::EVENTS_KEPT])?;
        Ok(())
    }

    /// Publishes that a site stopped or resumed answering. Only webhooks that name this event receive it: others expect jobs.
    pub(super) fn site(&self, name: &str, answers: bool) -> Result<(), Stop> {
        let body = serde_json::to_string(&SiteBody { answers })?;
        self.event(Topic::Object, &format!("{}/{name}", Site::KIND), &body)?;
        let [away, back] = SITE_EVENTS;
        let word = if answers { back } else { away };
        for webhook in webhooks(self.0.db)? {
            let is_wanted = webhook.events.iter().any(|name| name == word);
            if webhook.disabled || !is_wanted || webhook.owner.is_some() {
                continue;
            }
            let body = serde_json::to_string(&DeliveryBody {
                r#type: word.replace('_', "."),
                timestamp: self.0.at.rfc3339(),
                data: DeliverySite {
                    site: name,
                    answers,
                },
            })?;
            self.add(&webhook, "", word, &body)?;
        }
        Ok(())
    }

    /// Adds a delivery for each webhook that selects this event of a job. Those that select none get all states.
    fn deliver(&self, job: &Job, event: &str) -> Result<(), Stop> {
        let parent = parent_of(self.0.db, &job.id)?;
        for webhook in webhooks(self.0.db)? {
            let is_usual = webhook.events.is_empty() && event == job.state.name();
            let is_wanted = is_usual || webhook.events.iter().any(|name| name == event);
            let owner = webhook
                .owner
                .as_ref()
                .is_none_or(|owner| *owner == job.owner);
            if webhook.disabled || !is_wanted || !owner {
                continue;
            }
            let body = serde_json::to_string(&DeliveryBody {
                r#type: format!("job.{event}"),
                timestamp: self.0.at.rfc3339(),
                data: DeliveryJob {
                    id: &job.id,
                    label: &job.label,
                    owner: &job.owner,
                    state: job.state,
                    reason: job.reason.as_ref(),
                    parent: parent.as_deref(),
                },
            })?;
            self.add(&webhook, &job.id, event, &body)?;
        }
        Ok(())
    }

    /// Adds a delivery. Beyond the limit, the oldest deliveries of the webhooks that have most are deleted. A delivery that concerns no job names
    /// none.
    fn add(&self, webhook: &Webhook, job: &str, event: &str, body: &str) -> Result<(), Stop> {
        self.0
            .db
            .prepare_cached(
                "INSERT INTO deliveries (webhook, job, event, body, at, attempts, next_attempt, status) \
                 VALUES (?1, ?2, ?3, ?4, ?5, 0, ?5, '')",
            )?
            .execute(params![webhook.id, job, event, body, self.0.at.0])?;
        let id = self.0.db.last_insert_rowid();
        if committed_level(self.0.db)? < LEVEL_DELIVERIES {
            self.0
                .db
                .prepare_cached("DELETE FROM deliveries WHERE id <= ?1")?
                .execute([id - bounds::DELIVERIES_KEPT])?;
        } else if id % DELIVERIES_EACH == 0 {
            // The newest of each webhook stay, so one with many deliveries deletes none of another.
            self.0
                .db
                .prepare_cached(
                    "DELETE FROM deliveries WHERE id IN (\
                         SELECT id FROM (\
                             SELECT id, row_number() OVER (PARTITION BY webhook ORDER BY id DESC) AS place FROM deliveries\
                         ) ORDER BY place, id DESC LIMIT -1 OFFSET ?1\
                     )",
                )?
                .execute([bounds::DELIVERIES_KEPT])?;
        }
        Ok(())
    }

    /// Changes a webhook. The deliveries of a removed webhook end, so a later one of that id, perhaps for other jobs, gets none of them.
    pub(super) fn webhook(&self, change: &Change<Webhook>) -> Result<Effect, Stop> {
        let effect = Objects(self.0).change(&self.with_key(change)?)?;
        if let Change::Remove(id) = change
            && committed_level(self.0.db)? >= LEVEL_DELIVERIES
        {
            self.0
                .db
                .prepare_cached(
                    "UPDATE deliveries SET next_attempt = NULL, status = 'the webhook was removed', at = ?2 \
                     WHERE webhook = ?1 AND next_attempt IS NOT NULL",
                )?
                .execute(params![id, self.0.at.0])?;
        }
        Ok(effect)
    }

    /// The change, with the key of the row if the command puts none. The proposer may have read an older row.
    fn with_key(&self, change: &Change<Webhook>) -> Result<Change<Webhook>, Stop> {
        let mut change = change.clone();
        if let Change::Put(webhook) = &mut change
            && webhook.secret.expose().is_empty()
            && committed_level(self.0.db)? >= LEVEL_KEPT_KEY
        {
            let row = object_by_id::<Webhook>(self.0.db, &webhook.id)?;
            let row = row.ok_or_else(|| CommandError::not_found(Webhook::KIND, &webhook.id))?;
            webhook.secret = row.secret;
        }
        Ok(change)
    }

    /// Records the result of a delivery attempt.
    pub(super) fn delivered(&self, delivery: &Delivery) -> Result<Effect, Stop> {
        bounds::text("status", &delivery.status)?;
        let changed = self
            .0
            .db
            .prepare_cached(
                "UPDATE deliveries SET attempts = attempts + 1, next_attempt = ?2, status = ?3, at = ?4 \
                 WHERE id = ?1 AND next_attempt IS NOT NULL",
            )?
            .execute(params![
                sql(delivery.id),
                delivery.next_attempt.map(|time| time.0),
                delivery.status,
                self.0.at.0
            ])?;
        if changed == 0 {
            return Err(CommandError::not_found("delivery", &delivery.id.to_string()).into());
        }
        Ok(Effect::Done)
    }
}

fn webhooks(db: &Connection) -> Result<Vec<Webhook>, Stop> {
    let bodies: Vec<String> = db
        .prepare_cached(select_objects!("kind = ?1 ORDER BY id"))?
        .query_map([Webhook::KIND], object_body)?
        .collect::<Result<_, _>>()?;
    let webhooks = bodies.iter().map(|body| serde_json::from_str(body));
    Ok(webhooks.collect::<Result<_, _>>()?)
}
