//! Tests how often one user changes something, and how often one credential signs in, by any route; other users do not wait.
//! The rates themselves are tested in their modules.

use std::thread;
use std::time::{Duration, Instant};

use godwit_state::{Change, FEATURE_LEVEL, JobState, Op, Schedule};
use godwit_web::ChangePace;
use godwit_worlds::DEADLINE;
use serde_json::json;

use crate::client::{Answer, Client};
use crate::rights::token;
use crate::world::{Settings, World};

/// None is restored while a test runs.
const NEVER: Duration = Duration::from_secs(86_400);

fn world(changes: u32, sign_ins: u32) -> World {
    World::with(Settings {
        pace: ChangePace {
            changes,
            change_each: NEVER,
            sign_ins,
            sign_in_each: NEVER,
        },
        ..Settings::default()
    })
}

/// An admitted change that finds nothing.
fn change(client: &Client) -> Answer {
    client.delete("/api/v1/schedules/none")
}

fn sign_in(client: &Client, secret: &str) -> Answer {
    client.post("/api/v1/session", &json!({"token": secret}))
}

#[test]
fn a_user_beyond_the_change_limit_waits_on_all_connections_and_others_do_not() {
    let world = world(20, 1_000);
    let (otto, _) = token(&world, "otto", "operator");
    let (olga, _) = token(&world, "olga", "operator");
    let by_socket = world.client().token(&otto);
    let by_network = world.network().token(&otto);
    let behind_a_proxy = world
        .client()
        .with("x-forwarded-for", "192.0.2.7")
        .token(&otto);
    let made = by_network
        .post("/api/v1/tokens", &json!({"role": "operator"}))
        .expect(201)
        .json();
    let other_token = made["secret"].as_str().unwrap();
    // Reads, and requests refused for the role, are no changes.
    for _ in 0..30 {
        by_socket.get("/api/v1/jobs").expect(200);
        by_socket
            .send("HEAD", "/api/v1/jobs", &[], Vec::new())
            .expect(200);
        by_socket.delete("/api/v1/users/otto").expect(403);
    }
    for _ in 0..19 {
        change(&by_socket).expect_problem(404, "not_found");
    }
    for client in [
        by_socket,
        by_network.with("x-http-method-override", "GET"),
        behind_a_proxy,
        world.network_from([127, 0, 0, 9]).token(other_token),
    ] {
        let refused = change(&client);
        let wait: u64 = refused.header("retry-after").parse().unwrap();
        assert!((80_000..90_000).contains(&wait), "{wait}");
        let problem = refused.expect_problem(429, "too_many_changes");
        assert!(
            problem["detail"]
                .to_string()
                .contains("otto has made too many changes"),
            "{problem}"
        );
        client.post("/api/v1/jobs", &json!({})).expect(429);
        client.get("/api/v1/jobs").expect(200);
    }
    change(&world.network().token(&olga)).expect_problem(404, "not_found");
    world.client().delete("/api/v1/users/otto").expect(204);
}

#[test]
fn sign_ins_by_one_token_and_by_one_password_have_a_rate() {
    let world = world(1_000, 5);
    let (otto, _) = token(&world, "otto", "operator");
    let client = world.network();
    let by_otto = world.network().token(&otto);
    let made = by_otto
        .post("/api/v1/tokens", &json!({"role": "viewer"}))
        .expect(201)
        .json();
    let made = made["secret"].as_str().unwrap();
    for secret in [&*otto, made, &otto, made, &otto] {
        sign_in(&client, secret).expect(200);
    }
    let lines = |world: &World| {
        let lines = world.replica.reader().audit(&Default::default(), 1_000);
        lines.unwrap().len()
    };
    let before = lines(&world);
    for _ in 0..3 {
        sign_in(&client, &otto).expect_problem(429, "too_many_logins");
        sign_in(&client, made).expect_problem(429, "too_many_logins");
    }
    assert_eq!(lines(&world), before, "what is refused is written nowhere");
    let (olga, _) = token(&world, "olga", "viewer");
    sign_in(&client, &olga).expect(200);
    // The user can still sign in with the password.
    let password = json!({"role": "operator", "password": "correct horse"});
    world
        .client()
        .json("PUT", "/api/v1/users/otto", &password)
        .expect(200);
    let login = json!({"user": "otto", "password": "correct horse"});
    for path in ["session", "login", "session", "login", "session"] {
        client.post(&format!("/api/v1/{path}"), &login).expect(200);
    }
    for path in ["session", "login"] {
        client
            .post(&format!("/api/v1/{path}"), &login)
            .expect_problem(429, "too_many_logins");
    }
}

