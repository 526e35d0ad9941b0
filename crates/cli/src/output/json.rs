//! Events as JSON, one object a line.
//! The names of fields are a contract: `docs/manual.md` lists them.

use super::{
    Itemised, LimitedTold, ManifestDone, NotKept, Progress, Sides, Started, Stats, Summary,
    ToldFault, Tuned,
};
use data_encoding::BASE64;
use godwit_engine::Snapshot;
use godwit_proto::UNKNOWN_BYTES;
use serde::Serialize;
use std::time::Duration;

/// Makes lines of events.
pub(super) struct JsonLines;

impl JsonLines {
    pub(super) fn started(started: &Started<'_>) -> String {
        line(&started_event(started))
    }

    pub(super) fn progress(
        progress: &Progress<'_>,
        elapsed: Duration,
        rate: Option<f64>,
    ) -> String {
        line(&progress_event(progress, elapsed, rate))
    }

    pub(super) fn failed(path: &[u8], message: &str) -> String {
        line(&failed_event(path, message))
    }

    pub(super) fn item(item: &Itemised<'_>) -> String {
        line(&item_event(item))
    }

    pub(super) fn fault(fault: &ToldFault<'_>) -> String {
        let (name, name_b64) = text_or_base64(fault.name);
        line(&Event::Fault {
            name,
            name_b64,
            side: fault.side,
            code: fault.code,
            message: fault.message,
        })
    }

    pub(super) fn entry(of_manifest: &[u8]) -> String {
        let (text, line_b64) = text_or_base64(of_manifest);
        line(&Event::Entry {
            line: text,
            line_b64,
        })
    }

    pub(super) fn ended() -> String {
        line(&Event::Ended {})
    }

    pub(super) fn note(message: &str) -> String {
        line(&Event::Note { message })
    }

    pub(super) fn tuning(tuned: &Tuned<'_>, elapsed: Duration) -> String {
        line(&Event::Tuning {
            what: tuned.what,
            channel: tuned.channel,
            from: tuned.from,
            to: tuned.to,
            reason: tuned.reason,
            seconds: seconds(elapsed),
        })
    }

    pub(super) fn error(message: &str) -> String {
        line(&Event::Error { message })
    }

    pub(super) fn stats(stats: &Stats) -> String {
        let side = |side: Option<Snapshot>| {
            side.map(|counters| {
                counters
                    .fields()
                    .map(|(name, number)| (name.to_owned(), number.into()))
                    .collect()
            })
        };
        line(&Event::Stats {
            source: side(stats.shares.source),
            destination: side(stats.shares.destination),
        })
    }

    pub(super) fn summary(summary: &Summary, elapsed: Duration) -> String {
        line(&summary_event(summary, elapsed))
    }
}

/// An event; its fields are printed in this order.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    Started {
        transfer: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        sources: Option<Vec<&'a str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        sources_b64: Option<Vec<String>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        destination: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        destination_b64: Option<String>,
        resumed: bool,
    },
    Progress {
        bytes: u64,
        bytes_total: Option<u64>,
        bytes_per_second: Option<f64>,
        files: u64,
        streams: u32,
        bottleneck: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        bottleneck_told: Option<&'a LimitedTold>,
        seconds: f64,
    },
    Tuning {
        what: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        channel: Option<u32>,
        from: u32,
        to: u32,
        reason: &'a str,
        seconds: f64,
    },
    Failed {
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        path_b64: Option<String>,
        message: &'a str,
    },
    Item {
        action: &'a str,
        kind: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        path_b64: Option<String>,
        bytes: Option<u64>,
    },
    /// Between agents and their clients only: an entry that failed, by its name below the source.
    Fault {
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        name_b64: Option<String>,
        side: &'a str,
        code: &'a str,
        message: &'a str,
    },
    /// Likewise: a line of a manifest.
    Entry {
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        line_b64: Option<String>,
    },
    /// Likewise: no data moves any more.
    Ended {},
    Note {
        message: &'a str,
    },
    Error {
        message: &'a str,
    },
    Summary {
        status: &'a str,
        bytes: Option<u64>,
        files: u64,
        skipped: u64,
        excluded: u64,
        adjusted: u64,
        deleted: u64,
        failed: u64,
        resent_bytes: u64,
        seconds: f64,
        cpu_seconds: Sides<f64>,
        max_rss_bytes: Sides<u64>,
        bottleneck: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        bottleneck_told: Option<&'a LimitedTold>,
        #[serde(skip_serializing_if = "is_false")]
        dry_run: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        manifest: Option<Manifest<'a>>,
        not_kept: NotKept,
    },
    Stats {
        source: Option<serde_json::Map<String, serde_json::Value>>,
        destination: Option<serde_json::Map<String, serde_json::Value>>,
    },
}

