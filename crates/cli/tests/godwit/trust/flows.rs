//! Flows among sites that distrust each other: each run is a job of the flow's owner, so a flow moves what such a job may move now.
//! See `flows` for flows that all sites allow.

use serde_json::Value;

use super::super::flows::{add, files, wait};
use super::super::sites::{allow, know};
use super::Trust;

fn state(flow: &Value, hop: usize) -> &str {
    flow["hops"][hop]["state"].as_str().expect("a state")
}

#[test]
fn a_hop_that_a_site_refuses_moves_nothing_and_stops_no_other() {
    let trust = Trust::new();
    let Trust { a, b, c } = &trust;
    know(c, "siteA", a);
    know(c, "siteB", b);
    add(
        c,
        &[
            "--from",
            "siteB:/data/data",
            "--to",
            "siteA:/data/in",
            "--then",
            "here:/data/back",
            "--every",
            "1s",
        ],
    );
    // Neither site lets C in.
    let flow = wait(c, |flow| state(flow, 0) == "failed");
    assert_eq!(flow["hops"][1]["run"], Value::Null, "{flow}");
    trust.assert_untouched();
    // A lets C write, and not read: the first hop runs, and the second one does not.
    allow(b, &c.identity, &["--read"]);
    allow(a, &c.identity, &["--write"]);
    let flow = wait(c, |flow| files(flow, 0) == 2 && state(flow, 1) == "failed");
    assert_eq!(files(&flow, 1), 0, "{flow}");
    assert!(!c.export.join("back/secret").exists(), "{flow}");
    // A lets C read, too.
    allow(a, &c.identity, &["--read"]);
    wait(c, |flow| files(flow, 1) == 2);
    // B takes back what it gave: what comes later stays at B.
    let denied = b.admin(&["access", "deny", &c.identity]);
    assert_eq!(denied.code, Some(0), "{denied:?}");
    b.write("export/data/later", "later");
    let flow = wait(c, |flow| state(flow, 0) == "failed");
    assert!(!a.export.join("in/later").exists(), "{flow}");
}