#[test]
fn a_stolen_token_keeps_its_user_neither_from_signing_in_nor_from_revoking_it() {
    let world = world(200, 1_000);
    let (otto, id) = token(&world, "otto", "operator");
    let password = json!({"role": "operator", "password": "correct horse"});
    world
        .client()
        .json("PUT", "/api/v1/users/otto", &password)
        .expect(200);
    let thief = world.network().token(&otto);
    let make = || thief.post("/api/v1/tokens", &json!({"role": "operator"}));
    while make().status.as_u16() == 201 {}
    make().expect_problem(409, "too_many");
    sign_in(&thief, &otto).expect_problem(409, "too_many");
    while change(&thief).status.as_u16() == 404 {}
    change(&thief).expect_problem(429, "too_many_changes");
    let login = json!({"user": "otto", "password": "correct horse"});
    world.network().post("/api/v1/session", &login).expect(200);
    let own = world.network().post("/api/v1/login", &login);
    let own = own.expect(200).json();
    let own = world.network().token(own["secret"].as_str().unwrap());
    own.delete(&format!("/api/v1/tokens/{id}")).expect(204);
    thief.get("/api/v1/jobs").expect(401);
    own.post("/api/v1/tokens", &json!({"role": "operator"}))
        .expect(201);
}

/// Each destination is a job at every node of the cluster.
#[test]
fn each_destination_of_a_submission_counts_as_a_change() {
    let world = world(8, 1_000);
    world.propose(Op::Level(FEATURE_LEVEL));
    let (otto, _) = token(&world, "otto", "operator");
    let otto = world.client().token(&otto);
    world.grant("otto", "data:/run4 read");
    world.grant("otto", "archive:/one write");
    let submit = || {
        let new = json!({
            "sources": ["here:/data/run4"], "destination": "here:/archive/one/",
            "more_destinations": ["here:/archive/two/", "here:/archive/three/"],
        });
        otto.post("/api/v1/jobs", &new)
    };
    // It is refused for its rights, and counts as four changes nevertheless.
    submit().expect_problem(403, "not_granted");
    change(&otto).expect_problem(404, "not_found");
    submit().expect_problem(429, "too_many_changes");
    change(&otto).expect_problem(404, "not_found");
}

#[test]
fn schedules_of_one_owner_submit_no_more_jobs_than_their_pace_and_others_tick() {
    let world = World::new();
    let job = json!({"sources": ["here:/data/a"], "destination": "here:/archive/", "not_before": "2100-01-01T00:00:00Z"});
    for owner in ["otto", "olga"] {
        token(&world, owner, "operator");
        world.grant(owner, "data read");
        world.grant(owner, "archive write");
    }
    let put = |id: String, owner: &str| {
        world.propose(Op::Schedule(Change::Put(Schedule {
            id,
            cron: "* * * * * *".to_owned(),
            time_zone: "UTC".to_owned(),
            owner: owner.to_owned(),
            role: None,
            template: job.to_string(),
            disabled: false,
            fired: None,
            reason: None,
            comment: String::new(),
        })));
    };
    let begin = Instant::now();
    put("of-olga".to_owned(), "olga");
    for n in 0..499 {
        put(format!("s{n}"), "otto");
    }
    let jobs = |owner: &str| {
        let counts = world.replica.reader().job_counts(Some(owner)).unwrap();
        let waits = counts
            .iter()
            .find(|(state, _)| *state == JobState::Scheduled);
        waits.map_or(0, |(_, count)| *count)
    };
    // Without a pace, the schedules of one owner make 500 jobs a second.
    let until = Instant::now() + DEADLINE;
    loop {
        let (otto, olga) = (jobs("otto"), jobs("olga"));
        let most = 500 + 10 * (begin.elapsed().as_secs() + 2);
        assert!(otto <= most, "{otto} of {most}");
        if otto >= 500 && olga > 2 {
            break;
        }
        assert!(Instant::now() < until, "{otto}, {olga}");
        thread::sleep(Duration::from_millis(50));
    }
    // Requests that waited the longest come first, so all of them come: each second of the pace reaches ten further schedules.
    let fired = || {
        let schedules = world.replica.reader().objects::<Schedule>().unwrap();
        let of_otto = schedules.into_iter().filter(|one| one.owner == "otto");
        of_otto.map(|one| one.fired).collect::<Vec<_>>()
    };
    let before = fired();
    loop {
        let moved = before.iter().zip(fired()).filter(|(old, new)| *old != new);
        let moved = moved.count();
        if moved > 30 {
            break;
        }
        assert!(Instant::now() < until, "{moved} schedules go on");
        thread::sleep(Duration::from_millis(50));
    }
}
