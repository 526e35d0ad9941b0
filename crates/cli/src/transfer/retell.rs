//! What another machine's godwit prints as JSON lines, told on as if it were ours.
//! Trusts nothing in it: what is missing or odd becomes nothing or zero.

use std::time::{Duration, Instant};

use data_encoding::BASE64;
use godwit_engine::{Shares, Snapshot};
use godwit_proto::CHANNELS_MAX;
use godwit_store::digest::DigestKind;
use serde_json::Value;

use crate::exit::Failure;
use crate::output::{
    ChannelShown, Itemised, Limited, LimitedTold, NotKept, Output, Pace, Progress, Sides, Started,
    Status, Summary, ToldFault, Tuned,
};
use crate::reports::{ReportRoots, Reports};
use crate::ssh::UNREACHABLE;

/// What was told so far.
pub(super) struct Retold<'a> {
    output: &'a Output,
    reports: &'a Reports,
    /// Of the files, as this side asked for it.
    digest: DigestKind,
    /// People asked for what becomes of each entry.
    itemises: bool,
    /// Stands before the paths of its machine.
    prefix: String,
    moved: bool,
    unreachable: bool,
    /// When a connection between the two machines was last seen.
    joined: Option<Instant>,
    ended: bool,
    shares: Shares,
    summary: Option<Summary>,
    failure: Option<Failure>,
}

