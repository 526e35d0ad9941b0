//! Limits of running transfers, and congestion control: the sending end obeys a request, or the request is refused.
//! How fast the network is, is not tested here.

use std::fs;
use std::process::Command;

use super::netns::{Netns, RIGHT, WanLink, WanOptions, with_network};
use super::process::{Outcome, Process, wait_until};
use super::rig::Rig;

/// Both directions of a transfer that would go on for long.
const DIRECTIONS: [bool; 2] = [true, false];

fn ends(rig: &Rig, push: bool) -> [String; 2] {
    if push {
        [
            "mem:100GiB".to_owned(),
            format!("godwit://{}/null:", rig.address()),
        ]
    } else {
        [
            format!("godwit://{}/mem:100GiB", rig.address()),
            "null:".to_owned(),
        ]
    }
}

fn said(rig: &Rig, words: &[&str]) -> (Option<i32>, String) {
    let outcome = Process::start(rig.client_command().arg("limit").args(words)).wait();
    (outcome.code, outcome.out + &outcome.complaint)
}

#[test]
fn a_limit_changes_while_the_transfer_runs() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let (code, out) = said(&rig, &[]);
    assert_eq!((code, out.as_str()), (Some(0), "no transfer runs\n"));
    for push in DIRECTIONS {
        let mut command = rig.client_command();
        command
            .args(["cp", "--json", "--limit", "1MB"])
            .args(ends(&rig, push));
        let mut transfer = Process::start(&mut command);
        transfer.wait_for_bytes(1);
        let (code, out) = said(&rig, &["400MB"]);
        assert_eq!(code, Some(0), "{out}");
        assert!(out.contains("at most 400 MB/s"), "{out}");
        // At the first limit this would take five minutes, which is beyond patience.
        transfer.wait_for_bytes(300 << 20);
        let (code, out) = said(&rig, &["--json", "none"]);
        assert_eq!(code, Some(0), "{out}");
        assert!(out.contains("\"limit\":0"), "{out}");
        let (code, out) = said(&rig, &["nosuch", "1MB"]);
        assert_eq!(code, Some(1), "{out}");
        transfer.signal(rustix::process::Signal::INT);
        assert_eq!(transfer.wait().code, Some(5));
        let (_, out) = said(&rig, &[]);
        assert_eq!(out, "no transfer runs\n");
    }
}

#[test]
fn of_two_who_set_a_limit_at_once_the_second_is_obeyed_and_both_are_answered() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let mut command = rig.client_command();
    command
        .args(["cp", "--json", "--limit", "1MB"])
        .args(ends(&rig, false));
    let mut transfer = Process::start(&mut command);
    transfer.wait_for_bytes(1);
    let limit = |rate: &str| Process::start(rig.client_command().args(["limit", rate]));
    let both = wait_until(|| {
        // The sending end cannot confirm anything.
        rig.daemon().signal(rustix::process::Signal::STOP);
        let mut first = limit("200MB");
        let is_asked = wait_until(|| {
            let (_, out) = said(&rig, &["--json"]);
            out.contains("\"limit\":null").then_some(())
        });
        assert!(is_asked.is_some(), "the first limit is not asked for");
        let mut second = limit("300MB");
        let first = first.wait();
        rig.daemon().signal(rustix::process::Signal::CONT);
        let second = second.wait();
        // On a busy machine one command may have waited its ten seconds before the other one asks.
        let is_late = |one: &Outcome| one.complaint.contains("has not confirmed the limit within");
        (!is_late(&first) && !is_late(&second)).then_some((first, second))
    });
    let (first, second) = both.expect("one after the other within ten seconds");
    assert_eq!(first.code, Some(1), "{first:?}");
    assert!(first.complaint.contains("a different limit"), "{first:?}");
    assert_eq!(second.code, Some(0), "{second:?}");
    assert!(second.out.contains("at most 300 MB/s"), "{second:?}");
    transfer.signal(rustix::process::Signal::INT);
    assert_eq!(transfer.wait().code, Some(5));
}

#[test]
fn a_congestion_control_that_cannot_be_had_is_refused() {
    let mut rig = Rig::new();
    rig.start(&[]);
    for push in DIRECTIONS {
        let mut command = rig.client_command();
        command
            .args(["cp", "--congestion", "nosuch"])
            .args(ends(&rig, push));
        let outcome = Process::start(&mut command).wait();
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        let allowed = "tcp_allowed_congestion_control";
        assert!(
            outcome.complaint.contains("nosuch") && outcome.complaint.contains(allowed),
            "{outcome:?}"
        );
    }
}

