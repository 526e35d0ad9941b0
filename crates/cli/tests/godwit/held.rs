//! Tests the cost of interrupted transfers for a daemon while it waits for their clients, and their maximum number.
//! Does not test that they resume without loss (`kill`, `resume`).

use std::fs;
use std::io::{self, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use godwit_api::failure::FailureCode;
use rustix::process::Signal;

use super::data::{Seeded, write_file};
use super::process::{Process, wait_until};
use super::rig::Rig;

/// Far above the number of threads that a daemon could have unnoticed.
const HELD: usize = 200;

/// Descriptors that a daemon holds besides its transfers, and those that come and go.
const SLACK: usize = 12;

/// At the low limit a file takes 20 s: on a busy machine the last of many clients begins before the first has sent all.
const BYTES: u64 = 4 << 20;

/// A rig whose client has a file of `bytes`.
fn rig_with(bytes: u64, flags: &[&str]) -> Rig {
    let mut rig = Rig::new();
    rig.start(flags);
    write_file(&rig.path("file"), bytes, &mut Seeded(1));
    rig
}

/// A rig whose client has a file that takes a while at a low limit.
fn rig(flags: &[&str]) -> Rig {
    rig_with(BYTES, flags)
}

fn line<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [
        &["--retry-for", "30d", "--streams", "1"],
        more,
        &["file", url],
    ]
    .concat()
}

/// Begins a transfer to each of `names` and kills its client in the middle.
fn interrupt(rig: &Rig, names: &[String]) {
    let urls: Vec<String> = names.iter().map(|name| rig.url(name)).collect();
    let slow = ["--limit", "200kB", "--block-size", "64KiB"];
    let begin = |url: &String| rig.begin_cp(&rig.path(""), &line(url, &slow));
    let mut clients: Vec<Process> = urls.iter().map(begin).collect();
    for client in &mut clients {
        client.wait_for_bytes(1);
        client.signal(Signal::KILL);
        assert_eq!(client.wait().code, None, "killed in the middle");
    }
}

/// How many threads and descriptors the daemon has.
fn cost(rig: &Rig) -> (usize, usize) {
    let count = |what: &str| {
        let path = format!("/proc/{}/{what}", rig.daemon().id());
        fs::read_dir(path).expect("it runs").count()
    };
    (count("task"), count("fd"))
}

/// Another user of the daemon.
struct Other<'a>(&'a Rig);

