//! A cluster whose leader has no room for the state: another node leads, the site takes changes, and the status names the node.
//! See `job_troubles` for a node that is alone.

use super::super::job_troubles::{fill, with_mount};
use super::super::process::wait_until;
use super::super::sites::{submit, wait_for};
use super::{Site, nodes, up};

/// The problem of a node's disk, as the view shows it; empty without one.
fn problem<'a>(view: &'a serde_json::Value, name: &str) -> &'a str {
    let nodes = nodes(view);
    let node = nodes.into_iter().find(|node| node["name"] == name);
    node.and_then(|node| node["problem"].as_str())
        .unwrap_or_default()
}

#[test]
fn a_leader_without_room_hands_over_and_the_status_names_it() {
    let mut site = Site::empty();
    let mut first = site.rig();
    std::fs::write(first.export.join("a"), "alpha").expect("written");
    let state = first.daemon_home.join("state");
    let Some(state) = with_mount(&mut first, &state, "128m", &[]) else {
        return;
    };
    site.nodes.push(first);
    site.join("dtn2", &[]);
    site.join("dtn3", &[]);
    site.wait("all vote", |view| super::voters(view) == 3);
    assert_eq!(site.leader(1), 0);
    let ballast = state.join("ballast");
    fill(&ballast);
    // A little is left, as on a disk that fills up.
    let file = std::fs::File::options().write(true).open(&ballast);
    let file = file.expect("opens");
    let length = file.metadata().expect("there").len();
    file.set_len(length - (8 << 20)).expect("shorter");
    drop(file);
    site.wait("another node leads, and all name the full one", |view| {
        view["leader"].as_str().is_some_and(|name| name != "node1")
            && problem(view, "node1").contains("make room")
            && problem(view, "dtn2").is_empty()
            && up(view).len() == 3
    });
    for node in 0..3 {
        // On a busy machine the leader may change once more. The new leader learns this within a second.
        let shown = wait_until(|| {
            let shown = site.nodes[node].admin(&["cluster", "status"]);
            let line = "node1 takes no changes: ";
            shown.complaint.contains(line).then_some(shown)
        });
        let shown = shown.expect("the status names it");
        assert!(!shown.complaint.contains("recover"), "{shown:?}");
    }
    // Each node takes jobs: the full one passes them on to the leader.
    for node in 0..3 {
        let to = format!("here:/data/copy{node}");
        let id = submit(&site.nodes[node], "here:/data/a", &to, &[]);
        let ended = wait_for(&site.nodes[1], &id, |job| !job["ended"].is_null());
        assert_eq!(ended["state"], "complete", "{ended}");
        assert!(site.nodes[1].export.join(format!("copy{node}")).exists());
    }
    std::fs::remove_file(&ballast).expect("ours");
    site.wait("the node has room again", |view| {
        problem(view, "node1").is_empty() && up(view).len() == 3
    });
    let shown = site.nodes[1].admin(&["cluster", "status"]);
    assert_eq!((shown.code, shown.complaint.as_str()), (Some(0), ""));
}
