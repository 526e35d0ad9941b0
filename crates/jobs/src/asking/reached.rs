//! Asks nodes, and finds a node of another site that answers: the node that the operator named, or a node that the site named.
//! Decides nothing about jobs.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, Peer, Question, Refusal, code};
use godwit_api::job::Text;
use godwit_controller::{of_site, which_nodes};
use godwit_state::{
    Agreed, BELIEVED_HOURS, LEVEL_NAMED, Learn, Node, Op, Site, TARGETS_MAX, Timestamp,
};

use crate::asking::Asking;

/// How long the confirmation that a node belongs to its site need not be repeated to the state.
pub(crate) const RENEW_EVERY_MS: u64 = 3_600_000;

/// A place that every node of a site serves.
const ANY_PLACE: &str = "null:";

/// How long a node may take to answer.
const WITHIN: Duration = Duration::from_secs(10);

/// Addresses of one node that are accepted from another site.
const ADDRESSES_MAX: usize = 16;

/// A site by a node of it, and the nodes that serve a place.
pub(crate) struct Living {
    pub(crate) site: Site,
    pub(crate) nodes: Vec<Peer>,
    /// Whether a node of the site answered. Otherwise the nodes are only the one by which the site is known.
    pub(crate) answered: bool,
}

/// Whether a question continues. Threads that ask several nodes at once call this.
pub(crate) type GoesOn<'a> = dyn Fn() -> bool + Sync + 'a;

/// The site by a node of it that answers now, and all its nodes that serve the place. A site
/// without an answering node keeps its known addresses: the later dial reports the fault. Ends early when `goes_on` is false.
///
/// # Errors
/// The node that the operator named does not answer, and the belief in other nodes has expired.
pub(crate) fn living(
    asking: &Asking,
    site: Site,
    path: &[u8],
    goes_on: &GoesOn<'_>,
) -> Result<Living, Refusal> {
    let alone = independent(&site);
    if !alone.is_empty() {
        return Ok(answering(asking, site, alone, path, goes_on));
    }
    let by = |site: Site, node: Peer, nodes: Vec<Peer>| Living {
        site: site_by(site, node),
        nodes,
        answered: true,
    };
    let known = peer(&site);
    let at = asking.this.now();
    let others = learned(&site, at);
    for node in std::iter::once(known.clone()).chain(others) {
        match nodes_of(asking, &site, &node, path, goes_on) {
            Ok(nodes) => return Ok(by(site, serving(node, &nodes), nodes)),
            Err(refusal) if is_silent(&refusal) => {}
            // A node that was named once and does not confirm its site may be another's by now.
            Err(_) if node.identity != site.identity => {}
            // The node answers, but refuses this question.
            Err(_) => return Ok(by(site, node.clone(), vec![node])),
        }
    }
    let mut others = site.nodes.iter();
    let had_others = others.any(|node| node.peer.identity != site.identity);
    match had_others && learned(&site, at).is_empty() {
        true => Err(Refusal::later(code::UNREACHABLE, forgotten(&site))),
        false => Ok(unanswered(site)),
    }
}

/// A site of which no node answers, as it is known.
fn unanswered(site: Site) -> Living {
    Living {
        nodes: vec![peer(&site)],
        site,
        answered: false,
    }
}

/// All nodes of a site of independent nodes; none of any other site. Two of them may have one name, and no two have one address.
pub(crate) fn independent(site: &Site) -> Vec<Peer> {
    let named = |identity: &String, addresses: &Vec<String>| Peer {
        name: addresses.first().cloned().unwrap_or_default(),
        addresses: addresses.clone(),
        identity: identity.clone(),
    };
    let others = site
        .independent()
        .map(|node| named(&node.peer.identity, &node.peer.addresses));
    let others: Vec<Peer> = others.collect();
    match others.is_empty() {
        true => others,
        false => std::iter::once(named(&site.identity, &site.addresses))
            .chain(others)
            .collect(),
    }
}

/// A site of independent nodes by the first of them that answers, and all that do. Without an answer the site stays as it is known.
fn answering(
    asking: &Asking,
    site: Site,
    alone: Vec<Peer>,
    path: &[u8],
    goes_on: &GoesOn<'_>,
) -> Living {
    let question = which_nodes(&Text(path.to_vec()));
    let answers = |node: &Peer| ask(asking, node, &question, WITHIN, goes_on).is_ok();
    let nodes: Vec<Peer> = std::thread::scope(|scope| {
        let asked = alone
            .into_iter()
            .map(|node| scope.spawn(|| answers(&node).then_some(node)));
        // All threads run before the first is waited for.
        let asked: Vec<_> = asked.collect();
        asked
            .into_iter()
            .filter_map(|asked| asked.join().ok().flatten())
            .collect()
    });
    match nodes.first() {
        Some(first) => Living {
            site: site_by(site, first.clone()),
            nodes,
            answered: true,
        },
        None => unanswered(site),
    }
}

