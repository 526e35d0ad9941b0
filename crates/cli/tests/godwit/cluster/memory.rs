//! The network between two clusters, measured by one job: from memory to memory, by all nodes of both.
//! See `sites/memory` for lone nodes.

use super::super::sites::{submit, wait_for};
use super::Site;
use super::divided::senders;
use super::sites::know;

#[test]
fn all_nodes_of_both_sites_measure_from_memory_to_memory() {
    let (site, there) = (Site::of(2), Site::of(2));
    know(&site, &there);
    // Slow enough that no node is done before the others begin.
    let line = ["--limit", "300MB"];
    let id = submit(&site.nodes[0], "here:mem:4GiB", "siteB:null:", &line);
    let ended = wait_for(&site.nodes[1], &id, |job| !job["ended"].is_null());
    let log = site.nodes[1].admin(&["job", "log", &id]).out;
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
    assert_eq!(ended["summary"]["bytes"], 4_u64 << 30, "{ended}");
    assert!(log.contains("16 parts and 1 assembled files"), "{log}");
    let mut sent = std::collections::BTreeSet::new();
    for node in &there.nodes {
        let own = senders(node);
        assert!(!own.is_empty(), "each node takes a share: {log}");
        sent.extend(own);
    }
    assert_eq!(sent.len(), 2, "each node brings a share: {log}");
    for place in ["copy", "memory", "null:"] {
        assert!(
            !there.nodes[0].export.join(place).exists(),
            "nothing is kept"
        );
    }
}
