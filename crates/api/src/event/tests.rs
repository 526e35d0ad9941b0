//! Tests that every event keeps the fields of `docs/events.md` and round-trips through its line.
//! Does not test the senders of events.

use super::*;
use crate::failure::FailureCode;
use crate::rest::Bottleneck;

fn check(event: &Event, line: &str) {
    assert_eq!(event.to_line(), line);
    assert_eq!(Event::from_line(line.as_bytes()).as_ref(), Some(event));
}

#[test]
fn the_summary_has_the_fields_of_the_page_in_its_order() {
    let mut summary = TransferSummary {
        status: Status::Partial,
        bytes: Some(7),
        files: 2,
        skipped: 3,
        excluded: 4,
        adjusted: 4,
        deleted: 6,
        failed: 1,
        resent_bytes: 5,
        seconds: 1.235,
        cpu_seconds: Sides {
            source: Some(0.5),
            destination: None,
        },
        max_rss_bytes: Sides {
            source: Some(9),
            destination: None,
        },
        not_kept: NotKept {
            xattrs: 4,
            ..NotKept::default()
        },
        ..TransferSummary::default()
    };
    check(
        &Event::Summary(Summary::Transfer(Box::new(summary.clone()))),
        r#"{"event":"summary","status":"partial","bytes":7,"files":2,"skipped":3,"excluded":4,"adjusted":4,"deleted":6,"failed":1,"resent_bytes":5,"seconds":1.235,"cpu_seconds":{"source":0.5,"destination":null},"max_rss_bytes":{"source":9,"destination":null},"bottleneck":null,"not_kept":{"owner":0,"group":0,"set_id":0,"xattrs":4,"security_xattrs":0,"acls":0,"hard_link":0,"time":0,"mode":0}}"#,
    );
    summary.bytes = None;
    summary.dry_run = true;
    summary.manifest = Some(ManifestDone {
        path: b"\xff".to_vec(),
        entries: 3,
        digest: "blake3:00".to_owned(),
        bytes: 99,
    });
    summary.bottleneck = Some(Limited {
        stage: Bottleneck::Network,
        evidence: Evidence::default(),
    });
    check(
        &Event::Summary(Summary::Transfer(Box::new(summary))),
        r#"{"event":"summary","status":"partial","bytes":null,"files":2,"skipped":3,"excluded":4,"adjusted":4,"deleted":6,"failed":1,"resent_bytes":5,"seconds":1.235,"cpu_seconds":{"source":0.5,"destination":null},"max_rss_bytes":{"source":9,"destination":null},"bottleneck":"network","bottleneck_evidence":{"figure":"","advice":null},"dry_run":true,"manifest":{"path_b64":"/w==","entries":3,"digest":"blake3:00","bytes":99},"not_kept":{"owner":0,"group":0,"set_id":0,"xattrs":4,"security_xattrs":0,"acls":0,"hard_link":0,"time":0,"mode":0}}"#,
    );
    check(
        &Event::Summary(Summary::Verify(VerifySummary {
            status: Verdict::Different,
            blame: Blame::default(),
            entries: 3,
            files: 2,
            bytes: 4,
            different: 1,
            extra: 0,
            seconds: 0.5,
        })),
        r#"{"event":"summary","status":"different","entries":3,"files":2,"bytes":4,"different":1,"extra":0,"seconds":0.5}"#,
    );
}

