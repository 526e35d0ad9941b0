//! Owns the tests of the findings of `godwit doctor` about a machine that ssh reaches, and the path in both directions.
//! Checks no rate: those are the machines'. The module `doctor` outside of `ssh` tests nodes.

use std::fs;
use std::process::Command;

use super::super::doctor::{Found, names};
use super::super::netns::{Netns, RIGHT, WanLink, WanOptions, with_network};
use super::super::process::Process;
use super::far::{Far, Where};
use super::network::{PORTS, Pair};

/// A look at the other machine, from the directory of its world.
fn look(far: &Far, inside: Option<&Netns>, line: &[&str], variables: &[(&str, &str)]) -> Found {
    let mut command = far.client(inside, &["doctor", "--json"]);
    command.args(line).envs(variables.iter().copied());
    Found::of(&Process::start(&mut command).wait())
}

/// All files of the other machine, except those of Godwit.
fn there(far: &Far) -> Vec<String> {
    let mut found = names(&far.home());
    found.retain(|name| !name.contains("/.godwit"));
    found
}

#[test]
fn a_healthy_machine_is_found_healthy_and_nothing_changes() {
    let far = Far::new();
    far.write("home/data/f", "f");
    far.write("here/f", "f");
    let before = (there(&far), names(&far.path("here")));
    let found = look(&far, None, &["here", "far:data"], &[]);
    found.is_fine();
    for (name, words) in [
        ("ssh", "far answered"),
        ("version", "protocol 1"),
        ("data connections", "dialled from here: 127."),
        ("clock", "s, within"),
        ("processor there", "far encrypts"),
        ("storage there", "data: "),
        ("storage", "here: "),
    ] {
        let [check] = found.checks(name)[..] else {
            panic!("{name}: {}", found.object)
        };
        assert_eq!(check["level"], "fine", "{check}");
        assert!(
            check["message"].as_str().expect("text").contains(words),
            "{check}"
        );
    }
    assert_eq!(found.checks("buffers there").len(), 2, "{}", found.object);
    assert!(found.checks("shell").is_empty());
    // Both machines are this one and have the same clock, so the difference is at most the uncertainty.
    let number = |name: &str| found.object["path"][name].as_f64().expect("a number");
    let (ahead, uncertain) = (
        number("clock_ahead_seconds"),
        number("clock_uncertainty_seconds"),
    );
    assert!(uncertain > 0.0 && uncertain < 1.0, "{uncertain}");
    assert!(ahead.abs() <= uncertain + 1e-6, "{ahead} {uncertain}");
    assert!(number("round_trip_seconds") > 0.0);
    assert!(number("path_mtu_bytes") >= 1_500.0 && number("path_mtu_bytes_back") >= 1_500.0);
    for (way, what) in [
        ("sending", "writing to data of far"),
        ("receiving", "reading from data of far"),
    ] {
        let limits = found.object["limits"].as_array().expect("a list");
        let limit = limits
            .iter()
            .find(|limit| limit["what"] == what)
            .expect(what);
        assert_eq!(limit["way"], way);
    }
    assert_eq!((there(&far), names(&far.path("here"))), before);
    // A source is not written to.
    let found = look(&far, None, &["far:data", "here"], &[]);
    found.is_fine();
    assert!(found.checks("storage there").is_empty(), "{}", found.object);
    // The place of a new directory is its parent; nothing is made.
    let found = look(&far, None, &["far:data/new"], &[]);
    found.is_fine();
    assert_eq!(
        found.checks("storage there")[0]["level"],
        "fine",
        "{}",
        found.object
    );
    assert_eq!(there(&far), before.0);
    let reported = far.run(&["doctor", "far:"]);
    assert_eq!(reported.code, Some(0), "{}", reported.said());
    reported.says("Sending at most about ");
    let left = || far.processes("agent --").is_empty().then_some(());
    assert!(
        super::super::process::wait_until(left).is_some(),
        "an agent is left"
    );
}

#[test]
fn a_word_that_is_no_path_here_is_the_machine_beside_one_that_is() {
    let far = Far::new();
    far.write("run/f", "f");
    for (line, gives) in [
        (["run", "far"], false),
        (["far", "run"], true),
        ([".", "far"], false),
    ] {
        let found = look(&far, None, &line, &[]);
        found.is_fine();
        assert_eq!(found.checks("ssh").len(), 1, "{line:?}: {}", found.object);
        assert_eq!(found.checks("storage there").is_empty(), gives, "{line:?}");
        assert_eq!(found.checks("storage").len(), 1, "{line:?}");
    }
    for (line, words) in [
        (
            ["far", "new"],
            "neither far nor new is a path on this machine",
        ),
        (["run", "run/f"], "at most one local path"),
        (["far:", "far:x"], "at most one local path"),
    ] {
        let reported = far.run(&["doctor", line[0], line[1]]);
        assert_eq!(reported.code, Some(2), "{}", reported.said());
        reported.says(words);
    }
}

