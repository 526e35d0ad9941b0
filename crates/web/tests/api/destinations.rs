//! Tests jobs with several destinations in the API: rights at each destination, what a user sees of a parent, and keys.
//! The transfers themselves are tested with the real binary.

use godwit_api::rest::{JobProgress, ProgressView};
use godwit_jobs::Seen;
use godwit_state::{FEATURE_LEVEL, Op, Role};
use serde_json::{Value, json};

use crate::rights::token;
use crate::world::{Settings, World};

/// A node of the newest level.
fn world() -> World {
    let world = World::new();
    world.propose(Op::Level(FEATURE_LEVEL));
    world
}

fn job(more: &[&str]) -> Value {
    json!({
        "sources": ["here:/data/run4"], "destination": "here:/archive/one/",
        "more_destinations": more, "label": "night", "not_before": "2100-01-01T00:00:00Z",
    })
}

#[test]
fn a_submitter_needs_a_right_at_each_destination() {
    let world = world();
    let otto = world.client().token(&token(&world, "otto", "operator").0);
    world.grant("otto", "data:/run4 read");
    world.grant("otto", "archive:/one write");
    let new = job(&["here:/archive/two/"]);
    let refused = otto.post("/api/v1/jobs", &new);
    let refused = refused.expect_problem(403, "not_granted");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("archive/two"), "{detail}");
    let none = otto.get("/api/v1/jobs").expect(200).json();
    assert_eq!(none["jobs"], json!([]));
    world.grant("otto", "archive:/two write");
    let made = otto.post("/api/v1/jobs", &new).expect(201).json();
    let count = json!({"total": 2, "complete": 0});
    assert_eq!(made["destinations"], count, "{made}");
    let id = made["id"].as_str().unwrap();
    let path = format!("/api/v1/jobs?parent={id}");
    let children = otto.get(&path).expect(200).json();
    let children = children["jobs"].as_array().unwrap();
    assert_eq!(children.len(), 2);
    for child in children {
        assert_eq!(
            (&child["parent"], &child["owner"]),
            (&json!(id), &json!("otto"))
        );
    }
    // A viewer of one destination sees an outline of the parent.
    let vera = world.client().token(&token(&world, "vera", "viewer").0);
    world.grant("vera", "data list");
    world.grant("vera", "archive:/one list");
    let report = format!("/api/v1/jobs/{id}/report");
    vera.get(&report).expect_problem(403, "not_granted");
    let described = vera.get(&format!("/api/v1/jobs/{id}/description"));
    let described = described.expect(200).json().to_string();
    assert!(
        described.contains("archive/one") && !described.contains("two"),
        "{described}"
    );
    let seen = vera.get(&path).expect(200).json().to_string();
    assert!(!seen.contains("two"), "{seen}");
    world.grant("vera", "archive:/two list");
    let report = vera.get(&report).expect(200).json();
    assert_eq!(report["destinations"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_key_submits_several_destinations_once() {
    let world = world();
    let client = world.client().with("idempotency-key", "night-42");
    let new = job(&["here:/archive/two/"]);
    let first = client.post("/api/v1/jobs", &new).expect(201).json();
    let again = client.post("/api/v1/jobs", &new).expect(200).json();
    assert_eq!(first["id"], again["id"]);
    let all = client.get("/api/v1/jobs").expect(200).json();
    assert_eq!(all["jobs"].as_array().map(Vec::len), Some(3));
}

#[test]
fn a_gather_needs_a_right_at_each_source_and_is_counted_by_sources() {
    let world = world();
    let otto = world.client().token(&token(&world, "otto", "operator").0);
    world.grant("otto", "data:/run4 read");
    world.grant("otto", "archive:/all write");
    let new = json!({
        "sources": ["here:/data/run4", "here:/data/run5"], "destination": "here:/archive/all",
        "gather": true, "not_before": "2100-01-01T00:00:00Z",
    });
    let refused = otto.post("/api/v1/jobs", &new);
    refused.expect_problem(403, "not_granted");
    world.grant("otto", "data:/run5 read");
    let made = otto.post("/api/v1/jobs", &new).expect(201).json();
    let count = json!({"total": 2, "complete": 0, "gather": true});
    assert_eq!(made["destinations"], count, "{made}");
    let id = made["id"].as_str().unwrap();
    let children = otto.get(&format!("/api/v1/jobs?parent={id}"));
    let children = children.expect(200).json();
    let children = children["jobs"].as_array().unwrap();
    let mut places: Vec<&str> = children
        .iter()
        .map(|child| child["destination"].as_str().unwrap())
        .collect();
    places.sort_unstable();
    let both = [
        "here:/archive/all/here-run4/",
        "here:/archive/all/here-run5/",
    ];
    assert_eq!(places, both);
}

#[test]
fn merged_sources_have_one_destination_and_a_rule_needs_a_gather() {
    let world = world();
    let client = world.client();
    let new = |gather: bool, merge: &str| {
        json!({
            "sources": ["here:/data/run4", "here:/data/run5"], "destination": "here:/archive/all",
            "gather": gather, "merge": merge, "not_before": "2100-01-01T00:00:00Z",
        })
    };
    for merge in ["refuse", "newest"] {
        let made = client.post("/api/v1/jobs", &new(true, merge));
        let made = made.expect(201).json();
        let id = made["id"].as_str().unwrap();
        let children = client.get(&format!("/api/v1/jobs?parent={id}"));
        let children = children.expect(200).json();
        let children = children["jobs"].as_array().unwrap();
        assert_eq!(children.len(), 2);
        for child in children {
            assert_eq!(child["destination"], "here:/archive/all/", "{child}");
        }
        let description = client.get(&format!("/api/v1/jobs/{id}/description"));
        let description = description.expect(200).json();
        assert_eq!(description["merge"], merge, "{description}");
        let refused = client.post("/api/v1/jobs", &new(false, merge));
        let refused = refused.expect_problem(422, "invalid");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains("merge: only a job"), "{detail}");
    }
}

#[test]
fn a_schedule_gathers_where_a_job_may_gather() {
    let world = world();
    let otto = world.client().token(&token(&world, "otto", "operator").0);
    world.grant("otto", "data:/run4 read");
    world.grant("otto", "archive:/all write");
    let put = |sources: &[&str], more: Value| {
        let mut job =
            json!({"sources": sources, "destination": "here:/archive/all", "gather": true});
        for (name, value) in more.as_object().unwrap() {
            job[name] = value.clone();
        }
        let body = json!({"cron": "0 22 1 1 *", "job": job});
        otto.json("PUT", "/api/v1/schedules/night", &body)
    };
    let both = ["here:/data/run4", "here:/data/run5"];
    put(&both, json!({})).expect_problem(403, "not_granted");
    world.grant("otto", "data:/run5 read");
    for (sources, more, words) in [
        (&both[..1], json!({}), "at least two sources"),
        (&both[..], json!({"kind": "sync"}), "only a copy gathers"),
        (
            &both[..],
            json!({"gather": false, "merge": "newest"}),
            "merge: only a job",
        ),
        (&both[..], json!({"relay": "auto"}), "relay: "),
        (&[both[0], both[0]][..], json!({}), "would both be"),
    ] {
        let refused = put(sources, more).expect_problem(422, "invalid");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{detail}");
    }
    let made = put(&both, json!({"merge": "newest"})).expect(200).json();
    assert_eq!(made["job"]["gather"], true, "{made}");
    assert_eq!(made["job"]["merge"], "newest", "{made}");
}

#[test]
fn places_that_meet_and_too_many_places_are_refused() {
    let world = world();
    let client = world.client();
    let many: Vec<String> = (0..64).map(|n| format!("here:/archive/m{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (more, word) in [
        (&["here:/archive/one"][..], "one place"),
        (&["here:/archive/one/deep"], "inside the other"),
        (&["here:/data/run4/deep"], "inside the source"),
        (&["here:/none/x"], "no export"),
        (&many, "at most 64"),
    ] {
        let refused = client.post("/api/v1/jobs", &job(more));
        let text = refused.expect(422).json()["detail"].to_string();
        assert!(text.contains(word), "{text}");
    }
    let schedule = json!({"cron": "0 22 * * *", "job": job(&["here:/archive/one"])});
    let refused = client.json("PUT", "/api/v1/schedules/night", &schedule);
    let refused = refused.expect_problem(422, "invalid");
    assert!(
        refused["detail"].as_str().unwrap().contains("one place"),
        "{refused}"
    );
}

#[test]
fn a_retry_of_a_parent_that_waits_needs_room_for_its_ended_children() {
    let world = World::with(Settings {
        waiting_of_owner_max: 4,
        ..Settings::default()
    });
    world.propose(Op::Level(FEATURE_LEVEL));
    let client = world.client();
    let post = |path: &str| client.post(&format!("/api/v1/jobs/{path}"), &json!({}));
    let new = job(&["here:/archive/two/"]);
    let made = client.post("/api/v1/jobs", &new).expect(201).json();
    let id = made["id"].as_str().unwrap();
    let children = client.get(&format!("/api/v1/jobs?parent={id}"));
    let children = children.expect(200).json();
    let child = children["jobs"][0]["id"].as_str().unwrap();
    post(&format!("{child}/cancel")).expect(200);
    // Four jobs wait: the parent, the other child, and two more.
    for _ in 0..2 {
        client.post("/api/v1/jobs", &job(&[])).expect(201);
    }
    let parent = client.get(&format!("/api/v1/jobs/{id}")).expect(200);
    assert_eq!(parent.json()["state"], "scheduled");
    post(&format!("{id}/retry")).expect_problem(422, "too_many");
    let child = client.get(&format!("/api/v1/jobs/{child}")).expect(200);
    assert_eq!(child.json()["state"], "cancelled");
}

#[test]
fn a_schedule_needs_a_right_at_each_destination() {
    let world = world();
    let otto = world.client().token(&token(&world, "otto", "operator").0);
    world.grant("otto", "data:/run4 read");
    world.grant("otto", "archive:/one write");
    let schedule = json!({"cron": "0 22 * * *", "job": job(&["here:/archive/two/"])});
    let put = || otto.json("PUT", "/api/v1/schedules/night", &schedule);
    let refused = put().expect_problem(403, "not_granted");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("archive/two"), "{detail}");
    world.grant("otto", "archive:/two write");
    let made = put().expect(200).json();
    let more = json!(["here:/archive/two/"]);
    assert_eq!(made["job"]["more_destinations"], more, "{made}");
}

#[test]
fn the_progress_of_a_parent_is_whole_for_those_who_see_all_destinations() {
    let world = world();
    drop(token(&world, "vera", "viewer"));
    world.grant("vera", "data list");
    world.grant("vera", "archive:/one list");
    let new = job(&["here:/archive/two/"]);
    let made = world.client().post("/api/v1/jobs", &new).expect(201).json();
    let reported = JobProgress {
        id: made["id"].as_str().unwrap().to_owned(),
        progress: ProgressView {
            bytes: 7,
            bottleneck_text: Some("network at archive/two".to_owned()),
            ..ProgressView::default()
        },
    };
    let seen = || {
        let vera = Seen::by(&world.jobs, "vera", Role::Viewer).unwrap();
        vera.progress(reported.clone()).unwrap().unwrap().progress
    };
    let outline = seen();
    assert_eq!((outline.bytes, outline.bottleneck_text), (7, None));
    world.grant("vera", "archive:/two list");
    assert_eq!(seen(), reported.progress);
}
