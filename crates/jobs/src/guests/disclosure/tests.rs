//! Tests of the documents that an asker gets about its job.
//! Asks no node: the documents are made up.

use godwit_api::rest::{ForecastView, Timestamp};
use godwit_state::reason;

use super::*;

fn reported(event: Value) -> Value {
    line(LogLine {
        seq: 1,
        at: Timestamp(0),
        attempt: 1,
        event,
        from: None,
        node: Some("dtn1".to_owned()),
    })
    .event
}

#[test]
fn the_log_of_a_job_shows_its_asker_no_address_without_proof() {
    for code in ["unreachable", "not_godwit", "tls_failed"] {
        let code = FailureCode::parse(code).expect("a code");
        let failure = Failure::new(code, "192.0.2.1:22 said SSH-2.0");
        let reported =
            reported(serde_json::to_value(Event::Error((&failure).into())).expect("JSON"));
        assert_eq!(reported["code"], "unreachable");
        assert!(!reported.to_string().contains("SSH"), "{reported}");
        serde_json::from_value::<Event>(reported).expect("still an event");
    }
    let lost = json!({"event": "connection_lost", "why": "192.0.2.1: Connection refused"});
    assert!(!reported(lost).to_string().contains("refused"));
    let met = note("node dtn2 is not used: 192.0.2.1: Connection refused");
    assert!(!reported(met).to_string().contains("refused"));
    let own = note("submitted by request 0123456789abcdef");
    assert_eq!(reported(own.clone()), own);
    let other = json!({"event": "error", "code": "no_source", "message": "run42 is gone"});
    assert_eq!(reported(other.clone()), other);
}

/// A divided attempt has a summary, whatever it failed by.
#[test]
fn the_summary_of_a_job_shows_its_asker_no_address_without_proof() {
    for (code, is_hidden) in [
        ("not_godwit", true),
        ("tls_failed", true),
        ("no_source", false),
    ] {
        let mut summary = json!({"event": "summary", "status": "failed", "code": code, "bytes": 3});
        let whole = summary.clone();
        hide_unproven(&mut summary);
        let left = if is_hidden { json!({}) } else { whole };
        assert_eq!(summary, left);
    }
}

#[test]
fn names_of_nodes_and_interfaces_do_not_pass() {
    let secret = "eth7-dtn1";
    let channel = json!({
        "number": 3, "name": secret, "streams": 2, "bytes": 5, "bytes_per_second": 1.0,
        "round_trip_seconds": 0.1, "resent_bytes": 0, "cuts": 0,
    });
    let lost = |event: &str| {
        json!({
            "event": event, "lost_seconds": 1.0, "retry_for_seconds": 2.0, "why": secret,
            "silent": false, "channel": 3, "name": secret, "seconds": 4.0,
        })
    };
    for event in [
        json!({"event": "channels", "channels": [channel], "seconds": 1.0}),
        lost("connection_lost"),
        lost("connection_regained"),
        json!({"event": "error", "code": "local_failure", "message": secret, "detail": secret}),
        json!({"event": "error", "code": "no_source", "message": "gone", "detail": secret}),
    ] {
        let reported = reported(event.clone());
        assert!(!reported.to_string().contains(secret), "{reported}");
        assert_eq!(reported["event"], event["event"]);
        let parsed: Event = serde_json::from_value(reported).expect("still an event");
        assert_ne!(parsed, Event::Unknown);
    }
    let channels = reported(json!({
        "event": "channels", "channels": [{"number": 3, "name": secret, "bytes": 5}], "seconds": 1.0,
    }));
    assert_eq!(channels["channels"][0]["name"], "path 3");
    assert_eq!(channels["channels"][0]["bytes"], 5);
}

#[test]
fn unlisted_events_and_fields_do_not_pass() {
    let new = reported(json!({"event": "a_newer_event", "node": "dtn1"}));
    assert_eq!(new, note(FOR_OPERATOR));
    let field = reported(json!({
        "event": "item", "action": "send", "kind": "file", "path": "a", "bytes": 1, "by": "dtn1",
        "more": {"by": "dtn1"}, "list": [{"by": "dtn1"}, "dtn1"],
    }));
    assert!(!field.to_string().contains("dtn1"), "{field}");
    assert_eq!(field["path"], "a");
    let sources = json!({"event": "started", "transfer": "1", "sources": ["a", "b"],
        "destination": "c", "resumed": false});
    assert_eq!(reported(sources.clone()), sources);
}

