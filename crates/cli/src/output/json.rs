//! Events as JSON, one object a line.
//! The names of fields are a contract: `docs/manual.md` lists them.

use super::{Progress, Sides, Started, Summary, print};
use data_encoding::BASE64;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Prints events.
pub(super) struct JsonLines;

impl JsonLines {
    pub(super) fn started(&self, started: &Started<'_>) {
        emit(&started_event(started));
    }

    pub(super) fn progress(&self, progress: &Progress<'_>, elapsed: Duration, rate: Option<f64>) {
        emit(&progress_event(progress, elapsed, rate));
    }

    pub(super) fn failed(&self, path: &[u8], message: &str) {
        emit(&failed_event(path, message));
    }

    pub(super) fn message(&self, event: &str, message: &str) {
        emit(&json!({"event": event, "message": message}));
    }

    pub(super) fn summary(&self, summary: &Summary, elapsed: Duration) {
        emit(&summary_event(summary, elapsed));
    }
}

fn emit(event: &Value) {
    print(&event.to_string());
}

fn started_event(started: &Started<'_>) -> Value {
    json!({
        "event": "started",
        "transfer": started.transfer,
        "sources": started.sources,
        "destination": started.destination,
        "resumed": started.resumed,
    })
}

fn progress_event(progress: &Progress<'_>, elapsed: Duration, rate: Option<f64>) -> Value {
    json!({
        "event": "progress",
        "bytes": progress.bytes,
        "bytes_total": progress.bytes_total,
        "bytes_per_second": rate.map(f64::round),
        "files": progress.files,
        "streams": progress.streams,
        "bottleneck": progress.bottleneck,
        "seconds": seconds(elapsed),
    })
}

fn failed_event(path: &[u8], message: &str) -> Value {
    let mut event = Map::new();
    event.insert("event".to_owned(), "failed".into());
    match std::str::from_utf8(path) {
        Ok(path) => event.insert("path".to_owned(), path.into()),
        Err(_not_text) => event.insert("path_b64".to_owned(), BASE64.encode(path).into()),
    };
    event.insert("message".to_owned(), message.into());
    Value::Object(event)
}

fn summary_event(summary: &Summary, elapsed: Duration) -> Value {
    json!({
        "event": "summary",
        "status": summary.status.name(),
        "bytes": summary.bytes,
        "files": summary.files,
        "skipped": summary.skipped,
        "failed": summary.failed,
        "resent_bytes": summary.resent_bytes,
        "seconds": seconds(elapsed),
        "cpu_seconds": sides(&summary.cpu_seconds),
        "max_rss_bytes": sides(&summary.max_rss_bytes),
        "bottleneck": summary.bottleneck,
    })
}

fn sides<T: Copy + Into<Value>>(sides: &Sides<T>) -> Value {
    json!({
        "source": sides.source.map(Into::into),
        "destination": sides.destination.map(Into::into),
    })
}

/// Milliseconds are as fine as makes sense.
fn seconds(elapsed: Duration) -> f64 {
    (elapsed.as_secs_f64() * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn the_summary_has_the_fields_of_the_manual() {
        let summary = Summary {
            status: Status::Partial,
            bytes: 7,
            files: 2,
            skipped: 3,
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
        };
        let event = summary_event(&summary, Duration::from_micros(1_234_567));
        assert_eq!(
            event,
            json!({
                "event": "summary", "status": "partial", "bytes": 7, "files": 2, "skipped": 3, "failed": 1,
                "resent_bytes": 5, "seconds": 1.235, "cpu_seconds": {"source": 0.5, "destination": null},
                "max_rss_bytes": {"source": 9, "destination": null}, "bottleneck": null,
            })
        );
        assert!(!event.to_string().contains('\n'));
    }

    #[test]
    fn a_path_that_is_no_text_is_in_base64() {
        assert_eq!(
            failed_event("d/ä\n".as_bytes(), "gone"),
            json!({"event": "failed", "path": "d/ä\n", "message": "gone"})
        );
        assert_eq!(
            failed_event(b"\xff\xfe", "gone"),
            json!({"event": "failed", "path_b64": "//4=", "message": "gone"})
        );
    }

    #[test]
    fn progress_without_a_total_says_null() {
        let progress = Progress {
            bytes: 1,
            bytes_total: None,
            files: 0,
            streams: 2,
            bottleneck: Some("network"),
        };
        assert_eq!(
            progress_event(&progress, Duration::from_secs(1), None),
            json!({
                "event": "progress", "bytes": 1, "bytes_total": null, "bytes_per_second": null, "files": 0,
                "streams": 2, "bottleneck": "network", "seconds": 1.0,
            })
        );
    }
}