#[test]
fn a_destination_there_that_cannot_be_stops() {
    let far = Far::new();
    far.write("home/file", "f");
    for (place, mend) in [
        ("no/such/place", "ssh far mkdir -p no/such"),
        ("~/it's/new/", "make the directory it's on that machine"),
        ("/no/such/place", "ssh far mkdir -p /no/such"),
        ("file/in", "name another place"),
    ] {
        let url = format!("far:{place}");
        let found = look(&far, None, &[&url], &[]);
        let word = if place == "file/in" {
            "not a directory"
        } else {
            "must exist"
        };
        found.stops("storage there", word, mend);
        assert_eq!(far.cp(&["etc/known", &url]).code, Some(1), "{place}");
        // A source need not accept files.
        look(&far, None, &[&url, "."], &[]).is_fine();
    }
}

#[test]
fn doctor_names_the_fault_of_ssh_or_of_the_remote_program() {
    let far = Far::new();
    let found = look(
        &far,
        None,
        &["far:"],
        &[("GODWIT_REMOTE_COMMAND", "no-such-godwit")],
    );
    found.stops(
        "ssh",
        "there is no `no-such-godwit`: install godwit there",
        "",
    );
    let found = look(&far, None, &["far:"], &[("GODWIT_RSH", "no-such-ssh")]);
    found.stops("ssh", "no-such-ssh is not installed here", "");
    let allowed = fs::read(far.path("etc/authorized")).expect("made before");
    far.write("etc/authorized", "");
    let found = look(&far, None, &["far:"], &[]);
    found.stops("ssh", "Permission denied", "ssh far true");
    far.write("etc/authorized", allowed);
    far.write("home/.bashrc", "echo Welcome to the machine\n");
    let found = look(&far, None, &["far:"], &[]);
    found.is_fine();
    let [check] = found.checks("shell")[..] else {
        panic!("{}", found.object)
    };
    assert_eq!(check["level"], "note");
    for words in ["Welcome to the machine", "23 bytes"] {
        assert!(
            check["message"].as_str().expect("text").contains(words),
            "{check}"
        );
    }
}

#[test]
fn closed_ports_are_reported_by_direction() {
    with_network(
        "godwit::ssh::doctor::closed_ports_are_reported_by_direction",
        || {
            let pair = Pair::new();
            let ports = ("GODWIT_DATA_PORTS", PORTS);
            let look = |more: &[(&str, &str)]| {
                let variables = [&[ports][..], more].concat();
                look(&pair.far, Some(&pair.near), &["far:"], &variables)
            };
            let said = |found: &Found| {
                let [check] = found.checks("data connections")[..] else {
                    panic!("{}", found.object)
                };
                check["message"].as_str().expect("text").to_owned()
            };
            let found = look(&[]);
            found.is_fine();
            assert!(
                said(&found).contains("works; from there: "),
                "{}",
                said(&found)
            );
            Pair::block(&pair.near);
            let found = look(&[]);
            found.is_fine();
            let message = said(&found);
            let (from_here, from_there) = message.split_once("; from there: ").expect("both");
            assert!(
                !from_here.contains("works") && from_here.contains(&format!("{RIGHT}:500")),
                "{message}"
            );
            assert!(from_there.contains("works"), "{message}");
            // The one open direction is measured all the same.
            assert!(
                found.object["path"]["path_mtu_bytes_back"].as_u64() > Some(0),
                "{}",
                found.object
            );
            Pair::block(&pair.other);
            let found = look(&[]);
            found.stops("data connections", "dialled from here", PORTS);
            found.stops("data connections", "from there", "--via-ssh");
            let found = look(&[("GODWIT_VIA_SSH", "true")]);
            found.is_fine();
            assert!(found.object["path"]["clock_uncertainty_seconds"].as_f64() > Some(0.0));
        },
    );
}

