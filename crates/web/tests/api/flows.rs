//! Tests flows in the API: their form, the rights of their owner at each moment, what others see, and files that go on.
//! Flows between sites are tested with the real binary.

use std::time::{Duration, Instant};

use godwit_state::{FEATURE_LEVEL, Op};
use serde_json::{Value, json};

use crate::client::Client;
use crate::rights::token;
use crate::world::World;

/// A node of the newest level.
fn world() -> World {
    let world = World::new();
    world.propose(Op::Level(FEATURE_LEVEL));
    world
}

fn hop(from: &str, to: &str) -> Value {
    json!({"sources": [from], "destination": to})
}

/// From the export `data` by `archive` back to `data`.
fn flow(paused: bool) -> Value {
    json!({
        "hops": [hop("here:/data/raw", "here:/archive/mid"), hop("here:/archive/mid/", "here:/data/out")],
        "every_seconds": 1, "paused": paused,
    })
}

fn put(client: &Client, flow: &Value) -> crate::client::Answer {
    client.json("PUT", "/api/v1/flows/night", flow)
}

/// Waits until the only flow is so.
#[track_caller]
fn wait_for(client: &Client, is_it: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let flows = client.get("/api/v1/flows").expect(200).json();
        if is_it(&flows[0]) {
            return flows[0].clone();
        }
        assert!(Instant::now() < until, "{flows}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn files_continue_through_all_hops_and_idle_runs_leave_no_jobs() {
    let world = world();
    let client = world.client();
    let at = |path: &str| world.directory.path().join(path);
    for directory in ["data/raw", "archive/mid", "data/out"] {
        std::fs::create_dir(at(directory)).unwrap();
    }
    std::fs::write(at("data/raw/one"), "1").unwrap();
    let made = put(&client, &flow(false)).expect(200).json();
    let first = &made["hops"][0]["job"];
    assert_eq!(first["sources"], json!(["here:/data/raw/."]), "{made}");
    assert_eq!(first["settings"]["verify"], json!(["true"]), "{made}");
    let through = |files: u64| {
        move |flow: &Value| {
            let hops = flow["hops"].as_array().unwrap();
            hops.iter().all(|hop| hop["files"] == files)
        }
    };
    wait_for(&client, through(1));
    // A run never meets half a file.
    std::fs::write(at("data/two"), "22").unwrap();
    std::fs::rename(at("data/two"), at("data/raw/two")).unwrap();
    let seen = wait_for(&client, through(2));
    assert_eq!(seen["hops"][1]["bytes"], 3, "{seen}");
    for (name, content) in [("one", "1"), ("two", "22")] {
        let there = std::fs::read_to_string(at("data/out").join(name)).unwrap();
        assert_eq!(there, content);
    }
    // Runs that find nothing follow one another, and only the last one stays.
    let before = seen["hops"][0]["run"].clone();
    wait_for(&client, |flow| flow["hops"][0]["run"] != before);
    let last = wait_for(&client, |flow| {
        let waits = |hop: &Value| hop["state"] == "waiting" && hop["backlog_files"] == 0;
        flow["hops"].as_array().unwrap().iter().all(waits)
    });
    assert_eq!(last["hops"][1]["oldest"], Value::Null, "{last}");
    put(&client, &flow(true)).expect(200);
    let jobs = client.get("/api/v1/jobs").expect(200).json();
    // For each hop: two runs that moved a file, and the last one.
    assert!(jobs["jobs"].as_array().unwrap().len() <= 6, "{jobs}");
}

#[test]
fn the_owner_needs_the_rights_of_each_hop_at_each_moment() {
    let world = world();
    let admin = world.client();
    let otto = world.client().token(&token(&world, "otto", "operator").0);
    let rule = |id: &str, export: &str, rights: &[&str]| {
        let rule = json!({"subject": "user:otto", "export": export, "rights": rights});
        let path = format!("/api/v1/access/{id}");
        admin.json("PUT", &path, &rule).expect(200);
    };
    rule("d", "data", &["read", "write"]);
    rule("a", "archive", &["write"]);
    let refused = put(&otto, &flow(true)).expect_problem(403, "not_granted");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.starts_with("hop 2: otto may not read"), "{detail}");
    rule("a", "archive", &["read", "write"]);
    put(&otto, &flow(true)).expect(200);
    let olga = world.client().token(&token(&world, "olga", "operator").0);
    put(&olga, &flow(true)).expect_problem(403, "not_your_flow");
    let removed = olga.delete("/api/v1/flows/night");
    removed.expect_problem(403, "not_your_flow");
    // Others see the hops, and not the paths.
    let seen = olga.get("/api/v1/flows").expect(200).json().to_string();
    assert!(seen.contains("here:/archive/"), "{seen}");
    assert!(!seen.contains("mid") && !seen.contains("raw"), "{seen}");
    // The right to read the middle ends: the first hop is as before.
    rule("a", "archive", &["write"]);
    let flows = otto.get("/api/v1/flows").expect(200).json();
    let states = |at: usize| flows[0]["hops"][at]["state"].clone();
    assert_eq!((states(0), states(1)), (json!("paused"), json!("refused")));
    let reason = &flows[0]["hops"][1]["reason"];
    assert_eq!(reason["code"], "not_granted", "{flows}");
    // It can still be paused as it is, and not changed.
    put(&otto, &flow_as_kept(&flows[0], true)).expect(200);
    put(&otto, &flow_as_kept(&flows[0], false)).expect_problem(403, "not_granted");
    // Without its owner a flow starts nothing, and another user of that name does not get it.
    admin.delete("/api/v1/users/otto").expect(204);
    let flows = admin.get("/api/v1/flows").expect(200).json();
    assert_eq!(
        flows[0]["hops"][0]["reason"]["code"], "user_removed",
        "{flows}"
    );
    let again = admin.json("PUT", "/api/v1/users/otto", &json!({"role": "operator"}));
    let again = again.expect_problem(409, "name_taken");
    assert!(again["detail"].to_string().contains("night"), "{again}");
}

