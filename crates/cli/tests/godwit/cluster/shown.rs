//! The nodes, jobs and work that any node of a cluster shows, wherever a job runs.
//! See `divided` for the actions of the nodes.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::rig::Rig;
use super::super::sites::{submit, wait_for};
use super::{DEADLINE, Site, archive, runner, state_of, up};

fn output_of(rig: &Rig, line: &[&str]) -> String {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(0), "{line:?}: {outcome:?}");
    outcome.out
}

fn document(rig: &Rig, line: &[&str]) -> Value {
    serde_json::from_str(&output_of(rig, line)).expect("JSON")
}

#[test]
fn any_node_shows_the_nodes_and_who_does_what_of_a_divided_job() {
    let site = Site::of(3);
    let there = archive(&site);
    let export = site.nodes[0].export.clone();
    for n in 0..60_u32 {
        let directory = export.join(format!("set/d{}", n % 20));
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join(format!("f{n}")), vec![7; 100_000]).expect("written");
    }
    let large = fs::File::create(export.join("set/large")).expect("made");
    large.set_len((600 << 20) + 7).expect("long");
    let line = ["--limit", "500kB"];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    let job = wait_for(&site.nodes[0], &id, |job| job["state"] == "running");
    let controller = runner(&job).expect("a runner").to_owned();
    let asked = &site.nodes[(site.place_of(&controller) + 1) % 3];
    let until = Instant::now() + DEADLINE;
    let work = loop {
        let shown = document(asked, &["job", "show", &id, "--json"]);
        let work = shown["work"].clone();
        let nodes = work["nodes"].as_array().cloned().unwrap_or_default();
        let holds = |kind: &str| nodes.iter().any(|node| node[kind].as_u64() > Some(0));
        if nodes.len() == 3 && (holds("scans") || holds("parts")) {
            break work;
        }
        assert!(Instant::now() < until, "in vain: {shown}");
    };
    assert_eq!(work["controller"], *controller, "{work}");
    assert!(work["epoch"].as_u64() > Some(0), "{work}");
    assert_eq!(work["roots"][0]["source"], "data/set", "{work}");
    assert_eq!(work["targets"].as_array().map(Vec::len), Some(1), "{work}");
    let to = &work["targets"][0]["name"];
    for pair in work["pairs"].as_array().expect("pairs") {
        assert_eq!(pair["to"][0], *to, "{work}");
    }
    let open = work["open"].as_array().expect("open items");
    assert!(open.iter().any(|open| open["kind"] == "close"), "{work}");

    let text = output_of(asked, &["job", "show", &id]);
    assert!(
        text.contains(&format!("divided: controlled by {controller};")),
        "{text}"
    );
    let top = output_of(asked, &["top", "--once"]);
    assert!(top.contains("3 nodes, 1 running"), "{top}");
    assert!(top.contains(&format!("{id} is divided")), "{top}");
    for number in 2..=3 {
        assert!(top.contains(&format!("\ndtn{number} ")), "{top}");
    }
    let top = document(asked, &["top", "--json"]);
    assert_eq!(top["cluster"]["nodes"].as_array().map(Vec::len), Some(3));
    assert_eq!(top["jobs"][0]["id"], *id, "{top}");
    assert_eq!(top["work"][0]["controller"], *controller, "{top}");

    output_of(asked, &["job", "cancel", &id]);
    let ended = document(asked, &["job", "show", &id, "--json"]);
    assert_eq!(ended["state"], "cancelled", "{ended}");
    assert!(
        ended.get("work").is_none(),
        "work ends with its job: {ended}"
    );
    drop(there);
}

/// The first seconds after the death of the leader: no live node is unknown, and the dead node is soon no longer up.
#[test]
fn states_of_nodes_are_so_while_another_node_begins_to_lead() {
    let mut site = Site::of(3);
    let leader = site.leader(0);
    let asked = (leader + 1) % 3;
    let other = (leader + 2) % 3;
    let views = [asked, other].map(|node| site.view(node).expect("a view"));
    let names: Vec<String> = (0..3)
        .map(|place| {
            let is_it = |name: &&str| site.place_of(name) == place;
            let known = up(&views[0]).into_iter().find(is_it);
            known.expect("up").to_owned()
        })
        .collect();
    site.nodes[leader].kill_daemon();
    let died = Instant::now();
    let mut looks_after_loss = 0;
    while looks_after_loss < 30 {
        let began = died.elapsed();
        let view = site.view(asked).expect("a view");
        if began > Duration::from_secs(1) {
            assert_eq!(state_of(&view, &names[asked]), "up", "{began:?}: {view}");
            assert_eq!(state_of(&view, &names[other]), "up", "{began:?}: {view}");
        }
        let is_lost = state_of(&view, &names[leader]) == "lost";
        assert!(is_lost || looks_after_loss == 0, "{began:?}: {view}");
        looks_after_loss += usize::from(is_lost);
        assert!(began < DEADLINE, "the dead node is not lost: {view}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