/// Starts a transfer that would go on for long.
fn begin(rig: &Rig, push: bool, flags: &[&str]) -> Process {
    let mut command = rig.client_command();
    command
        .args(["cp", "--json"])
        .args(flags)
        .args(ends(rig, push));
    Process::start(&mut command)
}

fn stop(mut transfer: Process) {
    transfer.signal(rustix::process::Signal::INT);
    assert_eq!(transfer.wait().code, Some(5));
}

/// Words of the kernel about each socket that has sent contents; `within` comes before the command that asks.
fn senders(rig: &Rig, push: bool, within: &[String]) -> Vec<String> {
    let port = rig.address().rsplit_once(':').expect("a port").1.to_owned();
    let end = if push { "dport" } else { "sport" };
    let mut words = within.iter().map(String::as_str).chain(["ss"]);
    let output = Command::new(words.next().expect("ss at least"))
        .args(words)
        .args(["-tinHO", "--tos", "state", "established"])
        .arg(format!("{end} = :{port}"))
        .output()
        .expect("ss (Debian package iproute2) runs");
    let sent = |line: &&str| {
        let word = |word: &str| word.strip_prefix("bytes_sent:")?.parse::<u64>().ok();
        line.split_whitespace().find_map(word) > Some(1 << 20)
    };
    let said = String::from_utf8(output.stdout).expect("text");
    said.lines().filter(sent).map(str::to_owned).collect()
}

/// Waits until the kernel's line of each sending socket satisfies `is_so`; there must be at least one.
#[track_caller]
fn wait_for_senders(rig: &Rig, push: bool, is_so: impl Fn(&str) -> bool) {
    let holds = wait_until(|| {
        let senders = senders(rig, push, &[]);
        (!senders.is_empty() && senders.iter().all(|line| is_so(line))).then_some(())
    });
    assert!(holds.is_some(), "{:?}", senders(rig, push, &[]));
}

fn has_word(line: &str, word: &str) -> bool {
    line.split_whitespace().any(|found| found == word)
}

#[test]
fn the_congestion_control_that_was_asked_for_is_that_of_the_sockets_that_send() {
    let setting = |name: &str| {
        let path = format!("/proc/sys/net/ipv4/tcp_{name}");
        fs::read_to_string(path).expect("Linux has it")
    };
    let usual = setting("congestion_control").trim().to_owned();
    let allowed = setting("allowed_congestion_control");
    // Reno is part of every kernel.
    let other = allowed.split_whitespace().find(|name| *name != usual);
    let other = other.unwrap_or("reno");
    let mut rig = Rig::new();
    rig.start(&[]);
    for push in DIRECTIONS {
        for name in [other, &usual] {
            let flags = ["--limit", "40MB", "--congestion", name];
            let transfer = begin(&rig, push, &flags);
            wait_for_senders(&rig, push, |line| has_word(line, name));
            stop(transfer);
        }
    }
}

/// Makes BBR the default of a namespace.
fn have_bbr(host: &Netns) {
    let set = host.enter(|| fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "bbr"));
    set.expect("BBR can be had; if not, as root: modprobe tcp_bbr, and list it in net.ipv4.tcp_allowed_congestion_control");
}

#[test]
fn without_a_pace_over_a_short_way_and_as_usual_over_a_long_one() {
    with_network(
        "godwit::sharing::without_a_pace_over_a_short_way_and_as_usual_over_a_long_one",
        || {
            let (near, far) = (Netns::new(), Netns::new());
            let options = WanOptions {
                rtt: "10ms",
                ..WanOptions::default()
            };
            let _link = WanLink::between(&near, &far, &options);
            have_bbr(&near);
            have_bbr(&far);
            for host in [&near, &far] {
                let mut rig = Rig::new();
                rig.wrap_client(near.wrapper());
                rig.wrap_daemon(host.wrapper());
                let is_short = host.name() == near.name();
                let address = if is_short { "127.0.0.1" } else { RIGHT };
                rig.listen(&format!("{address}:0"));
                rig.start(&[]);
                for push in DIRECTIONS {
                    let transfer = begin(&rig, push, &["--limit", "400MB", "--streams", "4"]);
                    let within = if push { near.wrapper() } else { host.wrapper() };
                    let kept = wait_until(|| {
                        let senders = senders(&rig, push, &within);
                        let usual = senders.iter().filter(|line| has_word(line, "bbr"));
                        (senders.len() == 4).then(|| usual.count())
                    });
                    // A busy machine may take one short path for a long one.
                    let without = if is_short { 1..=4 } else { 0..=0 };
                    let kept = kept.expect("four streams");
                    assert!(
                        without.contains(&(4 - kept)),
                        "short: {is_short}, push: {push}: {kept} of 4"
                    );
                    stop(transfer);
                }
            }
        },
    );
}

