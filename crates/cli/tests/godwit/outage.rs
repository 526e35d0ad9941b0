//! Tests that a lost connection is reported at once, with its seconds, and that no outdated figure is shown meanwhile.
//! The cost of a loss is tested in `cuts` and `kill`, dying channels in `channels`.

use rustix::process::Signal;
use serde_json::Value;

use super::process::{Process, wait_until};
use super::rig::Rig;
use super::terminal::Terminal;

const MIB: usize = 1 << 20;

/// The printed events, from whole lines of JSON.
pub(crate) fn events(process: &Process) -> Vec<Value> {
    let said = process.said();
    let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines = whole.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// The first matching event from number `from` on, and its number.
#[track_caller]
pub(crate) fn wait_for_event(
    process: &Process,
    from: usize,
    is_it: impl Fn(&Value) -> bool,
) -> (usize, Value) {
    let found = wait_until(|| {
        let mut reported = events(process).into_iter().enumerate().skip(from);
        reported.find(|(_, event)| is_it(event))
    });
    found.unwrap_or_else(|| panic!("it is not told: {}", process.said()))
}

/// Waits for a loss event and for progress after it. Until the loss ends, progress has no rate and no bottleneck.
#[track_caller]
pub(crate) fn wait_for_loss(process: &Process, from: usize, silent: bool) -> usize {
    let (at, lost) = wait_for_event(process, from, |event| {
        event["event"] == "connection_lost" && event["silent"] == silent
    });
    assert!(lost["lost_seconds"].as_f64().is_some(), "{lost}");
    assert_eq!(lost["retry_for_seconds"], 300.0, "{lost}");
    assert_ne!(lost["why"], "", "{lost}");
    assert_eq!(lost.get("channel"), None, "{lost}");
    wait_for_event(process, at + 1, |event| event["event"] == "progress");
    let after = events(process).into_iter().skip(at + 1);
    let mut reported = 0;
    for event in after.take_while(|event| event["event"] != "connection_regained") {
        if event["event"] == "progress" {
            assert!(event["bytes_per_second"].is_null(), "{event}");
            assert!(event["files_per_second"].is_null(), "{event}");
            assert!(event["bottleneck"].is_null(), "{event}");
            reported += 1;
        }
    }
    assert!(reported > 0, "no progress meanwhile: {}", process.said());
    at
}

#[track_caller]
pub(crate) fn wait_for_return(process: &Process, from: usize) -> usize {
    let (at, event) = wait_for_event(process, from, |event| {
        event["event"] == "connection_regained"
    });
    assert!(event["lost_seconds"].as_f64().is_some(), "{event}");
    at
}

/// The only transfer that `godwit limit` lists, and the line for people.
fn listed(rig: &Rig) -> (Value, String) {
    let reported = rig.client(&["limit", "--json"]);
    let event = serde_json::from_str(reported.out.trim()).expect("one transfer");
    (event, rig.client(&["limit"]).out)
}

#[test]
fn a_node_that_stands_still_does_not_answer_and_a_killed_one_is_lost() {
    let mut rig = Rig::new();
    rig.start(&[]);
    for place in ["file", "export/file"] {
        rig.write(place, vec![7; 400 * MIB]);
    }
    for line in [
        ["file".to_owned(), rig.url("pushed")],
        [rig.url("file"), "pulled".to_owned()],
    ] {
        let flags = ["--limit", "2MB", "--block-size", "64KiB"];
        let line: Vec<&str> = flags
            .into_iter()
            .chain(line.iter().map(String::as_str))
            .collect();
        let mut client = rig.begin_cp(&rig.path(""), &line);
        client.wait_for_bytes(MIB as u64);
        assert!(listed(&rig).0["lost_seconds"].is_null());

        rig.daemon().signal(Signal::STOP);
        let at = wait_for_loss(&client, 0, true);
        let (reported, shown) = listed(&rig);
        assert_eq!(reported["silent"], true, "{reported}");
        assert!(reported["lost_seconds"].as_f64() >= Some(5.0), "{reported}");
        assert!(shown.contains("no answer for"), "{shown}");
        rig.daemon().signal(Signal::CONT);
        let at = wait_for_return(&client, at);
        // Then it has a rate again.
        wait_for_event(&client, at, |event| event["bytes_per_second"].is_number());
        assert!(listed(&rig).0["lost_seconds"].is_null());

        rig.kill_daemon();
        let at = wait_for_loss(&client, at, false);
        let (reported, shown) = listed(&rig);
        assert_eq!(reported["silent"], false, "{reported}");
        assert!(reported["lost_seconds"].is_number(), "{reported}");
        assert!(shown.contains("connection lost for"), "{shown}");
        rig.start(&[]);
        wait_for_return(&client, at);
        client.signal(Signal::INT);
        client.wait().expect(5, "interrupted");
    }
}

/// The number behind these words, on the line that is drawn again and again, changes twice.
#[track_caller]
fn seconds_run(terminal: &Terminal, words: &str) {
    let mut shown: Vec<String> = Vec::new();
    let changes = wait_until(|| {
        let screen = terminal.screen();
        let last = screen.last()?;
        let (_, rest) = last.split_once(words)?;
        let (seconds, _) = rest.split_once(' ')?;
        if shown.last().is_none_or(|before| before != seconds) {
            shown.push(seconds.to_owned());
        }
        (shown.len() > 2).then_some(())
    });
    assert!(changes.is_some(), "{shown:?}: {:#?}", terminal.screen());
}

#[test]
fn the_screen_shows_the_loss_with_running_seconds() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("file", vec![7; 400 * MIB]);
    let mut command = rig.client_command();
    let url = rig.url("pushed");
    let line = [
        "cp",
        "--limit",
        "2MB",
        "--block-size",
        "64KiB",
        "file",
        &url,
    ];
    command.args(line).current_dir(rig.path(""));
    let terminal = Terminal::start(&mut command, 80);
    terminal.wait_for("MB/s");
    rig.daemon().signal(Signal::STOP);
    terminal.wait_for("godwit: no answer for");
    seconds_run(&terminal, "no answer for ");
    let screen = terminal.screen();
    assert!(!screen.concat().contains("/s"), "a stale rate: {screen:?}");
    assert!(
        !screen.concat().contains("left"),
        "a stale time: {screen:?}"
    );
    assert!(!screen.concat().contains("limited by"), "{screen:?}");
    rig.daemon().signal(Signal::CONT);
    terminal.wait_for("godwit: connection restored after");
    rig.kill_daemon();
    terminal.wait_for("godwit: connection lost:");
    terminal.wait_for(" s of 5 min)");
    seconds_run(&terminal, "connection lost, retrying (");
    let screen = terminal.screen();
    assert!(!screen.concat().contains("/s"), "a stale rate: {screen:?}");
    rig.start(&[]);
    terminal.wait_for("MB/s");
}
