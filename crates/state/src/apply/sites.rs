//! Owns what ties sites and access rules to each other: a rule at a site counts for the identity that the site had, and ends with it.
//! Leaves objects that stand alone to `objects`.

use rusqlite::params;

use super::origin::JOB_RULE;
use super::{Context, Stop, counts_what_is_left, notices, objects, sql};
use crate::bounds;
use crate::model::{AccessRule, Change, CommandError, Effect, Object as _, Sighted, Site};
use crate::read::object_by_id;

/// A site that is removed, or whose name is given to another identity, takes the access rules at it along.
pub(super) fn change(context: &Context<'_>, change: &Change<Site>) -> Result<Effect, Stop> {
    let ends = match change {
        Change::Create(_) => None,
        Change::Put(site) => object_by_id::<Site>(context.db, &site.name)?
            .filter(|earlier| earlier.identity != site.identity)
            .map(|earlier| earlier.name),
        Change::Remove(name) => Some(name.clone()),
    };
    if let Some(name) = ends {
        remove_rules(context, &name)?;
    }
    objects::change(context, change)
}

/// A rule at a site is about a site that is there, with the identity that it has.
pub(super) fn rule(context: &Context<'_>, change: &Change<AccessRule>) -> Result<Effect, Stop> {
    if let Change::Create(rule) | Change::Put(rule) = change
        && let Some(wanted) = &rule.site
    {
        let site = object_by_id::<Site>(context.db, &wanted.name)?
            .ok_or_else(|| CommandError::not_found(Site::KIND, &wanted.name))?;
        if site.identity != wanted.identity {
            let what = "the site has another identity by now; make the rule again";
            return Err(CommandError::invalid("site", what).into());
        }
    }
    if let Change::Create(rule) | Change::Put(rule) = change
        && let Some(of_job) = rule.id.strip_prefix(JOB_RULE)
        && counts_what_is_left(context.db)?
        && object_by_id::<AccessRule>(context.db, &rule.id)?.is_none()
    {
        let asker = of_job.split_once(':').map_or(of_job, |(asker, _)| asker);
        let of_asker = format!("{JOB_RULE}{asker}:");
        check_room(context, &of_asker, bounds::RULES_OF_ASKER_MAX)?;
        check_room(context, JOB_RULE, bounds::RULES_OF_JOBS_MAX)?;
    }
    objects::change(context, change)
}

/// Refuses one more rule where there are as many as may be whose ids begin so. `prefix` ends with a colon.
fn check_room(context: &Context<'_>, prefix: &str, max: u64) -> Result<(), Stop> {
    // In the order of bytes a semicolon follows the colon.
    let end = format!("{};", &prefix[..prefix.len() - 1]);
    let count: i64 = context
        .db
        .prepare_cached("SELECT count(*) FROM objects WHERE kind = ?1 AND id >= ?2 AND id < ?3")?
        .query_row(params![AccessRule::KIND, prefix, end], |row| row.get(0))?;
    if count < sql(max) {
        return Ok(());
    }
    let kind = "access rule for job".to_owned();
    Err(CommandError::TooMany { kind, max }.into())
}

/// A site went, or came back: its event, and its deliveries.
pub(super) fn sighted(context: &Context<'_>, seen: &Sighted) -> Result<Effect, Stop> {
    let site = object_by_id::<Site>(context.db, &seen.site)?
        .filter(|site| site.identity == seen.identity)
        .ok_or_else(|| CommandError::not_found(Site::KIND, &seen.site))?;
    notices::site(context, &site.name, seen.answers)?;
    Ok(Effect::Done)
}

fn remove_rules(context: &Context<'_>, site: &str) -> Result<(), Stop> {
    let rules: Vec<String> = context
        .db
        .prepare_cached(
            "SELECT id FROM objects WHERE kind = ?1 AND json_extract(body, '$.site.name') = ?2 ORDER BY id",
        )?
        .query_map(params![AccessRule::KIND, site], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for rule in rules {
        objects::change(context, &Change::<AccessRule>::Remove(rule))?;
    }
    Ok(())
}
