//! Nodes that start before their interfaces have a carrier: each announces its addresses once it has some, and never loopback to others.
//! See the unit tests of the cluster for the choice of addresses.

use rustix::process::Signal;
use serde_json::Value;

use super::super::channels::paths::Paths;
use super::super::netns::with_network;
use super::super::process::wait_until;
use super::super::rig::Rig;
use super::{invite, nodes, token_file, up, view};

/// The addresses of a node, as the asked node shows them.
fn addresses(view: &Value, name: &str) -> Vec<String> {
    let nodes = nodes(view);
    let node = nodes.iter().find(|node| node["name"] == name);
    let listed = node.and_then(|node| node["addresses"].as_array());
    let texts = listed.into_iter().flatten().filter_map(Value::as_str);
    texts.map(ToOwned::to_owned).collect()
}

#[track_caller]
fn wait(rig: &Rig, what: &str, is_so: impl Fn(&Value) -> bool) {
    let seen = wait_until(|| view(rig).filter(&is_so));
    assert!(seen.is_some(), "in vain: {what}: {:#?}", view(rig));
}

fn port(rig: &Rig) -> &str {
    let (_, port) = rig.address().rsplit_once(':').expect("a port");
    port
}

#[test]
fn a_node_that_starts_without_a_carrier_announces_its_addresses_once_it_has_them() {
    with_network(
        "godwit::cluster::addresses::a_node_that_starts_without_a_carrier_announces_its_addresses_once_it_has_them",
        || {
            let paths = Paths::new(1);
            let (mut near, mut far) = (Rig::new(), Rig::new());
            near.wrap_daemon(paths.near.wrapper());
            far.wrap_daemon(paths.far.wrapper());
            near.listen("0.0.0.0:0");
            far.listen("0.0.0.0:0");
            paths.unplug_near(0);
            near.serve(&[]);
            let at_near = format!("10.11.0.1:{}", port(&near));
            let token = invite(&near);
            let first = view(&near).expect("a view");
            let first = nodes(&first)[0]["name"]
                .as_str()
                .expect("a name")
                .to_owned();
            let has = |address: &str| {
                let (first, address) = (first.clone(), address.to_owned());
                move |view: &Value| addresses(view, &first) == [address.as_str()]
            };
            let local = format!("127.0.0.1:{}", port(&near));
            wait(&near, "a node alone needs no interface", has(&local));
            paths.plug_near(0);
            wait(&near, "it announces its interface", has(&at_near));

            let file = token_file(&far, &token);
            let line = ["--join", &at_near, "--token-file", &file, "--name", "dtn2"];
            far.serve(&line);
            let at_far = format!("10.11.0.2:{}", port(&far));
            let is_whole = |view: &Value| {
                up(view).len() == 2
                    && has(&at_near)(view)
                    && addresses(view, "dtn2") == [at_far.as_str()]
            };
            for rig in [&near, &far] {
                wait(rig, "both know both", is_whole);
            }

            // The machine starts again before its interface has a carrier.
            near.end_daemon(Signal::TERM);
            paths.unplug_near(0);
            near.serve(&[]);
            near.daemon().wait_for("announces no new address");
            wait(&near, "it leads again", |view| view["leader"] == *first);
            let seen = view(&near).expect("a view");
            assert!(has(&at_near)(&seen), "{seen:#?}");
            paths.plug_near(0);
            near.daemon()
                .wait_for(&format!("other nodes reach this node at {at_near}"));
            for rig in [&near, &far] {
                wait(rig, "both are up again", is_whole);
            }
            let said = near.daemon().said();
            assert_eq!(
                said.matches("announces no new address").count(),
                1,
                "{said}"
            );
        },
    );
}