/// Whether a node was not reached. A node that is stopped takes connections, and answers nothing.
fn is_silent(refusal: &Refusal) -> bool {
    let silent = [code::UNREACHABLE, code::GIVEN_UP];
    refusal.code.is_one_of(&silent)
}

/// Whether a refusal leaves open if the node belongs to its site: it was not reached, is busy, or cannot read its state.
fn says_nothing(refusal: &Refusal) -> bool {
    refusal.retryable || is_silent(refusal)
}

/// The learned nodes of a site that are believed at a time, as they are asked.
pub(crate) fn learned(site: &Site, at: Timestamp) -> Vec<Peer> {
    let nodes = site.believed(at).map(|node| Peer {
        name: site.name.clone(),
        ..node.peer.clone()
    });
    nodes.collect()
}

/// The message about a site that needs its first node to confirm the others.
fn forgotten(site: &Site) -> String {
    let Site { name, identity, .. } = site;
    format!(
        "the site {name}: the node {identity} named with the site does not answer, and has not confirmed the other \
         nodes of the site for {BELIEVED_HOURS} h, so these are no longer trusted; start that node, or name \
         another node of the site: godwit site add {name} ADDRESS --identity IDENTITY, or use a second name"
    )
}

/// Asks the node that the operator named which nodes the site has, so that a site without jobs stays believed, too.
pub(crate) fn renew(asking: &Asking, site: &Site) -> Result<(), Refusal> {
    // All nodes measure from memory, so any right at the site is enough to hear of all.
    nodes_of(asking, site, &peer(site), ANY_PLACE.as_bytes(), &|| true).map(drop)
}

