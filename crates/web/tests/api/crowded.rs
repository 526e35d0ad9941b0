//! Tests how much memory of the node one user may occupy: by requests at once, and by answers that are not read.
//! Connections of strangers are tested in `connections`.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::client::Client;
use crate::rights::token;
use crate::world::World;

const DEADLINE: Duration = Duration::from_secs(60);

/// Sends a head, and leaves the rest to the test.
fn begin(world: &World, secret: &str, request: &str) -> UnixStream {
    let mut raw = UnixStream::connect(world.web.socket()).unwrap();
    raw.set_read_timeout(Some(DEADLINE)).unwrap();
    let head = format!("{request} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {secret}\r\n");
    raw.write_all(head.as_bytes()).unwrap();
    raw
}

fn status(raw: &mut UnixStream) -> String {
    let mut line = [0; 12];
    raw.read_exact(&mut line).unwrap();
    String::from_utf8_lossy(&line[9..]).into_owned()
}

/// An ended job of the admin that wrote a manifest.
fn ended(world: &World) -> String {
    fs::create_dir_all(world.path("data/run")).unwrap();
    fs::write(world.path("data/run/f"), b"f").unwrap();
    let job =
        json!({"sources": ["here:/data/run"], "destination": "here:/archive/", "manifest": true});
    let admin = world.client();
    let made = admin.post("/api/v1/jobs", &job).expect(201).json();
    let id = made["id"].as_str().unwrap().to_owned();
    let until = Instant::now() + DEADLINE;
    while admin.get(&format!("/api/v1/jobs/{id}")).expect(200).json()["ended"].is_null() {
        assert!(Instant::now() < until, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    id
}

fn node(client: &Client) -> u16 {
    client.get("/api/v1/node").status.as_u16()
}

#[test]
fn one_user_has_so_many_requests_at_once_and_others_have_theirs() {
    let world = World::new();
    let user = |name: &str| token(&world, name, "operator").0;
    let (vera, walt) = (user("vera"), user("walt"));
    let by_token = world.client().token(&vera);
    let made = by_token.post("/api/v1/tokens", &json!({"role": "operator"}));
    let made = made.expect(201).json()["secret"].clone();
    // Bodies that never come.
    let mut waiting: Vec<UnixStream> = (0..100)
        .map(|_| {
            let mut raw = begin(&world, &vera, "POST /api/v1/jobs");
            raw.write_all(b"content-type: application/json\r\ncontent-length: 100\r\n\r\n")
                .unwrap();
            raw
        })
        .collect();
    let walt = world.client().token(&walt);
    let vera = world.client().token(&vera);
    let mut refused = 0;
    let until = Instant::now() + DEADLINE;
    while refused < 100 - 48 {
        assert!(Instant::now() < until, "{refused} were refused");
        waiting.retain_mut(|raw| {
            raw.set_nonblocking(true).unwrap();
            let has_answer = raw.read(&mut [0; 12]).is_ok_and(|read| read > 0);
            refused += usize::from(has_answer);
            !has_answer
        });
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(waiting.len(), 48);
    vera.get("/api/v1/node")
        .expect_problem(429, "too_many_requests");
    walt.get("/api/v1/node").expect(200);
    // A token that came from it has no more room.
    let derived = world.client().token(made.as_str().unwrap());
    derived
        .get("/api/v1/node")
        .expect_problem(429, "too_many_requests");
    // A token leaves room to its user.
    let again = world.client().token(&token(&world, "vera", "operator").0);
    again.get("/api/v1/node").expect(200);
    // Places are released.
    drop(waiting);
    let until = Instant::now() + DEADLINE;
    while node(&vera) != 200 {
        assert!(Instant::now() < until, "they stay");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn one_user_leaves_few_long_answers_unread_and_others_have_theirs() {
    let world = World::new();
    let (vera, walt) = (
        token(&world, "vera", "viewer").0,
        token(&world, "walt", "viewer").0,
    );
    let id = ended(&world);
    let path = format!("/api/v1/jobs/{id}/samples");
    let samples = world.path("jobs").join(&id).join("samples.jsonl");
    let line = serde_json::to_string(&world.client().get(&path).expect(200).json()[0]).unwrap();
    let mut file = OpenOptions::new().append(true).open(samples).unwrap();
    for _ in 0..(8 << 20) / line.len() {
        writeln!(file, "{line}").unwrap();
    }
    let unread: Vec<UnixStream> = (0..4)
        .map(|_| {
            let mut raw = begin(&world, &vera, &format!("GET {path}"));
            raw.write_all(b"\r\n").unwrap();
            assert_eq!(status(&mut raw), "200");
            raw
        })
        .collect();
    let by_vera = || world.client().token(&vera);
    std::thread::scope(|scope| {
        for path in [&*path, "/api/v1/rates", "/metrics", "/api/v1/flows"] {
            scope.spawn(|| by_vera().get(path).expect_problem(503, "busy"));
        }
    });
    let vera = by_vera();
    vera.get("/api/v1/node").expect(200);
    let walt = world.client().token(&walt);
    assert!(walt.get(&path).expect(200).body.len() > 1 << 20);
    drop(unread);
    assert!(vera.get(&path).expect(200).body.len() > 1 << 20);
}

/// A user may leave as many pages of jobs unread as it has requests at once.
#[test]
fn a_page_of_jobs_with_long_descriptions_is_short() {
    let world = World::new();
    let admin = world.client();
    let sources: Vec<String> = (0..60)
        .map(|n| format!("here:/data/{n}/{}", "x".repeat(4_000)))
        .collect();
    let job = json!({"sources": sources, "destination": "here:/archive/", "not_before": "2100-01-01T00:00:00Z"});
    for _ in 0..12 {
        admin.post("/api/v1/jobs", &job).expect(201);
    }
    let (mut found, mut query) = (0, String::new());
    loop {
        let page = admin
            .get(&format!("/api/v1/jobs?limit=1000{query}"))
            .expect(200);
        assert!(page.body.len() < 1_500_000, "{}", page.body.len());
        let page = page.json();
        found += page["jobs"].as_array().unwrap().len();
        match page["next"].as_str() {
            Some(next) => query = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found, 12);
}

#[test]
fn a_page_of_a_log_with_long_lines_is_short_and_the_next_one_continues() {
    let world = World::new();
    let admin = world.client();
    let id = ended(&world);
    let path = format!("/api/v1/jobs/{id}/log?limit=10000");
    let before = admin.get(&path).expect(200).json();
    let (known, at) = (
        before["lines"].as_array().unwrap().len(),
        &before["lines"][0]["at"],
    );
    let last = before["next"].as_u64().unwrap();
    let event = json!({"event": "note", "message": "x".repeat(60 << 10)});
    let log = world.path("jobs").join(&id).join("log.jsonl");
    let mut file = OpenOptions::new().append(true).open(log).unwrap();
    for number in last + 1..=last + 60 {
        // The number comes first, as the node writes it.
        let line = format!("{{\"seq\":{number},\"at\":{at},\"attempt\":1,\"event\":{event}}}");
        writeln!(file, "{line}").unwrap();
    }
    let (mut found, mut after) = (0, 0);
    loop {
        let page = admin.get(&format!("{path}&after={after}")).expect(200);
        assert!(page.body.len() < 1_500_000, "{}", page.body.len());
        let page = page.json();
        let lines = page["lines"].as_array().unwrap().len();
        if lines == 0 {
            break;
        }
        found += lines;
        after = page["next"].as_u64().unwrap();
    }
    assert_eq!((found, after), (known + 60, last + 60));
}

#[test]
fn a_manifest_ends_with_the_right_to_list_the_places_of_its_job() {
    const BYTES: usize = 64 << 20;
    let world = World::new();
    let secret = token(&world, "vera", "viewer").0;
    let id = ended(&world);
    fs::write(
        world.path("jobs").join(&id).join("manifest"),
        vec![b'x'; BYTES],
    )
    .unwrap();
    world.grant("vera", "* list");
    let mut raw = begin(&world, &secret, &format!("GET /api/v1/jobs/{id}/manifest"));
    raw.write_all(b"\r\n").unwrap();
    assert_eq!(status(&mut raw), "200");
    world.file_grants.lock().unwrap().clear();
    let (mut read, mut piece) = (0, vec![0; 64 << 10]);
    while let Ok(bytes @ 1..) = raw.read(&mut piece) {
        read += bytes;
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(
        read < BYTES,
        "the whole of it came after the right had ended"
    );
}

/// A connection by HTTP/2, for many requests at once.
async fn connected(world: &World) -> SendRequest<Empty<Bytes>> {
    let socket = tokio::net::UnixStream::connect(world.web.socket());
    let io = TokioIo::new(socket.await.unwrap());
    let (sender, connection) = handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

#[test]
fn manifests_whose_bytes_come_late_leave_threads_to_others() {
    let world = World::new();
    let [ada, eve, vera] = ["ada", "eve", "vera"].map(|name| token(&world, name, "admin").0);
    let id = ended(&world);
    let manifest = world.path("jobs").join(&id).join("manifest");
    fs::remove_file(&manifest).unwrap();
    let made = Command::new("mkfifo").arg(&manifest).status().unwrap();
    assert!(made.success());
    // It writes nothing, as a node that hangs.
    let mut options = OpenOptions::new();
    let writer = options.read(true).write(true).open(&manifest).unwrap();
    let begin = async |sender: &mut SendRequest<Empty<Bytes>>, secret: &str, path: &str| {
        let request = Request::get(format!("http://node{path}"))
            .header("authorization", format!("Bearer {secret}"))
            .body(Empty::new())
            .unwrap();
        let answer = timeout(DEADLINE, sender.send_request(request)).await;
        let answer = answer.expect("a thread is left").unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer
    };
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let path = format!("/api/v1/jobs/{id}/manifest");
        let (mut senders, mut unread) = (Vec::new(), Vec::new());
        for secret in [&*ada, &*ada, &*eve, &*eve] {
            let mut sender = connected(&world).await;
            for _ in 0..24 {
                unread.push(begin(&mut sender, secret, path.as_str()).await);
            }
            senders.push(sender);
        }
        let mut sender = connected(&world).await;
        begin(&mut sender, vera.as_str(), "/api/v1/node").await;
    });
    drop(writer);
}
