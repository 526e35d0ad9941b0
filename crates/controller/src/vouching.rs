//! Owns the only rule by which a node counts as a node of a site: the node itself confirms it.
//! Dials no node: the caller supplies the function that asks a node.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, Peer, Question, Refusal};
use godwit_api::job::Text;
use godwit_state::TARGETS_MAX;

/// Nodes that are asked at a time.
const AT_ONCE: usize = 8;

/// Addresses of a node that are dialled for this.
const DIALLED_MAX: usize = 4;

/// Nodes without a confirmation before no more are asked: otherwise the site could have others scanned from here.
const MISSES_MAX: usize = 16;

/// For all nodes of a site.
const ALL_WITHIN: Duration = Duration::from_secs(20);

/// Time for a node to confirm that it belongs to the site that named it.
const VOUCH_WITHIN: Duration = Duration::from_secs(3);

/// Addresses accepted from another site.
const ADDRESSES_MAX: usize = 16;

/// Identities of the nodes of a site that are believed.
#[derive(Clone, Debug, Default)]
pub struct Believed {
    /// Identity of the node that was named with the site. That one alone names nodes that are not believed yet.
    pub first: String,
    /// Identities of other nodes that this node has named before.
    pub others: HashSet<String>,
    /// All nodes of a site of independent nodes, the first one included. They share one file system and no cluster: each speaks for itself
    /// alone, and has separate grants.
    pub independent: Vec<Peer>,
}

/// Asks a node, for this long at most.
pub type AskNode<'a> = dyn Fn(&Peer, &Question, Duration) -> Result<Answer, Refusal> + Sync + 'a;

/// The question which nodes of a site serve a place, whose path has the export first.
#[must_use]
pub fn which_nodes(path: &Text) -> Question {
    question(path, None)
}

fn question(path: &Text, of: Option<&Peer>) -> Question {
    Question::Nodes {
        path: path.clone(),
        of: of.map(|node| node.identity.clone()),
    }
}

/// The named nodes that belong to the site of `known`. Without a check a site could name nodes of other sites, and so use the asker's
/// rights there. Therefore each node has to confirm its site, unless its identity is `trusted`.
/// The site chooses the addresses: few are dialled at a
/// time, for a bounded time, and no more after some that lead to no such node.
pub fn of_site(
    mut named: Vec<Peer>,
    known: &Peer,
    path: &Text,
    trusted: &(dyn Fn(&str) -> bool + Sync),
    ask: &AskNode<'_>,
) -> Vec<Peer> {
    named.truncate(TARGETS_MAX);
    for node in &mut named {
        node.addresses.truncate(ADDRESSES_MAX);
    }
    let question = question(path, Some(known));
    let until = Instant::now() + ALL_WITHIN;
    let (next, missed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let vouches = |node: &Peer| {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || missed.load(Ordering::SeqCst) >= MISSES_MAX {
            return false;
        }
        let mut asked = node.clone();
        asked.addresses.truncate(DIALLED_MAX);
        let answer = ask(&asked, &question, VOUCH_WITHIN.min(left));
        let is_of_site = matches!(answer, Ok(Answer::Nodes(_)));
        if !is_of_site {
            missed.fetch_add(1, Ordering::SeqCst);
        }
        is_of_site
    };
    let look = || {
        let mut found = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::SeqCst);
            let Some(node) = named.get(at) else {
                return found;
            };
            if trusted(&node.identity) || vouches(node) {
                found.push((at, node.clone()));
            }
        }
    };
    let mut found: Vec<(usize, Peer)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(look)).collect();
        let found = threads.into_iter().map(|thread| thread.join());
        found.filter_map(Result::ok).flatten().collect()
    });
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, node)| node).collect()
}

#[cfg(test)]
mod tests {
    use godwit_api::ask::code;

    use super::*;

    fn node(name: &str) -> Peer {
        Peer {
            name: name.to_owned(),
            addresses: vec!["192.0.2.1".to_owned(); 2 * ADDRESSES_MAX],
            identity: format!("gw1-{name}"),
        }
    }

    #[test]
    fn a_node_counts_when_it_says_itself_that_it_is_of_the_site() {
        let path = Text::from("data/set");
        let ask = |asked: &Peer, question: &Question, _: Duration| {
            let expected = Question::Nodes {
                path: Text::from("data/set"),
                of: Some("gw1-known".to_owned()),
            };
            assert_eq!(*question, expected);
            match asked.name.as_str() {
                "member" => Ok(Answer::Nodes(Vec::new())),
                // This node answers, but not with a list of nodes.
                "other" => Ok(Answer::Done {}),
                _ => Err(Refusal::new(code::OTHER_CLUSTER, "no node of this site")),
            }
        };
        let trusted = |identity: &str| identity == "gw1-known";
        let named = ["known", "member", "other", "stranger"].map(node).to_vec();
        let found = of_site(named, &node("known"), &path, &trusted, &ask);
        let names: Vec<&str> = found.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["known", "member"]);
        // The answer of a site is bounded for every caller.
        assert!(
            found
                .iter()
                .all(|node| node.addresses.len() == ADDRESSES_MAX)
        );
        let many = vec![node("member"); TARGETS_MAX + 1];
        let found = of_site(many, &node("known"), &path, &trusted, &ask);
        assert_eq!(found.len(), TARGETS_MAX);
    }

    #[test]
    fn a_site_has_few_addresses_dialled_that_are_of_no_node_of_it() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let dialled = AtomicUsize::new(0);
        let ask = |asked: &Peer, _: &Question, _: Duration| {
            let at_once = now.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(at_once, Ordering::SeqCst);
            dialled.fetch_add(asked.addresses.len(), Ordering::SeqCst);
            thread::sleep(Duration::from_millis(20));
            now.fetch_sub(1, Ordering::SeqCst);
            Err(Refusal::later(code::UNREACHABLE, "no node answers"))
        };
        let named = vec![node("other"); TARGETS_MAX];
        let path = Text::from("data/set");
        let found = of_site(named, &node("known"), &path, &|_| false, &ask);
        assert!(found.is_empty());
        assert!(most.into_inner() <= AT_ONCE);
        assert!(dialled.into_inner() <= (MISSES_MAX + AT_ONCE) * DIALLED_MAX);
    }
}
