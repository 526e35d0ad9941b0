//! Tests jobs over the API: submitted once, listed, changed, and steered to their end.
//! Whether data arrives is tested in `jobs` and `cli`.

use godwit_state::{ById, Change, Op, Schedule};
use serde_json::json;

use crate::client::Client;
use crate::rights::token;
use crate::world::{Settings, World};

/// A job whose start is far in the future.
pub(crate) fn later(label: &str) -> serde_json::Value {
    json!({
        "sources": ["here:/data/run42"],
        "destination": "here:/data/copy/",
        "label": label,
        "not_before": "2100-01-01T00:00:00Z",
    })
}

/// All nodes of a cluster keep the description of a job.
#[test]
fn too_many_sources_are_refused_with_what_to_do() {
    let world = World::new();
    let client = world.client();
    let with = |sources: Vec<String>| {
        let mut job = later("many");
        job["sources"] = json!(sources);
        client.post("/api/v1/jobs", &job)
    };
    let sources = |count: usize| (0..count).map(|n| format!("here:/data/{n}")).collect();
    with(sources(1024)).expect(201);
    let refused = with(sources(1025));
    let text = refused.expect(422).json()["detail"].to_string();
    assert!(
        text.contains("a job takes at most 1024") && text.contains("submit several jobs"),
        "{text}"
    );
    let long = "x".repeat(200);
    let refused = with(
        (0..1024)
            .map(|n| format!("here:/data/{long}/{long}{n}"))
            .collect(),
    );
    let text = refused.expect(422).json()["detail"].to_string();
    assert!(text.contains("at most 262144"), "{text}");
}

#[test]
fn a_job_is_submitted_listed_changed_and_steered() {
    let world = World::new();
    let client = world.client();
    let created = client.post("/api/v1/jobs", &later("night-42")).expect(201);
    let job = created.json();
    let id = job["id"].as_str().unwrap().to_owned();
    assert_eq!(created.header("location"), format!("/api/v1/jobs/{id}"));
    assert_eq!(job["state"], "scheduled");
    assert_eq!(job["reason"]["code"], "not_before");
    assert_eq!(job["label"], "night-42");
    let at = format!("/api/v1/jobs/{id}");

    let undivided = client.get(&format!("{at}/work"));
    undivided.expect_problem(404, "not_divided");
    let unknown = client.get("/api/v1/jobs/0000000000x/work");
    unknown.expect_problem(404, "no_such_job");

    let description = client.get(&format!("{at}/description")).expect(200).json();
    assert_eq!(description["sources"], json!(["here:/data/run42"]));
    let changed = client.json(
        "PATCH",
        &at,
        &json!({"limit": 1_000_000, "priority": 7, "label": "x"}),
    );
    let changed = changed.expect(200).json();
    assert_eq!(
        (&changed["limit"], &changed["priority"], &changed["label"]),
        (&json!(1_000_000), &json!(7), &json!("x"))
    );
    let without = client.json("PATCH", &at, &json!({"limit": 0})).expect(200);
    assert_eq!(without.json()["limit"], json!(null));

    let steer = |what: &str| client.send("POST", &format!("{at}/{what}"), &[], Vec::new());
    assert_eq!(steer("pause").expect(200).json()["state"], "paused");
    steer("retry").expect_problem(409, "forbidden_transition");
    assert_eq!(steer("resume").expect(200).json()["state"], "scheduled");
    let cancelled = client.post(&format!("{at}/cancel"), &json!({"comment": "wrong run"}));
    let cancelled = cancelled.expect(200).json();
    assert_eq!(cancelled["state"], "cancelled");
    assert!(
        cancelled["reason"]["text"]
            .as_str()
            .unwrap()
            .contains("wrong run")
    );
    steer("cancel").expect_problem(409, "forbidden_transition");

    for list in ["attempts", "failures", "samples"] {
        let list = client.get(&format!("{at}/{list}")).expect(200);
        assert_eq!(list.json(), json!([]));
    }
    let log = client
        .get(&format!("{at}/log?after=0&limit=10"))
        .expect(200);
    assert_eq!(log.json(), json!({"lines": [], "next": 0}));
    for path in [
        "",
        "/description",
        "/attempts",
        "/failures",
        "/samples",
        "/log",
    ] {
        let missing = client.get(&format!("/api/v1/jobs/nosuchjob{path}"));
        missing.expect_problem(404, "no_such_job");
    }
    let missing = client.send("POST", "/api/v1/jobs/nosuchjob/pause", &[], Vec::new());
    missing.expect_problem(404, "no_such_job");
    // The start of the job has not come.
    assert_eq!(steer("retry").expect(200).json()["state"], "scheduled");
}

