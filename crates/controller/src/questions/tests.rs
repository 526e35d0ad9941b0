//! Questions to nodes that are programs of the test's.
//! Moves nothing.

use std::sync::atomic::AtomicUsize;

use godwit_api::ask::GoOn;

use super::*;

/// Lets every node in, except at the node that is called `shut`.
struct Gates;

impl AskSites for Gates {
    fn ask_for(
        &self,
        _: Option<&Mandate>,
        node: Option<&Peer>,
        _: &Question,
        _: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        match node.is_some_and(|node| node.identity == "shut") {
            true => Err(Refusal::new(code::NOT_GRANTED, "no right here")),
            false => Ok(Answer::Done {}),
        }
    }

    fn reach(&self, _: &Peer, _: Duration) -> Result<(), Refusal> {
        Ok(())
    }
}

fn peer(identity: &str) -> Peer {
    Peer {
        name: identity.to_owned(),
        addresses: Vec::new(),
        identity: identity.to_owned(),
    }
}

/// A site that names other nodes each time. All nodes confirm that they belong to the site.
#[derive(Default)]
struct Names(AtomicUsize);

impl AskSites for Names {
    fn ask_for(
        &self,
        _: Option<&Mandate>,
        _: Option<&Peer>,
        question: &Question,
        _: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        if !matches!(question, Question::Nodes { of: None, .. }) {
            return Ok(Answer::Nodes(Vec::new()));
        }
        let turn = self.0.fetch_add(1, Ordering::SeqCst);
        let new = (0..TARGETS_MAX - 1).map(|number| peer(&format!("{turn}-{number}")));
        Ok(Answer::Nodes(
            [peer("known")].into_iter().chain(new).collect(),
        ))
    }

    fn reach(&self, _: &Peer, _: Duration) -> Result<(), Refusal> {
        Ok(())
    }
}

#[test]
fn a_site_has_a_bounded_number_of_nodes_one_after_the_other() {
    let site = Site {
        sites: Arc::new(Names::default()),
        is_over: AtomicBool::new(false),
        known: peer("known"),
        believed: Believed {
            first: "known".to_owned(),
            ..Believed::default()
        },
        below: Text(b"x/y".to_vec()),
        vouched: Mutex::default(),
    };
    let mut all = HashSet::new();
    for _ in 0..10 {
        let nodes = site.nodes_of(&peer("known")).expect("an answer").nodes;
        assert!(nodes.iter().any(|node| node.identity == "known"));
        all.extend(nodes.into_iter().map(|node| node.identity));
    }
    assert_eq!(all.len(), VOUCHED_MAX);
}

#[test]
fn the_refusal_of_one_independent_node_is_heard_beside_the_consent_of_others() {
    let destination = Destination {
        site: Arc::new(Site {
            sites: Arc::new(Gates),
            is_over: AtomicBool::new(false),
            known: peer("open"),
            believed: Believed::default(),
            below: Text(b"x/y".to_vec()),
            vouched: Mutex::default(),
        }),
        claim: ClaimId([0; 16]),
        epoch: 1,
        path: Text(b"x/y".to_vec()),
        known_as: "job".to_owned(),
        gives_access: true,
        earlier: Vec::new(),
        now: Arc::new(|| Timestamp(0)),
    };
    let mate = Mate {
        name: "node2".to_owned(),
        identity: "gw1-two".to_owned(),
    };
    let found = destination.let_in(&[peer("open"), peer("shut")], &mate);
    let found = found.expect("one of them");
    assert_eq!(found.at, HashSet::from(["open".to_owned()]));
    let [(gate, refusal)] = found.refused.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(
        (gate, &refusal.code),
        (&peer("shut"), &code::NOT_GRANTED.into())
    );
    let refused = destination.let_in(&[peer("shut")], &mate);
    assert_eq!(refused.expect_err("none").code, code::NOT_GRANTED);
}

/// A site of three nodes. The first node names all nodes. The node `shut` admits nothing.
struct Grown;

impl AskSites for Grown {
    fn ask_for(
        &self,
        _: Option<&Mandate>,
        node: Option<&Peer>,
        question: &Question,
        _: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        let is_shut = node.is_some_and(|node| node.identity == "shut");
        match question {
            _ if is_shut => Err(Refusal::new(code::UNKNOWN_IDENTITY, "not known here")),
            Question::Nodes { of: None, .. } => Ok(Answer::Nodes(
                ["first", "second", "shut"].map(peer).to_vec(),
            )),
            _ => Ok(Answer::Nodes(Vec::new())),
        }
    }

    fn reach(&self, _: &Peer, _: Duration) -> Result<(), Refusal> {
        Ok(())
    }
}

#[test]
fn a_node_that_refuses_is_listed_with_its_reason_beside_the_others() {
    let believed = |independent: &[&str]| Believed {
        first: "first".to_owned(),
        independent: independent.iter().map(|name| peer(name)).collect(),
        ..Believed::default()
    };
    let sites: [&[&str]; 2] = [&[], &["first", "second", "shut"]];
    for independent in sites {
        let site = Site {
            sites: Arc::new(Grown),
            is_over: AtomicBool::new(false),
            known: peer("first"),
            believed: believed(independent),
            below: Text(b"x/y".to_vec()),
            vouched: Mutex::default(),
        };
        let listed = site.nodes_of(&peer("first")).expect("a list");
        let names: Vec<&str> = listed.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["first.first", "first.second"]);
        let [(node, refusal)] = listed.refused.as_slice() else {
            panic!("{listed:?}");
        };
        assert_eq!(node.name, "first.shut");
        assert_eq!(refusal.code, code::UNKNOWN_IDENTITY);
    }
}
