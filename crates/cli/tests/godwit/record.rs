//! The records of a node about its transfers: its log, as text and as JSON, and its accounting.
//! That the transfers themselves are right is tested elsewhere.

use std::fs;

use serde_json::Value;

use super::process::{Process, wait_until};
use super::rig::Rig;

/// The objects of a log in JSON that are about transfers, as far as there are any.
fn lines(node: &Process) -> Vec<Value> {
    let said = node.said();
    let lines = said.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// The first line of the log with this message that satisfies `holds`.
#[track_caller]
fn line(node: &Process, message: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let found = wait_until(|| {
        lines(node).into_iter().find(|line| {
            line["message"]
                .as_str()
                .is_some_and(|text| text.starts_with(message))
                && holds(line)
        })
    });
    found.unwrap_or_else(|| panic!("{message}: {}", node.said()))
}

#[test]
fn each_transfer_has_two_lines_and_a_record_and_each_refusal_a_command() {
    let mut rig = Rig::new();
    rig.start(&["--log-format", "json"]);
    let us = rig.client(&["id"]).out.trim().to_owned();
    rig.write("run42/a", vec![7; 300_000]);
    rig.write("run42/b", "bravo");
    rig.cp(&["run42", &rig.url("in/")]).complete();
    rig.cp(&[&rig.url("in/run42"), "back/"]).complete();

    let node = rig.daemon();
    let began = line(node, "transfer started", |line| {
        line["direction"] == "receive"
    });
    assert_eq!(began["identity"], us.as_str());
    assert_eq!(began["places"], "data/in");
    assert_eq!(began["level"], "INFO");
    assert!(
        began["timestamp"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z')),
        "{began}"
    );
    let ended = line(node, "transfer ended", |line| {
        line["direction"] == "receive"
    });
    assert_eq!(ended["transfer"], began["transfer"]);
    assert_eq!(ended["code"], "complete");
    assert_eq!(
        (&ended["bytes"], &ended["files"], &ended["failed"]),
        (&300_005.into(), &2.into(), &0.into())
    );
    for figure in ["seconds", "bytes_per_second", "streams"] {
        assert!(
            ended[figure].as_f64().is_some_and(|figure| figure >= 0.0),
            "{figure}: {ended}"
        );
    }
    let sent = line(node, "transfer ended", |line| line["direction"] == "send");
    assert_eq!(
        (&sent["places"], &sent["files"]),
        (&"data/in/run42".into(), &2.into())
    );

    // A refusal names the peer, the request, the reason, and the command that allows it.
    assert_eq!(rig.admin(&["access", "deny", &us]).code, Some(0));
    rig.cp(&[&rig.url("in/run42"), "never/"])
        .expect(4, "failed");
    let refused = line(node, "refused: ", |line| line["direction"] == "send");
    assert_eq!(refused["level"], "WARN");
    assert_eq!(
        (&refused["identity"], &refused["code"]),
        (&us.as_str().into(), &"unauthorized".into())
    );
    let text = refused["message"].as_str().expect("text");
    assert!(
        text.contains(&format!(
            "godwit access allow {us} --export data:/in/run42 --read"
        )),
        "{text}"
    );
    assert!(!text.contains("you"), "{text}");

    // The records say the same, and can be read while the node runs and when it does not.
    let records = rig.admin(&["accounting", "--json"]);
    assert_eq!(records.code, Some(0), "{records:?}");
    let records: Vec<Value> = records
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect();
    assert_eq!(records.len(), 2, "{records:?}");
    assert_eq!(
        (&records[0]["id"], &records[0]["bytes"]),
        (&began["transfer"], &300_005.into())
    );
    assert_eq!(records[0]["identity"], us.as_str());
    let reported = &records[0]["encryption"];
    let cipher = reported["cipher"].as_str().expect("a cipher");
    assert!(
        matches!(reported["library"].as_str(), Some("aws-lc" | "ring")),
        "{reported}"
    );
    let table = rig.admin(&["accounting", "--since", "1h"]);
    table.says("data/in/run42").says("complete").says("receive");
    table.says(cipher);
    let none = rig.admin(&["accounting", "--until", "1h"]);
    none.says("no transfers are recorded");
    assert_eq!(rig.admin(&["accounting", "--since", "soon"]).code, Some(2));
}

#[test]
fn an_attempt_of_a_job_is_logged_and_recorded_with_its_owner() {
    let mut rig = Rig::new();
    rig.write("export/a", "alpha");
    rig.serve(&["--log-format", "json"]);
    let submitted = rig.admin(&["job", "submit", "here:/data/a", "here:/data/b", "--wait"]);
    assert_eq!(submitted.code, Some(0), "{submitted:?}");
    let id = submitted.out.lines().next().expect("an id").to_owned();
    let ended = line(rig.daemon(), "transfer ended", |line| {
        line["job"] == id.as_str()
    });
    assert_eq!(
        (&ended["direction"], &ended["code"]),
        (&"local".into(), &"complete".into())
    );
    assert_eq!(ended["places"], "data/a, data/b");
    assert!(
        ended["user"].as_str().is_some_and(|user| !user.is_empty()),
        "{ended}"
    );
    let missing = rig.admin(&[
        "job",
        "submit",
        "here:/data/nothing",
        "here:/data/c",
        "--wait",
    ]);
    assert_ne!(missing.code, Some(0), "{missing:?}");
    let records = rig.admin(&["accounting", "--json"]).out;
    let records: Vec<Value> = records
        .lines()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect();
    assert_eq!(records.len(), 2, "{records:?}");
    assert_eq!(
        (&records[0]["job"], &records[0]["bytes"]),
        (&id.as_str().into(), &5.into())
    );
    assert_ne!(records[1]["code"], "complete", "{records:?}");
    assert!(records[0].get("encryption").is_none(), "{records:?}");
}

#[test]
fn text_has_a_time_and_a_level_and_hostile_names_spoil_no_line() {
    let mut rig = Rig::new();
    rig.write("export/x\ny\u{1b}[31m", "alpha");
    rig.start(&["--log-level", "warn"]);
    let url = rig.url("x%0Ay%1B[31m");
    rig.cp(&[&url, "got"]).complete();
    let us = rig.client(&["id"]).out.trim().to_owned();
    assert_eq!(rig.admin(&["access", "deny", &us]).code, Some(0));
    rig.cp(&["--force", &url, "got"]).expect(4, "failed");
    let said = wait_until(|| {
        let said = rig.daemon().said();
        said.contains("refused: ").then_some(said)
    });
    let said = said.expect("a refusal");
    assert!(
        !said.contains('\u{1b}') && !said.contains("transfer started"),
        "{said:?}"
    );
    let line = said
        .lines()
        .find(|line| line.contains("refused: "))
        .expect("a line");
    let time = line.split_whitespace().next().expect("a word");
    assert!(
        time.len() == 24 && time.starts_with("20") && time.ends_with('Z'),
        "{line}"
    );
    assert!(line.contains("WARN") && line.contains(&us), "{line}");
    // Whatever happens to the file, transfers continue.
    assert_eq!(
        rig.admin(&["access", "allow", &us, "--all-exports"]).code,
        Some(0)
    );
    fs::remove_dir_all(rig.daemon_home.join("accounting")).expect("there");
    rig.cp(&["--force", &url, "got"]).complete();
}

/// One id in the logs of both sites.
#[test]
fn a_job_is_found_in_the_log_of_the_other_site() {
    let (mut here, mut there) = (Rig::new(), Rig::new());
    here.write("export/a", "alpha");
    here.serve(&["--log-format", "json"]);
    there.serve(&["--log-format", "json"]);
    let allow = [
        "access",
        "allow",
        &here.identity,
        "--export",
        "data",
        "--write",
    ];
    assert_eq!(there.admin(&allow).code, Some(0));
    let add = [
        "site",
        "add",
        "there",
        there.address(),
        "--identity",
        &there.identity,
    ];
    assert_eq!(here.admin(&add).code, Some(0));
    let submitted = here.admin(&["job", "submit", "here:/data/a", "there:/data/a", "--wait"]);
    assert_eq!(submitted.code, Some(0), "{submitted:?}");
    let id = submitted.out.lines().next().expect("an id").to_owned();
    let received = line(there.daemon(), "transfer ended", |line| {
        let label = line["label"].as_str().unwrap_or_default();
        label.starts_with(&format!("job {id}, request "))
    });
    assert_eq!(
        (&received["identity"], &received["direction"]),
        (&here.identity.as_str().into(), &"receive".into())
    );
    let sent = line(here.daemon(), "transfer ended", |line| {
        line["job"] == id.as_str()
    });
    assert_eq!(
        (&sent["direction"], &sent["peer"]),
        (&"send".into(), &"there".into())
    );
    // The request by which the job came is in the log, too.
    let came = line(here.daemon(), &format!("job {id}: submitted by "), |_| true);
    assert!(
        came["message"]
            .as_str()
            .is_some_and(|text| text.contains("request ")),
        "{came}"
    );
}
