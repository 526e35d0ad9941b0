//! Owns what ties sites and access rules to each other: a rule at a site counts for the identity that the site had, and ends with it.
//! Leaves objects that stand alone to `objects`.

use rusqlite::params;

use super::{Context, Stop, objects};
use crate::model::{AccessRule, Change, CommandError, Effect, Object as _, Site};
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
    objects::change(context, change)
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
