//! Tests events over the API: changes as they come, resumed from any event, and clients that do not read.
//! The changes themselves are tested in `state`.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use godwit_state::{FEATURE_LEVEL, Op};
use serde_json::{Value, json};

use crate::credentials::{by_page, by_password, by_token, made, put_user, sign_in};
use crate::jobs::later;
use crate::world::{Settings, World};

const DEADLINE: Duration = Duration::from_secs(60);

/// The events of a stream that has ended: name, id, data.
fn parse(body: &[u8]) -> Vec<(String, Option<u64>, Value)> {
    let text = std::str::from_utf8(body).unwrap();
    let mut events = Vec::new();
    for block in text.split("\n\n") {
        let field = |name: &str| {
            let lines = block.lines();
            let mut found = lines.filter_map(|line| line.strip_prefix(&format!("{name}: ")));
            found.next().map(ToOwned::to_owned)
        };
        if let Some(name) = field("event") {
            let data = serde_json::from_str(&field("data").unwrap()).unwrap();
            events.push((name, field("id").map(|id| id.parse().unwrap()), data));
        }
    }
    events
}

fn submit(world: &World, label: &str) -> String {
    let job = world.client().post("/api/v1/jobs", &later(label));
    job.expect(201).json()["id"].as_str().unwrap().to_owned()
}

#[test]
fn changes_come_as_events_and_a_stream_resumes_after_any() {
    let world = World::new();
    let start = world.replica.reader().last_event().unwrap();
    let one = submit(&world, "one");
    let two = submit(&world, "two");
    let all = world
        .client()
        .with("last-event-id", &start.to_string())
        .get("/api/v1/events?topic=job&limit=2")
        .expect(200);
    assert_eq!(all.header("content-type"), "text/event-stream");
    let events = parse(&all.body);
    assert_eq!(events.len(), 2);
    for ((name, _, data), id) in events.iter().zip([&one, &two]) {
        assert_eq!(name, "job");
        assert_eq!(data["id"], **id);
        assert_eq!(data["state"], "scheduled");
    }
    let after = events[0].1.unwrap();
    let rest = world
        .client()
        .with("last-event-id", &after.to_string())
        .get("/api/v1/events?limit=1");
    assert_eq!(parse(&rest.body)[0].2["id"], *two);
    // A job changes while a stream is open; of each job the last change counts.
    let client = world.client();
    let streaming = std::thread::spawn({
        let (client, one) = (world.client(), one.clone());
        move || client.get(&format!("/api/v1/events?job={one}&limit=2"))
    });
    let pause = format!("/api/v1/jobs/{one}/pause");
    let until = Instant::now() + DEADLINE;
    // The stream begins with the job as it is, whenever it changed.
    while !streaming.is_finished() {
        assert!(Instant::now() < until, "the stream does not end");
        client.send("POST", &pause, &[], Vec::new());
        client.send(
            "POST",
            &format!("/api/v1/jobs/{one}/resume"),
            &[],
            Vec::new(),
        );
        client.send(
            "POST",
            &format!("/api/v1/jobs/{two}/pause"),
            &[],
            Vec::new(),
        );
        client.send(
            "POST",
            &format!("/api/v1/jobs/{two}/resume"),
            &[],
            Vec::new(),
        );
    }
    let events = parse(&streaming.join().unwrap().body);
    assert_eq!(events.len(), 2);
    assert!(
        events
            .iter()
            .all(|(name, _, data)| name == "job" && data["id"] == *one)
    );
    assert!(events[0].1 < events[1].1);
}

#[test]
fn a_position_that_is_not_kept_is_reported_as_gone() {
    let world = World::new();
    let last = world.replica.reader().last_event().unwrap();
    let far = world.client().with("last-event-id", "999999");
    let events = parse(&far.get("/api/v1/events?limit=1").expect(200).body);
    assert_eq!(events[0].0, "gone");
    assert_eq!(events[0].1, Some(last));
    assert_eq!(events[0].2, json!({"after": 999_999, "last": last}));
    let bad = world.client().with("last-event-id", "x");
    bad.get("/api/v1/events?limit=1")
        .expect_problem(400, "bad_header");
    let client = world.client();
    for query in ["limit=0", "topic=weather", "limit=x"] {
        client
            .get(&format!("/api/v1/events?{query}"))
            .expect_problem(400, "bad_query");
    }
    client
        .get("/api/v1/events?job=nosuchjob&limit=1")
        .expect_problem(404, "no_such_job");
}