/// What a summary says of a manifest.
#[derive(Serialize)]
struct Manifest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_b64: Option<String>,
    entries: u64,
    digest: &'a str,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "this is how serde asks whether to leave a field out"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

fn line(event: &Event<'_>) -> String {
    // Nothing here can fail to become JSON: no maps with odd keys, and floats that are not finite become null.
    serde_json::to_string(event).unwrap_or_default()
}

fn progress_event<'a>(progress: &Progress<'a>, elapsed: Duration, rate: Option<f64>) -> Event<'a> {
    Event::Progress {
        bytes: progress.bytes,
        bytes_total: progress.bytes_total,
        bytes_per_second: rate.map(f64::round),
        files: progress.files,
        streams: progress.streams,
        bottleneck: progress.bottleneck.map(|limited| limited.stage.as_str()),
        bottleneck_told: progress.bottleneck.map(|limited| &limited.told),
        seconds: seconds(elapsed),
    }
}

fn started_event<'a>(started: &Started<'a>) -> Event<'a> {
    let sources = started
        .sources
        .iter()
        .map(|source| std::str::from_utf8(source));
    let sources: Option<Vec<&str>> = sources.collect::<Result<_, _>>().ok();
    let encoded = || started.sources.iter().map(|source| BASE64.encode(source));
    let sources_b64 = sources.is_none().then(|| encoded().collect());
    let (destination, destination_b64) = text_or_base64(started.destination);
    Event::Started {
        transfer: started.transfer,
        sources,
        sources_b64,
        destination,
        destination_b64,
        resumed: started.resumed,
    }
}

fn manifest_of(done: &ManifestDone) -> Manifest<'_> {
    let (path, path_b64) = text_or_base64(&done.path);
    Manifest {
        path,
        path_b64,
        entries: done.entries,
        digest: &done.digest,
    }
}

fn failed_event<'a>(path: &'a [u8], message: &'a str) -> Event<'a> {
    let (path, path_b64) = text_or_base64(path);
    Event::Failed {
        path,
        path_b64,
        message,
    }
}

fn item_event<'a>(item: &Itemised<'a>) -> Event<'a> {
    let (path, path_b64) = text_or_base64(item.path);
    Event::Item {
        action: item.action,
        kind: item.kind,
        path,
        path_b64,
        bytes: Some(item.bytes).filter(|bytes| *bytes != UNKNOWN_BYTES),
    }
}

fn text_or_base64(bytes: &[u8]) -> (Option<&str>, Option<String>) {
    let text = std::str::from_utf8(bytes).ok();
    (text, text.is_none().then(|| BASE64.encode(bytes)))
}

fn summary_event(summary: &Summary, elapsed: Duration) -> Event<'_> {
    Event::Summary {
        status: summary.status.name(),
        bytes: (!summary.unknown_bytes).then_some(summary.bytes),
        files: summary.files,
        skipped: summary.skipped,
        excluded: summary.excluded,
        adjusted: summary.adjusted,
        deleted: summary.deleted,
        failed: summary.failed,
        resent_bytes: summary.resent_bytes,
        seconds: seconds(elapsed),
        cpu_seconds: summary.cpu_seconds,
        max_rss_bytes: summary.max_rss_bytes,
        bottleneck: summary
            .bottleneck
            .as_ref()
            .map(|limited| limited.stage.as_str()),
        bottleneck_told: summary.bottleneck.as_ref().map(|limited| &limited.told),
        dry_run: summary.dry_run,
        manifest: summary.manifest.as_ref().map(manifest_of),
        not_kept: summary.not_kept,
    }
}