/// The node that answered; or another node, if the first does not serve the place, for instance because a mount hangs.
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
    asking: &Asking,
    node: &Peer,
    question: &Question,
    within: Duration,
    goes_on: &dyn Fn() -> bool,
) -> Result<Answer, Refusal> {
    let until = Instant::now() + within;
    asking.sites.ask(Some(node), question, &mut |_| {
        Instant::now() < until && !asking.this.is_stopping() && goes_on()
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
pub(crate) fn site_by(site: Site, node: Peer) -> Site {
    Site {
        addresses: node.addresses,
        identity: node.identity,
        ..site
    }
}

/// The nodes of the site, by the answer of one of them. The node that the operator named may name any nodes; any other one only gives
/// addresses of believed ones, and has to confirm that it is still of the site.
fn nodes_of(
    asking: &Asking,
    site: &Site,
    node: &Peer,
    path: &[u8],
    goes_on: &GoesOn<'_>,
) -> Result<Vec<Peer>, Refusal> {
    let path = Text(path.to_vec());
    let named = node.identity == site.identity;
    let question = match named {
        true => which_nodes(&path),
        false => Question::Nodes {
            path: path.clone(),
            of: Some(site.identity.clone()),
        },
    };
    let answer = ask(asking, node, &question, WITHIN, goes_on)?;
    let Answer::Nodes(mut nodes) = answer else {
        return Ok(vec![node.clone()]);
    };
    bound(&mut nodes);
    let at = asking.this.now();
    let is_known = |one: &Peer| {
        one.identity == site.identity
            || site
                .believed(at)
                .any(|known| known.peer.identity == one.identity)
    };
    if !named {
        nodes.retain(is_known);
    }
    let mut away: Vec<Peer> = nodes.iter().filter(|one| is_known(one)).cloned().collect();
    let trusted = |identity: &str| identity == node.identity;
    // Nodes whose answer says whether they belong to the site.
    let answered = Mutex::new(HashSet::new());
    let ask = |one: &Peer, question: &Question, within| {
        let answer = ask(asking, one, question, within, goes_on);
        if !answer.as_ref().is_err_and(says_nothing) {
            let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
            answered.insert(one.identity.clone());
        }
        answer
    };
    let mut peers = Vec::new();
    for mut one in of_site(nodes, &peer(site), &path, &trusted, &ask) {
        // The node that answered keeps the addresses by which it was reached.
        if one.identity == node.identity {
            one.addresses.clone_from(&node.addresses);
        }
        peers.push(one);
    }
    // A known node that is away at this moment stays believed if it is named. A node that refused is not believed: it may have left the
    // site.
    let answered = answered
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let is_there = |one: &Peer| peers.iter().any(|there| there.identity == one.identity);
    away.retain(|one| !is_there(one) && !answered.contains(&one.identity));
    let listed: Vec<Peer> = peers.iter().cloned().chain(away).collect();
    learn(asking, site, &listed, named);
    Ok(peers)
}

/// Bounds the answer of a node: the state keeps these nodes. A node that is listed twice counts once.
fn bound(nodes: &mut Vec<Peer>) {
    let mut seen = HashSet::new();
    nodes.retain(|node| seen.insert(node.identity.clone()));
    nodes.truncate(TARGETS_MAX);
    for node in nodes {
        node.addresses.truncate(ADDRESSES_MAX);
    }
}

/// Notes the nodes for a time at which the known one does not answer. Nodes that cannot be noted are named again to the next job.
fn learn(asking: &Asking, site: &Site, nodes: &[Peer], named: bool) {
    let mut listed = nodes.to_vec();
    listed.sort();
    let reader = asking.this.reader();
    let has_times = Agreed(&reader)
        .level()
        .is_ok_and(|level| level >= LEVEL_NAMED);
    let is_news = match has_times {
        true => is_news(site, &listed, named, asking.this.now()),
        false => is_other(site, &listed),
    };
    // A site of one node has nothing to be learned; a site that is named with a job alone is not in the state.
    if !is_news || (site.nodes.is_empty() && listed.len() < 2) {
        return;
    }
    if !asking.learn_pace.take(&site.identity, Instant::now()) {
        return;
    }
    let op = Op::Learn(Box::new(Learn {
        site: site.name.clone(),
        identity: site.identity.clone(),
        nodes: listed,
        named: named && has_times,
    }));
    drop(asking.this.propose(op));
}

/// Whether this is news for a state that has no times: any other list, which replaces the earlier one.
fn is_other(site: &Site, listed: &[Peer]) -> bool {
    !site.nodes.iter().map(|node| &node.peer).eq(listed)
}

/// Whether the state must record this answer: other addresses, a new node, or the confirmation of a node. Missing nodes change nothing,
/// because the belief in them expires.
fn is_news(site: &Site, listed: &[Peer], named: bool, at: Timestamp) -> bool {
    listed.iter().any(|listed| {
        let known = site
            .nodes
            .iter()
            .find(|node| node.peer.identity == listed.identity);
        known.is_none_or(|known| {
            let is_old = || {
                let since = known.named.map(|named| named.after(RENEW_EVERY_MS));
                since.is_none_or(|next| next <= at)
            };
            known.peer.addresses != listed.addresses || (named && is_old())
        })
    })
}

#[cfg(test)]
mod tests {
    use godwit_state::SiteNode;

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

    #[test]
    fn a_shorter_list_is_news_only_for_a_state_without_times() {
        let target = |name: &str| Peer {
            name: name.to_owned(),
            identity: format!("gw1-{name}"),
            addresses: Vec::new(),
        };
        let now = Timestamp(1_795_503_600_000);
        let site = Site {
            name: "siteB".to_owned(),
            addresses: Vec::new(),
            identity: "gw1-a".to_owned(),
            comment: String::new(),
            nodes: ["a", "b"]
                .map(|name| SiteNode {
                    peer: target(name),
                    named: Some(now),
                    independent: false,
                })
                .to_vec(),
        };
        let both = ["a", "b"].map(target);
        assert!(!is_other(&site, &both));
        assert!(is_other(&site, &both[..1]));
        assert!(!is_news(&site, &both[..1], true, now));
        let later = now.after(RENEW_EVERY_MS);
        assert!(is_news(&site, &both, true, later));
        assert!(!is_news(&site, &both, false, later));
        assert!(is_news(&site, &[target("c")], false, now));
    }

    #[test]
    fn the_answer_of_a_node_is_bounded() {
        let node = |number: usize| Peer {
            name: "n".to_owned(),
            addresses: vec!["192.0.2.1".to_owned(); 2 * ADDRESSES_MAX],
            identity: format!("gw1-{number}"),
        };
        let mut nodes: Vec<Peer> = (0..4 * TARGETS_MAX).map(|at| node(at / 2)).collect();
        bound(&mut nodes);
        assert_eq!(nodes.len(), TARGETS_MAX);
        assert_eq!(nodes[1].identity, "gw1-1");
        let bounded = |node: &Peer| node.addresses.len() == ADDRESSES_MAX;
        assert!(nodes.iter().all(bounded));
    }

    #[test]
    fn a_node_that_refuses_is_not_away() {
        let refusal = |code| Refusal::new(code, "no");
        assert!(is_silent(&refusal(code::UNREACHABLE)));
        assert!(is_silent(&refusal(code::GIVEN_UP)));
        assert!(!is_silent(&refusal(code::OTHER_CLUSTER)));
        assert!(!says_nothing(&refusal(code::OTHER_CLUSTER)));
        assert!(says_nothing(&Refusal::later(code::BUSY, "later")));
    }
}
