//! Tests the client against a small server: requests, the result of each answer, events, certificates. Tests
//! no routes of a real node: the tests of the binary do.

use std::fs;
use std::io::{BufReader, Read as _, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use godwit_api::failure::{Failure, FailureCode};
use godwit_api::host::HostPort;
use godwit_api::rest::NewJob;
use godwit_client::{Client, ClientError, Events, Fingerprint, JobFilter, News, Token, Trust};
use rcgen::PublicKeyData as _;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;

/// Longer than any test lasts on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves one connection for each answer, in order, and returns the requests.
fn serve(answers: Vec<String>) -> (TempDir, Client, JoinHandle<Vec<String>>) {
    let home = tempfile::tempdir().expect("a directory");
    fs::create_dir(home.path().join("run")).expect("made");
    let listener = UnixListener::bind(home.path().join("run/node.sock")).expect("bound");
    let client = Client::local(home.path().to_owned()).expect("a client");
    let server = thread::spawn(move || {
        let answer_one = |answer: String| {
            let (stream, _) = listener.accept().expect("a connection");
            let request = read_request(&mut BufReader::new(&stream));
            // A client that has received its answer may have closed the connection.
            let _ = (&stream).write_all(answer.as_bytes());
            request
        };
        answers.into_iter().map(answer_one).collect()
    });
    (home, client, server)
}

/// Head and body of a request.
fn read_request(reader: &mut impl std::io::BufRead) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = reader.read_line(&mut head).expect("a request");
        assert!(read > 0, "cut off: {head}");
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().expect("a length"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    head + &String::from_utf8(body).expect("text")
}

fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn stream(events: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{events}")
}

fn job(id: &str, state: &str) -> String {
    format!(
        r#"{{"id":"{id}","label":"","owner":"a","kind":"copy","sources":["here:/a"],"destination":"here:/b","state":"{state}","since":"2026-01-01T00:00:00Z","priority":0,"attempts":0,"created":"2026-01-01T00:00:00Z"}}"#
    )
}

fn new_job() -> NewJob {
    serde_json::from_str(r#"{"sources":["here:/a"],"destination":"here:/b"}"#).expect("a job")
}

#[test]
fn a_submission_without_an_answer_is_sent_again_with_the_same_key() {
    let answers = vec![String::new(), answer("201 Created", &job("0abc", "queued"))];
    let (_home, client, server) = serve(answers);
    let submitted = client
        .jobs()
        .submit(&new_job(), "key-1")
        .expect("submitted");
    assert_eq!(submitted.id, "0abc");
    let requests = server.join().expect("no panic");
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert!(
            request.starts_with("POST /api/v1/jobs HTTP/1.1\r\n"),
            "{request}"
        );
        assert!(request.contains("idempotency-key: key-1\r\n"), "{request}");
        assert!(!request.contains("authorization"), "{request}");
        assert!(request.contains(r#""sources":["here:/a"]"#), "{request}");
    }
}

#[test]
fn refusals_become_failures_with_the_words_of_the_node() {
    let problem = r#"{"type":"t","title":"t","status":1,"detail":"no job is called 0abc","code":"unknown_job","request":"r7"}"#;
    for (status, body, code, words) in [
        (
            "404 Not Found",
            problem,
            FailureCode::NotFound,
            "no job is called 0abc",
        ),
        (
            "403 Forbidden",
            problem,
            FailureCode::AccessDenied,
            "no job is called",
        ),
        (
            "422 Unprocessable Entity",
            problem,
            FailureCode::Usage,
            "no job is called",
        ),
        (
            "500 Internal Server Error",
            problem,
            FailureCode::PeerFailed,
            "request r7",
        ),
        (
            "502 Bad Gateway",
            "<html>proxy</html>",
            FailureCode::Foreign,
            "status 502, \"<html>proxy",
        ),
        ("200 OK", "{}", FailureCode::VersionMismatch, "cannot read"),
        (
            "200 OK",
            "not JSON",
            FailureCode::VersionMismatch,
            "cannot read",
        ),
    ] {
        let (_home, client, server) = serve(vec![answer(status, body)]);
        let failure = Failure::from(client.jobs().get("0abcdefghjk").expect_err(status));
        assert_eq!(failure.code, code, "{failure}");
        assert!(failure.message.contains(words), "{failure}");
        server.join().expect("no panic");
    }
}

#[test]
fn pages_are_followed_and_a_short_id_finds_its_job() {
    let not_found = answer(
        "404 Not Found",
        r#"{"type":"t","title":"t","status":404,"detail":"none","code":"c"}"#,
    );
    let page = |jobs: &[String], next: &str| {
        answer(
            "200 OK",
            &format!(r#"{{"jobs":[{}],"next":{next}}}"#, jobs.join(",")),
        )
    };
    let pages = [
        page(&[job("0ab1", "queued"), job("0cd1", "queued")], r#""c 1""#),
        page(&[job("0ab2", "queued")], "null"),
    ];
    let (_home, client, server) = serve(pages.to_vec());
    let all = client.jobs().list(&JobFilter::default(), 2_000);
    assert_eq!(all.expect("listed").len(), 3);
    let requests = server.join().expect("no panic");
    assert!(
        requests[1].starts_with("GET /api/v1/jobs?cursor=c%201&limit=1000 "),
        "{}",
        requests[1]
    );

    let fitting = |ids: &[&str]| {
        let jobs: Vec<String> = ids.iter().map(|id| job(id, "queued")).collect();
        vec![not_found.clone(), page(&jobs, "null")]
    };
    let (_home, client, server) = serve(fitting(&["0cd1"]));
    assert_eq!(client.jobs().find("0CD").expect("found").id, "0cd1");
    let requests = server.join().expect("no panic");
    assert!(
        requests[1].starts_with("GET /api/v1/jobs?id=0cd&limit=4 "),
        "{}",
        requests[1]
    );

    let (_home, client, server) = serve(fitting(&["0ab1", "0ab2"]));
    let reported = client.jobs().find("0ab").expect_err("two");
    assert!(
        matches!(&reported, ClientError::Ambiguous { examples, .. } if examples.len() == 2),
        "{reported}"
    );
    server.join().expect("no panic");

    let (_home, client, server) = serve(fitting(&[]));
    assert_eq!(
        client.jobs().find("0ef").expect_err("none").status(),
        Some(404)
    );
    server.join().expect("no panic");

    let (_home, client, server) = serve(vec![pages[0].clone()]);
    assert_eq!(
        client
            .jobs()
            .list(&JobFilter::default(), 1)
            .expect("listed")
            .len(),
        1
    );
    assert!(server.join().expect("no panic")[0].contains("limit=1 "));
}

fn next(events: &mut Events<'_>) -> News {
    events.next(PATIENCE).expect("events").expect("in time")
}

#[test]
fn a_broken_stream_of_events_continues_after_the_last_one() {
    let moved = r#"{"job":"0abc","progress":{"at":"2026-01-01T00:00:00Z","bytes":7,"bytes_total":9,"files":0,"streams":1,"failed":0}}"#;
    let answers = vec![
        stream(&format!(
            "id: 4\nevent: job\ndata: {}\n\nid: 5\nevent: novel\ndata: x\n\n",
            job("0abc", "running")
        )),
        answer("503 Service Unavailable", ""),
        stream(&format!(
            "event: progress\ndata: {moved}\n\nevent: gone\ndata: {{}}\n\n"
        )),
        answer("403 Forbidden", ""),
    ];
    let (_home, client, server) = serve(answers);
    let mut events = client.events(Some("0abc")).expect("open");
    let first = next(&mut events);
    assert!(
        matches!(&first, News::Job(job) if job.id == "0abc"),
        "{first:?}"
    );
    let lost = next(&mut events);
    assert!(
        matches!(&lost, News::Lost(error) if error.status() == Some(503)),
        "{lost:?}"
    );
    let again = next(&mut events);
    assert!(matches!(again, News::Missed), "{again:?}");
    let moved = next(&mut events);
    assert!(
        matches!(&moved, News::Progress { job, progress } if job == "0abc" && progress.bytes == 7),
        "{moved:?}"
    );
    let gone = next(&mut events);
    assert!(matches!(gone, News::Missed), "{gone:?}");
    let refused = events.next(PATIENCE).expect_err("no right any more");
    assert_eq!(refused.status(), Some(403));
    let requests = server.join().expect("no panic");
    assert!(
        requests[0].starts_with("GET /api/v1/events?topic=job&job=0abc "),
        "{}",
        requests[0]
    );
    assert!(!requests[0].contains("last-event-id"), "{}", requests[0]);
    assert!(
        requests[2].contains("last-event-id: 5\r\n"),
        "{}",
        requests[2]
    );
}

#[test]
fn waiting_for_events_has_an_end() {
    let home = tempfile::tempdir().expect("a directory");
    fs::create_dir(home.path().join("run")).expect("made");
    let listener = UnixListener::bind(home.path().join("run/node.sock")).expect("bound");
    let client = Client::local(home.path().to_owned()).expect("a client");
    let server = thread::spawn(move || {
        let (stream_, _) = listener.accept().expect("a connection");
        read_request(&mut BufReader::new(&stream_));
        (&stream_)
            .write_all(stream(": quiet\n\n").as_bytes())
            .expect("sent");
        stream_
    });
    let mut events = client.events(None).expect("open");
    let _held = server.join().expect("no panic");
    let news = events.next(Duration::from_millis(50)).expect("events");
    assert!(news.is_none(), "{news:?}");
}

#[test]
fn where_no_node_runs_the_home_is_named() {
    let home = tempfile::tempdir().expect("a directory");
    let client = Client::local(home.path().to_owned()).expect("a client");
    let reported = || {
        let error = client.node().expect_err("none runs");
        assert!(matches!(error, ClientError::NotRunning { .. }), "{error}");
        error.to_string()
    };
    assert!(reported().contains(&format!(
        "GODWIT_HOME={} godwit serve",
        home.path().display()
    )));
    // The socket that a killed node leaves behind.
    fs::create_dir(home.path().join("run")).expect("made");
    drop(UnixListener::bind(home.path().join("run/node.sock")).expect("bound"));
    reported();
}

/// A server with its own certificate that answers one request; the fingerprints do not depend on our code.
fn tls_server() -> (HostPort, [Fingerprint; 2], JoinHandle<Option<String>>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let of_key = sha256(&made.signing_key.subject_public_key_info());
    let digests = [sha256(&certificate), of_key];
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a version")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a certificate");
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("bound").port();
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        let mut tls = rustls::ServerConnection::new(Arc::new(config)).expect("TLS");
        let mut both = rustls::Stream::new(&mut tls, &mut socket);
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if both.read_exact(&mut byte).is_err() {
                return None;
            }
            request.push(byte[0]);
        }
        both.write_all(answer("200 OK", "[]").as_bytes())
            .expect("sent");
        Some(String::from_utf8(request).expect("text"))
    });
    let node = HostPort {
        host: "127.0.0.1".to_owned(),
        port,
    };
    let digests = digests.map(|digest| digest.parse().expect("a fingerprint"));
    (node, digests, server)
}

/// The digest from coreutils, which does not depend on our code.
fn sha256(bytes: &[u8]) -> String {
    let mut child = std::process::Command::new("sha256sum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("sha256sum runs");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(bytes)
        .expect("read");
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("text");
    text.split_whitespace().next().expect("a digest").to_owned()
}

fn token() -> Token {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("token");
    fs::write(&path, "gwt_secret\n").expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
    Token::load(&path).expect("a token")
}

#[test]
fn the_pinned_certificate_or_key_and_the_token_let_in() {
    for pinned in 0..2 {
        let (node, fingerprints, server) = tls_server();
        let pin = Trust::Pin(fingerprints[pinned]);
        let client = Client::remote(node, token(), pin).expect("a client");
        assert!(client.sites().list().expect("an answer").is_empty());
        let request = server.join().expect("no panic").expect("a request");
        assert!(
            request.contains("authorization: Bearer gwt_secret\r\n"),
            "{request}"
        );
        assert!(request.contains("host: 127.0.0.1:"), "{request}");
    }
}

#[test]
fn another_certificate_is_refused_before_the_token_is_sent() {
    let other: Fingerprint = "ab".repeat(32).parse().expect("a fingerprint");
    let trusts = [
        (Trust::Pin(other), FailureCode::IdentityChanged),
        (Trust::Roots, FailureCode::UnknownPeer),
    ];
    for (trust, code) in trusts {
        let (node, [_, key], server) = tls_server();
        let client = match Client::remote(node, token(), trust) {
            Ok(client) => client,
            // A system without certificate authorities reports this error.
            Err(error) => {
                assert!(error.to_string().contains("--fingerprint"), "{error}");
                continue;
            }
        };
        let failure = Failure::from(client.node().expect_err("refused"));
        assert_eq!(failure.code, code, "{failure}");
        assert!(failure.message.contains(&key.to_string()), "{failure}");
        assert_eq!(server.join().expect("no panic"), None);
    }
}
