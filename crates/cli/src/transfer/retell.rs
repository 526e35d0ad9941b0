//! What another machine's godwit prints as JSON lines, told on as if it were ours.
//! Trusts nothing in it: what is missing or odd becomes nothing or zero.

use data_encoding::BASE64;
use serde_json::Value;

use crate::output::{NotKept, Output, Progress, Sides, Started, Status, Summary};
use crate::ssh::UNREACHABLE;

/// What was told so far.
pub(super) struct Retold {
    /// Stands before the paths of its machine.
    prefix: String,
    moved: bool,
    unreachable: bool,
    summary: Option<Summary>,
}

impl Retold {
    pub(super) fn new(machine: &str) -> Self {
        Self {
            prefix: format!("{machine}:"),
            moved: false,
            unreachable: false,
            summary: None,
        }
    }

    /// Bytes have arrived.
    pub(super) fn moved(&self) -> bool {
        self.moved
    }

    /// The two machines could not reach each other.
    pub(super) fn unreachable(&self) -> bool {
        self.unreachable
    }

    /// The last word, if it was said.
    pub(super) fn summary(self) -> Option<Summary> {
        self.summary
    }

    /// Takes one line; what is no event of ours is passed over.
    pub(super) fn take(&mut self, line: &[u8], output: &Output) {
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        match event["event"].as_str() {
            Some("started") => self.started(&event, output),
            Some("progress") => {
                let bytes = number(&event["bytes"]);
                self.moved |= bytes > 0;
                output.progress(&Progress {
                    bytes,
                    bytes_total: event["bytes_total"].as_u64(),
                    files: number(&event["files"]),
                    streams: u32::try_from(number(&event["streams"])).unwrap_or(u32::MAX),
                    bottleneck: event["bottleneck"].as_str(),
                });
            }
            Some("failed") => {
                let path = event["path"].as_str().map_or_else(
                    || {
                        let encoded = text(&event["path_b64"]);
                        BASE64.decode(encoded.as_bytes()).unwrap_or_default()
                    },
                    |path| path.as_bytes().to_vec(),
                );
                let path = [self.prefix.as_bytes(), &path].concat();
                output.failed(&path, text(&event["message"]));
            }
            Some("note") => output.note(text(&event["message"])),
            Some("error") => {
                let message = text(&event["message"]);
                self.unreachable |= message.starts_with(UNREACHABLE);
                output.error(&format!("{} {message}", self.prefix));
            }
            Some("summary") => self.summary = Some(summary(&event)),
            _ => {}
        }
    }

    fn started(&self, event: &Value, output: &Output) {
        let sources: Vec<String> = event["sources"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|source| format!("{}{}", self.prefix, text(source)))
            .collect();
        output.started(&Started {
            transfer: text(&event["transfer"]),
            sources: &sources,
            destination: text(&event["destination"]),
            resumed: event["resumed"].as_bool().unwrap_or_default(),
        });
    }
}

fn summary(event: &Value) -> Summary {
    let sides = |field: &str| {
        let of = |side: &str| event[field][side].clone();
        (of("source"), of("destination"))
    };
    let (cpu_source, cpu_destination) = sides("cpu_seconds");
    let (rss_source, rss_destination) = sides("max_rss_bytes");
    Summary {
        adjusted: number(&event["adjusted"]),
        deleted: number(&event["deleted"]),
        dry_run: false,
        status: match event["status"].as_str() {
            Some("complete") => Status::Complete,
            Some("partial") => Status::Partial,
            Some("interrupted") => Status::Interrupted,
            _ => Status::Failed,
        },
        bytes: number(&event["bytes"]),
        files: number(&event["files"]),
        skipped: number(&event["skipped"]),
        excluded: number(&event["excluded"]),
        failed: number(&event["failed"]),
        resent_bytes: number(&event["resent_bytes"]),
        cpu_seconds: Sides {
            source: cpu_source.as_f64(),
            destination: cpu_destination.as_f64(),
        },
        max_rss_bytes: Sides {
            source: rss_source.as_u64(),
            destination: rss_destination.as_u64(),
        },
        bottleneck: event["bottleneck"].as_str().map(str::to_owned),
        manifest: None,
        not_kept: not_kept(&event["not_kept"]),
    }
}

fn not_kept(counts: &Value) -> NotKept {
    NotKept {
        owner: number(&counts["owner"]),
        group: number(&counts["group"]),
        set_id: number(&counts["set_id"]),
        xattrs: number(&counts["xattrs"]),
        security_xattrs: number(&counts["security_xattrs"]),
        acls: number(&counts["acls"]),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
