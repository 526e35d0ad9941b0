//! Tests connections of strangers: silent, slow and numerous ones take neither places nor memory from known users.
//! The binary under a flood is tested in `cli`.

use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_web::Patience;
use rustls::HandshakeKind;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

use crate::client::{connect, dial, tls_config};
use crate::rights::token;
use crate::world::{Settings, World};

const DEADLINE: Duration = Duration::from_secs(60);

/// The preface of HTTP/2, with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A ping of HTTP/2.
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0pingping";

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn connector(world: &World) -> TlsConnector {
    let certificate = world.path("web").join("certificate.pem");
    TlsConnector::from(Arc::new(tls_config(&certificate)))
}

fn impatient() -> World {
    World::with(Settings {
        patience: Patience {
            first_request: Duration::from_secs(1),
            stranger_idle: Duration::from_secs(1),
            idle: Duration::from_secs(2),
            stranger: Duration::from_secs(4),
        },
        ..Settings::default()
    })
}

#[test]
fn silent_connections_exclude_no_client() {
    let world = World::new();
    let (secret, _) = token(&world, "vera", "viewer");
    let runtime = runtime();
    // A connection that has proven a user before the others come, and stays open.
    let request =
        format!("GET /api/v1/node HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {secret}\r\n\r\n");
    let mut config = tls_config(&world.path("web").join("certificate.pem"));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let first = TlsConnector::from(Arc::new(config));
    let taker = world.web.taker();
    let home = Ipv4Addr::new(127, 0, 0, 9);
    let mut kept = runtime.block_on(dial(&taker, &first, home));
    let mut ask = || {
        runtime.block_on(async {
            kept.write_all(request.as_bytes()).await.unwrap();
            let mut answer = [0; 4096];
            let read = kept.read(&mut answer).await.unwrap();
            assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "cut off");
        });
    };
    ask();
    let silent: Vec<_> = (0..800_u32)
        .map(|number| {
            let [.., last] = (1 + number % 4).to_be_bytes();
            runtime.block_on(connect(&taker, Ipv4Addr::new(127, 0, 0, last)))
        })
        .collect();
    ask();
    // Newcomers get in, from the address of the flood and from others.
    for last in [1, 5, 9] {
        let newcomer = world.network_from([127, 0, 0, last]).token(&secret);
        newcomer.get("/api/v1/node").expect(200);
    }
    ask();
    drop(silent);
}

#[test]
fn pings_and_half_requests_keep_no_connection() {
    let world = impatient();
    let taker = world.web.taker();
    let connector = connector(&world);
    let (secret, _) = token(&world, "vera", "viewer");
    runtime().block_on(async {
        // Without a deadline, pings would keep a connection forever.
        let until_end = |sent: Vec<u8>, again: &'static [u8]| {
            let (taker, connector) = (&taker, &connector);
            async move {
                let began = Instant::now();
                let mut stream = dial(taker, connector, Ipv4Addr::LOCALHOST).await;
                stream.write_all(&sent).await.unwrap();
                let mut answer = [0; 4096];
                loop {
                    let pause = Duration::from_millis(100);
                    match tokio::time::timeout(pause, stream.read(&mut answer)).await {
                        Ok(Ok(0) | Err(_)) => return began.elapsed(),
                        // The next read shows whether the stream can still send.
                        _ => drop(stream.write_all(again).await),
                    }
                    assert!(began.elapsed() < DEADLINE, "it stays");
                }
            }
        };
        until_end(PREFACE.to_vec(), PING).await;
        until_end(Vec::new(), b"").await;
        until_end(b"GET / HTTP/1.1\r\nx: ".to_vec(), b"x").await;
        // A proven connection does not stay for pings either.
        let head = format!(":method: GET\n:scheme: https\n:authority: x\n:path: /api/v1/node\nauthorization: Bearer {secret}");
        let mut request = PREFACE.to_vec();
        request.extend(headers_frame(&head));
        let known = until_end(request, PING).await;
        assert!(known >= Duration::from_secs(2), "{known:?}");
    });
}

