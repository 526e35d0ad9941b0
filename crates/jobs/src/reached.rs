//! Asks nodes, and finds one of another site that answers: the one by which the site is known, or another one that the site has named.
//! Decides nothing about jobs.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, Peer, Question, Refusal, code};
use godwit_api::job::Text;
use godwit_controller::{of_site, which_nodes};
use godwit_state::{
    Actor, Agreed, BELIEVED_HOURS, Command, LEVEL_NAMED, Learn, Node, Op, Site, Target, Timestamp,
};

use crate::Shared;

/// How long the state need not hear again that a node is one of its site.
pub(crate) const RENEW_EVERY_MS: u64 = 3_600_000;

/// A place that every node of a site serves.
const ANY_PLACE: &str = "null:";

/// How long a node may take to answer.
const WITHIN: Duration = Duration::from_secs(10);

/// The site by a node of it that answers now, and all its nodes that serve the place. A site without an answering node stays as it is
/// known: the later dial reports the fault.
///
/// # Errors
/// The node that the operator named does not answer, and others are believed no longer.
pub(crate) fn living(
    shared: &Shared,
    site: Site,
    path: &[u8],
) -> Result<(Site, Vec<Peer>), Refusal> {
    let known = peer(&site);
    let at = shared.now();
    let others = learned(&site, at);
    for node in std::iter::once(known.clone()).chain(others) {
        match nodes_of(shared, &site, &node, path) {
            Ok(nodes) => {
                let by = serving(node, &nodes);
                return Ok((site_by(site, by), nodes));
            }
            // A node that is stopped takes connections, and answers nothing.
            Err(refusal) if refusal.code.is_one_of(&[code::UNREACHABLE, code::GIVEN_UP]) => {}
            // A node that was named once and does not confirm its site may be another's by now.
            Err(_) if node.identity != site.identity => {}
            // It answers, but not this.
            Err(_) => return Ok((site_by(site, node.clone()), vec![node])),
        }
    }
    let mut others = site.nodes.iter();
    let had_others = others.any(|node| node.identity != site.identity);
    match had_others && learned(&site, at).is_empty() {
        true => Err(Refusal::later(code::UNREACHABLE, forgotten(&site))),
        false => Ok((site, vec![known])),
    }
}

/// The learned nodes of a site that are believed at a time, as they are asked.
pub(crate) fn learned(site: &Site, at: Timestamp) -> Vec<Peer> {
    let nodes = site.believed(at).map(|node| Peer {
        name: site.name.clone(),
        addresses: node.addresses.clone(),
        identity: node.identity.clone(),
    });
    nodes.collect()
}

/// The message about a site that only its first node could bring back.
fn forgotten(site: &Site) -> String {
    let Site { name, identity, .. } = site;
    format!(
        "the site {name}: the node {identity} that was named with it does not answer, and has not named the other nodes of the site for \
         {BELIEVED_HOURS} h, so these are not believed any more; start that node, or name another one of the site: godwit site add {name} ADDRESS --identity IDENTITY, \
         or under a second name"
    )
}

/// Asks the node that the operator named which nodes the site has, so that a site without jobs stays believed, too.
pub(crate) fn renew(shared: &Shared, site: &Site) -> Result<(), Refusal> {
    // All nodes measure from memory, so any right at the site is enough to hear of all.
    nodes_of(shared, site, &peer(site), ANY_PLACE.as_bytes()).map(drop)
}

/// The node that answered, or another one where it does not serve the place itself, as with a mount that hangs.
fn serving(node: Peer, nodes: &[Peer]) -> Peer {
    let serves = nodes.iter().any(|one| one.identity == node.identity);
    let other = nodes.first().filter(|_| !serves);
    other.cloned().unwrap_or(node)
}

/// A node of this cluster as a peer.
pub(crate) fn node(row: &Node) -> Peer {
    Peer {
        name: row.name.clone(),
        addresses: row.addresses.clone(),
        identity: row.identity.clone(),
    }
}

/// Asks a node, for this long at most. Ends early when this node stops or `goes_on` is false.
pub(crate) fn ask(
    shared: &Shared,
    node: &Peer,
    question: &Question,
    within: Duration,
    goes_on: &dyn Fn() -> bool,
) -> Result<Answer, Refusal> {
    let until = Instant::now() + within;
    shared.config.sites.ask(Some(node), question, &mut |_| {
        Instant::now() < until && !shared.stopping.load(Ordering::SeqCst) && goes_on()
    })
}