impl<'a> Other<'a> {
    fn new(rig: &'a Rig) -> Self {
        let other = Self(rig);
        let id = other.run(&["id"]).out.trim().to_owned();
        let outcome = rig.admin(&["access", "allow", &id, "--all-exports", "--read", "--write"]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let outcome = other.run(&["trust", rig.address(), &rig.identity]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        other
    }

    fn run(&self, line: &[&str]) -> super::process::Outcome {
        let mut command: Command = self.0.client_command();
        command.env("GODWIT_HOME", self.0.path("other-client"));
        Process::start(command.args(line)).wait()
    }
}

#[test]
fn transfers_of_absent_clients_cost_no_threads_and_are_limited() {
    let rig = rig(&["--transfers-per-peer", &HELD.to_string()]);
    rig.cp(&["file", &rig.url("first")]).complete();
    let (threads, descriptors) = cost(&rig);
    let names: Vec<String> = (0..HELD).map(|number| format!("held-{number}")).collect();
    for names in names.chunks(20) {
        interrupt(&rig, names);
    }
    // Each transfer holds its destination by its journal alone.
    let is_idle = || {
        let (now, open) = cost(&rig);
        (now <= threads + SLACK && open <= descriptors + HELD + SLACK).then_some(())
    };
    wait_until(is_idle).unwrap_or_else(|| {
        panic!(
            "{:?}, and {threads}, {descriptors} without them",
            cost(&rig)
        );
    });
    assert!(cost(&rig).1 >= HELD, "they are still held");
    // Waiting would not help: the transfers do not end without a user.
    let refused = rig.cp(&line(&rig.url("more"), &[]));
    refused
        .expect(1, "failed")
        .expect_code(FailureCode::PeerBusy)
        .says("you have 200 transfers")
        .says("finish or cancel one, or ask the operator to raise --transfers-per-peer");
    let other = Other::new(&rig);
    assert_eq!(other.run(&["cp", "file", &rig.url("others")]).code, Some(0));
    // The destination is reserved for its client.
    let outcome = other.run(&["cp", "file", &rig.url("held-7")]);
    assert_eq!(outcome.says("another transfer").code, Some(1));
    let resumed = rig.cp(&line(&rig.url("held-7"), &[]));
    resumed.complete().says("\"resumed\":true");
    assert_eq!(rig.read("file"), rig.read("export/held-7"));
    // The place of the transfer is free.
    rig.cp(&line(&rig.url("more"), &[])).complete();
}

#[test]
fn beyond_the_limit_of_all_a_new_transfer_takes_the_place_of_an_interrupted_one() {
    let rig = rig(&["--transfers-max", "2"]);
    interrupt(&rig, &["held-0".to_owned(), "held-1".to_owned()]);
    // The second transfer waits until the first is suspended.
    rig.cp(&line(&rig.url("more"), &[])).complete();
    // Each can be resumed all the same.
    for name in ["held-0", "held-1"] {
        let resumed = rig.cp(&line(&rig.url(name), &[]));
        resumed.complete().says("\"resumed\":true");
    }
}

#[test]
fn the_daemon_decides_how_long_a_destination_is_kept() {
    let rig = rig(&["--keep-for", "1s"]);
    interrupt(&rig, &["held".to_owned()]);
    let other = Other::new(&rig);
    let is_free = || (other.run(&["cp", "file", &rig.url("held")]).code == Some(0)).then_some(());
    wait_until(is_free).expect("the client's wish of 30 days is cut");
}

/// A path to the daemon that can be interrupted.
#[derive(Clone, Default)]
struct Path(Arc<Mutex<(bool, Vec<TcpStream>)>>);

impl Path {
    /// The address of its near end.
    fn begin(&self, target: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let (own, target) = (self.clone(), target.to_owned());
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let mut state = own.0.lock().expect("no panic");
                let Ok(far) = TcpStream::connect(&target) else {
                    return;
                };
                if state.0 {
                    continue;
                }
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let clone = |socket: &TcpStream| socket.try_clone().expect("a descriptor");
                    let (mut from, mut to) = (clone(from), clone(to));
                    thread::spawn(move || {
                        // The copy ends when either side is gone.
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                state.1.extend([near, far]);
            }
        });
        address
    }

    fn interrupt(&self, is_down: bool) {
        let mut state = self.0.lock().expect("no panic");
        state.0 = is_down;
        for socket in state.1.drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn a_client_that_was_away_for_long_continues_and_a_pipe_does_too() {
    let rig = rig_with(1 << 20, &[]);
    let path = Path::default();
    let address = path.begin(rig.address());
    rig.trust(&address, &rig.identity);
    let [file, pipe] = ["file", "pipe"].map(|name| Rig::url_by(&address, name));
    let slow = [
        "--retry-for",
        "10min",
        "--limit",
        "200kB",
        "--block-size",
        "64KiB",
    ];
    let mut of_file = rig.begin_cp(&rig.path(""), &[&slow[..], &["file", &file]].concat());
    let (input, mut output) = io::pipe().expect("a pipe");
    let content = rig.read("file");
    let (first, rest) = content.split_at(content.len() / 2);
    let mut command = rig.client_command();
    command.args(["cp", "--json"]).args(slow).args(["-", &pipe]);
    let mut of_pipe = Process::start_with(&mut command, input);
    drop(command);
    output.write_all(first).expect("it reads");
    of_file.wait_for_bytes(1);
    of_pipe.wait_for_bytes(1);
    path.interrupt(true);
    // The transfer of the file; the transfer of the pipe would follow at the next look.
    rig.daemon().wait_for("the client is disconnected");
    thread::sleep(Duration::from_secs(2));
    path.interrupt(false);
    let feeder = thread::spawn({
        let rest = rest.to_vec();
        move || output.write_all(&rest)
    });
    of_pipe.wait().complete();
    feeder.join().expect("no panic").expect("all is read");
    of_file.wait().complete();
    for name in ["export/file", "export/pipe"] {
        assert!(rig.read(name) == content, "{name}");
    }
    let said = rig.daemon().said();
    assert_eq!(
        said.matches("the client is disconnected").count(),
        1,
        "{said}"
    );
}