#[test]
fn small_buffers_of_the_other_machine_are_named_with_what_mends_them_there() {
    with_network(
        "godwit::ssh::doctor::small_buffers_of_the_other_machine_are_named_with_what_mends_them_there",
        || {
            let (near, other) = (Netns::new(), Netns::new());
            let options = WanOptions {
                rtt: "200ms",
                ..WanOptions::default()
            };
            let _line = WanLink::between(&near, &other, &options);
            // 5 MB/s: less than any disk that is busy with other tests.
            other.set("net/ipv4/tcp_rmem", "4096 16384 16384");
            let far = Far::at(Where {
                inside: Some((&other, RIGHT)),
                ..Where::default()
            });
            let found = look(&far, Some(&near), &["far:"], &[]);
            found.is_fine();
            let sending = &found.object["sending"];
            assert_eq!(sending["name"], "buffers there", "{}", found.object);
            let mend = sending["mend"].as_str().expect("text");
            assert!(
                mend.starts_with("on far, as root: sysctl -w net.ipv4.tcp_rmem='4096 131072 "),
                "{mend}"
            );
            // The uncertainty is half of a round trip.
            let number = |name: &str| found.object["path"][name].as_f64().expect("a number");
            assert!(number("round_trip_seconds") >= 0.2);
            let (ahead, uncertain) = (
                number("clock_ahead_seconds"),
                number("clock_uncertainty_seconds"),
            );
            assert!(
                uncertain >= 0.1 && ahead.abs() <= uncertain + 1e-6,
                "{ahead} {uncertain}"
            );
        },
    );
}

/// Four machines in a row; packets between the two in the middle are smaller.
struct Row {
    machines: [Netns; 4],
}

const FAR_END: &str = "10.9.3.2";

impl Row {
    fn new(middle_mtu: &str) -> Self {
        let row = Self {
            machines: [Netns::new(), Netns::new(), Netns::new(), Netns::new()],
        };
        for (number, pair) in row.machines.windows(2).enumerate() {
            let mtu = if number == 1 { middle_mtu } else { "1500" };
            let (net, up) = (
                number + 1,
                |namespace: &Netns, device: &str, address: String| {
                    let name = namespace.name();
                    ip(&["-n", name, "address", "add", &address, "dev", device]);
                    ip(&["-n", name, "link", "set", device, "mtu", mtu, "up"]);
                },
            );
            let [left, right] = [&pair[0], &pair[1]];
            ip(&[
                "-n",
                left.name(),
                "link",
                "add",
                "right",
                "type",
                "veth",
                "peer",
                "name",
                "left",
                "netns",
                right.name(),
            ]);
            up(left, "right", format!("10.9.{net}.1/24"));
            up(right, "left", format!("10.9.{net}.2/24"));
        }
        for middle in &row.machines[1..3] {
            middle.set("net/ipv4/ip_forward", "1");
        }
        for (machine, to, by) in [
            (0, "default", "10.9.1.2"),
            (1, "10.9.3.0/24", "10.9.2.2"),
            (2, "10.9.1.0/24", "10.9.2.1"),
            (3, "default", "10.9.3.1"),
        ] {
            ip(&[
                "-n",
                row.machines[machine].name(),
                "route",
                "add",
                to,
                "via",
                by,
            ]);
        }
        row
    }
}

fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status();
    assert!(status.expect("ip runs").success(), "{arguments:?}");
}

#[test]
fn packets_too_large_for_the_path_and_hosts_that_hide_it_are_reported() {
    with_network(
        "godwit::ssh::doctor::packets_too_large_for_the_path_and_hosts_that_hide_it_are_reported",
        || {
            let row = Row::new("1300");
            let [near, one, two, last] = &row.machines;
            let far = Far::at(Where {
                inside: Some((last, FAR_END)),
                ..Where::default()
            });
            let found = look(&far, Some(near), &["far:"], &[]);
            found.is_fine();
            let path = &found.object["path"];
            assert_eq!(path["path_mtu_bytes"], 1_300, "{path}");
            assert_eq!(path["path_mtu_bytes_back"], 1_300, "{path}");
            assert_eq!(found.checks("path MTU")[0]["level"], "note");
            // From now on the routers drop large packets without a message. The learnt path MTU is forgotten.
            for middle in [one, two] {
                ip(&[
                    "-n",
                    middle.name(),
                    "rule",
                    "add",
                    "ipproto",
                    "icmp",
                    "blackhole",
                ]);
            }
            for end in [near, last] {
                ip(&["-n", end.name(), "route", "flush", "cache"]);
            }
            // Not even ssh gets through.
            let hasty = ("GODWIT_HANDSHAKE_DEADLINE", "1s");
            let found = look(&far, Some(near), &["far:"], &[hasty]);
            found.stops("ssh", "made no connection within 6 s", "tcp_mtu_probing=1");
        },
    );
}

#[test]
fn an_agent_that_is_older_is_looked_at_as_far_as_that_goes() {
    let far = Far::new();
    far.script("old", "echo unknown command >&2; exit 2");
    let found = look(&far, None, &["far:"], &[("GODWIT_REMOTE_COMMAND", "old")]);
    found.stops("ssh", "too old", "");
    assert!(fs::read_dir(far.home()).expect("listed").next().is_none());
}