/// The node by which a site is known.
pub(crate) fn peer(site: &Site) -> Peer {
    Peer {
        name: site.name.clone(),
        addresses: site.addresses.clone(),
        identity: site.identity.clone(),
    }
}

/// The site, reached by this node of the site.
fn site_by(site: Site, node: Peer) -> Site {
    Site {
        addresses: node.addresses,
        identity: node.identity,
        ..site
    }
}

/// The nodes of the site, by the answer of one of them. The node that the operator named may name any nodes; any other one only gives
/// addresses of believed ones.
fn nodes_of(shared: &Shared, site: &Site, node: &Peer, path: &[u8]) -> Result<Vec<Peer>, Refusal> {
    let path = Text(path.to_vec());
    let answer = ask(shared, node, &which_nodes(&path), WITHIN, &|| true)?;
    let Answer::Nodes(mut nodes) = answer else {
        return Ok(vec![node.clone()]);
    };
    let at = shared.now();
    let is_known = |one: &Peer| {
        one.identity == site.identity
            || site
                .believed(at)
                .any(|known| known.identity == one.identity)
    };
    let named = node.identity == site.identity;
    if !named {
        nodes.retain(is_known);
    }
    // A known node that is away at this moment stays believed if it is named.
    let away: Vec<Peer> = nodes.iter().filter(|one| is_known(one)).cloned().collect();
    let trusted = |identity: &str| identity == node.identity;
    let ask =
        |one: &Peer, question: &Question, within| ask(shared, one, question, within, &|| true);
    let mut peers = Vec::new();
    for mut one in of_site(nodes, node, &path, &trusted, &ask) {
        // The node that answered keeps the addresses by which it was reached.
        if one.identity == node.identity {
            one.addresses.clone_from(&node.addresses);
        }
        peers.push(one);
    }
    let mut told = peers.clone();
    let is_away = |one: &Peer| !peers.iter().any(|there| there.identity == one.identity);
    told.extend(away.into_iter().filter(is_away));
    learn(shared, site, &told, named);
    Ok(peers)
}

/// Notes the nodes for a time at which the known one does not answer. Nodes that cannot be noted are named again to the next job.
fn learn(shared: &Shared, site: &Site, nodes: &[Peer], named: bool) {
    let mut told: Vec<Target> = nodes
        .iter()
        .map(|node| Target {
            name: node.name.clone(),
            identity: node.identity.clone(),
            addresses: node.addresses.clone(),
        })
        .collect();
    told.sort();
    let reader = shared.replica.reader();
    let has_times = Agreed(&reader)
        .level()
        .is_ok_and(|level| level >= LEVEL_NAMED);
    let at = shared.now();
    // A site of one node has nothing to be learned; a site that is named with a job alone is not in the state.
    if !is_news(site, &told, named && has_times, at) || (site.nodes.is_empty() && told.len() < 2) {
        return;
    }
    let op = Op::Learn(Box::new(Learn {
        site: site.name.clone(),
        identity: site.identity.clone(),
        nodes: told,
        named: named && has_times,
    }));
    let actor = Actor::node(shared.config.node.clone());
    drop(
        shared
            .replica
            .propose_blocking(Command::new(shared.now(), actor, op)),
    );
}

/// Whether this is news for the state: other addresses, a new node, or the confirmation of a node.
fn is_news(site: &Site, told: &[Target], named: bool, at: Timestamp) -> bool {
    told.iter().any(|told| {
        let known = site
            .nodes
            .iter()
            .find(|node| node.identity == told.identity);
        known.is_none_or(|known| {
            let is_old = || {
                let since = known.named.map(|named| named.after(RENEW_EVERY_MS));
                since.is_none_or(|next| next <= at)
            };
            known.addresses != told.addresses || (named && is_old())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_does_not_serve_the_place_gives_way_to_one_that_does() {
        let peer = |name: &str| Peer {
            name: name.to_owned(),
            addresses: Vec::new(),
            identity: name.to_owned(),
        };
        let (known, others) = (peer("a"), [peer("b"), peer("c")]);
        assert_eq!(serving(known.clone(), &others).name, "b");
        let all = [peer("b"), known.clone()];
        assert_eq!(serving(known.clone(), &all).name, "a");
        // A node that is alone names no nodes.
        assert_eq!(serving(known, &[]).name, "a");
    }
}