#[test]
fn a_short_way_that_loses_gets_what_is_usual() {
    with_network(
        "godwit::sharing::a_short_way_that_loses_gets_what_is_usual",
        || {
            let (near, far) = (Netns::new(), Netns::new());
            let options = WanOptions {
                rtt: "0ms",
                loss: "0.5%",
                ..WanOptions::default()
            };
            let _link = WanLink::between(&near, &far, &options);
            have_bbr(&near);
            let mut rig = Rig::new();
            rig.wrap_client(near.wrapper());
            rig.wrap_daemon(far.wrapper());
            rig.listen(&format!("{RIGHT}:0"));
            rig.start(&[]);
            let with_bbr = || {
                let senders = senders(&rig, true, &near.wrapper());
                let with = senders.iter().filter(|line| has_word(line, "bbr"));
                (senders.len() == 2).then(|| with.count())
            };
            // Too slow for a judgement on losses. A busy machine may take both paths for long ones.
            let transfer = wait_until(|| {
                let transfer = begin(&rig, true, &["--streams", "2", "--limit", "4MB"]);
                let with = wait_until(with_bbr).expect("two streams");
                if with < 2 {
                    return Some(transfer);
                }
                stop(transfer);
                None
            });
            let transfer = transfer.expect("a stream without a pace");
            let (code, out) = said(&rig, &["none"]);
            assert_eq!(code, Some(0), "{out}");
            let back = wait_until(|| with_bbr().filter(|with| *with == 2));
            assert!(back.is_some(), "{:?}", senders(&rig, true, &near.wrapper()));
            stop(transfer);
        },
    );
}

#[test]
fn in_the_background_sockets_that_send_have_a_greatest_pace_and_a_low_class() {
    let mut rig = Rig::new();
    rig.start(&[]);
    // `ss` shows the maximum pacing rate after the current one, and only if there is one.
    let paced = |line: &str| {
        line.split_once("pacing_rate ")
            .and_then(|(_, rest)| rest.split_whitespace().next())
            .is_some_and(|rates| rates.contains('/'))
    };
    let low = |line: &str| line.contains("tos:0x4 ");
    for push in DIRECTIONS {
        let transfer = begin(&rig, push, &["--priority", "background"]);
        wait_for_senders(&rig, push, |line| paced(line) && low(line));
        stop(transfer);
        let transfer = begin(&rig, push, &["--limit", "40MB"]);
        wait_for_senders(&rig, push, |line| !paced(line) && !low(line));
        stop(transfer);
    }
}

#[test]
fn a_limit_that_holds_a_transfer_up_is_named() {
    let mut rig = Rig::new();
    rig.start(&[]);
    for push in DIRECTIONS {
        let transfer = begin(&rig, push, &["--limit", "5MB"]);
        transfer.wait_for("\"bottleneck\":\"limit\"");
        stop(transfer);
    }
}

#[test]
fn a_slow_line_is_named_as_the_network() {
    with_network(
        "godwit::sharing::a_slow_line_is_named_as_the_network",
        || {
            let (near, far) = (Netns::new(), Netns::new());
            let options = WanOptions {
                rtt: "10ms",
                rate: "20Mbit",
                ..WanOptions::default()
            };
            let _link = WanLink::between(&near, &far, &options);
            let mut rig = Rig::new();
            rig.wrap_client(near.wrapper());
            rig.wrap_daemon(far.wrapper());
            rig.listen(&format!("{RIGHT}:0"));
            rig.start(&[]);
            for push in DIRECTIONS {
                let transfer = begin(&rig, push, &[]);
                transfer.wait_for("\"bottleneck\":\"network\"");
                stop(transfer);
            }
        },
    );
}
