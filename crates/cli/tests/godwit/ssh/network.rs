//! Owns the tests of what firewalls do to data connections beside ssh.
//! Emulates the firewall by rules of routing: connections to the data ports leave one namespace or the other, or none.

use std::process::Command;

use super::super::judge::assert_identical as same;
use super::super::netns::{LEFT, Netns, RIGHT, WanLink, WanOptions, with_network};
use super::super::process::{Outcome, Process};
use super::far::{Far, Where};

pub(super) const PORTS: &str = "50000-50020";

/// Two machines with a line between them, and the second one's sshd.
pub(super) struct Pair {
    pub(super) near: Netns,
    pub(super) other: Netns,
    pub(super) far: Far,
    _line: WanLink,
}

impl Pair {
    pub(super) fn new() -> Self {
        let (near, other) = (Netns::new(), Netns::new());
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
fn where_nothing_but_ssh_is_open_it_says_so_and_goes_through_ssh_when_told() {
    with_network(
        "godwit::ssh::network::where_nothing_but_ssh_is_open_it_says_so_and_goes_through_ssh_when_told",
        || {
            let pair = Pair::new();
            Pair::block(&pair.near);
            Pair::block(&pair.other);
            let refused = pair.cp(&["tree", "far:to"]);
            refused
                .expect(1, "failed")
                .says("no connection for data to far");
            refused
                .says(&format!("{RIGHT}:500"))
                .says("from there (nothing came)")
                .says("--via-ssh");
            let left = || pair.far.processes("agent --").is_empty().then_some(());
            assert!(
                super::super::process::wait_until(left).is_some(),
                "an agent is left"
            );
            pair.cp(&["--via-ssh", "tree", "far:"]).complete();
            same(&pair.far.path("tree"), &pair.far.home().join("tree"));
            // What is there already needs no connection for data.
            pair.cp(&["tree", "far:"]).complete();
        },
    );
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
                .says("no connection for data to far");
            refused.says("by way of this machine: godwit cp first:tree DIR");
        },
    );
}