impl<'a> Retold<'a> {
    pub(super) fn new(
        machine: &str,
        output: &'a Output,
        reports: &'a Reports,
        digest: DigestKind,
        itemises: bool,
    ) -> Self {
        Self {
            output,
            reports,
            digest,
            itemises,
            prefix: format!("{machine}:"),
            moved: false,
            unreachable: false,
            joined: None,
            ended: false,
            shares: Shares::default(),
            summary: None,
            failure: None,
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

    /// How long the transfer, which has begun and not ended, has been without a connection between the two machines.
    pub(super) fn apart_for(&self) -> Duration {
        match self.joined {
            Some(since) if !self.ended && self.summary.is_none() => since.elapsed(),
            _ => Duration::ZERO,
        }
    }

    /// This side cannot note what it is told.
    pub(super) fn failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// The last word, if it was said, and the counters of both ends.
    pub(super) fn summary(self) -> Option<(Summary, Shares)> {
        let shares = self.shares;
        self.summary.map(|summary| (summary, shares))
    }

    /// Takes one line; what is no event of ours is passed over.
    pub(super) fn take(&mut self, line: &[u8]) {
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        match event["event"].as_str() {
            Some("started") => self.started(&event),
            Some("progress") => self.progress(&event),
            Some("failed") => {
                let path = [self.prefix.as_bytes(), &bytes(&event, "path", "path_b64")].concat();
                self.output.failed(&path, text(&event["message"]));
            }
            Some("item") => self.item(&event),
            Some("fault") => self.reports.fault_told(&ToldFault {
                name: &bytes(&event, "name", "name_b64"),
                side: text(&event["side"]),
                code: text(&event["code"]),
                message: text(&event["message"]),
            }),
            Some("entry") => self.reports.line_told(&bytes(&event, "line", "line_b64")),
            Some("ended") => self.ended = true,
            Some("stats") => {
                let side = |side: &Value| {
                    side.is_object()
                        .then(|| Snapshot::of_fields(|name| number(&side[name])))
                };
                self.shares = Shares {
                    source: side(&event["source"]),
                    destination: side(&event["destination"]),
                };
            }
            Some("channels") => self.channels(&event),
            Some("note") => self.output.note(text(&event["message"])),
            Some("tuning") => self.output.tuned(&tuned(&event), self.itemises),
            Some("error") => {
                let message = text(&event["message"]);
                self.unreachable |= message.starts_with(UNREACHABLE);
                self.output.error(&format!("{} {message}", self.prefix));
            }
            Some("summary") => self.summary = Some(summary(&event)),
            _ => {}
        }
    }

    fn progress(&mut self, event: &Value) {
        let bytes = number(&event["bytes"]);
        self.moved |= bytes > 0;
        let streams = u32::try_from(number(&event["streams"])).unwrap_or(u32::MAX);
        if streams > 0 {
            self.joined = Some(Instant::now());
        }
        let limited = limited(event);
        let progress = Progress {
            bytes,
            bytes_total: event["bytes_total"].as_u64(),
            pace: Pace::Told(event["bytes_per_second"].as_f64()),
            files: number(&event["files"]),
            streams,
            bottleneck: limited.as_ref(),
        };
        if progress.bytes_total == Some(bytes) {
            self.output.progress_at_end(&progress);
        } else {
            self.output.progress(&progress);
        }
    }

    /// The shares of channels between the two; the rates are theirs, or else made anew here.
    fn channels(&self, event: &Value) {
        let channels: Vec<ChannelShown> = event["channels"]
            .as_array()
            .into_iter()
            .flatten()
            .take(CHANNELS_MAX as usize)
            .filter_map(|channel| serde_json::from_value(channel.clone()).ok())
            .collect();
        self.output.channels(channels);
    }

    fn item(&self, event: &Value) {
        // Words of a fixed set, whoever says them.
        let known = |words: &[&'static str], said: &Value| {
            let said = text(said);
            words.iter().copied().find(|word| *word == said)
        };
        let action = known(
            &["send", "make", "adjust", "skip", "delete"],
            &event["action"],
        );
        let kind = known(&["file", "directory", "symlink", "link"], &event["kind"]);
        let Some(action) = action else { return };
        self.output.item(&Itemised {
            action,
            kind: kind.unwrap_or("other"),
            path: &bytes(event, "path", "path_b64"),
            bytes: number(&event["bytes"]),
            quiet: !self.itemises,
        });
    }

    /// It begins, or begins anew.
    fn started(&mut self, event: &Value) {
        self.joined = Some(Instant::now());
        self.ended = false;
        // What was noted before is void.
        if let Err(failure) = self.reports.begin(ReportRoots::default(), self.digest) {
            self.failure.get_or_insert(failure);
        }
        let list = |field: &str| event[field].as_array().into_iter().flatten();
        let plain = list("sources").map(|source| text(source).as_bytes().to_vec());
        let encoded = list("sources_b64").map(decoded);
        let sources: Vec<Vec<u8>> = plain
            .chain(encoded)
            .map(|source| [self.prefix.as_bytes(), &source].concat())
            .collect();
        self.output.started(&Started {
            transfer: text(&event["transfer"]),
            sources: &sources,
            destination: &bytes(event, "destination", "destination_b64"),
            resumed: event["resumed"].as_bool().unwrap_or_default(),
        });
    }
}

fn tuned(event: &Value) -> Tuned<'_> {
    let count = |value| u32::try_from(number(value)).unwrap_or(u32::MAX);
    Tuned {
        what: text(&event["what"]),
        // One that does not name it has one channel, or is too old to say.
        channel: event["channel"]
            .as_u64()
            .and_then(|channel| u32::try_from(channel).ok()),
        from: count(&event["from"]),
        to: count(&event["to"]),
        reason: text(&event["reason"]),
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
        dry_run: event["dry_run"].as_bool().unwrap_or_default(),
        status: match event["status"].as_str() {
            Some("complete") => Status::Complete,
            Some("partial") => Status::Partial,
            Some("interrupted") => Status::Interrupted,
            _ => Status::Failed,
        },
        bytes: number(&event["bytes"]),
        unknown_bytes: false,
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
        bottleneck: limited(event),
        manifest: None,
        not_kept: not_kept(&event["not_kept"]),
    }
}

fn limited(event: &Value) -> Option<Limited> {
    let told = &event["bottleneck_told"];
    event["bottleneck"].as_str().map(|stage| Limited {
        stage: stage.to_owned(),
        told: LimitedTold {
            figure: text(&told["figure"]).to_owned(),
            advice: told["advice"].as_str().map(str::to_owned),
        },
    })
}

fn not_kept(counts: &Value) -> NotKept {
    NotKept {
        owner: number(&counts["owner"]),
        group: number(&counts["group"]),
        set_id: number(&counts["set_id"]),
        xattrs: number(&counts["xattrs"]),
        security_xattrs: number(&counts["security_xattrs"]),
        acls: number(&counts["acls"]),
        hard_link: number(&counts["hard_link"]),
    }
}

/// A name or line: text, or else in base64.
fn bytes(event: &Value, field: &str, encoded: &str) -> Vec<u8> {
    match event[field].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => decoded(&event[encoded]),
    }
}

fn decoded(value: &Value) -> Vec<u8> {
    BASE64.decode(text(value).as_bytes()).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_decision_is_told_on_with_its_channel_or_without_one() {
        let told = |channel: Value| {
            let mut event = json!({"what": "streams", "from": 1, "to": 4, "reason": "so"});
            if !channel.is_null() {
                event["channel"] = channel;
            }
            let tuned = tuned(&event);
            assert_eq!((tuned.what, tuned.from, tuned.to), ("streams", 1, 4));
            tuned.channel
        };
        assert_eq!(told(json!(3)), Some(3));
        for odd in [Value::Null, json!("3"), json!(-1), json!(u64::MAX)] {
            assert_eq!(told(odd), None);
        }
    }
}
