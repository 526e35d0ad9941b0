//! Tests that a stranger's connections disturb neither a transfer nor the daemon.
//! Known peers without access are tested in `contract`.

use std::collections::VecDeque;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType};

use super::data::{Seeded, write_file};
use super::judge::{assert_identical, assert_tidy};
use super::rig::{Rig, as_each_user};

const BYTES: u64 = 8 << 20;

/// The start of a TLS record that never continues: a hello of 16 KiB.
const HALF_HELLO: [u8; 9] = [0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc];

#[test]
fn strangers_do_not_disturb_a_transfer() {
    as_each_user(|rig| {
        rig.start(&[]);
        for ends in rig.push_and_pull() {
            fs::create_dir(&ends.source).expect("made");
            write_file(&ends.source.join("large"), BYTES, &mut Seeded(3));
            for number in 0..100_u64 {
                let path = ends.source.join(number.to_string());
                write_file(&path, 1_000 * number, &mut Seeded(number));
            }
            let line = ends.line(&["--limit", "8MB", "--block-size", "64KiB"]);
            let mut client = rig.begin_cp(&rig.path(""), &line);
            client.wait_for_bytes(1);
            let mut strangers = Strangers::default();
            for turn in 1..=8 {
                strangers.come(rig);
                // Waits until more data has arrived while all strangers are connected.
                client.wait_for_bytes(turn * BYTES / 10);
            }
            let outcome = client.wait();
            assert_eq!(outcome.complete().number("resent_bytes"), 0, "{outcome:?}");
            assert_identical(&ends.source, &ends.destination);
            assert_tidy(&ends.destination, &ends.receiver_home);
            strangers.are_answered();
        }
        // The daemon is still healthy: it takes the next transfer, and no thread has panicked.
        rig.cp(&["run42", &rig.url("next")]).complete();
        assert_identical(&rig.path("run42"), &rig.path("export/next"));
        let said = rig.daemon().said();
        assert!(!said.contains("panicked"), "{said}");
    });
}

/// Connections from one address that never identify themselves, each replaced by a new one.
fn flood(from: Ipv4Addr, to: SocketAddr, stop: &AtomicBool) -> u64 {
    let mut open = VecDeque::new();
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let socket =
            rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        rustix::net::bind(&socket, &SocketAddr::from((from, 0))).expect("bound");
        // The listener may be full at the moment.
        if rustix::net::connect(&socket, &to).is_ok() {
            let mut socket = TcpStream::from(socket);
            if count % 2 == 0 {
                let _ = socket.write_all(&HALF_HELLO);
            }
            open.push_back(socket);
            count += 1;
        }
        if open.len() > FLOOD_SOCKETS / FLOOD_ADDRESSES as usize {
            open.pop_front();
        }
        std::thread::sleep(FLOOD_PAUSE);
    }
    count
}

/// Half-open connections that are held at a time, from all addresses together.
const FLOOD_SOCKETS: usize = 2000;
const FLOOD_ADDRESSES: u32 = 8;
const FLOOD_PAUSE: Duration = Duration::from_millis(10);
const FLOOD_TIME: Duration = Duration::from_secs(30);

#[test]
fn a_flood_of_half_open_connections_locks_no_client_out() {
    let files = rustix::process::Resource::Nofile;
    let limits = rustix::process::getrlimit(files);
    let more = rustix::process::Rlimit {
        current: limits.maximum,
        maximum: limits.maximum,
    };
    rustix::process::setrlimit(files, more).expect("as many as there may be");
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("file", "content");
    let to: SocketAddr = rig.address().parse().expect("an address");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The client's own address is one of them.
        let floods: Vec<_> = (0..FLOOD_ADDRESSES)
            .map(|number| Ipv4Addr::from(0x7f00_0001 + number))
            .map(|from| {
                scope.spawn({
                    let stop = &stop;
                    move || flood(from, to, stop)
                })
            })
            .collect();
        let began = Instant::now();
        let mut copies = 0;
        while copies < 50 || began.elapsed() < FLOOD_TIME {
            let destination = rig.url(&format!("copy-{copies}"));
            let outcome = rig.cp(&["--retry-for", "60s", "file", &destination]);
            if outcome.code != Some(0) {
                stop.store(true, Ordering::Relaxed);
            }
            outcome.complete();
            copies += 1;
        }
        stop.store(true, Ordering::Relaxed);
        let count: u64 = floods
            .into_iter()
            .map(|flood| flood.join().expect("no panic"))
            .sum();
        assert!(
            count > FLOOD_SOCKETS as u64,
            "{count} connections are no flood"
        );
    });
    let said = rig.daemon().said();
    assert!(!said.contains("panicked"), "{said}");
}

