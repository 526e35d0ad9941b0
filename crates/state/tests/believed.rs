//! Tests which nodes of a site are believed, and for how long.
//! See `objects` for sites as objects.

mod support;

use godwit_state::{AuditFilter, Change, FEATURE_LEVEL, Learn, Op, Peer, Site, SiteNode};
use support::state::State;

fn peer(name: &str, address: &str) -> Peer {
    Peer {
        name: name.to_owned(),
        identity: format!("gw1-{name}"),
        addresses: vec![address.to_owned()],
    }
}

/// A node of a site is believed for a time after the first node of the site has reported it. Only the first node reports other nodes.
#[test]
fn only_the_first_node_of_a_site_names_others_and_keeps_them_believed() {
    const HOUR: i64 = 3_600_000;
    let mut state = State::new();
    let learn = |nodes: Vec<Peer>, named: bool| {
        Op::Learn(Box::new(Learn {
            site: "siteB".to_owned(),
            identity: "gw1-first".to_owned(),
            nodes,
            named,
        }))
    };
    let put = Op::Site(Change::Put(Site {
        name: "siteB".to_owned(),
        addresses: vec!["first".to_owned()],
        identity: "gw1-first".to_owned(),
        comment: String::new(),
        nodes: Vec::new(),
    }));
    let site = |state: &State| -> Site {
        let site = state.reader.object("siteB").expect("read");
        site.expect("there")
    };
    let believed = |state: &State, at: i64| -> Vec<(String, String)> {
        let site = site(state);
        let nodes = site.believed(support::at(at));
        nodes
            .map(|node| (node.peer.name.clone(), node.peer.addresses[0].clone()))
            .collect()
    };
    let pair = |name: &str, address: &str| (name.to_owned(), address.to_owned());
    state.op(0, put).expect("put");
    let both = || vec![peer("first", "1"), peer("second", "2")];
    // An older program does not record when a node was reported.
    let error = state.op(1, learn(both(), true)).expect_err("newer");
    assert!(
        error.to_string().contains("needs cluster level 5"),
        "{error}"
    );
    state.op(1, Op::Level(4)).expect("alone");
    state.op(2, learn(both(), false)).expect("of before");
    assert_eq!(believed(&state, 100 * HOUR), [pair("second", "2")]);
    state.op(HOUR, Op::Level(FEATURE_LEVEL)).expect("alone");
    // The nodes count as reported at that moment.
    assert_eq!(believed(&state, 25 * HOUR), [pair("second", "2")]);
    assert_eq!(believed(&state, 26 * HOUR), []);
    // Another node only updates addresses.
    let reported = vec![peer("second", "3"), peer("third", "4")];
    state.op(20 * HOUR, learn(reported, false)).expect("told");
    assert_eq!(believed(&state, 25 * HOUR), [pair("second", "3")]);
    assert_eq!(believed(&state, 26 * HOUR), []);
    // Nodes that the first node reports are believed from then on. Nodes that it no longer reports stay believed for their remaining time.
    let named = vec![peer("first", "1"), peer("third", "4")];
    state
        .op(21 * HOUR, learn(named.clone(), true))
        .expect("named");
    let now = [pair("third", "4"), pair("second", "3")];
    assert_eq!(believed(&state, 22 * HOUR), now);
    assert_eq!(believed(&state, 27 * HOUR), [pair("third", "4")]);
    // The audit log has a line for the change, and none for the same nodes again.
    let again = vec![peer("first", "5"), peer("third", "4")];
    state.op(22 * HOUR, learn(again, true)).expect("named");
    let lines = state.reader.audit(&AuditFilter::default(), 100);
    let lines = lines.expect("read").into_iter();
    let learned = lines.filter(|line| line.action == "site.learn");
    let learned: Vec<_> = learned.map(|line| (line.at, line.actor)).collect();
    assert_eq!(
        learned,
        [(support::at(21 * HOUR), "site:gw1-first".to_owned())]
    );
    state.op(27 * HOUR, learn(named, true)).expect("named");
    assert_eq!(site(&state).nodes.len(), 2, "the others are forgotten");
}

/// The operator names independent nodes. A node's answer never adds, changes or removes one, and belief in them does not expire.
#[test]
fn the_operator_alone_names_independent_nodes() {
    let mut state = State::new();
    let independent = |name: &str| SiteNode {
        peer: peer(name, name),
        named: None,
        independent: true,
    };
    let put = |nodes: Vec<SiteNode>| {
        Op::Site(Change::Put(Site {
            name: "siteB".to_owned(),
            addresses: vec!["first".to_owned()],
            identity: "gw1-first".to_owned(),
            comment: String::new(),
            nodes,
        }))
    };
    let error = state.op(0, put(vec![independent("second")]));
    let error = error.expect_err("of a newer program").to_string();
    assert!(error.contains("needs cluster level 6"), "{error}");
    state.op(0, Op::Level(5)).expect("alone");
    state.op(1, Op::Level(FEATURE_LEVEL)).expect("alone");
    for twice in [["first", "second"], ["second", "second"]] {
        let error = state.op(1, put(twice.map(independent).to_vec()));
        let error = error.expect_err("named twice").to_string();
        assert!(error.contains("have one identity"), "{error}");
    }
    state.op(2, put(vec![independent("second")])).expect("put");
    for named in [true, false] {
        let reported = |name: &str| Peer {
            name: "other".to_owned(),
            identity: format!("gw1-{name}"),
            addresses: vec!["elsewhere".to_owned()],
        };
        let learn = Op::Learn(Box::new(Learn {
            site: "siteB".to_owned(),
            identity: "gw1-first".to_owned(),
            nodes: vec![reported("first"), reported("second")],
            named,
        }));
        state.op(3, learn).expect("told");
        let site: Site = state.reader.object("siteB").expect("read").expect("there");
        let nodes: Vec<&SiteNode> = site.independent().collect();
        assert_eq!(nodes, [&independent("second")]);
        let year = 365 * 24 * 3_600_000;
        let believed = site
            .believed(support::at(year))
            .map(|node| &*node.peer.identity);
        assert_eq!(believed.collect::<Vec<_>>(), ["gw1-second"]);
    }
}

#[test]
fn a_node_of_a_site_keeps_its_stored_form() {
    let stored = r#"{"name":"b","identity":"gw1-b","addresses":["b:1"],"named":"2026-11-24T22:00:05.250Z","independent":true}"#;
    let node: SiteNode = serde_json::from_str(stored).expect("read");
    assert_eq!(node.peer, peer("b", "b:1"));
    assert_eq!(serde_json::to_string(&node).expect("written"), stored);
    let newer = stored.replace("independent", "of_a_newer_version");
    let error = serde_json::from_str::<SiteNode>(&newer).expect_err("refused");
    assert!(error.to_string().contains("of_a_newer_version"), "{error}");
}
