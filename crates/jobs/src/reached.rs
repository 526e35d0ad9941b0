//! Asks nodes, and finds one of another site that answers: the one by which the site is known, or another one that the site has told of.
//! Decides nothing about jobs.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, Peer, Question, Refusal, code};
use godwit_api::job::Text;
use godwit_controller::{of_site, which_nodes};
use godwit_state::{Actor, Command, Learn, Node, Op, Site, Target};

use crate::Shared;

/// How long a node may take to answer.
const WITHIN: Duration = Duration::from_secs(10);

/// The site by a node of it that answers now, and all its nodes that serve the place. A site none of whose nodes answers stays as it is
/// known: whoever dials it says what is wrong.
pub(crate) fn living(shared: &Shared, site: Site, path: &[u8]) -> (Site, Vec<Peer>) {
    let known = peer(&site);
    let others = site.nodes.iter().map(|node| Peer {
        name: site.name.clone(),
        addresses: node.addresses.clone(),
        identity: node.identity.clone(),
    });
    let others = others.filter(|node| node.identity != site.identity);
    for node in std::iter::once(known.clone()).chain(others) {
        match nodes_of(shared, &node, path) {
            Ok(nodes) => {
                learn(shared, &site, &nodes);
                return (site_by(site, node), nodes);
            }
            Err(refusal) if refusal.code == code::UNREACHABLE => {}
            // One that was told of once and does not say that it is of this site may be another's by now.
            Err(_) if node.identity != site.identity => {}
            // It answers, but not this.
            Err(_) => return (site_by(site, node.clone()), vec![node]),
        }
    }
    (site, vec![known])
}

/// A node of this cluster, as it is asked.
pub(crate) fn node(row: &Node) -> Peer {
    Peer {
        name: row.name.clone(),
        addresses: row.addresses.clone(),
        identity: row.identity.clone(),
    }
}

/// Asks a node, for so long at most, and no longer than this node runs and `goes_on` says.
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

/// The site, reached by this node of it.
fn site_by(site: Site, node: Peer) -> Site {
    Site {
        addresses: node.addresses,
        identity: node.identity,
        ..site
    }
}

fn nodes_of(shared: &Shared, node: &Peer, path: &[u8]) -> Result<Vec<Peer>, Refusal> {
    let path = Text(path.to_vec());
    let answer = ask(shared, node, &which_nodes(&path), WITHIN, &|| true)?;
    let Answer::Nodes(nodes) = answer else {
        return Ok(vec![node.clone()]);
    };
    let trusted = |identity: &str| identity == node.identity;
    let ask =
        |one: &Peer, question: &Question, within| ask(shared, one, question, within, &|| true);
    let mut peers = Vec::new();
    for mut one in of_site(nodes, node, &path, &trusted, &ask) {
        // Who is reached keeps the addresses by which it is reached.
        if one.identity == node.identity {
            one.addresses.clone_from(&node.addresses);
        }
        peers.push(one);
    }
    Ok(peers)
}

/// Notes the nodes for a time at which the known one does not answer. What cannot be noted is told again by the next job.
fn learn(shared: &Shared, site: &Site, nodes: &[Peer]) {
    let mut told: Vec<Target> = nodes
        .iter()
        .map(|node| Target {
            name: node.name.clone(),
            identity: node.identity.clone(),
            addresses: node.addresses.clone(),
        })
        .collect();
    told.sort();
    // A site of one node has nothing to be learned; one that is named with a job alone is not in the state.
    if told == site.nodes || (site.nodes.is_empty() && told.len() < 2) {
        return;
    }
    let op = Op::Learn(Box::new(Learn {
        site: site.name.clone(),
        identity: site.identity.clone(),
        nodes: told,
    }));
    let actor = Actor::node(shared.config.node.clone());
    drop(
        shared
            .replica
            .propose_blocking(Command::new(shared.now(), actor, op)),
    );
}
