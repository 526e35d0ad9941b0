//! The log, the samples, the report and the manifest of a job, asked for at a node that did not run it.
//! See `sites` for jobs that another site runs.

use std::fs;
use std::time::Instant;

use serde_json::Value;

use super::super::rig::Rig;
use super::super::sites::{submit, wait_for};
use super::{DEADLINE, Site, archive, runner, up};

fn lines(rig: &Rig, id: &str) -> Vec<Value> {
    let outcome = rig.admin(&["job", "log", id, "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let lines = outcome.out.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn report(rig: &Rig, id: &str) -> Value {
    let outcome = rig.admin(&["job", "report", id, "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    serde_json::from_str(&outcome.out).expect("JSON")
}

#[test]
fn any_node_shows_the_logs_of_the_nodes_that_ran_a_job() {
    let mut site = Site::of(3);
    let there = archive(&site);
    let export = site.nodes[0].export.clone();
    fs::create_dir_all(export.join("set")).expect("made");
    for n in 0..60_u8 {
        fs::write(export.join(format!("set/f{n}")), vec![n; 200_000]).expect("written");
    }
    let line = ["--limit", "1MB", "--manifest"];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    let job = wait_for(&site.nodes[0], &id, |job| {
        job["progress"]["files"].as_u64() > Some(2)
    });
    let name = runner(&job).expect("a runner").to_owned();
    let first = site.place_of(&name);
    let asked = (first + 1) % 3;
    site.nodes[first].kill_daemon();
    wait_for(&site.nodes[asked], &id, |job| {
        job["attempts"].as_u64() > Some(1)
    });
    let outcome = site.nodes[asked].admin(&["job", "log", &id]);
    assert_eq!(outcome.code, Some(3), "lines are missing: {outcome:?}");
    outcome.says(&format!(
        "the log of {name} is missing: {name} does not answer"
    ));
    let half = report(&site.nodes[asked], &id);
    assert_eq!(half["missing"][0]["node"], *name, "{half}");

    site.nodes[first].serve(&[]);
    site.wait_at(&[asked], "it is back", |view| up(view).len() == 3);
    let ended = wait_for(&site.nodes[asked], &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    // A node that did not answer is left alone for some seconds.
    let until = Instant::now() + DEADLINE;
    while site.nodes[asked].admin(&["job", "log", &id]).code != Some(0) {
        assert!(Instant::now() < until, "the log stays cut");
    }
    let whole = report(&site.nodes[asked], &id);
    assert!(whole.get("missing").is_none(), "{whole}");
    let ran = |attempt: &Value| {
        let number = attempt.as_u64().expect("a number");
        let place = usize::try_from(number - 1).expect("small");
        whole["attempts"][place]["node"].clone()
    };
    for (place, node) in site.nodes.iter().enumerate() {
        let lines = lines(node, &id);
        let numbers: Vec<u64> = lines
            .iter()
            .filter_map(|line| line["seq"].as_u64())
            .collect();
        assert!(
            numbers.is_sorted_by(|one, other| one < other),
            "{numbers:?}"
        );
        let last = lines.last().expect("lines");
        assert!(last["attempt"].as_u64() > Some(1), "{last}");
        assert_eq!(lines[0]["attempt"], 1, "{lines:?}");
        for line in &lines {
            let by = ran(&line["attempt"]);
            let is_own = site.place_of(by.as_str().expect("a node")) == place;
            let reported = if is_own { Value::Null } else { by };
            assert_eq!(line["node"], reported, "{line}");
        }
        let samples = report(node, &id)["samples"].clone();
        let samples = samples.as_array().expect("samples");
        assert!(
            samples.iter().any(|sample| sample["attempt"] == 1),
            "{samples:?}"
        );
        for sample in samples {
            let by = ran(&sample["attempt"]);
            let is_own = site.place_of(by.as_str().expect("a node")) == place;
            assert_eq!(sample["node"].is_null(), is_own, "{sample}");
        }
    }
    let mut manifests = site.nodes.iter().map(|node| {
        let outcome = node.admin(&["job", "manifest", &id]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.out
    });
    let manifest = manifests.next().expect("nodes");
    assert!(manifest.contains("f59"), "{manifest}");
    assert!(manifests.all(|other| other == manifest), "one manifest");
    drop(there);
}

#[test]
fn any_node_reports_the_nodes_of_a_divided_job_by_their_names() {
    let site = Site::of(2);
    let there = archive(&site);
    let set = site.nodes[0].export.join("set");
    fs::create_dir(&set).expect("made");
    for n in 0..200_u8 {
        fs::write(set.join(format!("f{n}")), vec![n; 50_000]).expect("written");
    }
    let line = ["--limit", "2MB", "--divide", "always"];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    let ended = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let view = site.view(0).expect("a view");
    let known = up(&view);
    for node in &site.nodes {
        let report = report(node, &id);
        let named = report["nodes"].as_array().expect("nodes").iter();
        let samples = report["samples"].as_array().expect("samples").iter();
        let sampled = samples.flat_map(|sample| sample["nodes"].as_array().into_iter().flatten());
        let names: Vec<&str> = named
            .chain(sampled)
            .map(|node| node["node"].as_str().expect("a name"))
            .collect();
        assert!(!names.is_empty(), "{report}");
        assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    }
    drop(there);
}
