//! Hostile connections of each kind to the one port of a real node: its memory stays bounded, and calls and transfers succeed meanwhile.
//! See the tests of the API for single deadlines and limits, and `strangers` for the protocol of data connections.
//!
//! `GODWIT_HOSTILE=2000 GODWIT_HOSTILE_SECONDS=60` opens that many connections of each kind for that long. The figures are on standard
//! error (`--nocapture`).

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use godwit_api::ask::{AskSites as _, ClusterQuestion, JoinCluster, Peer, Question};
use godwit_data_port::{Asker, Here};
use godwit_net::{Cipher, ClientTls, Identity};
use godwit_proto::{Frame, Ping};
use rustix::net::{AddressFamily, SocketType};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::asking;
use super::rig::Rig;

/// Connections of each kind, seconds of each kind, and good calls meanwhile, in the usual run.
const CONNECTIONS: u64 = 600;
const SECONDS: u64 = 2;
const CALLS: u32 = 10;

/// The same calls in a run of full size.
const CALLS_OF_FULL_SIZE: u32 = 50;

/// Addresses that the connections come from.
const ADDRESSES: u64 = 8;

/// Threads that open connections and keep them busy.
const THREADS: u64 = 16;

/// A connection that was closed is replaced after this time.
const PAUSE: Duration = Duration::from_secs(2);

/// Interval between the actions of each connection.
const TICK: Duration = Duration::from_secs(1);

/// Each good call is answered within this time, on a machine that does much else, the attack included.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Memory of the node that all strangers may take, in KiB: places, requests and buffers of 256 connections, and two passwords.
const MEMORY_MAX: u64 = 160 << 10;

/// The beginning of HTTP/2, with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A ping of HTTP/2.
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0pingping";

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Sends nothing at all.
    Silent,
    /// Sends nothing after the handshake of TLS.
    SilentTls,
    /// Sends a byte of its first request each second.
    Slow,
    /// Asks for the largest possible answer again and again, and reads none.
    Unread,
    /// Sends pings of HTTP/2 and no request.
    Pings,
    /// Tries passwords, with long names and longer bodies.
    Logins,
    /// Asks to join the cluster by invitations that do not exist, with a new key each time.
    Joins,
}

const KINDS: [Kind; 7] = [
    Kind::Joins,
    Kind::Silent,
    Kind::SilentTls,
    Kind::Slow,
    Kind::Unread,
    Kind::Pings,
    Kind::Logins,
];

impl Kind {
    /// The bytes sent at the beginning.
    const fn begins(self) -> &'static [u8] {
        match self {
            Self::Slow => b"GET /healthz HTTP/1.1\r\nx: ",
            Self::Pings => PREFACE,
            Self::Silent | Self::SilentTls | Self::Unread | Self::Logins | Self::Joins => b"",
        }
    }

    /// The bytes sent each second.
    fn goes_on(self, number: u64) -> Vec<u8> {
        match self {
            Self::Silent | Self::SilentTls | Self::Joins => Vec::new(),
            Self::Slow => b"x".to_vec(),
            Self::Unread => b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(4),
            Self::Pings => PING.to_vec(),
            Self::Logins => login(number),
        }
    }
}

