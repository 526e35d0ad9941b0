//! Owns the audit log and the deletion of old history.
//! Does not choose how long history is kept: the command does.

use rusqlite::{Connection, params};

use super::notices::Notices;
use super::origin::SITE;
use super::{Context, Stop, counts_what_is_left, knows_origin, sql, work};
use crate::bounds::{
    self, AUDIT_OF_SITE_MAX, JOBS_OF_SITE_MAX, PRUNE_ROWS_MAX, SPEC_BYTES_OF_SITE_MAX,
};
use crate::model::Object as _;
use crate::model::{
    AccessRule, Actor, AuditEntry, AuditOutcome, Effect, Invite, Prune, Role, Timestamp, Token,
    Topic,
};
use crate::read::{job_by_id, node_by_number};

/// Longest text of a line: a kind and the longest name.
const TEXT_SHOWN_MAX: usize = 320;

/// Every line about another site whose number is a multiple of this also removes the site's surplus lines.
const LINES_EACH: i64 = 100;

/// Jobs that history may delete: they have ended, have no parent, and are not the latest run of a hop, whose amount the flow does not know
/// yet.
macro_rules! deletable {
    () => {
        concat!(
            "ended IS NOT NULL AND NOT EXISTS (SELECT 1 FROM objects WHERE kind = 'child' AND objects.id = jobs.id)",
            " AND jobs.id NOT IN (SELECT run FROM (SELECT json_extract(hop.value, '$.runs[#-1]') AS run ",
            "FROM objects, json_each(objects.body, '$.hops') AS hop WHERE objects.kind = 'flow') WHERE run IS NOT NULL)"
        )
    };
}

/// Appends the line of a command.
pub(super) fn append(context: &Context<'_>, entry: &AuditEntry) -> Result<Effect, Stop> {
    bounds::name("action", &entry.action)?;
    bounds::text("object", &entry.object)?;
    bounds::name("outcome", entry.outcome.as_str())?;
    write(
        context.db,
        context.at,
        context.actor,
        &entry.action,
        &entry.object,
        &entry.outcome,
    )?;
    Ok(Effect::Done)
}

/// Writes a line of the audit log. Texts of a refused command may have any length, so they are cut.
pub(super) fn write(
    db: &Connection,
    at: Timestamp,
    actor: &Actor,
    action: &str,
    object: &str,
    outcome: &AuditOutcome,
) -> Result<(), rusqlite::Error> {
    let via = match actor.via {
        // If its own command removed the node, the node has no row any more.
        Some(number) => Some(match node_by_number(db, number)? {
            Some(node) => node.name,
            None => format!("number {number}"),
        }),
        None => None,
    };
    db.prepare_cached(
        "INSERT INTO audit (at, actor, role, action, object, outcome, remote, request, via) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        at.0,
        cut(&actor.name),
        actor.role.map(Role::name),
        cut(action),
        cut(object),
        cut(outcome.as_str()),
        actor.remote.as_deref().map(cut),
        actor.request.as_deref().map(cut),
        via
    ])?;
    match actor.role.is_none() && actor.name.starts_with(SITE) {
        true => bound_site(db, cut(&actor.name)),
        false => Ok(()),
    }
}

/// Deletes the oldest surplus lines about another site. Another site can cause any number of lines.
fn bound_site(db: &Connection, actor: &str) -> Result<(), rusqlite::Error> {
    if db.last_insert_rowid() % LINES_EACH != 0 || !counts_what_is_left(db)? {
        return Ok(());
    }
    db.prepare_cached(
        "DELETE FROM audit WHERE actor = ?1 AND seq <= \
         (SELECT seq FROM audit WHERE actor = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
    )?
    .execute(params![actor, sql(AUDIT_OF_SITE_MAX)])?;
    Ok(())
}

/// Deletes old history, a bounded number of rows of each kind.
pub(super) fn prune(context: &Context<'_>, prune: &Prune) -> Result<Effect, Stop> {
    let jobs = match prune.jobs_before {
        Some(before) => prune_jobs(context.db, before)? + prune_sites(context.db)?,
        None => 0,
    };
    let jobs = jobs + prune_owners(context.db, &prune.of_owners)?;
    let audit = rows(
        context.db,
        "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE at < ?1 ORDER BY seq LIMIT ?2)",
        prune.audit_before,
    )?;
    let deliveries = rows(
        context.db,
        "DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries \
         WHERE next_attempt IS NULL AND at < ?1 ORDER BY id LIMIT ?2)",
        prune.deliveries_before,
    )?;
    if let Some(before) = prune.tokens_before {
        context.db.execute(
            "DELETE FROM objects WHERE kind = ?1 AND \
             (json_extract(body, '$.revoked') < ?2 OR json_extract(body, '$.expires') < ?2)",
            params![Token::KIND, before.0],
        )?;
        context.db.execute(
            "DELETE FROM objects WHERE kind = ?1 AND json_extract(body, '$.expires') < ?2",
            params![Invite::KIND, before.0],
        )?;
        // An expired rule grants nothing. Rules of jobs are numerous, and no later lookup needs them.
        context.db.execute(
            "DELETE FROM objects WHERE kind = ?1 AND (json_extract(body, '$.expires') < ?2 OR \
             (json_extract(body, '$.job') IS NOT NULL AND json_extract(body, '$.expires') < ?3))",
            params![AccessRule::KIND, before.0, context.at.0],
        )?;
    }
    let full = PRUNE_ROWS_MAX.unsigned_abs();
    let work = work::prune(context.db)?;
    let more = work || jobs >= full || audit == full || deliveries == full;
    if jobs > 0 {
        let body = serde_json::json!({ "jobs": jobs }).to_string();
        Notices(context).event(Topic::History, "jobs", &body)?;
    }
    Ok(Effect::Pruned {
        jobs,
        audit,
        deliveries,
        more,
    })
}

