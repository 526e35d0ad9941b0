//! Owns the tests of the effect of firewalls on data connections beside ssh.
//! Emulates the firewall by routing rules: connections to the data ports leave one namespace or the other, or none.

use std::path::{Path, PathBuf};
use std::process::Command;

use godwit_proto::agent::MessageReader;
use godwit_proto::{Frame, PRELUDE_BYTES, Prelude, decode};

use super::super::judge::assert_identical as same;
use super::super::netns::{LEFT, Netns, RIGHT, WanLink, WanOptions, with_network};
use super::super::process::{Outcome, Process, wait_until};
use super::far::{Far, Where, random};

pub(super) const PORTS: &str = "50000-50020";

/// Two machines with a path between them, and the sshd of the second one.
pub(super) struct Pair {
    pub(super) near: Netns,
    pub(super) other: Netns,
    pub(super) far: Far,
    _line: WanLink,
}

impl Pair {
    pub(super) fn new() -> Self {
        let (near, other) = (Netns::new(), Netns::new());
        for namespace in [&near, &other] {
            // Local ports lie outside the data ports, or else the rules might block a connection of ssh.
            namespace.set("net/ipv4/ip_local_port_range", "32768 49999");
        }
        let options = WanOptions {
            rtt: "2ms",
            ..WanOptions::default()
        };
        let line = WanLink::between(&near, &other, &options);
        let far = Far::at(Where {
            inside: Some((&other, RIGHT)),
            ..Where::default()
        });
        for number in 0..20 {
            far.write(&format!("tree/{number}"), vec![number; 100_000]);
        }
        Self {
            near,
            other,
            far,
            _line: line,
        }
    }

    /// Nothing gets out of here to the data ports of the other.
    pub(super) fn block(namespace: &Netns) {
        for family in ["-4", "-6"] {
            let status = Command::new("ip")
                .args([
                    "-n",
                    namespace.name(),
                    family,
                    "rule",
                    "add",
                    "ipproto",
                    "tcp",
                ])
                .args(["dport", PORTS, "prohibit"])
                .status();
            assert!(status.expect("ip runs").success(), "a rule by port");
        }
    }

    fn cp(&self, line: &[&str]) -> Outcome {
        let mut all = vec!["--data-ports", PORTS];
        all.extend(line);
        Process::start(&mut self.far.command(Some(&self.near), &all)).wait()
    }
}

#[test]
fn data_takes_whichever_direction_is_open() {
    with_network(
        "godwit::ssh::network::data_takes_whichever_direction_is_open",
        || {
            let pair = Pair::new();
            pair.cp(&["tree", "far:to"]).complete();
            same(&pair.far.path("tree"), &pair.far.home().join("to"));
            Pair::block(&pair.near);
            pair.cp(&["--streams", "3", "tree", "far:from"]).complete();
            same(&pair.far.path("tree"), &pair.far.home().join("from"));
            pair.cp(&["far:from/", "back"]).complete();
            same(&pair.far.path("tree"), &pair.far.path("back"));
        },
    );
}

#[test]
fn where_nothing_but_ssh_is_open_it_says_so_and_goes_through_ssh_when_asked() {
    with_network(
        "godwit::ssh::network::where_nothing_but_ssh_is_open_it_says_so_and_goes_through_ssh_when_asked",
        || {
            let pair = Pair::new();
            Pair::block(&pair.near);
            Pair::block(&pair.other);
            let refused = pair.cp(&["tree", "far:to"]);
            refused
                .expect(1, "failed")
                .says("no data connection to far");
            refused
                .says(&format!("{RIGHT}:500"))
                .says("from there (nothing came)")
                .says("--via-ssh");
            let left = || pair.far.processes("agent --").is_empty().then_some(());
            assert!(wait_until(left).is_some(), "an agent is left");
            pair.cp(&["--via-ssh", "tree", "far:"]).complete();
            same(&pair.far.path("tree"), &pair.far.home().join("tree"));
            pair.cp(&["far:tree", "back"])
                .expect(1, "failed")
                .says("no data connection to far");
            // Existing files need no connection for data.
            pair.cp(&["tree", "far:"]).complete();
        },
    );
}

