//! Tests the one port of a node: data connections, the API by TLS, and other protocols.
//! The content of both is tested elsewhere.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use godwit_data_port::{Announce, Daemon, DaemonConfig};
use godwit_engine::tuner::Bounds;
use godwit_net::{Cipher, ClientTls, DialOptions, Expect, Identity, PeerAddress, ServerTls, dial};
use godwit_run::Process;
use serde_json::json;

use crate::client::Client;
use crate::world::World;

const DEADLINE: Duration = Duration::from_secs(60);

/// A node's listener, which hands the API's connections on.
fn daemon(world: &World, identity: &Identity) -> Daemon {
    let log = Arc::clone(&world.log);
    let one = Bounds::fixed(1);
    let config = DaemonConfig {
        process: Process::default(),
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        announce: Announce::None,
        exports: Vec::new(),
        home: world.path("home"),
        rules: Arc::new(|| Ok(Arc::default())),
        tls: ServerTls::new(identity, &Cipher::ALL).unwrap(),
        plain_allowed: false,
        handshake_deadline: DEADLINE,
        connections_per_peer: 8,
        connections_max: 8,
        transfers_per_peer: 8,
        transfers_max: 8,
        stall_limit: DEADLINE,
        pool_bytes: 1 << 20,
        readers: one,
        writers: one,
        keep_for: DEADLINE,
        claims: Arc::default(),
        jobs: None,
        cluster: None,
        buffer: None,
        web: Some(world.web.taker()),
        tells: Arc::new(|_| {}),
        log: Arc::new(move |line: &str| log.lock().unwrap().push(line.to_owned())),
    };
    Daemon::start(config, identity).unwrap()
}

#[test]
fn one_port_serves_data_and_the_api() {
    let world = World::new();
    let identity = Identity::load_or_create(&world.path("home")).unwrap();
    let daemon = daemon(&world, &identity);
    let address = daemon.addresses()[0];

    // The API: the client's connection goes through the port.
    let through: Arc<dyn Fn(TcpStream) + Send + Sync> = Arc::new(move |socket: TcpStream| {
        let port = TcpStream::connect(address).unwrap();
        join(socket, port);
    });
    let api = Client::tls(through, &world.path("web").join("certificate.pem"));
    for _ in 0..3 {
        api.get("/api/v1/node")
            .expect_problem(401, "no_credentials");
        assert_eq!(
            api.get("/healthz").expect(200).json(),
            json!({"status": "ok"})
        );
    }

    // Data: any client with a key shakes hands with the node's own key.
    let tls = ClientTls::new(&identity, &Cipher::ALL).unwrap();
    let peer = PeerAddress::new("127.0.0.1", address.port());
    let options = DialOptions::new(Expect::Identity(*identity.id()));
    let (_stream, found) = dial(&peer, &tls, &options).unwrap();
    assert_eq!(found, *identity.id());

    // Neither: plain HTTP gets an explanation in plain HTTP.
    let mut plain = TcpStream::connect(address).unwrap();
    plain.set_read_timeout(Some(DEADLINE)).unwrap();
    plain
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

/// Copies bytes between two sockets until either ends.
fn join(one: TcpStream, other: TcpStream) {
    for (mut from, mut to) in [
        (one.try_clone().unwrap(), other.try_clone().unwrap()),
        (other, one),
    ] {
        std::thread::spawn(move || {
            // An end in the middle is handled by the other side.
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Write);
        });
    }
}

#[test]
fn a_certificate_is_kept_and_another_one_is_taken_when_its_file_changes() {
    let world = World::new();
    let first = world.web.fingerprint();
    assert_eq!(first.split(':').count(), 32, "{first}");
    let key = std::fs::metadata(world.path("web").join("key.pem")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&key.permissions());
    assert_eq!(mode & 0o777, 0o600);
    let other = World::new();
    let network = world.network();
    network.get("/healthz").expect(200);
    // Half of the change: the previous certificate stays.
    let copy = |name: &str| {
        let from = other.path("web").join(name);
        std::fs::copy(from, world.path("web").join(name)).unwrap();
    };
    let until = std::time::Instant::now() + DEADLINE;
    copy("certificate.pem");
    while !world
        .log
        .lock()
        .unwrap()
        .iter()
        .any(|line| line.contains("keeps the certificate"))
    {
        assert!(
            std::time::Instant::now() < until,
            "the change is not noticed"
        );
        network.get("/healthz").expect(200);
    }
    assert_eq!(world.web.fingerprint(), first);
    copy("key.pem");
    while world.web.fingerprint() == first {
        assert!(
            std::time::Instant::now() < until,
            "the change is not noticed"
        );
        // The handshake makes the server look. Whether the client trusts the certificate does not matter here.
        let client = world.network();
        let _ = std::thread::spawn(move || client.get("/healthz").status).join();
    }
    assert_eq!(world.web.fingerprint(), other.web.fingerprint());
    world.network().get("/healthz").expect(200);
}