fn rows(db: &Connection, delete: &str, before: Option<Timestamp>) -> Result<u64, Stop> {
    let Some(before) = before else {
        return Ok(0);
    };
    let count = db.execute(delete, params![before.0, PRUNE_ROWS_MAX])?;
    Ok(u64::try_from(count).unwrap_or(u64::MAX))
}

fn prune_jobs(db: &Connection, before: Timestamp) -> Result<u64, Stop> {
    let ids: Vec<String> = db
        .prepare_cached(concat!(
            "SELECT id FROM jobs WHERE ended < ?1 AND ",
            deletable!(),
            " ORDER BY ended, id LIMIT ?2"
        ))?
        .query_map(params![before.0, PRUNE_ROWS_MAX], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    delete_jobs(db, &ids)
}

/// Deletes the oldest ended jobs of some owners, up to a bound in total.
fn prune_owners(db: &Connection, owners: &[(String, Timestamp)]) -> Result<u64, Stop> {
    let mut deleted = 0;
    for (owner, before) in owners {
        let left = PRUNE_ROWS_MAX - sql(deleted);
        let ids: Vec<String> = db
            .prepare_cached(concat!(
                "SELECT id FROM jobs WHERE owner = ?1 AND created <= ?2 AND ",
                deletable!(),
                " ORDER BY created, id LIMIT ?3"
            ))?
            .query_map(params![owner, before.0, left], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        deleted += delete_jobs(db, &ids)?;
    }
    Ok(deleted)
}

/// Deletes the oldest ended jobs of each other site that exceeds its bound of jobs or bytes.
fn prune_sites(db: &Connection) -> Result<u64, Stop> {
    if !knows_origin(db)? {
        return Ok(0);
    }
    let bytes_max = match counts_what_is_left(db)? {
        true => sql(SPEC_BYTES_OF_SITE_MAX),
        false => i64::MAX,
    };
    let ids: Vec<String> = db
        .prepare_cached(
            "SELECT id FROM (SELECT id, created, row_number() OVER site AS place, \
             sum(coalesce(octet_length(spec), 0)) OVER site AS bytes \
             FROM jobs LEFT JOIN job_specs ON job = id \
             WHERE owner >= 'site:' AND owner < 'site;' AND ended IS NOT NULL \
             WINDOW site AS (PARTITION BY owner ORDER BY created DESC, id DESC)) \
             WHERE place > ?1 OR bytes > ?2 ORDER BY created, id LIMIT ?3",
        )?
        .query_map(
            params![sql(JOBS_OF_SITE_MAX), bytes_max, PRUNE_ROWS_MAX],
            |row| row.get(0),
        )?
        .collect::<Result<_, _>>()?;
    delete_jobs(db, &ids)
}

/// Deletes these jobs with all that belongs to them.
pub(super) fn delete_jobs(db: &Connection, ids: &[String]) -> Result<u64, Stop> {
    for id in ids {
        let Some(job) = job_by_id(db, id)? else {
            continue;
        };
        for place in job.sources.iter().chain([&job.destination]) {
            db.prepare_cached(
                "DELETE FROM job_sites WHERE site = ?1 AND created = ?2 AND job = ?3",
            )?
            .execute(params![place.site, job.created.0, id])?;
        }
        for delete in [
            "DELETE FROM attempts WHERE job = ?1",
            "DELETE FROM sent_again WHERE job = ?1",
            "DELETE FROM failures WHERE job = ?1",
            "DELETE FROM job_specs WHERE job = ?1",
            "DELETE FROM job_kinds WHERE job = ?1",
            // Children stay as ordinary jobs, and are deleted next.
            "DELETE FROM objects WHERE kind = 'child' AND lookup = ?1",
            "DELETE FROM jobs WHERE id = ?1",
        ] {
            db.prepare_cached(delete)?.execute([id])?;
        }
    }
    Ok(sql_count(ids.len()))
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_SHOWN_MAX)]
}

fn sql_count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
