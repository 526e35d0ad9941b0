//! Owns the relation between sites and access rules: a rule at a site applies to the identity that the site had, and ends with that
//! identity. Also decides which nodes of a site are believed. See `objects` for objects without links.

use rusqlite::{Connection, params};

use super::origin::JOB_RULE;
use super::{Context, Stop, counts_what_is_left, notices, objects, sql};
use crate::bounds;
use crate::model::{
    AccessRule, Change, CommandError, Effect, LEVEL_NAMED, Learn, Object as _, Sighted, Site,
    SiteNode, TARGETS_MAX, Target, Timestamp,
};
use crate::read::{committed_level, object_by_id};

/// Removing a site, or giving its name to another identity, removes the access rules at the site.
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

/// A rule at a site requires an existing site with that identity.
pub(super) fn rule(context: &Context<'_>, change: &Change<AccessRule>) -> Result<Effect, Stop> {
    if let Change::Create(rule) | Change::Put(rule) = change
        && let Some(wanted) = &rule.site
    {
        let site = object_by_id::<Site>(context.db, &wanted.name)?
            .ok_or_else(|| CommandError::not_found(Site::KIND, &wanted.name))?;
        if site.identity != wanted.identity {
            let what = "the identity of the site has changed; make the rule again";
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
        check_room(context.db, &of_asker, bounds::RULES_OF_ASKER_MAX)?;
        check_room(context.db, JOB_RULE, bounds::RULES_OF_JOBS_MAX)?;
    }
    objects::change(context, change)
}

/// Refuses one more rule if `max` rules have ids that begin with `prefix`. `prefix` ends with a colon.
fn check_room(db: &Connection, prefix: &str, max: u64) -> Result<(), Stop> {
    // In the order of bytes a semicolon follows the colon.
    let end = format!("{};", &prefix[..prefix.len() - 1]);
    let count: i64 = db
        .prepare_cached("SELECT count(*) FROM objects WHERE kind = ?1 AND id >= ?2 AND id < ?3")?
        .query_row(params![AccessRule::KIND, prefix, end], |row| row.get(0))?;
    if count < sql(max) {
        return Ok(());
    }
    let kind = "access rule for job".to_owned();
    Err(CommandError::TooMany { kind, max }.into())
}

/// A site stopped or resumed answering: publishes its event, and its deliveries.
pub(super) fn sighted(context: &Context<'_>, seen: &Sighted) -> Result<Effect, Stop> {
    let site = object_by_id::<Site>(context.db, &seen.site)?
        .filter(|site| site.identity == seen.identity)
        .ok_or_else(|| CommandError::not_found(Site::KIND, &seen.site))?;
    notices::site(context, &site.name, seen.answers)?;
    Ok(Effect::Done)
}

/// Records the nodes of a site. Nodes reported by the node that the operator named are believed from now on. Any other node only updates
/// addresses of believed nodes, and does not extend their time.
pub(super) fn learn(context: &Context<'_>, learn: &Learn) -> Result<Effect, Stop> {
    let site = object_by_id::<Site>(context.db, &learn.site)?;
    let Some(mut site) = site.filter(|site| site.identity == learn.identity) else {
        return Ok(Effect::Done);
    };
    let has_times = committed_level(context.db)? >= LEVEL_NAMED;
    let told = |node: &Target, named: Option<Timestamp>| SiteNode {
        name: node.name.clone(),
        identity: node.identity.clone(),
        addresses: node.addresses.clone(),
        named,
        independent: false,
    };
    // Only the operator changes these.
    let (named_by_operator, learned): (Vec<SiteNode>, Vec<SiteNode>) =
        std::mem::take(&mut site.nodes)
            .into_iter()
            .partition(|node| node.independent);
    site.nodes = learned;
    match (has_times, learn.named) {
        (false, _) => site.nodes = learn.nodes.iter().map(|node| told(node, None)).collect(),
        (true, true) => {
            let is_told = |node: &SiteNode| {
                let mut nodes = learn.nodes.iter();
                nodes.any(|told| told.identity == node.identity)
            };
            let mut earlier = std::mem::take(&mut site.nodes);
            earlier.retain(|node| node.is_believed(context.at) && !is_told(node));
            let now = learn.nodes.iter().map(|node| told(node, Some(context.at)));
            site.nodes = now.chain(earlier).take(TARGETS_MAX).collect();
        }
        (true, false) => {
            for node in &mut site.nodes {
                let mut nodes = learn.nodes.iter();
                if let Some(told) = nodes.find(|told| told.identity == node.identity) {
                    node.addresses.clone_from(&told.addresses);
                }
            }
        }
    }
    let is_independent = |node: &SiteNode| {
        let mut independent = named_by_operator.iter();
        independent.any(|one| one.identity == node.identity)
    };
    site.nodes.retain(|node| !is_independent(node));
    site.nodes.splice(0..0, named_by_operator);
    site.nodes.truncate(TARGETS_MAX);
    objects::put(context, &site)
}

/// Treats nodes that were learned before times were recorded as if they had been reported now.
pub(super) fn begin_belief(context: &Context<'_>) -> Result<(), Stop> {
    for mut site in objects::all::<Site>(context.db)? {
        if site.nodes.is_empty() {
            continue;
        }
        for node in &mut site.nodes {
            node.named = Some(context.at);
        }
        objects::put(context, &site)?;
    }
    Ok(())
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