#[test]
fn a_running_job_tells_its_progress() {
    let world = World::new();
    std::fs::create_dir(world.path("data/run")).unwrap();
    for number in 0..40 {
        std::fs::write(world.path(&format!("data/run/{number}")), vec![7; 50_000]).unwrap();
    }
    let job = json!({
        "sources": ["here:/data/run"], "destination": "here:/data/copy", "label": "slow", "limit": 100_000,
    });
    let client = world.client();
    let job = client.post("/api/v1/jobs", &job).expect(201).json();
    let id = job["id"].as_str().unwrap();
    let until = Instant::now() + DEADLINE;
    loop {
        let stream = client
            .get(&format!("/api/v1/events?job={id}&limit=3"))
            .expect(200);
        let events = parse(&stream.body);
        if let Some((_, number, data)) = events.iter().find(|(name, _, _)| name == "progress") {
            assert_eq!(data["id"], id);
            assert!(data["progress"]["bytes"].is_u64(), "{data}");
            assert_eq!(*number, None);
            break;
        }
        assert!(Instant::now() < until, "no progress is told: {events:?}");
    }
    let cancel = format!("/api/v1/jobs/{id}/cancel");
    client.send("POST", &cancel, &[], Vec::new()).expect(200);
}

#[test]
fn a_client_that_never_reads_is_cut_off_and_holds_nothing_up() {
    let world = World::with(Settings {
        unread_max: Duration::from_millis(500),
        ..Settings::default()
    });
    let id = submit(&world, "watched");
    let mut lazy = UnixStream::connect(world.web.socket()).unwrap();
    lazy.write_all(b"GET /api/v1/events HTTP/1.1\r\nhost: node\r\n\r\n")
        .unwrap();
    let client = world.client();
    let at = format!("/api/v1/jobs/{id}");
    let until = Instant::now() + DEADLINE;
    // Until the stream's buffers are full, and its time is over.
    lazy.set_nonblocking(true).unwrap();
    let mut number = 0;
    while !world
        .log
        .lock()
        .unwrap()
        .iter()
        .any(|line| line.contains("does not read"))
    {
        assert!(Instant::now() < until, "the client is not cut off");
        number += 1;
        let label = format!("{number} {}", "x".repeat(4_000));
        client
            .json("PATCH", &at, &json!({"label": label}))
            .expect(200);
    }
    // Bytes from before the cut arrive, and then nothing.
    lazy.set_nonblocking(false).unwrap();
    lazy.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut read = Vec::new();
    let ended = lazy.read_to_end(&mut read);
    assert!(
        !matches!(ended, Err(ref error) if error.kind() == std::io::ErrorKind::WouldBlock),
        "{ended:?}"
    );
    assert!(!read.is_empty());
}

/// An event shows a job as it is when the event leaves, so few large jobs wait in memory for a client.
#[test]
fn events_of_large_jobs_wait_for_their_client_outside_of_memory() {
    let world = World::new();
    let client = world.client();
    let start = world.replica.reader().last_event().unwrap();
    let mut large = later("before");
    let sources = (0..60).map(|number| format!("here:/data/{number}{}", "/x".repeat(2_000)));
    large["sources"] = json!(sources.collect::<Vec<_>>());
    let mut last = String::new();
    for _ in 0..20 {
        let job = client.post("/api/v1/jobs", &large).expect(201).json();
        last = job["id"].as_str().unwrap().to_owned();
    }
    let mut lazy = UnixStream::connect(world.web.socket()).unwrap();
    let request = format!(
        "GET /api/v1/events?limit=20 HTTP/1.1\r\nhost: node\r\nconnection: close\r\nlast-event-id: {start}\r\n\r\n"
    );
    lazy.write_all(request.as_bytes()).unwrap();
    // The stream has begun.
    let mut read = vec![0; 1_000];
    lazy.set_read_timeout(Some(DEADLINE)).unwrap();
    lazy.read_exact(&mut read).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    client
        .json(
            "PATCH",
            &format!("/api/v1/jobs/{last}"),
            &json!({"label": "after"}),
        )
        .expect(200);
    lazy.read_to_end(&mut read).unwrap();
    let text = String::from_utf8_lossy(&read);
    assert_eq!(text.matches("event: job").count(), 20);
    assert_eq!(text.matches("\"label\":\"after\"").count(), 1);
}

#[test]
fn a_stream_ends_when_its_token_does_not_hold_any_more_and_when_the_server_stops() {
    let mut world = World::new();
    let admin = world.client();
    let put = admin.json("PUT", "/api/v1/users/vera", &json!({"role": "viewer"}));
    put.expect(200);
    let made = admin.post("/api/v1/tokens", &json!({"user": "vera", "role": "viewer"}));
    let made = made.expect(201).json();
    let secret = made["secret"].as_str().unwrap();
    let vera = world.client().token(secret);
    let of_token = std::thread::spawn(move || vera.get("/api/v1/events"));
    let local = world.client();
    let of_user = std::thread::spawn(move || local.get("/api/v1/events"));
    let token = format!("/api/v1/tokens/{}", made["token"]["id"].as_str().unwrap());
    let until = Instant::now() + DEADLINE;
    // Both streams are open: each has a place of the hub.
    while world.web.event_streams() < 2 {
        assert!(Instant::now() < until, "no streams");
        std::thread::sleep(Duration::from_millis(5));
    }
    admin.delete(&token).expect(204);
    of_token.join().unwrap().expect(200);
    assert!(!of_user.is_finished());
    world.web.stop();
    of_user.join().unwrap().expect(200);
}