#[test]
fn a_client_that_gives_no_window_keeps_no_answer() {
    let world = World::with(Settings {
        unread_max: Duration::from_millis(500),
        ..Settings::default()
    });
    let (secret, _) = token(&world, "vera", "viewer");
    let (taker, connector) = (world.web.taker(), connector(&world));
    // Settings with SETTINGS_INITIAL_WINDOW_SIZE = 0.
    let mut request = PREFACE[..PREFACE.len() - 9].to_vec();
    request.extend(b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0");
    let head = format!(
        ":method: GET\n:scheme: https\n:authority: x\n:path: /api/v1/node\nauthorization: Bearer {secret}"
    );
    request.extend(headers_frame(&head));
    runtime().block_on(async {
        let began = Instant::now();
        let mut stream = dial(&taker, &connector, Ipv4Addr::LOCALHOST).await;
        stream.write_all(&request).await.unwrap();
        let mut answer = [0; 4096];
        loop {
            let pause = Duration::from_millis(100);
            match tokio::time::timeout(pause, stream.read(&mut answer)).await {
                Ok(Ok(0) | Err(_)) => break,
                _ => drop(stream.write_all(PING).await),
            }
            assert!(began.elapsed() < DEADLINE, "it stays");
        }
    });
    let log = world.log.lock().unwrap().join("\n");
    assert!(log.contains("the client does not read the answer"), "{log}");
}

#[test]
fn one_user_leaves_turns_for_others() {
    let world = World::new();
    let user = |name: &str| token(&world, name, "viewer").0;
    let (vera, walt) = (user("vera"), world.client().token(&user("walt")));
    // Calls that ask for grants do not return.
    let grants = world.file_grants.lock().unwrap();
    let head =
        format!("GET /api/v1/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {vera}\r\n\r\n");
    let mut waiting = Vec::new();
    for _ in 0..4 {
        for _ in 0..15 {
            let mut raw = UnixStream::connect(world.web.socket()).unwrap();
            raw.write_all(head.as_bytes()).unwrap();
            waiting.push(raw);
        }
        // The calls of the other user end only after this one.
        walt.get("/api/v1/limits").expect(200);
    }
    drop(grants);
    for mut raw in waiting {
        raw.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut line = [0; 12];
        raw.read_exact(&mut line).unwrap();
        assert!(line.starts_with(b"HTTP/1.1 "));
    }
}

/// An HTTP/2 request without a body: each header as a literal without indexing.
fn headers_frame(head: &str) -> Vec<u8> {
    let mut block = Vec::new();
    for line in head.lines() {
        let at = 1 + line[1..].find(": ").unwrap();
        block.push(0);
        for text in [&line[..at], &line[at + 2..]] {
            block.push(
                u8::try_from(text.len())
                    .ok()
                    .filter(|length| *length < 127)
                    .unwrap(),
            );
            block.extend(text.as_bytes());
        }
    }
    let [_, _, high, low] = u32::try_from(block.len()).unwrap().to_be_bytes();
    let mut frame = vec![0, high, low, 1, 5, 0, 0, 0, 1];
    frame.extend(block);
    frame
}

/// A connection of HTTP/1.1 to the Unix socket.
struct Raw(UnixStream);

impl Raw {
    fn new(world: &World) -> Self {
        let stream = UnixStream::connect(world.web.socket()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Self(stream)
    }

    /// Head and body of an answer with a length.
    fn answer(&mut self) -> (String, String) {
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(b"\r\n\r\n") {
            assert_eq!(
                self.0.read(&mut byte).unwrap(),
                1,
                "{}",
                String::from_utf8_lossy(&text)
            );
            text.push(byte[0]);
        }
        let head = String::from_utf8(text).unwrap();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        (head, String::from_utf8(body).unwrap())
    }
}

#[test]
fn a_refusal_reaches_a_client_that_still_sends() {
    let world = World::new();
    let mut raw = Raw::new(&world);
    let head = |length: &str| {
        format!(
            "POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer wrong\r\ncontent-type: application/json\r\n{length}\r\n\r\n"
        )
    };
    // A small body is drained, and the connection stays open.
    for _ in 0..2 {
        raw.0
            .write_all(head("content-length: 40000").as_bytes())
            .unwrap();
        raw.0.write_all(&[b' '; 20_000]).unwrap();
        let (answer, _) = raw.answer();
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        assert!(!answer.contains("connection: close"), "{answer}");
        raw.0.write_all(&[b' '; 20_000]).unwrap();
    }
    // A large body, or one without an end, is the last: the answer announces this and arrives whatever the client sends.
    for length in ["content-length: 1000000", "transfer-encoding: chunked"] {
        let mut raw = Raw::new(&world);
        raw.0.write_all(head(length).as_bytes()).unwrap();
        let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
        for _ in 0..8 {
            raw.0.write_all(chunk.as_bytes()).unwrap();
        }
        let (answer, _) = raw.answer();
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
    // A client that asks before it sends the body gets a refusal at once.
    let mut raw = Raw::new(&world);
    let asks = head("content-length: 1000\r\nexpect: 100-continue");
    raw.0.write_all(asks.as_bytes()).unwrap();
    let (answer, _) = raw.answer();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
}

#[test]
fn no_body_is_read_of_who_has_proven_nothing() {
    let world = World::new();
    let document: Value = serde_json::from_str(&godwit_web::openapi()).unwrap();
    let mut with_body = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if operation["requestBody"].is_null() {
                continue;
            }
            with_body += 1;
            let is_open = operation["security"].as_array().is_some_and(|one| {
                one.iter()
                    .all(|one| one.as_object().is_some_and(serde_json::Map::is_empty))
            });
            let status = if is_open { "413" } else { "401" };
            let mut raw = Raw::new(&world);
            // The head alone: no byte of the body follows. A node that waits for the body answers with another status at the end.
            let head = format!(
                "{} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer wrong\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n",
                method.to_uppercase()
            );
            raw.0.write_all(head.as_bytes()).unwrap();
            let (answer, _) = raw.answer();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{method} {path}: {answer}"
            );
        }
    }
    assert!(with_body > 10, "{with_body}");
}