#[derive(Default)]
struct Strangers {
    /// Say nothing, or not enough, and stay.
    silent: Vec<TcpStream>,
    http: Vec<TcpStream>,
    garbage: Vec<TcpStream>,
}

impl Strangers {
    /// Opens one connection of each kind.
    fn come(&mut self, rig: &Rig) {
        let connect = || TcpStream::connect(rig.address()).expect("it listens");
        self.silent.push(connect());
        let mut half = connect();
        half.write_all(&HALF_HELLO).expect("sent");
        self.silent.push(half);
        let mut http = connect();
        http.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .expect("sent");
        self.http.push(http);
        let mut garbage = connect();
        // The daemon may hang up at once.
        let _ = garbage.write_all(&[0xa5; 64 << 10]);
        self.garbage.push(garbage);
        let gone = connect();
        // The daemon may have closed its side, too.
        let _ = gone.shutdown(Shutdown::Both);
    }

    /// An HTTP client gets an answer that says so. A client of an unknown protocol is hung up on.
    fn are_answered(self) {
        for mut http in self.http {
            let mut answer = Vec::new();
            // A reset may follow the answer.
            let _ = http.read_to_end(&mut answer);
            let said = String::from_utf8_lossy(&answer);
            assert!(said.starts_with("HTTP/1.1 400 "), "{said}");
        }
        for mut garbage in self.garbage {
            let mut answer = Vec::new();
            // This returns after the hang-up, whatever its form.
            let _ = garbage.read_to_end(&mut answer);
            assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
        }
    }
}

/// Exports, access and version of the daemon are hidden from a stranger.
#[test]
fn a_stranger_hears_the_same_whatever_it_asks_for() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("file", "content");
    fs::write(rig.daemon_home.join("grants"), "").expect("written");
    let (export, none) = (rig.url("copy"), rig.url("copy").replace("/data/", "/none/"));
    let pulled = rig.url("file");
    // A request beyond the bound for strangers is not kept, and gets the same answer.
    let sources: Vec<String> = (0..400)
        .map(|number| rig.url(&format!("{}/{number}", "d".repeat(200))))
        .collect();
    let mut long: Vec<&str> = sources.iter().map(String::as_str).collect();
    long.push("here/");
    for line in [
        long,
        vec!["file", &export],
        vec!["file", &none],
        vec!["--encryption", "none", "file", &export],
        vec!["--encryption", "none", &pulled, "here"],
    ] {
        let outcome = rig.cp(&line);
        assert_eq!(outcome.code, Some(4), "{line:?}: {outcome:?}");
        let reported = format!("{outcome:?}");
        assert!(
            reported.contains("does not know you"),
            "{line:?}: {reported}"
        );
        assert!(!reported.contains("encrypts"), "{line:?}: {reported}");
    }
}

/// A client that is neither silent nor done with its hello.
#[test]
fn a_stranger_that_hesitates_in_each_step_has_one_deadline() {
    let mut rig = Rig::new();
    rig.serve(&["--handshake-deadline", "15s"]);
    let began = Instant::now();
    let mut stranger = TcpStream::connect(rig.address()).expect("it listens");
    stranger.write_all(&HALF_HELLO).expect("sent");
    // The end may be a reset.
    let _ = stranger.read(&mut [0]);
    let open = began.elapsed();
    // A deadline for each step would be 30 s for two.
    assert!(open < Duration::from_secs(28), "open for {open:?}");
}
