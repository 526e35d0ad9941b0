//! The network between two clusters, measured by one job: from memory to memory, by all nodes of both.
//! See `sites/memory` for lone nodes.

use super::super::process::wait_until;
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
    // The job says what any other one says.
    let job = wait_for(&site.nodes[1], &id, |job| {
        assert!(job["ended"].is_null(), "too early: {job}");
        let progress = &job["progress"];
        progress["bytes_total"] == 4_u64 << 30
            && progress["scanning"] == false
            && progress["bytes"].as_u64() > Some(100 << 20)
            && progress["bytes_per_second"].as_f64() > Some(0.0)
            && progress["forecast"]["likely"].is_string()
    });
    let progress = &job["progress"];
    assert_eq!(progress["files_total"], 1, "{progress}");
    // On a busy machine the rate of a moment may be unknown.
    let mut shown = String::new();
    let all = wait_until(|| {
        shown = site.nodes[0].admin(&["job", "show", &id]).out;
        let words = ["rate", " of 4.29 GB", "left"];
        words.iter().all(|word| shown.contains(word)).then_some(())
    });
    assert!(all.is_some(), "{shown}");
    let top = site.nodes[0].admin(&["top", "--once"]).out;
    assert!(top.contains('%') && top.contains("MB/s"), "{top}");
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
    let report = site.nodes[1].admin(&["job", "report", &id, "--json"]).out;
    let report: serde_json::Value = serde_json::from_str(&report).expect("a report");
    assert_eq!(report["bytes_moved"], 4_u64 << 30, "{report}");
    assert_eq!(
        report["nodes"].as_array().map(Vec::len),
        Some(2),
        "{report}"
    );
    for place in ["copy", "memory", "null:"] {
        assert!(
            !there.nodes[0].export.join(place).exists(),
            "nothing is kept"
        );
    }
}