#[test]
fn a_summary_passes_as_one() {
    use godwit_api::event::{Encryption, ManifestDone, Summary, TransferSummary};
    let manifest = ManifestDone {
        path: b"manifest".to_vec(),
        entries: 3,
        digest: "d".to_owned(),
        bytes: 9,
    };
    let summary = TransferSummary {
        bytes: Some(5),
        manifest: Some(manifest),
        encryption: Some(Encryption {
            cipher: "aes-128-gcm".to_owned(),
            library: "ring".to_owned(),
            plain_contents: true,
        }),
        ..TransferSummary::default()
    };
    let event = Event::Summary(Summary::Transfer(Box::new(summary)));
    let mut of_node = serde_json::to_value(&event).expect("JSON");
    of_node["manifest"]["path"] = json!("dtn1:manifest");
    let reported = reported(of_node);
    assert_eq!(
        serde_json::from_value::<Event>(reported).expect("an event"),
        event
    );
}

#[test]
fn reasons_that_name_nodes_or_users_are_said_in_other_words() {
    for code in [
        reason::NODE_RESTARTED,
        reason::NODE_LOST,
        reason::PAUSED,
        reason::CANCELLED,
        reason::RETRIES_EXHAUSTED,
        reason::DEADLINE_PASSED,
        FailureCode::LateCalls,
        FailureCode::NodesDrained,
        FailureCode::ExportAway,
        FailureCode::EntriesFailed,
        FailureCode::HomeUnusable,
    ] {
        let shown = reason(Reason::new(code, "dtn1, of 192.0.2.1"));
        assert_eq!(shown.code, code);
        assert!(
            !shown.text.contains("dtn1") && shown.text.len() > 10,
            "{shown:?}"
        );
    }
    let unknown = reason(Reason::new(Code::of_word("a_newer_code"), "dtn1"));
    assert_eq!(
        (unknown.code.as_str(), unknown.text.as_str()),
        (border::OTHER.as_str(), UNSAID)
    );
    // The asker distinguishes its own texts from those of the site.
    let own = Reason::new(reason::PAUSED, "site:gw1-a paused the job.");
    assert_eq!(reason(own.clone()), own);
    let place = Reason::new(FailureCode::NoSpace, "data/out: no room");
    assert_eq!(reason(place.clone()), place);
}

#[test]
fn samples_carry_no_interfaces_and_no_names_of_nodes() {
    let figures = |names: &[&str]| -> BTreeMap<String, f64> {
        names.iter().map(|name| ((*name).to_owned(), 1.0)).collect()
    };
    let host = figures(&[
        "cpu_user",
        "network_sent_bytes_per_second",
        "network_eth0_bytes_per_second",
        "disk_read_bytes_per_second",
    ]);
    let node = NodeProgress {
        node: "dtn1".to_owned(),
        to: "gw1-b".to_owned(),
        bottleneck_text: Some("network at dtn1".to_owned()),
        host: host.clone(),
        stages: figures(&["write_busy", "eth0_busy"]),
        ..NodeProgress::default()
    };
    let reported = sample(SampleView {
        host,
        nodes: vec![node],
        node: Some("dtn1".to_owned()),
        forecast: Some(ForecastView::default()),
        ..SampleView::default()
    });
    // A forecast follows the limits of the coming week, and earlier jobs of others.
    assert_eq!(reported.forecast, None);
    assert_eq!(reported.host, figures(&["cpu_user"]));
    assert_eq!(reported.nodes[0].host, figures(&["cpu_user"]));
    assert_eq!(reported.nodes[0].stages, figures(&["write_busy"]));
    let text = serde_json::to_string(&reported).expect("JSON");
    assert!(!text.contains("dtn1") && !text.contains("gw1-b"), "{text}");
}

#[test]
fn the_other_end_hears_figures_of_interfaces_without_their_names() {
    let figures = |names: &[&str]| -> BTreeMap<String, f64> {
        names.iter().map(|name| ((*name).to_owned(), 1.0)).collect()
    };
    let reported = host(figures(&[
        "cpu_core_0",
        "interface_bond0-5_received_bytes_per_second",
        "interface_bond0-5_sent_bytes_per_second",
        "interface_eth0_sent_bytes_per_second",
        "memory_available_bytes",
    ]));
    let expected = figures(&[
        "cpu_core_0",
        "interface_1_received_bytes_per_second",
        "interface_1_sent_bytes_per_second",
        "interface_2_sent_bytes_per_second",
        "memory_available_bytes",
    ]);
    assert_eq!(reported, expected);
}
