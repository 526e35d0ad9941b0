//! Owns the relation between sites and access rules: a rule at a site applies to the identity that the site had, and ends with that
//! identity. Also decides which nodes of a site are believed. See `objects` for objects without links.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use super::notices::Notices;
use super::objects::{self, Objects};
use super::origin::{JOB_RULE, SITE};
use super::{Context, Stop, counts_what_is_left, history, sql};
use crate::bounds;
use crate::model::{
    AccessRule, Actor, AuditOutcome, Change, CommandError, Effect, LEVEL_LEARN_AUDITED,
    LEVEL_NAMED, Learn, Object as _, Peer, Site, SiteAnswer, SiteNode, TARGETS_MAX, Timestamp,
};
use crate::read::{committed_level, object_by_id};

/// The rows of sites and access rules, as a command changes them.
#[derive(Clone, Copy)]
pub(super) struct Sites<'a>(pub(super) &'a Context<'a>);

impl Sites<'_> {
    /// Removing a site, or giving its name to another identity, removes the access rules at the site.
    pub(super) fn change(&self, change: &Change<Site>) -> Result<Effect, Stop> {
        let ends = match change {
            Change::Create(_) => None,
            Change::Put(site) => object_by_id::<Site>(self.0.db, &site.name)?
                .filter(|earlier| earlier.identity != site.identity)
                .map(|earlier| earlier.name),
            Change::Remove(name) => Some(name.clone()),
        };
        if let Some(name) = ends {
            self.remove_rules(&name)?;
        }
        Objects(self.0).change(change)
    }

    /// A rule at a site requires an existing site with that identity.
    pub(super) fn rule(&self, change: &Change<AccessRule>) -> Result<Effect, Stop> {
        if let Change::Create(rule) | Change::Put(rule) = change
            && let Some(wanted) = &rule.site
        {
            let site = object_by_id::<Site>(self.0.db, &wanted.name)?
                .ok_or_else(|| CommandError::not_found(Site::KIND, &wanted.name))?;
            if site.identity != wanted.identity {
                let what = "the identity of the site has changed; make the rule again";
                return Err(CommandError::invalid("site", what).into());
            }
        }
        if let Change::Create(rule) | Change::Put(rule) = change
            && let Some(of_job) = rule.id.strip_prefix(JOB_RULE)
            && counts_what_is_left(self.0.db)?
            && object_by_id::<AccessRule>(self.0.db, &rule.id)?.is_none()
        {
            let asker = of_job.split_once(':').map_or(of_job, |(asker, _)| asker);
            let of_asker = format!("{JOB_RULE}{asker}:");
            check_room(self.0.db, &of_asker, bounds::RULES_OF_ASKER_MAX)?;
            check_room(self.0.db, JOB_RULE, bounds::RULES_OF_JOBS_MAX)?;
        }
        Objects(self.0).change(change)
    }

    /// A site stopped or resumed answering: publishes its event, and its deliveries.
    pub(super) fn sighted(&self, seen: &SiteAnswer) -> Result<Effect, Stop> {
        let site = object_by_id::<Site>(self.0.db, &seen.site)?
            .filter(|site| site.identity == seen.identity)
            .ok_or_else(|| CommandError::not_found(Site::KIND, &seen.site))?;
        Notices(self.0).site(&site.name, seen.answers)?;
        Ok(Effect::Done)
    }

    /// Records the nodes of a site. Nodes reported by the node that the operator named are believed from now on. Any other node only updates
    /// addresses of believed nodes, and does not extend their time.
    pub(super) fn learn(&self, learn: &Learn) -> Result<Effect, Stop> {
        let site = object_by_id::<Site>(self.0.db, &learn.site)?;
        let Some(mut site) = site.filter(|site| site.identity == learn.identity) else {
            return Ok(Effect::Done);
        };
        let level = committed_level(self.0.db)?;
        let has_times = level >= LEVEL_NAMED;
        let before = believed(&site, self.0.at);
        let learned_now = |peer: &Peer, named: Option<Timestamp>| SiteNode {
            peer: peer.clone(),
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
            (false, _) => {
                site.nodes = learn
                    .nodes
                    .iter()
                    .map(|node| learned_now(node, None))
                    .collect()
            }
            (true, true) => {
                let is_renewed = |node: &SiteNode| {
                    let mut nodes = learn.nodes.iter();
                    nodes.any(|now| now.identity == node.peer.identity)
                };
                let mut earlier = std::mem::take(&mut site.nodes);
                earlier.retain(|node| node.is_believed(self.0.at) && !is_renewed(node));
                let now = learn
                    .nodes
                    .iter()
                    .map(|node| learned_now(node, Some(self.0.at)));
                site.nodes = now.chain(earlier).take(TARGETS_MAX).collect();
            }
            (true, false) => {
                for node in &mut site.nodes {
                    let mut nodes = learn.nodes.iter();
                    if let Some(now) = nodes.find(|now| now.identity == node.peer.identity) {
                        node.peer.addresses.clone_from(&now.addresses);
                    }
                }
            }
        }
        let is_independent = |node: &SiteNode| {
            let mut independent = named_by_operator.iter();
            independent.any(|one| one.peer.identity == node.peer.identity)
        };
        site.nodes.retain(|node| !is_independent(node));
        site.nodes.splice(0..0, named_by_operator);
        site.nodes.truncate(TARGETS_MAX);
        if level >= LEVEL_LEARN_AUDITED && believed(&site, self.0.at) != before {
            // The site caused the line. Lines about one site are bounded.
            let actor = Actor {
                name: format!("{SITE}{}", site.identity),
                ..self.0.actor.clone()
            };
            let object = format!("{}/{}", Site::KIND, site.name);
            history::write(
                self.0.db,
                self.0.at,
                &actor,
                &self.0.action,
                &object,
                &AuditOutcome::Done,
            )?;
        }
        Objects(self.0).put(&site)
    }

    /// Treats nodes that were learned before times were recorded as if they had been reported now.
    pub(super) fn begin_belief(&self) -> Result<(), Stop> {
        for mut site in objects::all::<Site>(self.0.db)? {
            if site.nodes.is_empty() {
                continue;
            }
            for node in &mut site.nodes {
                node.named = Some(self.0.at);
            }
            Objects(self.0).put(&site)?;
        }
        Ok(())
    }

    fn remove_rules(&self, site: &str) -> Result<(), Stop> {
        let rules: Vec<String> = self
            .0
            .db
            .prepare_cached(
                "SELECT id FROM objects WHERE kind = ?1 AND json_extract(body, '$.site.name') = ?2 ORDER BY id",
            )?
            .query_map(params![AccessRule::KIND, site], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for rule in rules {
            Objects(self.0).change(&Change::<AccessRule>::Remove(rule))?;
        }
        Ok(())
    }
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

/// Identities of the believed nodes.
fn believed(site: &Site, at: Timestamp) -> BTreeSet<String> {
    let nodes = site.believed(at);
    nodes.map(|node| node.peer.identity.clone()).collect()
}
