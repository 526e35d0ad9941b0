//! The log and the figures of a job at the node that was asked for the job, while another site runs it.
//! The choice of the site, and surviving failures, are tested in `third`.

use std::fs;

use serde_json::{Map, Value, json};

use super::super::rest::Caller;
use super::super::rig::Rig;
use super::third::{Three, only_job};
use super::{fill, moved};

/// Host figures of another site that the asker receives.
const HOST_FIGURES: [&str; 6] = [
    "cpu_user",
    "cpu_system",
    "cpu_iowait",
    "cpu_interrupts",
    "cpu_steal",
    "cpu_busiest_core",
];

/// The lines of the log of a job, as documents.
#[track_caller]
fn lines(rig: &Rig, id: &str) -> Vec<Value> {
    let log = rig.admin(&["job", "log", "--json", id]).out;
    let lines = log.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("documents")
}

/// An event as the asker gets it. The text on the bottleneck is only for the operator of the site that runs the job.
#[track_caller]
fn for_asker(event: &Value) -> Value {
    let mut event = event.clone();
    let fields = event.as_object_mut().expect("an event");
    fields.remove("bottleneck_evidence");
    event
}

/// The figures of the host in a sample.
fn host(sample: &Value) -> Map<String, Value> {
    sample["host"].as_object().cloned().unwrap_or_default()
}

/// Names of the network interfaces here, without the loopback.
fn interfaces() -> Vec<String> {
    let text = fs::read_to_string("/proc/net/dev").expect("the interfaces");
    let names = text.lines().filter_map(|line| line.split_once(':'));
    let names = names.map(|(name, _)| name.trim().to_owned());
    names.filter(|name| name != "lo").collect()
}

#[test]
fn log_and_figures_come_from_the_site_that_runs_the_job_once_each() {
    let mut three = Three::new();
    fill(&three.source, 10, 400_000);
    let id = three.submit(&["--limit", "500KB/s"]);
    let started = |line: &Value| line["event"]["event"] == "started" && line["from"].is_object();
    three.wait_for(&id, |job| moved(job) > 0);
    three.wait_for(&id, |_| lines(&three.asked, &id).iter().any(started));
    // The node that was asked is away for a time, and has the rest at the end all the same.
    three.asked.kill_daemon();
    three.asked.serve(&[]);
    let outcome = three.asked.admin(&["job", "limit", &id, "none"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    three.complete(&id);
    let there = only_job(&three.source)["id"].clone();
    let there = there.as_str().expect("an id");
    let expected = lines(&three.source, there);
    assert!(!expected.is_empty());
    let all = lines(&three.asked, &id);
    let copied: Vec<&Value> = all.iter().filter(|line| line["from"].is_object()).collect();
    assert_eq!(copied.len(), expected.len(), "{copied:?} {expected:?}");
    for (line, original) in copied.iter().zip(&expected) {
        assert_eq!(line["event"], for_asker(&original["event"]));
        assert_eq!(line["at"], original["at"]);
        let from = json!({"site": "siteS", "job": there, "seq": original["seq"]});
        assert_eq!(line["from"], from);
    }
    assert!(all.is_sorted_by_key(|line| line["seq"].as_u64()), "{all:?}");
    let shown = three.log(&id);
    assert!(shown.contains("siteS: "), "{shown}");

    let admin = Caller::admin(&three.asked);
    let samples = admin.get(&format!("jobs/{id}/samples")).expect(200);
    let samples = samples.as_array().expect("a list");
    let original = Caller::admin(&three.source);
    let original = original.get(&format!("jobs/{there}/samples")).expect(200);
    let original = original.as_array().expect("a list");
    assert_eq!(samples.len(), original.len(), "{samples:?} {original:?}");
    let interfaces = interfaces();
    for (sample, original) in samples.iter().zip(original) {
        assert_eq!(sample["site"], "siteS", "{sample}");
        let mut figures = host(original);
        figures.retain(|name, _| HOST_FIGURES.contains(&name.as_str()));
        assert_eq!(host(sample), figures);
        assert_eq!(sample["bytes"], original["bytes"]);
        let text = sample.to_string();
        for name in &interfaces {
            assert!(!text.contains(name), "{name}: {text}");
        }
    }
    let has_memory = |sample: &Value| host(sample).contains_key("memory_available_bytes");
    assert!(original.iter().any(has_memory), "{original:?}");
    let report = three.asked.admin(&["job", "report", "--json", &id]);
    let report: Value = serde_json::from_str(&report.out).expect("a document");
    let events = report["time_line"].as_array().expect("a list");
    assert!(events.iter().any(started), "{report}");
    let page = three
        .asked
        .admin(&["job", "report", "--html", "-", &id])
        .out;
    assert!(page.contains("at siteS: "), "{page}");
}