#[test]
fn a_small_file_needs_no_connection_beside_ssh_and_no_word_after_its_block() {
    with_network(
        "godwit::ssh::network::a_small_file_needs_no_connection_beside_ssh_and_no_word_after_its_block",
        || {
            let pair = Pair::new();
            Pair::block(&pair.near);
            Pair::block(&pair.other);
            let far = &pair.far;
            far.script(
                "heard",
                &format!(
                    "cd '{}'; tee up | {} \"$@\" | tee down",
                    far.path("").display(),
                    far.rsh()
                ),
            );
            let recorded = |line: &[&str]| {
                let mut all = vec!["--data-ports", PORTS];
                all.extend(line);
                let mut command = far.command(Some(&pair.near), &all);
                command.env("GODWIT_RSH", far.path("bin/heard"));
                Process::start(&mut command).wait().complete();
            };
            far.write("file", random(300_000, 1));
            recorded(&["file", "far:copy"]);
            assert_eq!(read(far.path("file")), read(far.home().join("copy")));
            in_one_go(&far.path("up"), &far.path("down"));
            recorded(&["far:copy", "back"]);
            assert_eq!(read(far.path("file")), read(far.path("back")));
            in_one_go(&far.path("down"), &far.path("up"));
        },
    );
}

/// After its block the sender announced only the last item, and the receiver finished at that announcement.
fn in_one_go(sender: &Path, receiver: &Path) {
    let foretold = |frame: &Frame| match frame {
        Frame::Status(status) if status.last_item > 0 => Some(status.last_item),
        _ => None,
    };
    let sent = frames(&read(sender.to_owned()));
    let last_item = sent.iter().find_map(foretold).expect("the end is foretold");
    let said: Vec<&str> = sent
        .iter()
        .take_while(|frame| foretold(frame).is_none())
        .map(Frame::name)
        .filter(|name| !["STATUS", "PING", "PONG"].contains(name))
        .collect();
    assert!(
        said.ends_with(&["MANIFEST", "BLOCK"]) && said.len() == 4,
        "{said:?}"
    );
    // The recording process may be a moment behind.
    let finished = wait_until(|| {
        let recorded = frames(&read(receiver.to_owned()));
        recorded.iter().find_map(|frame| match frame {
            Frame::Finished(finished) => Some(finished.seq),
            _ => None,
        })
    });
    assert_eq!(finished, Some(last_item), "it was asked first");
}

fn read(path: PathBuf) -> Vec<u8> {
    std::fs::read(path).expect("there")
}

/// The frames after the first message, without payloads.
fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut reader = MessageReader::default();
    let mut at = reader.take(bytes).expect("a message");
    let mut frames = Vec::new();
    while let Some(prelude) = bytes[at..].first_chunk::<PRELUDE_BYTES>() {
        let prelude = Prelude::decode(prelude).expect("a frame");
        let head = at + PRELUDE_BYTES;
        let payload = head + prelude.head_bytes as usize;
        let Some(head) = bytes.get(head..payload) else {
            break;
        };
        frames.push(decode(&prelude, head).expect("a frame"));
        at = bytes.len().min(payload + prelude.payload_bytes as usize);
    }
    frames
}

#[test]
fn two_other_machines_use_whichever_direction_is_open_or_say_that_there_is_none() {
    with_network(
        "godwit::ssh::network::two_other_machines_use_whichever_direction_is_open_or_say_that_there_is_none",
        || {
            let pair = Pair::new();
            let first = Far::at(Where {
                inside: Some((&pair.near, LEFT)),
                ..Where::default()
            });
            pair.far.know("first", &first);
            first.write("home/tree/file", vec![7; 300_000]);
            Pair::block(&pair.near);
            pair.cp(&["--streams", "3", "first:tree", "far:"])
                .complete();
            same(&first.home().join("tree"), &pair.far.home().join("tree"));
            Pair::block(&pair.other);
            let refused = pair.cp(&["--force", "first:tree", "far:again"]);
            refused
                .expect(1, "failed")
                .says("no data connection to far");
            refused.says("copy through this machine: godwit cp first:tree DIR");
        },
    );
}
