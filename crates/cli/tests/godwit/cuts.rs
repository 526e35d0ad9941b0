//! Tests that cut connections cost only the data on them: a proxy between client and daemon cuts at seeded moments.
//! Kills no process (`kill`).

#![expect(clippy::print_stderr, reason = "a failure is reported with its seed")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::data::{Seeded, first_seed, make_tree};
use super::judge::{assert_identical, assert_tidy};
use super::rig::Rig;

const MIB: u64 = 1 << 20;

/// Which connections to cut each time that some bytes have passed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cut {
    All,
    /// The oldest live connection.
    One,
}

/// Passes bytes on, and cuts after certain totals.
struct Proxy {
    address: String,
    state: Arc<State>,
}

struct State {
    target: String,
    cut: Cut,
    passed: AtomicU64,
    /// Numbers of bytes after which connections are cut, the next cut last.
    moments: Mutex<Vec<u64>>,
    cuts: AtomicU64,
    live: Mutex<Vec<(u64, TcpStream, TcpStream)>>,
    made: AtomicU64,
    stopping: AtomicBool,
}

impl Proxy {
    fn start(target: &str, cut: Cut, mut moments: Vec<u64>) -> Self {
        moments.sort_unstable_by(|one, other| other.cmp(one));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let state = Arc::new(State {
            target: target.to_owned(),
            cut,
            passed: AtomicU64::new(0),
            moments: Mutex::new(moments),
            cuts: AtomicU64::new(0),
            live: Mutex::default(),
            made: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        });
        let own = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                if own.stopping.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(client), Ok(daemon)) = (client, TcpStream::connect(&own.target)) else {
                    continue;
                };
                own.join(&client, &daemon);
            }
        });
        Self { address, state }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.stopping.store(true, Ordering::SeqCst);
        // A connection wakes the thread, which then sees the flag.
        let _ = TcpStream::connect(&self.address);
    }
}

impl State {
    fn join(self: &Arc<Self>, client: &TcpStream, daemon: &TcpStream) {
        let clone = |stream: &TcpStream| stream.try_clone().expect("descriptors are left");
        let number = self.made.fetch_add(1, Ordering::SeqCst);
        self.live
            .lock()
            .expect("no panic")
            .push((number, clone(client), clone(daemon)));
        for (from, to) in [(client, daemon), (daemon, client)] {
            let (mut from, mut to, own) = (clone(from), clone(to), Arc::clone(self));
            thread::spawn(move || {
                let mut buffer = vec![0; 64 << 10];
                while let Ok(bytes @ 1..) = from.read(&mut buffer) {
                    if to.write_all(&buffer[..bytes]).is_err() {
                        break;
                    }
                    own.passed(bytes as u64);
                }
                // The other end sees the same kind of close, whatever the reason.
                let _ = to.shutdown(Shutdown::Both);
                let _ = from.shutdown(Shutdown::Both);
                own.live
                    .lock()
                    .expect("no panic")
                    .retain(|(other, ..)| *other != number);
            });
        }
    }

    fn passed(&self, bytes: u64) {
        let passed = self.passed.fetch_add(bytes, Ordering::SeqCst) + bytes;
        let mut moments = self.moments.lock().expect("no panic");
        let mut due = false;
        while moments.last().is_some_and(|moment| *moment <= passed) {
            moments.pop();
            due = true;
        }
        drop(moments);
        if due {
            self.cuts.fetch_add(1, Ordering::SeqCst);
            let live = self.live.lock().expect("no panic");
            let count = if self.cut == Cut::All { live.len() } else { 1 };
            for (_, client, daemon) in live.iter().take(count) {
                // Either connection may be closed already.
                let _ = client.shutdown(Shutdown::Both);
                let _ = daemon.shutdown(Shutdown::Both);
            }
        }
    }
}

fn survives(seed: u64, cut: Cut, moments: u64, pull: bool) {
    eprintln!("seed {seed}");
    let mut seeded = Seeded(seed);
    let mut rig = Rig::new();
    let source = if pull {
        rig.export.join("run42")
    } else {
        rig.path("run42")
    };
    let total = make_tree(&source, 64, &mut Seeded(seed));
    rig.start(&[]);
    let moments: Vec<u64> = (0..moments).map(|_| seeded.below(total)).collect();
    let count = moments.len() as u64;
    let proxy = Proxy::start(rig.address(), cut, moments);
    rig.trust(&proxy.address, &rig.identity);
    let url = Rig::url_by(&proxy.address, if pull { "run42" } else { "new" });
    let line = if pull {
        [url.as_str(), "new"]
    } else {
        ["run42", url.as_str()]
    };
    let line = [
        &["--streams", "4", "--retry-for", "60s", "--limit", "60MB"],
        line.as_slice(),
    ]
    .concat();
    let end = rig.cp(&line);
    end.complete();
    let cuts = proxy.state.cuts.load(Ordering::SeqCst);
    // Possible cost of a cut: the data on the network and in the buffers of the cut connections.
    let resent = end.number("resent_bytes");
    eprintln!(
        "seed {seed}: {cuts} cuts, {} connections, {resent} resent",
        proxy.state.made.load(Ordering::SeqCst)
    );
    assert!(cuts > count / 2, "{cuts} of {count}: {}", end.said());
    let streams = if cut == Cut::All { 4 } else { 1 };
    assert!(
        resent <= cuts * streams * 6 * MIB,
        "{cuts} cuts: {}",
        end.said()
    );
    let (destination, home) = if pull {
        (rig.path("new"), rig.client_home())
    } else {
        (rig.export.join("new"), rig.daemon_home.clone())
    };
    assert_identical(&source, &destination);
    assert_tidy(&destination, &home);
}

#[test]
fn all_connections_cut_now_and_then_it_completes() {
    survives(first_seed(61), Cut::All, 6, false);
    survives(first_seed(61) + 1, Cut::All, 6, true);
}

#[test]
fn one_connection_cut_again_and_again_it_completes() {
    survives(first_seed(61) + 2, Cut::One, 30, false);
    survives(first_seed(61) + 3, Cut::One, 30, true);
}
