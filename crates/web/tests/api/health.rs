//! Tests monitoring of the node: health, readiness, figures, and the description of the API.
//! Rights are tested in `rights`.

use std::time::{Duration, Instant};

use godwit_state::{
    Change, FEATURE_LEVEL, JobOp, Limit, LimitScope, Moved, Op, Runner, Schedule, Webhook,
};
use serde_json::json;

use crate::jobs::later;
use crate::world::World;

#[test]
fn the_node_says_that_it_lives_and_is_ready() {
    let world = World::new();
    let network = world.network();
    let lives = network.get("/healthz").expect(200).json();
    assert_eq!(lives, json!({"status": "ok"}));
    let ready = network.get("/readyz").expect(200).json();
    assert_eq!(ready, json!({"status": "ready"}));
}

#[test]
fn figures_count_jobs_attempts_and_requests_by_bounded_labels() {
    let world = World::new();
    std::fs::write(world.path("data/one"), vec![7; 100_000]).unwrap();
    let client = world.client();
    let job = json!({"sources": ["here:/data/one"], "destination": "here:/data/two"});
    let job = client.post("/api/v1/jobs", &job).expect(201).json();
    client.post("/api/v1/jobs", &later("waits")).expect(201);
    let at = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
    for _ in 0..3 {
        client.get("/api/v1/jobs/nosuchjob").expect(404);
    }
    let until = Instant::now() + Duration::from_secs(60);
    let has = |text: &str, line: &str| text.lines().any(|one| one == line);
    let text = loop {
        assert!(Instant::now() < until, "{}", client.get(&at).json());
        let answer = client.get("/metrics").expect(200);
        let text = String::from_utf8(answer.body).unwrap();
        if has(
            &text,
            r#"godwit_attempts_total{outcome="complete",asked="here"} 1"#,
        ) {
            break text;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    for line in [
        r#"godwit_jobs{state="complete",asked="here"} 1"#,
        r#"godwit_jobs{state="scheduled",asked="here"} 1"#,
        r#"godwit_jobs{state="failed",asked="here"} 0"#,
        r#"godwit_jobs{state="complete",asked="elsewhere"} 0"#,
        r#"godwit_attempts_total{outcome="complete",asked="elsewhere"} 0"#,
        r#"godwit_moved_bytes_total{runs="here"} 100000"#,
        r#"godwit_moved_bytes_total{runs="elsewhere"} 0"#,
        r#"godwit_build_info{version="1.2.3",cluster_id="gw1-test"} 1"#,
        r#"godwit_http_requests_total{method="GET",route="/api/v1/jobs/{id}",status="404"} 3"#,
        r#"godwit_http_requests_total{method="POST",route="/api/v1/jobs",status="201"} 2"#,
        "# EOF",
    ] {
        assert!(has(&text, line), "{line} is not in:\n{text}");
    }
    assert!(!text.contains("nosuchjob"), "{text}");
    let bucket = "godwit_http_request_duration_seconds_bucket{le=";
    assert!(text.contains(bucket), "{text}");
    let wrong = world.client().token("gwt_wrong");
    wrong.get("/metrics").expect_problem(401, "bad_token");
}

/// A node reports the amounts of a paused attempt later than the pause.
#[test]
fn the_amounts_of_a_paused_and_resumed_job_are_counted() {
    let world = World::new();
    world.propose(Op::Level(FEATURE_LEVEL));
    let client = world.client();
    let wait_for = |line: &str| {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let text = String::from_utf8(client.get("/metrics").expect(200).body).unwrap();
            if text.lines().any(|one| one == line) {
                return;
            }
            assert!(Instant::now() < until, "{line} is not in:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let job = client.post("/api/v1/jobs", &later("waits")).expect(201);
    let id = job.json()["id"].as_str().unwrap().to_owned();
    let change = |op: JobOp| world.propose(Op::Job(id.clone(), op));
    // Another node runs the job, so that nothing here reports beside the test.
    let runner = || Runner {
        node: "node2".to_owned(),
        instance: "first".to_owned(),
    };
    for (attempt, bytes, sum) in [(1, 700, 700), (2, 300, 1_000)] {
        let seen = world.replica.reader().job(&id).unwrap().unwrap().epoch;
        change(JobOp::Claim {
            runner: runner(),
            seen,
        });
        change(JobOp::Pause);
        // The end of the attempt is counted before its amounts come.
        wait_for(&format!(
            "godwit_attempts_total{{outcome=\"paused\",asked=\"here\"}} {attempt}"
        ));
        let moved = Moved {
            bytes,
            files: 1,
            bytes_again: 0,
        };
        change(JobOp::Moved { attempt, moved });
        wait_for(&format!("godwit_moved_bytes_total{{runs=\"here\"}} {sum}"));
        change(JobOp::Resume);
    }
    let job = client.get(&format!("/api/v1/jobs/{id}")).expect(200).json();
    assert_eq!(job["moved"]["bytes"], 1_000, "{job}");
}

#[test]
fn the_api_is_described_and_the_page_needs_nothing_from_elsewhere() {
    let world = World::new();
    let network = world.network();
    let served = network.get("/openapi.json").expect(200);
    assert_eq!(served.json()["openapi"], "3.1.0");
    let other = network.get("/api/v1/openapi.json").expect(200);
    assert_eq!(other.body, served.body);
    let page = network.get("/docs").expect(200);
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let text = String::from_utf8(page.body).unwrap();
    for elsewhere in ["http://", "https://", "src=", "@import"] {
        assert!(!text.contains(elsewhere), "{elsewhere}");
    }
}

/// The committed document equals the served one; `GODWIT_WRITE_OPENAPI=1` writes it.
#[test]
fn the_committed_document_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let text = format!("{}\n", godwit_web::openapi());
    if std::env::var_os("GODWIT_WRITE_OPENAPI").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/openapi.json is not what the handlers say; write it with: \
         GODWIT_WRITE_OPENAPI=1 cargo test -p godwit-web the_committed_document"
    );
}

#[test]
fn limits_and_shares_are_put_and_removed() {
    let world = World::new();
    let client = world.client();
    let limit = json!({
        "rate": 1000, "jobs_max": 2, "time_zone": "Europe/Berlin",
        "windows": [{"days": [0, 1], "from": 480, "to": 1080, "rate": 10}],
    });
    let put = client.json("PUT", "/api/v1/limits/site/siteB", &limit);
    let put = put.expect(200).json();
    assert_eq!(
        (&put["scope"], &put["name"]),
        (&json!("site"), &json!("siteB"))
    );
    assert_eq!(client.get("/api/v1/limits").json(), json!([put]));
    let wrong = client.json("PUT", "/api/v1/limits/planet/x", &limit);
    wrong.expect_problem(422, "invalid");
    client.delete("/api/v1/limits/site/siteB").expect(204);
    let gone = client.delete("/api/v1/limits/site/siteB");
    gone.expect_problem(404, "not_found");
    let share =
        |weight: u32| client.json("PUT", "/api/v1/shares/alice", &json!({"weight": weight}));
    share(3).expect(200);
    share(0).expect_problem(422, "invalid");
    let shares = client.get("/api/v1/shares").json();
    assert_eq!(shares, json!([{"owner": "alice", "weight": 3}]));
    client.delete("/api/v1/shares/alice").expect(204);
    let audit = client.get("/api/v1/audit?limit=3").expect(200).json();
    assert_eq!(audit[0]["action"], "share.remove");
    assert_eq!(audit[0]["role"], "admin");
}

#[test]
fn schedules_and_webhooks_are_put_and_removed() {
    let world = World::new();
    let client = world.client();
    let schedule = |cron: &str| {
        let body = json!({"cron": cron, "time_zone": "Europe/Berlin", "job": later("nightly")});
        client.json("PUT", "/api/v1/schedules/nightly", &body)
    };
    let put = schedule("0 22 * * *").expect(200).json();
    assert_eq!(
        (&put["id"], &put["job"]["label"]),
        (&json!("nightly"), &json!("nightly"))
    );
    assert!(put["next"].is_string(), "{put}");
    assert_eq!(schedule("whenever").status.as_u16(), 422);
    // It comes due in the year 4991, and its search would take long.
    let rare = schedule("0 0 0 L * +1#4 4-4996/4,4991");
    let refused = rare.expect_problem(422, "invalid");
    assert!(refused.to_string().contains("10 years"), "{refused}");
    assert_eq!(client.get("/api/v1/schedules").json(), json!([put]));
    client.delete("/api/v1/schedules/nightly").expect(204);
    let gone = client.delete("/api/v1/schedules/nightly");
    gone.expect_problem(404, "not_found");

    let webhook = |body: serde_json::Value| client.json("PUT", "/api/v1/webhooks/chat", &body);
    let made = webhook(json!({"url": "https://chat.example/x"}));
    let made = made.expect(200).json();
    assert!(
        made["secret"].as_str().unwrap().starts_with("whsec_"),
        "{made}"
    );
    webhook(json!({"url": "https://chat.example/x", "secret": "whsec_c2VjcmV0"}))
        .expect_problem(422, "invalid");
    // The key stays, and no answer shows it.
    let mut put = json!(null);
    for level in [None, Some(FEATURE_LEVEL)] {
        // From this level on, the state keeps it.
        if let Some(level) = level {
            world.propose(Op::Level(level));
        }
        let body = json!({"url": "https://chat.example/y", "events": ["failed"]});
        put = webhook(body).expect(200).json();
        assert!(!put.to_string().contains("whsec"), "{put}");
        let row = world.replica.reader().object::<Webhook>("chat").unwrap();
        assert_eq!(row.unwrap().secret.expose(), made["secret"]);
    }
    webhook(json!({"url": "https://chat.example/y", "events": ["moving"]}))
        .expect_problem(422, "invalid");
    webhook(json!({"url": "file:///etc/passwd"})).expect_problem(422, "invalid");
    assert_eq!(client.get("/api/v1/webhooks").json(), json!([put]));
    client.delete("/api/v1/webhooks/chat").expect(204);
}

#[test]
fn an_unknown_time_zone_is_refused_and_an_old_one_is_shown() {
    let world = World::new();
    let client = world.client();
    for zone in ["Nowhere/Land", "Berlin", "UTC+1"] {
        let limit = json!({"rate": 1000, "time_zone": zone});
        let refused = client.json("PUT", "/api/v1/limits/site/siteB", &limit);
        let problem = refused.expect_problem(422, "invalid");
        assert!(problem["detail"].to_string().contains(zone), "{problem}");
        let schedule = json!({"cron": "0 22 * * *", "time_zone": zone, "job": later("nightly")});
        let refused = client.json("PUT", "/api/v1/schedules/nightly", &schedule);
        refused.expect_problem(422, "invalid");
    }
    assert_eq!(client.get("/api/v1/limits").json(), json!([]));
    // As an earlier version stored them.
    world.propose(Op::Limit(Change::Put(Limit {
        scope: LimitScope::Site,
        name: "old".to_owned(),
        rate: Some(1000),
        jobs_max: None,
        windows: Vec::new(),
        time_zone: "Nowhere/Land".to_owned(),
    })));
    world.propose(Op::Schedule(Change::Put(Schedule {
        id: "old".to_owned(),
        cron: "0 22 * * *".to_owned(),
        time_zone: "Nowhere/Land".to_owned(),
        owner: "ada".to_owned(),
        role: None,
        template: later("nightly").to_string(),
        disabled: false,
        fired: None,
        reason: None,
        comment: String::new(),
    })));
    let limits = client.get("/api/v1/limits").expect(200).json();
    let trouble = limits[0]["trouble"].as_str().unwrap();
    assert!(
        trouble.contains("Nowhere/Land") && trouble.contains("UTC"),
        "{trouble}"
    );
    let schedules = client.get("/api/v1/schedules").expect(200).json();
    assert_eq!(schedules[0]["reason"]["code"], "unknown_time_zone");
    let until = Instant::now() + Duration::from_secs(60);
    for what in ["limit site/old: ", "schedule old: "] {
        let reported = || {
            let log = world.log.lock().unwrap();
            log.iter().filter(|line| line.starts_with(what)).count()
        };
        while reported() == 0 {
            assert!(Instant::now() < until, "{what}: nothing in the log");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(reported(), 1, "{what}");
    }
    // A corrected limit is like any other.
    let limit = json!({"rate": 1000, "time_zone": "Europe/Berlin"});
    let mended = client.json("PUT", "/api/v1/limits/site/old", &limit);
    assert_eq!(mended.expect(200).json()["trouble"], json!(null));
}
