//! Tests which nodes of a site are believed, and for how long.
//! Leaves sites as objects to `objects`.

mod support;

use godwit_state::{Change, FEATURE_LEVEL, Learn, Op, Site, Target};
use support::state::State;

/// A node of a site is believed for a time after the first node of the site has reported it. Only the first node reports further nodes.
#[test]
fn only_the_first_node_of_a_site_names_others_and_keeps_them_believed() {
    const HOUR: i64 = 3_600_000;
    let mut state = State::new();
    let target = |name: &str, address: &str| Target {
        name: name.to_owned(),
        identity: format!("gw1-{name}"),
        addresses: vec![address.to_owned()],
    };
    let learn = |nodes: Vec<Target>, named: bool| {
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
            .map(|node| (node.name.clone(), node.addresses[0].clone()))
            .collect()
    };
    let pair = |name: &str, address: &str| (name.to_owned(), address.to_owned());
    state.op(0, put).expect("put");
    let both = || vec![target("first", "1"), target("second", "2")];
    // An older program does not know when a node was reported.
    let error = state.op(1, learn(both(), true)).expect_err("newer");
    assert!(error.to_string().contains("needs level 5"), "{error}");
    state.op(1, Op::Level(4)).expect("alone");
    state.op(2, learn(both(), false)).expect("of before");
    assert_eq!(believed(&state, 100 * HOUR), [pair("second", "2")]);
    state.op(HOUR, Op::Level(FEATURE_LEVEL)).expect("alone");
    // As if reported at that moment.
    assert_eq!(believed(&state, 25 * HOUR), [pair("second", "2")]);
    assert_eq!(believed(&state, 26 * HOUR), []);
    // Another node updates addresses, and nothing else.
    let told = vec![target("second", "3"), target("third", "4")];
    state.op(20 * HOUR, learn(told, false)).expect("told");
    assert_eq!(believed(&state, 25 * HOUR), [pair("second", "3")]);
    assert_eq!(believed(&state, 26 * HOUR), []);
    // Nodes that the first node reports are believed from then on. Nodes that it no longer reports stay believed for their remaining time.
    let named = vec![target("first", "1"), target("third", "4")];
    state
        .op(21 * HOUR, learn(named.clone(), true))
        .expect("named");
    let now = [pair("third", "4"), pair("second", "3")];
    assert_eq!(believed(&state, 22 * HOUR), now);
    assert_eq!(believed(&state, 27 * HOUR), [pair("third", "4")]);
    state.op(27 * HOUR, learn(named, true)).expect("named");
    assert_eq!(site(&state).nodes.len(), 2, "the others are forgotten");
}
