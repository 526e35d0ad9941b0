//! A node that becomes a cluster: its file keeps the grants that it had as a single node.
//! See `sites` for grants that a cluster keeps.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::process::wait_until;
use super::super::sites::{allow, submit, wait_for};
use super::sites::know;
use super::{Site, up};

/// The nodes of the destination that nodes of the job send to.
fn receivers(job: &Value) -> BTreeSet<&str> {
    let nodes = job["progress"]["nodes"].as_array().into_iter().flatten();
    let to = nodes.filter_map(|node| node["to"].as_str());
    to.filter(|to| !to.is_empty()).collect()
}

#[test]
fn a_node_that_joined_after_the_grants_is_named_and_receives_once_it_has_them() {
    let (site, mut there) = (Site::of(2), Site::of(1));
    know(&site, &there);
    let invited = there.nodes[0].admin(&["cluster", "invite"]);
    assert!(
        invited.complaint.contains("apply at this node alone"),
        "{invited:?}"
    );
    there.join("dtn2", &[]);
    there.wait("both are up", |view| up(view).len() == 2);
    let asked = &site.nodes[0];
    let line = ["--limit", "30MB", "--divide", "always"];
    let measure = || submit(asked, "here:mem:64GiB", "siteB:null:", &line);
    let first = measure();
    let log = || asked.admin(&["job", "log", &first]).out;
    let words = [
        "the node siteB.dtn2 of the destination is not used until it grants access",
        "godwit access allow gw1-",
    ];
    let noted = wait_until(|| {
        let log = log();
        words.iter().all(|word| log.contains(word)).then_some(())
    });
    assert!(noted.is_some(), "{}", log());
    wait_for(asked, &first, |job| receivers(job).len() == 1);
    asked.admin(&["job", "cancel", &first]);
    for mate in &site.nodes {
        allow(&there.nodes[0], &mate.identity, &["--read", "--write"]);
    }
    let second = measure();
    wait_for(asked, &second, |job| receivers(job).len() == 2);
    asked.admin(&["job", "cancel", &second]);
}
