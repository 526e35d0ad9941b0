//! Owns which node of a site of independent nodes has a job. Each of them has a state without the jobs of the others, so that a second one
//! would run the job beside the first. The first attempt chooses the nodes, and all later attempts use the same.
//! Chooses no node of a cluster: any node of a cluster finds the job.

use std::collections::HashSet;

use godwit_api::ask::Peer;
use godwit_api::failure::FailureCode;
use godwit_api::rest::HERE;
use godwit_state::{Agreed, Job, Reader, Site};

use super::Stop;
use super::ends::Ends;
use crate::asking::reached::{GoesOn, Living};
use crate::asking::{Asking, reached};
use crate::basis::ends::place_at;
use crate::basis::error::JobsError;
use crate::basis::spec;
use crate::basis::stored::Stored;

/// A known site, reached through the node that has the job or through any node that answers. The result contains all its nodes
/// that serve the place.
pub(super) fn site(
    asking: &Asking,
    job: &Job,
    name: &str,
    goes_on: &GoesOn<'_>,
) -> Result<(Peer, Vec<Peer>), Stop> {
    let living = living(asking, job, name, goes_on)?;
    Ok((reached::peer(&living.site), living.nodes))
}

/// The same, and whether a node answered. The node that has the job is asked nothing here.
pub(super) fn living(
    asking: &Asking,
    job: &Job,
    name: &str,
    goes_on: &GoesOn<'_>,
) -> Result<Living, Stop> {
    let site = known(&asking.this.reader(), job, name)?;
    if let Some(kept) = kept(&asking.this.reader(), job, &site)? {
        return Ok(Living {
            site: reached::site_by(site, kept.clone()),
            nodes: vec![kept],
            answered: true,
        });
    }
    let path = place_at(job, name);
    Ok(reached::living(asking, site, &path, goes_on)?)
}

/// Does the same for a site that receives the state of the job. It uses each independent node, because any of them may have received the
/// job before the state recorded its choice. A site whose first node is `away` is not asked for its nodes.
pub(super) fn all(
    asking: &Asking,
    job: &Job,
    name: &str,
    away: &HashSet<String>,
    goes_on: &GoesOn<'_>,
) -> Result<(Vec<Peer>, Vec<Peer>), Stop> {
    let known = known(&asking.this.reader(), job, name)?;
    let alone = reached::independent(&known);
    match alone.is_empty() {
        true if away.contains(&known.identity) => {
            let first = reached::peer(&known);
            Ok((vec![first.clone()], vec![first]))
        }
        true => site(asking, job, name, goes_on).map(|(peer, nodes)| (vec![peer], nodes)),
        false => Ok((alone.clone(), alone)),
    }
}

/// The identity by which a site of one cluster is known; None for independent nodes, of which some may be away.
pub(super) fn identity(reader: &Reader, job: &Job, name: &str) -> Option<String> {
    let known = known(reader, job, name).ok()?;
    let is_one = reached::independent(&known).is_empty();
    is_one.then_some(known.identity)
}

/// The identities of the independent nodes that have the job; none at other sites.
pub(super) fn chosen(reader: &Reader, job: &Job, ends: &Ends) -> Result<Vec<String>, Stop> {
    let from = ends.sources.first().map_or(HERE, |place| &place.site);
    let to = ends.own.is_none().then_some(&job.destination.site);
    let mut chosen = Vec::new();
    for (name, peer) in [(from, &ends.from)]
        .into_iter()
        .chain(to.map(|to| (to.as_str(), &ends.to)))
    {
        let site = known(reader, job, name)?;
        let is_lone = !reached::independent(&site).is_empty();
        if is_lone && !chosen.contains(&peer.identity) {
            chosen.push(peer.identity.clone());
        }
    }
    Ok(chosen)
}

/// The node of a site of independent nodes that an attempt has chosen.
fn kept(reader: &Reader, job: &Job, site: &Site) -> Result<Option<Peer>, JobsError> {
    let mut nodes = reached::independent(site);
    if nodes.is_empty() && !Stored::of(reader, &job.id)?.had_independent(&site.name) {
        return Ok(None);
    }
    let chosen = Agreed(reader).nodes_with(&job.id)?;
    if chosen.is_empty() {
        return Ok(None);
    }
    if nodes.is_empty() {
        nodes.push(reached::peer(site));
    }
    let kept = nodes
        .into_iter()
        .find(|node| chosen.contains(&node.identity));
    match kept {
        Some(node) => Ok(Some(Peer {
            name: site.name.clone(),
            ..node
        })),
        None => Err(JobsError::invalid(
            FailureCode::SiteChanged,
            format!(
                "the node that has the job is no longer a node of site {}; once the job no longer runs there, submit it again",
                site.name
            ),
        )),
    }
}

/// The site that has this name in the job.
fn known(reader: &Reader, job: &Job, name: &str) -> Result<Site, JobsError> {
    let site = Stored::of(reader, &job.id)?.site(reader, name)?;
    site.ok_or_else(|| spec::unknown_site(name))
}