/// The flow as the page sends it back.
fn flow_as_kept(view: &Value, paused: bool) -> Value {
    let hops = view["hops"].as_array().unwrap().iter();
    let hops: Vec<Value> = hops.map(|hop| hop["job"].clone()).collect();
    json!({"hops": hops, "every_seconds": view["every_seconds"], "paused": paused})
}

#[test]
fn a_flow_that_leads_back_or_nowhere_is_refused() {
    let world = world();
    let client = world.client();
    let ring = [
        hop("here:/data/raw", "here:/archive/mid"),
        hop("here:/archive/mid", "here:/data/raw/again"),
    ];
    let gap = [
        hop("here:/data/raw", "here:/archive/mid"),
        hop("here:/archive/other", "here:/data/out"),
    ];
    let mut late = hop("here:/data/raw", "here:/archive/mid");
    late["deadline"] = json!("2100-01-01T00:00:00Z");
    let mut still = hop("here:/data/raw", "here:/archive/mid");
    still["limit"] = json!(0);
    let mut relayed = hop("here:/data/raw", "here:/archive/mid");
    relayed["relay"] = json!("auto");
    for (hops, word) in [
        (json!(ring), "inside the other"),
        (json!(gap), "hop 2: sources"),
        (json!([late]), "hop 1: not_before, deadline"),
        (json!([still]), "hop 1: limit"),
        (json!([relayed]), "hop 1: relay"),
        (json!([]), "1 to 8 hops"),
        (json!([hop("here:/none/x", "here:/data/out")]), "no export"),
    ] {
        let refused = put(&client, &json!({"hops": hops}));
        let detail = refused.expect(422).json()["detail"].to_string();
        assert!(detail.contains(word), "{detail}");
    }
    let often = json!({"hops": [hop("here:/data/raw", "here:/archive/mid")], "every_seconds": 0});
    put(&client, &often).expect_problem(422, "invalid");
    put(&client, &flow(true)).expect(200);
    let moved = json!({"hops": [hop("here:/data/raw", "here:/archive/elsewhere")], "paused": true});
    let refused = put(&client, &moved).expect_problem(422, "invalid");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("other places"), "{detail}");
    // A limit, and a hop less.
    let mut slow = hop("here:/data/raw", "here:/archive/mid");
    slow["limit"] = json!("1MB/s");
    put(&client, &json!({"hops": [slow], "paused": true})).expect(200);
    client.delete("/api/v1/flows/night").expect(204);
    client
        .delete("/api/v1/flows/night")
        .expect_problem(404, "not_found");
}

#[test]
fn one_owner_has_a_bounded_number_of_flows() {
    let world = world();
    let client = world.client();
    for number in 0..20 {
        let path = format!("/api/v1/flows/f{number}");
        client.json("PUT", &path, &flow(true)).expect(200);
    }
    put(&client, &flow(true)).expect_problem(409, "too_many");
    let otto = world.client().token(&token(&world, "otto", "admin").0);
    put(&otto, &flow(true)).expect(200);
}