/// How soon a stream ends after its right. A second is usual. A stream that only its ping wakes takes 10 s.
const ENDS_WITHIN: Duration = Duration::from_secs(8);

#[test]
fn a_stream_ends_with_the_right_to_it() {
    let world = World::new();
    world.propose(Op::Level(FEATURE_LEVEL));
    let client = world.network();
    let admin = world.client();
    let new = |name: &str| json!({"user": name, "role": "viewer"});
    let names = [
        "revoked",
        "disabled",
        "removed",
        "signed-out",
        "changed",
        "parent",
    ];
    let mut tokens = Vec::new();
    for name in names {
        let user = json!({"role": "operator", "password": "correct horse"});
        put_user(&world, name, &user);
        tokens.push(made(admin.post("/api/v1/tokens", &new(name))));
    }
    let of = |name: &str| {
        let at = names.iter().position(|one| *one == name).unwrap();
        tokens[at].clone()
    };
    let child = |name: &str, more: Value| {
        let mut new = json!({"role": "viewer"});
        new.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let (secret, _) = of(name);
        by_token(&client, &secret, "POST", "/api/v1/tokens", &new)
    };
    // An operator makes the token of the child.
    let operator = json!({"user": "parent", "role": "operator"});
    let (parent, of_parent) = made(admin.post("/api/v1/tokens", &operator));
    let new_child = by_token(
        &client,
        &parent,
        "POST",
        "/api/v1/tokens",
        &json!({"role": "viewer"}),
    );
    let (of_child, _) = made(new_child);
    child("revoked", json!({})).expect_problem(403, "role_too_small");
    let signed_out = sign_in(&client, &by_password("signed-out"));
    let changed = sign_in(&client, &by_password("changed"));
    let current = sign_in(&client, &by_password("changed"));

    let open = |header: (&'static str, String)| {
        let client = world.network().with(header.0, &header.1);
        std::thread::spawn(move || client.get("/api/v1/events").expect(200))
    };
    let bearer = |secret: &str| ("authorization", format!("Bearer {secret}"));
    let streams = [
        ("revoked", open(bearer(&of("revoked").0))),
        ("disabled", open(bearer(&of("disabled").0))),
        ("removed", open(bearer(&of("removed").0))),
        ("parent", open(bearer(&of_child))),
        ("signed-out", open(("cookie", signed_out.clone()))),
        ("changed", open(("cookie", changed))),
    ];
    let stays = open(("cookie", current.clone()));
    let until = Instant::now() + DEADLINE;
    while world.web.event_streams() < streams.len() + 1 {
        assert!(Instant::now() < until, "no streams");
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = |token: &Value| token["id"].as_str().unwrap().to_owned();
    for token in [&of("revoked").1, &of_parent] {
        admin
            .delete(&format!("/api/v1/tokens/{}", id(token)))
            .expect(204);
    }
    put_user(
        &world,
        "disabled",
        &json!({"role": "operator", "disabled": true}),
    );
    admin.delete("/api/v1/users/removed").expect(204);
    by_page(
        &client,
        &signed_out,
        "DELETE",
        "/api/v1/session",
        &Value::Null,
    )
    .expect(204);
    let change = json!({"current": "correct horse", "new": "battery staple"});
    by_page(
        &client,
        &current,
        "PUT",
        "/api/v1/account/password",
        &change,
    )
    .expect(204);
    let lost = Instant::now();
    for (name, stream) in streams {
        while !stream.is_finished() {
            assert!(lost.elapsed() < ENDS_WITHIN, "{name}: the stream goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
        stream.join().unwrap();
    }
    assert!(!stays.is_finished());
    assert_eq!(world.web.event_streams(), 1);
}

/// No change wakes the stream: it checks its token on its own timer.
#[test]
fn a_stream_that_nothing_wakes_ends_with_its_token() {
    let world = World::new();
    let admin = world.client();
    put_user(&world, "vera", &json!({"role": "viewer"}));
    let soon = godwit_api::rest::Timestamp(godwit_jobs::now().0 + 5_000);
    let soon = json!({"user": "vera", "role": "viewer", "expires": soon});
    let (secret, _) = made(admin.post("/api/v1/tokens", &soon));
    let client = world.network().token(&secret);
    let stream = std::thread::spawn(move || client.get("/api/v1/events").expect(200));
    let until = Instant::now() + DEADLINE;
    while world.web.event_streams() == 0 {
        assert!(Instant::now() < until, "no stream");
        std::thread::sleep(Duration::from_millis(5));
    }
    let last = || world.replica.reader().last_event().unwrap();
    let before = last();
    let until = Instant::now() + DEADLINE;
    while !stream.is_finished() {
        assert!(Instant::now() < until, "it goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    stream.join().unwrap();
    assert_eq!(last(), before, "something else happened");
}