#[test]
fn the_same_key_submits_once() {
    let world = World::new();
    let client = world.client().with("idempotency-key", "night-42/1");
    let first = client.post("/api/v1/jobs", &later("a")).expect(201).json();
    let again = client.post("/api/v1/jobs", &later("a")).expect(200).json();
    assert_eq!(first["id"], again["id"]);
    let other = client.post("/api/v1/jobs", &later("b"));
    other.expect_problem(409, "duplicate");
    let jobs = client.get("/api/v1/jobs").expect(200).json();
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1);
    let bad = world.client().with("idempotency-key", "a b");
    bad.post("/api/v1/jobs", &later("a"))
        .expect_problem(400, "bad_header");
}

#[test]
fn lists_have_filters_and_pages() {
    let world = World::new();
    let client = world.client();
    let mut ids = Vec::new();
    for number in 0..5 {
        let job = client.post("/api/v1/jobs", &later(&format!("run {number}")));
        ids.push(job.expect(201).json()["id"].as_str().unwrap().to_owned());
    }
    let pause = format!("/api/v1/jobs/{}/pause", ids[0]);
    client.send("POST", &pause, &[], Vec::new()).expect(200);
    let found = |query: &str| -> Vec<String> {
        let list = client.get(&format!("/api/v1/jobs?{query}")).expect(200);
        let jobs = list.json()["jobs"].as_array().unwrap().clone();
        jobs.iter()
            .map(|job| job["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(found("state=paused"), [ids[0].clone()]);
    assert_eq!(found("state=paused,scheduled").len(), 5);
    assert_eq!(found("state=paused&state=scheduled").len(), 5);
    assert_eq!(found("label=run%203"), [ids[3].clone()]);
    assert_eq!(found("owner=nobody-at-all").len(), 0);
    assert_eq!(found("site=here").len(), 5);
    assert_eq!(found("since=2100-01-01T00:00:00Z").len(), 0);
    assert_eq!(found("until=2100-01-01T00:00:00%2B02:00").len(), 5);

    let mut paged = Vec::new();
    let mut query = "limit=2".to_owned();
    loop {
        let page = client
            .get(&format!("/api/v1/jobs?{query}"))
            .expect(200)
            .json();
        let jobs = page["jobs"].as_array().unwrap();
        assert!(jobs.len() <= 2);
        paged.extend(
            jobs.iter()
                .map(|job| job["id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next"].as_str() else {
            break;
        };
        query = format!("limit=2&cursor={next}");
    }
    paged.sort();
    ids.sort();
    assert_eq!(paged, ids);
}

#[test]
fn the_node_tells_of_itself_and_who_asks() {
    let world = World::new();
    let client = world.client();
    let node = client.get("/api/v1/node").expect(200).json();
    assert_eq!(node["version"], "1.2.3");
    assert_eq!(node["identity"], "gw1-test");
    assert_eq!(node["role"], "admin");
    assert_eq!(node["exports"][0]["name"], "data");
    assert!(node["exports"][0]["bytes_free"].as_u64().unwrap() > 0);
    let exports = client.get("/api/v1/exports").expect(200).json();
    // Free space changes between two requests.
    let lasting = |exports: &serde_json::Value| {
        let exports = exports.as_array().unwrap().iter();
        let fields = exports.map(|export| (export["name"].clone(), export["bytes_total"].clone()));
        fields.collect::<Vec<_>>()
    };
    assert_eq!(lasting(&exports), lasting(&node["exports"]));
}

#[test]
fn waiting_jobs_of_one_owner_are_bounded_in_bytes() {
    let world = World::with(Settings {
        waiting_of_owner_max: 30,
        ..Settings::default()
    });
    let otto = world.client().token(&token(&world, "otto", "operator").0);
    world.grant("otto", "data read,write");
    let mut job = later("waits");
    let names = (0..1_000).map(|number| format!("{number:0>240}"));
    job["list"] = names.collect::<Vec<_>>().into();
    for _ in 0..2 {
        otto.post("/api/v1/jobs", &job).expect(201);
    }
    let full = otto.post("/api/v1/jobs", &job);
    let problem = full.expect_problem(422, "too_many");
    assert!(format!("{problem:?}").contains("bytes"), "{problem:?}");
}

#[test]
fn one_owner_leaves_room_for_jobs_and_schedules_of_others() {
    let world = World::with(Settings {
        waiting_of_owner_max: 3,
        ..Settings::default()
    });
    let user = |name: &str| world.client().token(&token(&world, name, "operator").0);
    let (otto, olga) = (user("otto"), user("olga"));
    for name in ["otto", "olga"] {
        world.grant(name, "data read,write");
    }
    let job = later("waits");
    let keyed = |client: &Client| {
        let headers = [
            ("content-type", "application/json"),
            ("idempotency-key", "one"),
        ];
        client.send("POST", "/api/v1/jobs", &headers, job.to_string().into())
    };
    let first = keyed(&otto).expect(201).json();
    for _ in 0..2 {
        otto.post("/api/v1/jobs", &job).expect(201);
    }
    let full = otto.post("/api/v1/jobs", &job);
    full.expect_problem(422, "too_many");
    keyed(&otto).expect(200);
    olga.post("/api/v1/jobs", &job).expect(201);
    // Paused jobs resume on request, and keep their places until then.
    let at = format!("/api/v1/jobs/{}", first["id"].as_str().unwrap());
    otto.post(&format!("{at}/pause"), &json!({})).expect(200);
    otto.post("/api/v1/jobs", &job)
        .expect_problem(422, "too_many");
    otto.post(&format!("{at}/resume"), &json!({})).expect(200);
    // An ended job waits no more, and cannot be retried while there is no room.
    let first = format!("/api/v1/jobs/{}", first["id"].as_str().unwrap());
    otto.post(&format!("{first}/cancel"), &json!({}))
        .expect(200);
    otto.post("/api/v1/jobs", &job).expect(201);
    otto.post(&format!("{first}/retry"), &json!({}))
        .expect_problem(422, "too_many");

    for number in 0..500 {
        world.propose(Op::Schedule(Change::Put(Schedule {
            id: format!("s{number}"),
            cron: "0 2 1 1 *".to_owned(),
            time_zone: "UTC".to_owned(),
            owner: "otto".to_owned(),
            role: None,
            template: job.to_string(),
            disabled: true,
            fired: None,
            reason: None,
            comment: String::new(),
        })));
    }
    let schedule = json!({"cron": "0 2 1 1 *", "time_zone": "UTC", "job": job});
    let put = |client: &Client, id: &str| {
        client.json("PUT", &format!("/api/v1/schedules/{id}"), &schedule)
    };
    put(&otto, "more").expect_problem(409, "too_many");
    put(&otto, "s7").expect(200);
    put(&olga, "more").expect(200);
}

#[test]
fn a_schedule_is_disabled_without_the_right_to_its_places_and_enabled_with_it() {
    let world = World::new();
    let otto = world.client().token(&token(&world, "otto", "operator").0);
    world.grant("otto", "data read,write");
    let put = |disabled: bool, cron: &str| {
        let schedule =
            json!({"cron": cron, "time_zone": "UTC", "job": later("x"), "disabled": disabled});
        otto.json("PUT", "/api/v1/schedules/s", &schedule)
    };
    put(false, "0 2 1 1 *").expect(200);
    world.file_grants.lock().unwrap().clear();
    put(true, "0 3 1 1 *").expect_problem(403, "not_granted");
    put(true, "0 2 1 1 *").expect(200);
    put(false, "0 2 1 1 *").expect_problem(403, "not_granted");
}

#[test]
fn the_schedules_of_an_owner_are_bounded_in_bytes_and_all_are_listed() {
    let world = World::new();
    let user = |name: &str| world.client().token(&token(&world, name, "operator").0);
    let (otto, olga) = (user("otto"), user("olga"));
    for name in ["otto", "olga"] {
        world.grant(name, "data read,write");
    }
    let small = json!({"cron": "0 2 1 1 *", "time_zone": "UTC", "job": later("small")});
    let mut large = small.clone();
    let sources = (0..60).map(|number| format!("here:/data/{number}{}", "/x".repeat(2_000)));
    large["job"]["sources"] = json!(sources.collect::<Vec<_>>());
    let put = |client: &Client, id: &str, schedule: &serde_json::Value| {
        client.json("PUT", &format!("/api/v1/schedules/{id}"), schedule)
    };
    for number in 0..17 {
        put(&otto, &format!("s{number}"), &large).expect(200);
    }
    put(&otto, "small", &small).expect(200);
    put(&otto, "more", &large).expect_problem(409, "too_many");
    put(&otto, "small", &large).expect_problem(409, "too_many");
    put(&otto, "s3", &large).expect(200);
    put(&olga, "more", &large).expect(200);
    // More than one page, and none is missing.
    let listed = otto.get("/api/v1/schedules").expect(200);
    assert_eq!(listed.header("content-type"), "application/json");
    assert!(listed.body.len() > 4 << 20);
    assert_eq!(listed.json().as_array().unwrap().len(), 19);
    let reader = world.replica.reader();
    let page = ById(&reader).after::<Schedule>("", 1 << 20);
    assert_eq!(page.unwrap().len(), 4);
}