/// A log-in with a unique name. Each fourth one is as long as a body may be.
fn login(number: u64) -> Vec<u8> {
    let zeros = match number / THREADS % 4 {
        0 => 1_000_000,
        _ => 235,
    };
    let name = format!("{}{number:020}", "0".repeat(zeros));
    let body = format!(r#"{{"user": "{name}", "password": "wrong horse"}}"#);
    let head = format!(
        "POST /api/v1/login HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// The address and the TLS settings for attackers and callers.
struct Target {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Target {
    fn new(rig: &Rig) -> Self {
        let pem = fs::read(rig.daemon_home.join("web/certificate.pem")).expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(&pem).expect("PEM"))
            .expect("a root");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self {
            address: rig.address().parse().expect("an address"),
            tls: Arc::new(tls),
        }
    }

    /// A connection from an address of this machine.
    fn connect(&self, from: Ipv4Addr) -> io::Result<TcpStream> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        rustix::net::bind(&socket, &SocketAddr::from((from, 0)))?;
        rustix::net::connect(&socket, &self.address)?;
        let socket = TcpStream::from(socket);
        socket.set_read_timeout(Some(ANSWER_WITHIN))?;
        socket.set_write_timeout(Some(ANSWER_WITHIN))?;
        Ok(socket)
    }

    fn shake(&self, from: Ipv4Addr) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let name = ServerName::try_from("localhost").expect("a name");
        let client = ClientConnection::new(Arc::clone(&self.tls), name).expect("TLS");
        let mut stream = StreamOwned::new(client, self.connect(from)?);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(stream)
    }

    /// A call by a token on a new connection; returns its duration.
    fn call(&self, from: Ipv4Addr, secret: &str) -> io::Result<Duration> {
        let began = Instant::now();
        let mut stream = self.shake(from)?;
        let request = format!(
            "GET /api/v1/jobs HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {secret}\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let text = String::from_utf8_lossy(&answer);
        match text.starts_with("HTTP/1.1 200") {
            true => Ok(began.elapsed()),
            false => Err(io::Error::other(text.into_owned())),
        }
    }
}

/// One hostile connection, and its unsent data.
struct Hostile {
    kind: Kind,
    socket: TcpStream,
    client: Option<ClientConnection>,
}

impl Hostile {
    fn new(target: &Target, kind: Kind, from: Ipv4Addr) -> io::Result<Self> {
        if matches!(kind, Kind::Silent) {
            let socket = target.connect(from)?;
            socket.set_nonblocking(true)?;
            return Ok(Self {
                kind,
                socket,
                client: None,
            });
        }
        let StreamOwned { mut conn, sock } = target.shake(from)?;
        sock.set_nonblocking(true)?;
        conn.set_buffer_limit(None);
        conn.writer().write_all(kind.begins())?;
        Ok(Self {
            kind,
            socket: sock,
            client: Some(conn),
        })
    }

    /// Performs the action of its kind; returns whether the node still keeps the connection.
    fn tick(&mut self, number: u64) -> bool {
        let Some(client) = &mut self.client else {
            return is_open(self.socket.peek(&mut [0]));
        };
        // Bytes that the node does not take wait here, once.
        if !client.wants_write()
            && client
                .writer()
                .write_all(&self.kind.goes_on(number))
                .is_err()
        {
            return false;
        }
        while client.wants_write() {
            match client.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        if matches!(self.kind, Kind::Unread) {
            return true;
        }
        loop {
            match client.read_tls(&mut self.socket) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
            if client.process_new_packets().is_err() {
                return false;
            }
            // The received bytes do not matter.
            let _ = io::copy(&mut client.reader(), &mut io::sink());
        }
    }
}

fn is_open(peeked: io::Result<usize>) -> bool {
    match peeked {
        Ok(bytes) => bytes > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// Keeps a share of the connections open until the end; counts all opened ones.
fn attack(
    target: &Target,
    kind: Kind,
    thread: u64,
    all: u64,
    stop: &AtomicBool,
    opened: &AtomicU64,
) {
    let mut slots: Vec<(Option<Hostile>, Instant)> = (0..all)
        .filter(|number| number % THREADS == thread)
        .map(|_| (None, Instant::now()))
        .collect();
    let mut number = thread;
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        for (slot, since) in &mut slots {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            number += THREADS;
            if let Some(hostile) = slot {
                if !hostile.tick(number) {
                    (*slot, *since) = (None, Instant::now() + PAUSE);
                }
            } else if *since <= Instant::now() {
                let last = u8::try_from(1 + number / THREADS % ADDRESSES).expect("few");
                match Hostile::new(target, kind, Ipv4Addr::new(127, 250, 0, last)) {
                    Ok(hostile) => {
                        *slot = Some(hostile);
                        opened.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) => *since = Instant::now() + PAUSE,
                }
            }
        }
        std::thread::sleep(TICK.saturating_sub(began.elapsed()));
    }
}

/// Asks to join again and again until the end; counts the questions.
fn storm(rig: &Rig, home: &Path, stop: &AtomicBool, asked: &AtomicU64) {
    let question = Question::Cluster(Box::new(ClusterQuestion::Join(Box::new(JoinCluster {
        secret: "guessed".to_owned(),
        name: "mallory".to_owned(),
        exports: vec!["x".repeat(250); 64],
        version: env!("CARGO_PKG_VERSION").to_owned(),
        level: 1,
    }))));
    let node = Peer {
        name: "node".to_owned(),
        addresses: vec![rig.address().to_owned()],
        identity: rig.identity.clone(),
    };
    while !stop.load(Ordering::Relaxed) {
        let own = tempfile::tempdir_in(home).expect("a directory");
        let key = Identity::load_or_create(own.path()).expect("a key");
        let tls = ClientTls::new(&key, &Cipher::ALL).expect("TLS");
        let here = Here::new(Vec::new(), own.path().to_owned(), Default::default());
        let asker = Asker::new(here, tls);
        // Four questions with each key.
        for _ in 0..4 {
            let go_on = &mut |_| !stop.load(Ordering::Relaxed);
            let answer = asker.ask(Some(&node), &question, go_on);
            assert!(answer.is_err(), "{answer:?}");
            asked.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A figure of the process in KiB.
pub(crate) fn memory(rig: &Rig, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", rig.daemon().id()));
    let status = status.expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let figure = line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
    figure.expect("a figure").parse().expect("a number")
}

fn from_environment(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn hostile_connections_take_neither_memory_nor_places() {
    let connections = from_environment("GODWIT_HOSTILE", CONNECTIONS);
    let seconds = Duration::from_secs(from_environment("GODWIT_HOSTILE_SECONDS", SECONDS));
    let calls = match connections > CONNECTIONS {
        true => CALLS_OF_FULL_SIZE,
        false => CALLS,
    };
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("small", vec![7; 100_000]);
    let made = rig.admin(&["token", "create", "--role", "viewer"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let secret = made.out.trim();
    let target = Target::new(&rig);
    let home = Ipv4Addr::new(127, 251, 0, 1);
    target.call(home, secret).expect("answered");
    let before = memory(&rig, "VmRSS");
    for (kind, kind_number) in KINDS.into_iter().zip(1..) {
        let (stop, opened) = (AtomicBool::new(false), AtomicU64::new(0));
        let (mut took, mut copies) = (Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (target, rig, stop, opened) = (&target, &rig, &stop, &opened);
                scope.spawn(move || match kind {
                    Kind::Joins => storm(rig, &rig.path(""), stop, opened),
                    _ => attack(target, kind, thread, connections, stop, opened),
                });
            }
            let until = Instant::now() + seconds;
            let pause = seconds / calls;
            for call in 0..calls {
                std::thread::sleep(pause);
                // From a known address, and from a new one.
                let [.., number] = call.to_be_bytes();
                let from = match call % 2 {
                    0 => home,
                    _ => Ipv4Addr::new(127, 252, kind_number, 1 + number),
                };
                took.push(target.call(from, secret));
                let to = rig.url(&format!("{kind:?}{call}"));
                let began = Instant::now();
                let copied = rig.client(&["cp", "small", &to]);
                assert_eq!(copied.code, Some(0), "{kind:?}: {copied:?}");
                copies.push(began.elapsed());
            }
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            stop.store(true, Ordering::Relaxed);
        });
        let took: io::Result<Vec<Duration>> = took.into_iter().collect();
        let mut took = took.unwrap_or_else(|error| panic!("{kind:?}: a call failed: {error}"));
        took.sort();
        let (median, most) = (took[took.len() / 2], took[took.len() - 1]);
        copies.sort();
        let (copy, longest) = (copies[copies.len() / 2], copies[copies.len() - 1]);
        let (now, peak) = (memory(&rig, "VmRSS"), memory(&rig, "VmHWM"));
        eprintln!(
            "{kind:?}: {connections} connections at once, {} opened, for {} s; memory {before} KiB before, {now} now, {peak} at most so far; {} calls, median {} ms, at most {} ms; as many transfers, median {} ms, at most {} ms",
            opened.load(Ordering::Relaxed),
            seconds.as_secs(),
            took.len(),
            median.as_millis(),
            most.as_millis(),
            copy.as_millis(),
            longest.as_millis(),
        );
        assert!(most < ANSWER_WITHIN, "{kind:?}: {most:?}");
        let least = match kind {
            Kind::Joins => THREADS,
            _ => connections / 4,
        };
        assert!(opened.load(Ordering::Relaxed) >= least, "{kind:?}");
        let more = peak.saturating_sub(before);
        assert!(more < MEMORY_MAX, "{kind:?}: {more} KiB more than before");
    }
    let said = rig.daemon().said();
    assert!(!said.contains("panicked"), "{said}");
    let lines = said.lines().count();
    assert!(lines < 1_000, "strangers fill the log: {lines} lines");
}

/// A peer with a grant that begins each connection with a wrong frame.
#[test]
fn lines_that_a_known_peer_causes_are_bounded() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let mut wrong = Vec::new();
    Ping { nonce: 9 }.encode(&mut wrong);
    for _ in 0..300 {
        let answer = asking::ask(&rig, &rig.client_home(), &wrong);
        assert!(matches!(answer, Ok(Frame::Error(_))), "{answer:?}");
    }
    let said = rig.daemon().said();
    let lines = said.lines().filter(|line| line.contains("not with"));
    // A hundred in a row, and one every two seconds.
    let lines = lines.count();
    assert!((50..200).contains(&lines), "{lines} lines");
}
