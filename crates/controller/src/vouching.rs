//! Owns the one rule by which a node counts as one of a site: it says itself that it is of the site, however it was named.
//! Dials no node: the caller brings how a node is asked.

use std::thread;
use std::time::Duration;

use godwit_api::ask::{Answer, Peer, Question, Refusal};
use godwit_api::job::Text;
use godwit_state::TARGETS_MAX;

/// How long a node may take to say that it is of the site that named it.
const VOUCH_WITHIN: Duration = Duration::from_secs(3);

/// Addresses that are taken of what another site says.
const ADDRESSES_MAX: usize = 16;

/// Asks a node, for so long at most.
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

/// Those of the named nodes that are of the site of `known`. A site that names nodes of other sites would have the rights of the asker used
/// there, so each node has to say itself that it is of the site, unless its identity is `trusted`. All are asked at a time: a silent one
/// takes no longer than its own deadline.
pub fn of_site(
    mut named: Vec<Peer>,
    known: &Peer,
    path: &Text,
    trusted: &(dyn Fn(&str) -> bool + Sync),
    ask: &AskNode<'_>,
) -> Vec<Peer> {
    named.truncate(TARGETS_MAX);
    let question = question(path, Some(known));
    let is_of_site = |node: &Peer| {
        trusted(&node.identity)
            || matches!(ask(node, &question, VOUCH_WITHIN), Ok(Answer::Nodes(_)))
    };
    thread::scope(|scope| {
        let checks: Vec<_> = named
            .into_iter()
            .map(|mut node| {
                node.addresses.truncate(ADDRESSES_MAX);
                scope.spawn(|| is_of_site(&node).then_some(node))
            })
            .collect();
        let checked = checks.into_iter().map(|thread| thread.join());
        checked.filter_map(Result::ok).flatten().collect()
    })
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
                // It answers, but not that.
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
}
