//! Grafana's dashboards for a divided job: a real Prometheus reads all nodes of two clusters, and the panels say the truth.
//! See `grafana` for lone nodes, and `story` for the other statements.

use std::fs;

use super::super::grafana::{PanelQuery, asked, assert_found};
use super::super::judge::assert_identical_to_rsync;
use super::super::process::wait_until;
use super::super::prometheus::Prometheus;
use super::super::rig::Rig;
use super::super::sites::{submit, wait_for};
use super::super::totals::{counted, figures};
use super::sites::know;
use super::{Site, runner};

/// The query of a panel.
#[track_caller]
fn query_of<'a>(all: &'a [PanelQuery], panel: &str) -> &'a str {
    let found = all.iter().find(|one| one.panel == panel);
    &found.unwrap_or_else(|| panic!("no panel {panel}")).query
}

/// Waits until a query has this value.
#[track_caller]
fn becomes(prometheus: &Prometheus, query: &str, wanted: f64) {
    let seen = wait_until(|| (prometheus.value(query) == Some(wanted)).then_some(()));
    let last = || prometheus.series(query);
    assert!(seen.is_some(), "not {wanted}: {query}: {:?}", last());
}

/// Waits until a comparison holds.
#[track_caller]
fn holds(prometheus: &Prometheus, query: &str) {
    let seen = wait_until(|| prometheus.value(query));
    assert!(seen.is_some(), "{query}: {:?}", prometheus.series(query));
}

fn steer(rig: &Rig, line: &[&str]) {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn the_dashboards_are_true_for_a_divided_job_that_is_paused_and_loses_its_node() {
    let (mut from, to) = (Site::of(3), Site::of(3));
    know(&from, &to);
    let set = from.nodes[0].export.join("set");
    for n in 0..240_u32 {
        let directory = set.join(format!("d{}", n % 24));
        fs::create_dir_all(&directory).expect("made");
        let content: Vec<u8> = (0..250_000_u32)
            .flat_map(|at| (at ^ n).to_le_bytes())
            .collect();
        fs::write(directory.join(format!("f{n}")), content).expect("written");
    }
    let nodes: Vec<&Rig> = from.nodes.iter().chain(&to.nodes).collect();
    let prometheus = Prometheus::of(&nodes, None);
    // The counts of the beginning are known before they rise.
    becomes(&prometheus, "count(godwit_build_info)", 6.0);
    becomes(
        &prometheus,
        "count(count by (cluster_id) (godwit_build_info))",
        2.0,
    );
    let line = ["--limit", "1MB", "--divide", "always"];
    let id = submit(&from.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    let panels = asked();
    // There is neither a transfer buffer nor a flow.
    let others = ["godwit_buffer_", "godwit_flow_"];
    let of_all = |one: &&PanelQuery| !others.iter().any(|other| one.query.contains(other));
    for one in panels.iter().filter(of_all) {
        assert_found(&prometheus, one);
    }
    let running = query_of(&panels, "Godwit: nodes: Running jobs");
    let paused = query_of(&panels, "Godwit: nodes: Paused jobs");
    // All six nodes have the figures of their cluster, and the job counts once.
    becomes(&prometheus, running, 1.0);
    becomes(&prometheus, "count(godwit_job_node_rate_bytes)", 3.0);
    let of_nodes = "sum(godwit_job_node_rate_bytes)";
    let of_job = "sum(godwit_job_rate_bytes)";
    holds(
        &prometheus,
        &format!("abs({of_nodes} - {of_job}) <= 0.01 * {of_job} and {of_job} > 0"),
    );
    holds(
        &prometheus,
        &format!("{of_job} == sum(godwit_running_rate_bytes)"),
    );
    let moved = |job: &serde_json::Value, least: u64| {
        assert!(job["ended"].is_null(), "too early: {job}");
        job["progress"]["bytes"].as_u64() >= Some(least)
    };
    wait_for(&from.nodes[0], &id, |job| moved(job, 10_000_000));
    steer(&from.nodes[0], &["job", "pause", &id]);
    becomes(&prometheus, paused, 1.0);
    becomes(&prometheus, running, 0.0);
    steer(&from.nodes[0], &["job", "resume", &id]);
    let job = wait_for(&from.nodes[0], &id, |job| {
        moved(job, 20_000_000) && runner(job).is_some()
    });
    let killed = from.place_of(runner(&job).expect("a runner"));
    from.nodes[killed].kill_daemon();
    let left = (killed + 1) % 3;
    wait_for(&from.nodes[left], &id, |job| {
        runner(job).is_some_and(|node| from.place_of(node) != killed)
    });
    from.nodes[killed].serve(&[]);
    steer(&from.nodes[left], &["job", "limit", &id, "none"]);
    let ended = wait_for(&from.nodes[left], &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let copy = to.nodes[0].export.join("copy");
    assert_identical_to_rsync("-aH", &set, &copy);
    let copied = counted(&copy);
    assert_eq!(figures(&ended["moved"]), copied, "{ended}");
    // The nodes that lived through all of it have counted each byte once, also those after the pause.
    let bytes = copied.0;
    becomes(
        &prometheus,
        &format!("count(godwit_moved_bytes_total == {bytes})"),
        2.0,
    );
    // Each byte arrived at a node of the other site.
    holds(
        &prometheus,
        &format!("sum(godwit_received_bytes_total) >= {bytes}"),
    );
    for outcome in ["paused", "complete"] {
        let query = format!("max(godwit_attempts_total{{outcome=\"{outcome}\"}})");
        becomes(&prometheus, &query, 1.0);
    }
    // Prometheus extends the increase to the ends of the time, so the panel is not exact.
    let panel = query_of(&panels, "Godwit: nodes: Moved, 24 h");
    holds(
        &prometheus,
        &format!("abs({panel} - {bytes}) < 0.1 * {bytes}"),
    );
    becomes(&prometheus, running, 0.0);
}