#[test]
fn no_connection_resumes_another_one() {
    let world = World::new();
    let taker = world.web.taker();
    let connector = connector(&world);
    runtime().block_on(async {
        for _ in 0..2 {
            let mut stream = dial(&taker, &connector, Ipv4Addr::LOCALHOST).await;
            assert_eq!(
                stream.get_ref().1.handshake_kind(),
                Some(HandshakeKind::Full)
            );
            stream.write_all(PREFACE).await.unwrap();
            // Session tickets would come with the first bytes.
            let mut answer = [0; 256];
            assert_ne!(stream.read(&mut answer).await.unwrap(), 0);
            assert_eq!(stream.get_ref().1.tls13_tickets_received(), 0);
        }
    });
}

#[test]
fn one_user_and_one_token_leave_event_streams_for_others() {
    let world = World::new();
    let (vera, _) = token(&world, "vera", "viewer");
    let second = json!({"user": "vera", "role": "viewer"});
    let second = world
        .client()
        .post("/api/v1/tokens", &second)
        .expect(201)
        .json();
    let third = json!({"user": "vera", "role": "viewer"});
    let third = world
        .client()
        .post("/api/v1/tokens", &third)
        .expect(201)
        .json();
    let (walt, _) = token(&world, "walt", "viewer");
    let mut open = Vec::new();
    let mut stream = |secret: &str| {
        let mut raw = UnixStream::connect(world.web.socket()).unwrap();
        raw.set_read_timeout(Some(DEADLINE)).unwrap();
        let head = format!(
            "GET /api/v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {secret}\r\n\r\n"
        );
        raw.write_all(head.as_bytes()).unwrap();
        let mut line = [0; 12];
        raw.read_exact(&mut line).unwrap();
        open.push(raw);
        line[9..].to_vec()
    };
    let mut count = |secret: &str| (0..40).take_while(|_| stream(secret) == b"200").count();
    assert_eq!(count(&vera), 16);
    let secret = |made: &Value| made["secret"].as_str().unwrap().to_owned();
    assert_eq!(count(&secret(&second)), 16);
    assert_eq!(count(&secret(&third)), 0);
    assert_eq!(count(&walt), 16);
    let full = world.client().token(&vera).get("/api/v1/events");
    full.expect_problem(429, "too_many_streams");
    // Places are released.
    drop(open);
    let until = Instant::now() + DEADLINE;
    while world.web.event_streams() > 0 {
        assert!(Instant::now() < until, "streams stay");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_body_that_comes_after_the_end_of_its_token_does_nothing() {
    let world = World::new();
    let (secret, id) = token(&world, "ada", "admin");
    let body = json!({"role": "admin"}).to_string();
    let mut raw = Raw::new(&world);
    let head = format!(
        "PUT /api/v1/users/mallory HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {secret}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
        body.len()
    );
    raw.0.write_all(head.as_bytes()).unwrap();
    // The node reads the body once the caller is admitted.
    let mut admitted = [0; 25];
    raw.0.read_exact(&mut admitted).unwrap();
    assert_eq!(admitted, *b"HTTP/1.1 100 Continue\r\n\r\n");
    let admin = world.client();
    admin.delete(&format!("/api/v1/tokens/{id}")).expect(204);
    std::thread::sleep(Duration::from_millis(200));
    raw.0.write_all(body.as_bytes()).unwrap();
    let (answer, problem) = raw.answer();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer} {problem}");
    admin.get("/api/v1/users/mallory").expect(404);
}
