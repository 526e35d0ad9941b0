//! Tests that jobs and schedules of a token have the role of the token, and not the role of its user.
//! The admin `ada` has a token with the role operator.

use std::fs;
use std::time::{Duration, Instant};

use godwit_state::{FEATURE_LEVEL, Op};
use serde_json::{Value, json};

use crate::client::Client;
use crate::rights::token;
use crate::world::World;

const DEADLINE: Duration = Duration::from_secs(60);

/// Clients of ada: as admin, and by tokens of smaller roles.
struct Ada {
    admin: Client,
    operator: Client,
    viewer: Client,
}

fn ada(world: &World) -> Ada {
    world.propose(Op::Level(FEATURE_LEVEL));
    let (admin, _) = token(world, "ada", "admin");
    let narrowed = |role: &str| {
        let wish = json!({"user": "ada", "role": role});
        let made = world.client().post("/api/v1/tokens", &wish);
        let made = made.expect(201).json();
        world.client().token(made["secret"].as_str().unwrap())
    };
    Ada {
        admin: world.client().token(&admin),
        operator: narrowed("operator"),
        viewer: narrowed("viewer"),
    }
}

fn until(what: &str, mut is_it: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_it() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn submit(client: &Client, job: &Value) -> String {
    let made = client.post("/api/v1/jobs", job).expect(201).json();
    made["id"].as_str().unwrap().to_owned()
}

fn text(client: &Client, path: &str) -> String {
    String::from_utf8_lossy(&client.get(path).body).into_owned()
}

#[test]
fn a_job_of_a_token_reads_no_names_that_the_token_may_not() {
    let world = World::new();
    let ada = ada(&world);
    world.grant("ada", "data read");
    world.grant("ada", "archive write");
    fs::create_dir_all(world.path("data/new")).unwrap();
    fs::write(world.path("data/new/own-name"), b"new").unwrap();
    fs::write(world.path("archive/theirs-name"), b"theirs").unwrap();
    let job = json!({
        "kind": "sync", "sources": ["here:/data/new/"], "destination": "here:/archive/",
        "settings": {"delete": ["true"], "verbose": ["true"]},
    });
    let id = submit(&ada.operator, &job);
    let at = format!("/api/v1/jobs/{id}");
    until("it ends", || {
        !ada.operator.get(&at).json()["ended"].is_null()
    });
    assert!(!world.path("archive/theirs-name").exists());
    for part in ["", "/log", "/report", "/failures", "/attempts"] {
        let reported = text(&ada.operator, &format!("{at}{part}"));
        assert!(!reported.contains("theirs-"), "{part}: {reported}");
    }
    assert!(text(&ada.operator, &format!("{at}/log")).contains("own-name"));
}

#[test]
fn a_job_of_a_token_ends_with_the_rules_of_the_token() {
    let world = World::new();
    let ada = ada(&world);
    world.grant("ada", "* read,write");
    fs::create_dir(world.path("data/run")).unwrap();
    fs::write(world.path("data/run/big"), vec![7; 8 << 20]).unwrap();
    let slow = |destination: &str| json!({"sources": ["here:/data/run"], "destination": destination, "limit": 100_000});
    let of_token = submit(&ada.operator, &slow("here:/archive/a/"));
    let of_admin = submit(&ada.admin, &slow("here:/archive/b/"));
    let seen = |id: &str| ada.admin.get(&format!("/api/v1/jobs/{id}")).json();
    until("both run", || {
        [&of_token, &of_admin]
            .iter()
            .all(|id| seen(id)["progress"]["bytes"].as_u64() > Some(0))
    });
    world.file_grants.lock().unwrap().clear();
    until("the job of the token ends", || {
        !seen(&of_token)["ended"].is_null()
    });
    assert_eq!(seen(&of_token)["state"], "failed");
    assert_eq!(seen(&of_admin)["ended"], Value::Null);
    ada.operator
        .post(&format!("/api/v1/jobs/{of_token}/retry"), &json!({}))
        .expect_problem(403, "not_granted");
    // An admin may let it run again. It has no more rights than before.
    ada.admin
        .post(&format!("/api/v1/jobs/{of_token}/retry"), &json!({}))
        .expect(200);
    until("it ends again", || !seen(&of_token)["ended"].is_null());
    assert_eq!(seen(&of_token)["state"], "failed");
    ada.admin
        .post(&format!("/api/v1/jobs/{of_admin}/cancel"), &json!({}))
        .expect(200);
}

#[test]
fn a_schedule_of_a_token_submits_what_the_token_may() {
    let world = World::new();
    let ada = ada(&world);
    world.grant("ada", "* read,write");
    let new = |comment: &str| {
        json!({"cron": "* * * * * *", "comment": comment, "job": {
            "sources": ["here:/data/a"], "destination": "here:/archive/", "not_before": "2100-01-01T00:00:00Z",
        }})
    };
    let put = |client: &Client, comment: &str| {
        let path = "/api/v1/schedules/each-second";
        client.json("PUT", path, &new(comment)).expect(200);
    };
    put(&ada.operator, "");
    let jobs = || {
        let page = ada.admin.get("/api/v1/jobs").expect(200).json();
        page["jobs"].as_array().unwrap().len()
    };
    until("a tick", || jobs() > 0);
    world.file_grants.lock().unwrap().clear();
    let reason = || {
        let all = ada.admin.get("/api/v1/schedules").expect(200).json();
        all[0]["reason"]["code"].clone()
    };
    until("a tick is refused", || reason() == "not_granted");
    // A comment of an admin does not widen it.
    let before = jobs();
    put(&ada.admin, "seen");
    until("a tick is refused again", || reason() == "not_granted");
    assert_eq!(jobs(), before);
}

#[test]
fn a_token_sees_no_names_of_jobs_of_a_larger_role() {
    let world = World::new();
    let ada = ada(&world);
    let mut job = json!({
        "sources": ["here:/data/secret-run"], "destination": "here:/archive/secret-copy",
        "not_before": "2100-01-01T00:00:00Z",
    });
    let of_admin = submit(&ada.admin, &job);
    let schedule = json!({"cron": "0 22 * * *", "job": job});
    ada.admin
        .json("PUT", "/api/v1/schedules/nightly", &schedule)
        .expect(200);
    for narrow in [&ada.operator, &ada.viewer] {
        let at = format!("/api/v1/jobs/{of_admin}");
        for path in [&at, "/api/v1/jobs", "/api/v1/schedules"] {
            let reported = text(narrow, path);
            assert!(!reported.contains("secret"), "{path}: {reported}");
        }
        for part in ["log", "report", "manifest"] {
            narrow
                .get(&format!("{at}/{part}"))
                .expect_problem(403, "not_granted");
        }
    }
    // A job of the token is its own one, but not the viewer's.
    world.grant("ada", "data:/secret-run read");
    world.grant("ada", "archive:/secret-copy write");
    job["label"] = json!("of the token");
    let of_token = format!("/api/v1/jobs/{}", submit(&ada.operator, &job));
    assert!(text(&ada.operator, &of_token).contains("secret-copy"));
    assert!(text(&ada.admin, &of_token).contains("secret-copy"));
    assert!(!text(&ada.viewer, &of_token).contains("secret-copy"));
}

#[test]
fn a_token_that_steers_a_job_of_a_larger_role_reads_no_names() {
    let world = World::new();
    let ada = ada(&world);
    let job = json!({
        "sources": ["here:/data/secret-run"], "destination": "here:/archive/secret-copy",
        "not_before": "2100-01-01T00:00:00Z",
    });
    let id = submit(&ada.admin, &job);
    let at = format!("/api/v1/jobs/{id}");
    let answers = |method: &str, part: &str, body: &Value, status: u16| {
        let answer = ada.operator.json(method, &format!("{at}{part}"), body);
        let reported = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!(answer.status.as_u16(), status, "{part}: {reported}");
        assert!(!reported.contains("secret"), "{method} {part}: {reported}");
    };
    answers("PATCH", "", &json!({}), 200);
    answers("PATCH", "", &json!({"label": "seen"}), 200);
    answers("PATCH", "", &json!({"limit": 1_000}), 403);
    answers("POST", "/pause", &json!({}), 200);
    answers("POST", "/resume", &json!({}), 403);
    answers("POST", "/cancel", &json!({}), 200);
    answers("POST", "/retry", &json!({}), 403);
    // If the token may list the place, the refusal names the place.
    world.grant("ada", "data:/secret-run list");
    let refused = ada.operator.post(&format!("{at}/retry"), &json!({}));
    let refused = refused.expect_problem(403, "not_granted").to_string();
    assert!(refused.contains("secret-run"), "{refused}");
}

#[test]
fn a_token_that_cleans_up_a_job_of_a_larger_role_reads_no_names() {
    let world = World::new();
    let ada = ada(&world);
    fs::create_dir(world.path("data/run")).unwrap();
    fs::write(world.path("data/run/big"), vec![7; 8 << 20]).unwrap();
    let job = json!({"sources": ["here:/data/run"], "destination": "here:/archive/secret-copy/", "limit": 100_000});
    let id = submit(&ada.admin, &job);
    let at = format!("/api/v1/jobs/{id}");
    until("it runs", || {
        ada.admin.get(&at).json()["progress"]["bytes"].as_u64() > Some(0)
    });
    let cancelled = ada.admin.post(&format!("{at}/cancel"), &json!({}));
    assert_eq!(cancelled.expect(200).json()["state"], "cancelled");
    let clean = json!({"job": id, "dry_run": true});
    let refused = ada.operator.post("/api/v1/places/clean", &clean);
    let refused = refused.expect_problem(403, "not_granted").to_string();
    assert!(!refused.contains("secret"), "{refused}");
    ada.admin.post("/api/v1/places/clean", &clean).expect(200);
}

#[test]
fn a_token_of_a_smaller_role_revokes_only_itself() {
    const TOKENS: &str = "/api/v1/tokens";
    let world = World::new();
    let ada = ada(&world);
    let current = |client: &Client| {
        let account = client.get("/api/v1/account").expect(200).json();
        account["current"].as_str().unwrap().to_owned()
    };
    let at = |client: &Client| format!("{TOKENS}/{}", current(client));
    let child = ada.operator.post(TOKENS, &json!({"role": "operator"}));
    let child = child.expect(201).json();
    let child_client = world.client().token(child["secret"].as_str().unwrap());
    let of_others = [at(&ada.admin), at(&ada.viewer), at(&child_client)];
    for other in &of_others {
        let refused = ada.operator.delete(other);
        let refused = refused.expect_problem(403, "role_too_small").to_string();
        assert!(refused.contains("can revoke only itself"), "{refused}");
    }
    for all in ["", "?made=true"] {
        let path = format!("/api/v1/account/tokens{all}");
        ada.operator
            .delete(&path)
            .expect_problem(403, "role_too_small");
    }
    for client in [&ada.admin, &ada.viewer, &child_client] {
        client.get("/api/v1/account").expect(200);
    }
    // A token of another user is still unknown to it.
    let (_, of_eve) = token(&world, "eve", "operator");
    let unknown = ada.operator.delete(&format!("{TOKENS}/{of_eve}"));
    unknown.expect_problem(404, "not_found");
    // The token ends itself, and so its child.
    ada.operator.delete(&at(&ada.operator)).expect(204);
    for client in [&ada.operator, &child_client] {
        client
            .get("/api/v1/account")
            .expect_problem(401, "token_revoked");
    }
    // A token with the whole role of its user, here an admin, may revoke other tokens.
    ada.admin.delete(&of_others[1]).expect(204);
    let (whole, _) = token(&world, "otto", "operator");
    let (_, second) = token(&world, "otto", "operator");
    let otto = world.client().token(&whole);
    otto.delete(&format!("{TOKENS}/{second}")).expect(204);
    otto.delete("/api/v1/account/tokens?made=true").expect(204);
    // A user with a smaller role now has no more rights than the token.
    let (_, third) = token(&world, "otto", "operator");
    let viewer = json!({"role": "viewer", "password": "correct horse"});
    world
        .client()
        .json("PUT", "/api/v1/users/otto", &viewer)
        .expect(200);
    let login = json!({"user": "otto", "password": "correct horse"});
    let login = world.network().post("/api/v1/login", &login).expect(200);
    let secret = login.json()["secret"].as_str().unwrap().to_owned();
    let otto = world.client().token(&secret);
    otto.delete(&format!("{TOKENS}/{third}")).expect(204);
}