#[test]
fn an_error_and_a_summary_say_whose_fault_it_is_and_what_to_do() {
    let failure = Failure::new(FailureCode::BusyDestination, "busy").about("h/d");
    check(
        &Event::Error((&failure).into()),
        r#"{"event":"error","message":"busy","detail":"h/d","code":"busy_destination","fault":"destination","advice":"Wait for that transfer, or stop it.","retry":"transient"}"#,
    );
    // As an older version reports it.
    let old = ErrorEvent {
        message: "busy".to_owned(),
        ..ErrorEvent::default()
    };
    check(&Event::Error(old), r#"{"event":"error","message":"busy"}"#);
    let summary = VerifySummary {
        blame: failure.code.into(),
        ..VerifySummary::default()
    };
    check(
        &Event::Summary(Summary::Verify(summary)),
        r#"{"event":"summary","status":"interrupted","code":"busy_destination","fault":"destination","advice":"Wait for that transfer, or stop it.","retry":"transient","entries":0,"files":0,"bytes":0,"different":0,"extra":0,"seconds":0.0}"#,
    );
}

#[test]
fn an_item_says_what_becomes_of_an_entry() {
    let item = |path: &[u8]| {
        Event::Item(Item {
            action: Action::Delete,
            kind: ItemKind::File,
            path: path.to_vec(),
            bytes: Some(0),
        })
    };
    check(
        &item(b"d/a"),
        r#"{"event":"item","action":"delete","kind":"file","path":"d/a","bytes":0}"#,
    );
    check(
        &item(b"\xff\xfe"),
        r#"{"event":"item","action":"delete","kind":"file","path_b64":"//4=","bytes":0}"#,
    );
}

#[test]
fn a_failed_entry_has_its_name_and_what_is_known_of_the_fault() {
    let failed = |path: &[u8]| Failed {
        path: path.to_vec(),
        message: "gone".to_owned(),
        ..Failed::default()
    };
    check(
        &Event::Failed(failed("d/ä\n".as_bytes())),
        r#"{"event":"failed","path":"d/ä\n","message":"gone"}"#,
    );
    check(
        &Event::Failed(Failed {
            root: Some(1),
            side: Some("source".to_owned()),
            code: Some(Code::of_word("not_found")),
            entry: Some(7),
            ..failed(b"\xff\xfe")
        }),
        r#"{"event":"failed","path_b64":"//4=","message":"gone","root":1,"side":"source","code":"not_found","entry":7}"#,
    );
}

#[test]
fn a_beginning_with_names_that_are_no_text_is_in_base64() {
    let begun = |sources: &[&[u8]], destination: &[u8]| {
        Event::Started(Started {
            transfer: "0a".to_owned(),
            sources: sources.iter().map(|source| source.to_vec()).collect(),
            destination: destination.to_vec(),
            resumed: false,
        })
    };
    check(
        &begun(&[b"a", b"b"], b"c"),
        r#"{"event":"started","transfer":"0a","sources":["a","b"],"destination":"c","resumed":false}"#,
    );
    check(
        &begun(&[b"a", b"\xff"], b"\xff"),
        r#"{"event":"started","transfer":"0a","sources_b64":["YQ==","/w=="],"destination_b64":"/w==","resumed":false}"#,
    );
}

#[test]
fn progress_without_a_total_says_null() {
    let progress = Progress {
        bytes: 1,
        files_total: 7,
        files_per_second: Some(3.0),
        scanning: true,
        streams: 2,
        bottleneck: Some(Limited {
            stage: Bottleneck::Network,
            evidence: Evidence {
                figure: "1 Mbit/s".to_owned(),
                advice: None,
            },
        }),
        seconds: 1.0,
        ..Progress::default()
    };
    check(
        &Event::Progress(progress),
        r#"{"event":"progress","bytes":1,"bytes_total":null,"bytes_per_second":null,"files":0,"files_total":7,"files_settled":0,"files_per_second":3.0,"scanning":true,"streams":2,"bottleneck":"network","bottleneck_evidence":{"figure":"1 Mbit/s","advice":null},"seconds":1.0}"#,
    );
}

#[test]
fn channels_have_the_fields_of_the_page() {
    let channels = Channels {
        channels: vec![Channel {
            number: 1,
            name: "eth1 (10.0.1.1) to 10.0.1.2".to_owned(),
            streams: 2,
            bytes: 3_000_000,
            bytes_per_second: Some(1_500_000.0),
            round_trip_seconds: 0.0123,
            resent_bytes: 7,
            cuts: 0,
        }],
        seconds: 2.0,
        at_end: false,
    };
    check(
        &Event::Channels(channels),
        r#"{"event":"channels","channels":[{"number":1,"name":"eth1 (10.0.1.1) to 10.0.1.2","streams":2,"bytes":3000000,"bytes_per_second":1500000.0,"round_trip_seconds":0.0123,"resent_bytes":7,"cuts":0}],"seconds":2.0}"#,
    );
}

#[test]
fn the_other_events_come_back_as_they_were() {
    check(
        &Event::Note {
            message: "so".to_owned(),
        },
        r#"{"event":"note","message":"so"}"#,
    );
    check(&Event::Ended {}, r#"{"event":"ended"}"#);
    check(&Event::Paused {}, r#"{"event":"paused"}"#);
    check(
        &Event::Entry {
            line: b"f\t1".to_vec(),
        },
        r#"{"event":"entry","line":"f\t1"}"#,
    );
    check(
        &Event::Extra {
            path: b"x".to_vec(),
        },
        r#"{"event":"extra","path":"x"}"#,
    );
    check(
        &Event::Tuning(Tuning {
            what: "streams".to_owned(),
            channel: Some(3),
            from: 1,
            to: 4,
            reason: "so".to_owned(),
            seconds: 0.5,
        }),
        r#"{"event":"tuning","what":"streams","channel":3,"from":1,"to":4,"reason":"so","seconds":0.5}"#,
    );
    check(
        &Event::Stats(Stats {
            source: Some(BTreeMap::from([("files_done".to_owned(), u64::MAX)])),
            ..Stats::default()
        }),
        r#"{"event":"stats","source":{"files_done":18446744073709551615},"destination":null}"#,
    );
}

#[test]
fn events_and_fields_of_a_newer_version_are_passed_over() {
    let read = |line: &str| Event::from_line(line.as_bytes());
    assert_eq!(read(r#"{"event":"new","x":1}"#), Some(Event::Unknown));
    assert_eq!(
        read(r#"{"event":"note","message":"m","new":[1]}"#),
        Some(Event::Note {
            message: "m".to_owned()
        })
    );
    for odd in [
        "",
        "ssh says hello",
        "[]",
        r#"{"event":"note"}"#,
        r#"{"event":"entry","line_b64":"?"}"#,
    ] {
        assert_eq!(read(odd), None, "{odd}");
    }
}

#[test]
fn a_loss_and_its_end_name_the_channel_if_it_is_one() {
    let mut lost = ConnectionLost {
        lost_seconds: 7.5,
        retry_for_seconds: 300.0,
        why: "reset".to_owned(),
        silent: true,
        channel: None,
        seconds: 20.0,
    };
    check(
        &Event::ConnectionLost(lost.clone()),
        r#"{"event":"connection_lost","lost_seconds":7.5,"retry_for_seconds":300.0,"why":"reset","silent":true,"seconds":20.0}"#,
    );
    lost.channel = Some(LostChannel {
        number: 1,
        name: "eth1".to_owned(),
    });
    check(
        &Event::ConnectionLost(lost.clone()),
        r#"{"event":"connection_lost","lost_seconds":7.5,"retry_for_seconds":300.0,"why":"reset","silent":true,"channel":1,"name":"eth1","seconds":20.0}"#,
    );
    check(
        &Event::ConnectionRegained(ConnectionRegained {
            lost_seconds: 9.5,
            channel: lost.channel,
            seconds: 22.0,
        }),
        r#"{"event":"connection_regained","lost_seconds":9.5,"channel":1,"name":"eth1","seconds":22.0}"#,
    );
}
