//! Owns the consequences of a change: its event, and its deliveries to webhooks. Does not send: readers follow the
//! events, and a node delivers.

use godwit_model::millis;
use rusqlite::{Connection, params};
use serde::Serialize;

use super::{Context, Stop, sql};
use crate::bounds;
use crate::model::{
    CommandError, Delivery, Effect, Job, JobState, Object as _, Reason, SITE_EVENTS, Site,
    Timestamp, Topic, Webhook,
};
use crate::seal::{object_body, select_objects};

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
}

/// Publishes the change of a job; `moved` is true if its state changed.
pub(super) fn job(context: &Context<'_>, job: &Job, moved: bool) -> Result<(), Stop> {
    let body = serde_json::to_string(&JobBody {
        owner: &job.owner,
        state: job.state,
        reason: job.reason.as_ref(),
        since: job.since,
        next_attempt: job.next_attempt,
        epoch: job.epoch,
    })?;
    event(context, Topic::Job, &job.id, &body)?;
    if moved {
        deliver(context, job)?;
    }
    Ok(())
}

/// Appends an event; beyond the limit, the oldest event is deleted.
pub(super) fn event(
    context: &Context<'_>,
    topic: Topic,
    object: &str,
    body: &str,
) -> Result<(), Stop> {
    context
        .db
        .prepare_cached(
            "INSERT INTO events (log_index, at, topic, object, change, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            sql(context.index),
            context.at.0,
            topic.name(),
            object,
            context.action,
            body
        ])?;
    let seq = context.db.last_insert_rowid();
    context
        .db
        .prepare_cached("DELETE FROM events WHERE seq <= ?1")?
        .execute([seq - bounds::EVENTS_KEPT])?;
    Ok(())
}

/// Publishes that a site stopped or resumed answering. Only webhooks that name this event receive it: others expect jobs.
pub(super) fn site(context: &Context<'_>, name: &str, answers: bool) -> Result<(), Stop> {
    let body = serde_json::to_string(&SiteBody { answers })?;
    event(
        context,
        Topic::Object,
        &format!("{}/{name}", Site::KIND),
        &body,
    )?;
    let [away, back] = SITE_EVENTS;
    let word = if answers { back } else { away };
    for webhook in webhooks(context.db)? {
        let is_wanted = webhook.events.iter().any(|name| name == word);
        if webhook.disabled || !is_wanted || webhook.owner.is_some() {
            continue;
        }
        let body = serde_json::to_string(&DeliveryBody {
            r#type: word.replace('_', "."),
            timestamp: context.at.rfc3339(),
            data: DeliverySite {
                site: name,
                answers,
            },
        })?;
        add(context, &webhook, "", word, &body)?;
    }
    Ok(())
}

/// Adds a delivery for each webhook that selects the job's state.
fn deliver(context: &Context<'_>, job: &Job) -> Result<(), Stop> {
    for webhook in webhooks(context.db)? {
        let state = job.state.name();
        let event = webhook.events.is_empty() || webhook.events.iter().any(|name| name == state);
        let owner = webhook
            .owner
            .as_ref()
            .is_none_or(|owner| *owner == job.owner);
        if webhook.disabled || !event || !owner {
            continue;
        }
        let body = serde_json::to_string(&DeliveryBody {
            r#type: format!("job.{state}"),
            timestamp: context.at.rfc3339(),
            data: DeliveryJob {
                id: &job.id,
                label: &job.label,
                owner: &job.owner,
                state: job.state,
                reason: job.reason.as_ref(),
            },
        })?;
        add(context, &webhook, &job.id, state, &body)?;
    }
    Ok(())
}

fn webhooks(db: &Connection) -> Result<Vec<Webhook>, Stop> {
    let bodies: Vec<String> = db
        .prepare_cached(select_objects!("kind = ?1 ORDER BY id"))?
        .query_map([Webhook::KIND], object_body)?
        .collect::<Result<_, _>>()?;
    let webhooks = bodies.iter().map(|body| serde_json::from_str(body));
    Ok(webhooks.collect::<Result<_, _>>()?)
}

/// Adds a delivery; beyond the limit, the oldest delivery is deleted. A delivery that concerns no job names none.
fn add(
    context: &Context<'_>,
    webhook: &Webhook,
    job: &str,
    event: &str,
    body: &str,
) -> Result<(), Stop> {
    context
        .db
        .prepare_cached(
            "INSERT INTO deliveries (webhook, job, event, body, at, attempts, next_attempt, status) \
             VALUES (?1, ?2, ?3, ?4, ?5, 0, ?5, '')",
        )?
        .execute(params![webhook.id, job, event, body, context.at.0])?;
    let id = context.db.last_insert_rowid();
    context
        .db
        .prepare_cached("DELETE FROM deliveries WHERE id <= ?1")?
        .execute([id - bounds::DELIVERIES_KEPT])?;
    Ok(())
}

/// Records the result of a delivery attempt.
pub(super) fn delivered(context: &Context<'_>, delivery: &Delivery) -> Result<Effect, Stop> {
    bounds::text("status", &delivery.status)?;
    let changed = context
        .db
        .prepare_cached(
            "UPDATE deliveries SET attempts = attempts + 1, next_attempt = ?2, status = ?3, at = ?4 \
             WHERE id = ?1 AND next_attempt IS NOT NULL",
        )?
        .execute(params![
            sql(delivery.id),
            delivery.next_attempt.map(|time| time.0),
            delivery.status,
            context.at.0
        ])?;
    if changed == 0 {
        return Err(CommandError::not_found("delivery", &delivery.id.to_string()).into());
    }
    Ok(Effect::Done)
}