/// Milliseconds are as fine as makes sense.
fn seconds(elapsed: Duration) -> f64 {
    (elapsed.as_secs_f64() * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    fn check(event: &Event<'_>, line: &str) {
        assert_eq!(serde_json::to_string(event).expect("JSON"), line);
    }

    #[test]
    fn the_summary_has_the_fields_of_the_manual_in_its_order() {
        let summary = Summary {
            status: Status::Partial,
            bytes: 7,
            unknown_bytes: false,
            files: 2,
            skipped: 3,
            excluded: 4,
            adjusted: 4,
            deleted: 6,
            dry_run: false,
            failed: 1,
            resent_bytes: 5,
            cpu_seconds: Sides {
                source: Some(0.5),
                destination: None,
            },
            max_rss_bytes: Sides {
                source: Some(9),
                destination: None,
            },
            bottleneck: None,
            manifest: None,
            not_kept: NotKept {
                xattrs: 4,
                ..NotKept::default()
            },
        };
        check(
            &summary_event(&summary, Duration::from_micros(1_234_567)),
            r#"{"event":"summary","status":"partial","bytes":7,"files":2,"skipped":3,"excluded":4,"adjusted":4,"deleted":6,"failed":1,"resent_bytes":5,"seconds":1.235,"cpu_seconds":{"source":0.5,"destination":null},"max_rss_bytes":{"source":9,"destination":null},"bottleneck":null,"not_kept":{"owner":0,"group":0,"set_id":0,"xattrs":4,"security_xattrs":0,"acls":0,"hard_link":0}}"#,
        );
    }

    #[test]
    fn an_item_says_what_becomes_of_an_entry() {
        let item = |path| Itemised {
            action: "delete",
            kind: "file",
            path,
            bytes: 0,
            quiet: true,
        };
        check(
            &item_event(&item(b"d/a")),
            r#"{"event":"item","action":"delete","kind":"file","path":"d/a","bytes":0}"#,
        );
        check(
            &item_event(&item(b"\xff\xfe")),
            r#"{"event":"item","action":"delete","kind":"file","path_b64":"//4=","bytes":0}"#,
        );
    }

    #[test]
    fn a_path_that_is_no_text_is_in_base64() {
        check(
            &failed_event("d/ä\n".as_bytes(), "gone"),
            r#"{"event":"failed","path":"d/ä\n","message":"gone"}"#,
        );
        check(
            &failed_event(b"\xff\xfe", "gone"),
            r#"{"event":"failed","path_b64":"//4=","message":"gone"}"#,
        );
    }

    #[test]
    fn a_beginning_with_names_that_are_no_text_is_in_base64() {
        let begun = |sources: &[&[u8]], destination: &[u8]| {
            let sources: Vec<Vec<u8>> = sources.iter().map(|source| source.to_vec()).collect();
            JsonLines::started(&Started {
                transfer: "0a",
                sources: &sources,
                destination,
                resumed: false,
            })
        };
        assert_eq!(
            begun(&[b"a", b"b"], b"c"),
            r#"{"event":"started","transfer":"0a","sources":["a","b"],"destination":"c","resumed":false}"#
        );
        assert_eq!(
            begun(&[b"a", b"\xff"], b"\xff"),
            r#"{"event":"started","transfer":"0a","sources_b64":["YQ==","/w=="],"destination_b64":"/w==","resumed":false}"#
        );
    }

    #[test]
    fn progress_without_a_total_says_null() {
        let network = super::super::Limited {
            stage: "network".to_owned(),
            told: LimitedTold {
                figure: "1 Mbit/s".to_owned(),
                advice: None,
            },
        };
        let progress = Progress {
            bytes: 1,
            bytes_total: None,
            pace: super::super::Pace::Moved(0),
            files: 0,
            streams: 2,
            bottleneck: Some(&network),
        };
        check(
            &progress_event(&progress, Duration::from_secs(1), None),
            r#"{"event":"progress","bytes":1,"bytes_total":null,"bytes_per_second":null,"files":0,"streams":2,"bottleneck":"network","bottleneck_told":{"figure":"1 Mbit/s","advice":null},"seconds":1.0}"#,
        );
    }
}
