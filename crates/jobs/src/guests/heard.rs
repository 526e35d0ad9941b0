//! Owns the list of what another site hears of the job that runs here for it: views, lines of the log, samples, reasons.
//! Decides nothing about who may ask, and keeps nothing.
//!
//! What is not listed here does not pass, so a new event, field, code or figure passes only after a decision. No name of a node, of an
//! interface or of a user is listed. A document is taken apart field by field, so that the compiler asks about a new one.

use std::collections::BTreeMap;

use godwit_api::ask::{JobPast, JobSeen};
use godwit_api::event::Event;
use godwit_api::failure::{Failure, FailureCode, Scope};
use godwit_api::rest::{
    ChannelView, FailureGroup, JobView, LogLine, NodeProgress, ProgressView, Reason, SampleView,
};
use godwit_run::STAGE_FIGURES;
use godwit_state::reason;
use serde_json::{Value, json};

use super::OWNER;
use super::reach::{NOT_REACHED, is_before_proof};
use crate::attempt::LATE_CALLS;
use crate::border;

/// The events that pass, each with its fields. A dot leads into an object, or into each object of a list; `*` are all figures of an object.
const EVENTS: [(&str, &[&str]); 14] = [
    (
        "started",
        &[
            "transfer",
            "sources",
            "sources_b64",
            "destination",
            "destination_b64",
            "resumed",
        ],
    ),
    (
        "tuning",
        &["what", "channel", "from", "to", "reason", "seconds"],
    ),
    (
        "channels",
        &[
            "channels.number",
            "channels.streams",
            "channels.bytes",
            "channels.bytes_per_second",
            "channels.round_trip_seconds",
            "channels.resent_bytes",
            "channels.cuts",
            "seconds",
        ],
    ),
    (
        "connection_lost",
        &[
            "lost_seconds",
            "retry_for_seconds",
            "silent",
            "channel",
            "seconds",
        ],
    ),
    (
        "connection_regained",
        &["lost_seconds", "channel", "seconds"],
    ),
    (
        "failed",
        &[
            "path", "path_b64", "message", "root", "side", "code", "entry",
        ],
    ),
    ("item", &["action", "kind", "path", "path_b64", "bytes"]),
    ("paused", &[]),
    ("note", &["message"]),
    ("error", &["message", "code", "fault", "advice", "retry"]),
    ("stats", &["source.*", "destination.*"]),
    ("different", &["path", "path_b64", "kind", "message"]),
    ("extra", &["path", "path_b64"]),
    ("summary", &SUMMARY),
];

/// The fields of a summary.
const SUMMARY: [&str; 28] = [
    "event",
    "status",
    "code",
    "fault",
    "advice",
    "retry",
    "bytes",
    "files",
    "skipped",
    "excluded",
    "adjusted",
    "deleted",
    "failed",
    "resent_bytes",
    "seconds",
    "cpu_seconds.*",
    "max_rss_bytes.*",
    "bottleneck",
    "dry_run",
    "manifest.path",
    "manifest.path_b64",
    "manifest.entries",
    "manifest.digest",
    "manifest.bytes",
    "not_kept.*",
    "entries",
    "different",
    "extra",
];

/// Beginnings of the notes that pass: others say what was found at nodes of the other end.
const NOTES: [&str; 2] = ["submitted by request ", "divided: "];

/// Figures of the host that pass: how busy its processors are, which may be what slows the job down.
const HOST_FIGURES: [&str; 6] = [
    "cpu_user",
    "cpu_system",
    "cpu_iowait",
    "cpu_interrupts",
    "cpu_steal",
    "cpu_busiest_core",
];

/// Failures whose words pass: they are about the places of the job. Those of each entry pass, too.
const FAILURES: [FailureCode; 23] = [
    FailureCode::Usage,
    FailureCode::NoSource,
    FailureCode::DestinationUnusable,
    FailureCode::ExportAway,
    FailureCode::IntoItself,
    FailureCode::PathOutsideExport,
    FailureCode::NoSuchExport,
    FailureCode::NotSupported,
    FailureCode::Unauthorized,
    FailureCode::AccessDenied,
    FailureCode::VersionMismatch,
    FailureCode::PeerBusy,
    FailureCode::BusyDestination,
    FailureCode::Superseded,
    FailureCode::CannotResume,
    FailureCode::JournalUnusable,
    FailureCode::SyncFailed,
    FailureCode::LeftoversStay,
    FailureCode::DataDamaged,
    FailureCode::ManifestRefused,
    FailureCode::VerificationIncomplete,
    FailureCode::Partial,
    FailureCode::Different,
];

/// Reasons of the program whose words pass.
const REASONS: [&str; 5] = [
    reason::WAITING,
    reason::NOT_BEFORE,
    reason::COMPLETE,
    "extra",
    "not_deleted",
];

/// Reasons whose words begin with the name of the one who acted. Those of the asker pass.
const ACTS: [&str; 4] = [
    reason::PAUSED,
    reason::RESUMED,
    reason::RETRIED,
    reason::CANCELLED,
];

/// Words for the reasons whose own ones name nodes, users or further reasons.
const INSTEAD: [(&str, &str); 15] = [
    (reason::PAUSED, "The site that runs the job paused it."),
    (reason::RESUMED, "The site that runs the job resumed it."),
    (
        reason::RETRIED,
        "The site that runs the job has it run again.",
    ),
    (reason::CANCELLED, "The site that ran the job cancelled it."),
    (
        reason::NODE_RESTARTED,
        "The node that ran the job was restarted; the job goes on by itself.",
    ),
    (
        reason::NODE_LOST,
        "The node that ran the job was lost; the job goes on at another one.",
    ),
    (
        reason::DEADLINE_PASSED,
        "The deadline of the job passed at the site that ran it.",
    ),
    (
        reason::RETRIES_EXHAUSTED,
        "The job used up its retries at the site that ran it; its log has the failure of each attempt.",
    ),
    (
        LATE_CALLS,
        "Some nodes of the destination have not confirmed that no call of the job is left there; the site that ran it knows which.",
    ),
    (
        "entries_failed",
        "Some entries failed; all others arrived. See them with: godwit job report.",
    ),
    (
        "no_node",
        "No node of the site reaches the places of the job; the job begins when one does.",
    ),
    (
        "nodes_drained",
        "Every node of the site that reaches the places of the job is drained; the job begins when one takes jobs again.",
    ),
    (
        "jobs_of_node",
        "The site runs as many jobs as it runs at once; the job begins when one of them ends.",
    ),
    (
        "jobs_of_owner",
        "The site runs as many jobs for this one as it runs at once; the job begins when one of them ends.",
    ),
    (
        "jobs_of_site",
        "The site runs as many jobs with the other end as it runs at once; the job begins when one of them ends.",
    ),
];

/// What stands for words that do not pass.
const UNSAID: &str = "The site that runs the job knows more.";

/// What stands for a note that does not pass, or for an event that is not listed.
const FOR_OPERATOR: &str = "a note for the operator of the site that runs the job";

/// The job, and its failed entries.
pub(super) fn seen(JobSeen { view, failures }: JobSeen) -> JobSeen {
    JobSeen {
        view: self::view(view),
        failures: failures.into_iter().map(group).collect(),
    }
}

/// A part of the log and of the samples.
pub(super) fn past(past: JobPast) -> JobPast {
    let JobPast {
        lines,
        samples,
        more,
    } = past;
    JobPast {
        lines: lines.into_iter().map(line).collect(),
        samples: samples.into_iter().map(sample).collect(),
        more,
    }
}

fn view(view: JobView) -> JobView {
    let JobView {
        id,
        label,
        owner,
        kind,
        sources,
        destination,
        state,
        reason,
        since,
        next_attempt,
        priority,
        limit,
        not_before,
        deadline,
        attempts,
        node: _,
        request,
        created,
        started,
        ended,
        progress,
        moved,
        mut summary,
    } = view;
    if let Some(summary) = &mut summary {
        pass(summary, "", &SUMMARY);
    }
    JobView {
        id,
        label,
        owner,
        kind,
        sources,
        destination,
        state,
        reason: reason.map(heard),
        since,
        next_attempt,
        priority,
        limit,
        not_before,
        deadline,
        attempts,
        node: None,
        request,
        created,
        started,
        ended,
        progress: progress.map(self::progress),
        moved,
        summary,
    }
}

fn progress(progress: ProgressView) -> ProgressView {
    let ProgressView {
        at,
        bytes,
        bytes_total,
        bytes_per_second,
        files,
        files_total,
        scanning,
        streams,
        bottleneck,
        bottleneck_text: _,
        failed,
        stages,
        channels,
        moved,
        nodes,
    } = progress;
    ProgressView {
        at,
        bytes,
        bytes_total,
        bytes_per_second,
        files,
        files_total,
        scanning,
        streams,
        bottleneck,
        bottleneck_text: None,
        failed,
        stages: listed(stages, &STAGE_FIGURES),
        channels: channels.into_iter().map(channel).collect(),
        moved,
        nodes: self::nodes(nodes),
    }
}

fn channel(channel: ChannelView) -> ChannelView {
    let ChannelView {
        number,
        name: _,
        streams,
        bytes,
        bytes_per_second,
        round_trip_seconds,
        resent_bytes,
        cuts,
    } = channel;
    ChannelView {
        number,
        name: ChannelView::unnamed_path(number.into()),
        streams,
        bytes,
        bytes_per_second,
        round_trip_seconds,
        resent_bytes,
        cuts,
    }
}

fn nodes(nodes: Vec<NodeProgress>) -> Vec<NodeProgress> {
    let one = |(number, node): (usize, NodeProgress)| {
        let NodeProgress {
            node: _,
            to: _,
            bytes_per_second,
            streams,
            bottleneck,
            bottleneck_text: _,
            stages,
            host,
        } = node;
        NodeProgress {
            node: border::node_name(number),
            to: String::new(),
            bytes_per_second,
            streams,
            bottleneck,
            bottleneck_text: None,
            stages: listed(stages, &STAGE_FIGURES),
            host: listed(host, &HOST_FIGURES),
        }
    };
    (1..).zip(nodes).map(one).collect()
}

fn sample(sample: SampleView) -> SampleView {
    let SampleView {
        at,
        attempt,
        bytes,
        files,
        bytes_per_second,
        streams,
        moved,
        held,
        bottleneck,
        stages,
        host,
        nodes,
        site: _,
        node: _,
    } = sample;
    SampleView {
        at,
        attempt,
        bytes,
        files,
        bytes_per_second,
        streams,
        moved,
        held,
        bottleneck,
        stages: listed(stages, &STAGE_FIGURES),
        host: listed(host, &HOST_FIGURES),
        nodes: self::nodes(nodes),
        site: None,
        node: None,
    }
}

fn listed(mut figures: BTreeMap<String, f64>, list: &[&str]) -> BTreeMap<String, f64> {
    figures.retain(|name, _| list.contains(&name.as_str()));
    figures
}

fn group(group: FailureGroup) -> FailureGroup {
    let FailureGroup {
        reason,
        count,
        examples,
    } = group;
    FailureGroup {
        reason: heard(reason),
        count,
        examples,
    }
}

fn heard(told: Reason) -> Reason {
    let Reason { code, text } = told;
    let (code, text) = said(&code, &text);
    Reason::new(&code, text)
}

/// A code and its words as the asker hears them.
fn said(code: &str, text: &str) -> (String, String) {
    // The text of a lost connection says what the tries after it met, at addresses that may have moved.
    if is_before_proof(code) || code == FailureCode::ConnectionLost.as_str() {
        let code = FailureCode::Unreachable.as_str();
        return (code.to_owned(), NOT_REACHED.to_owned());
    }
    let failure = FailureCode::parse(code);
    let passes = match failure {
        Some(failure) => failure.scope() == Scope::Entry || FAILURES.contains(&failure),
        None => REASONS.contains(&code) || (ACTS.contains(&code) && text.starts_with(OWNER)),
    };
    if passes {
        return (code.to_owned(), text.to_owned());
    }
    let instead = INSTEAD.iter().find(|(known, _)| *known == code);
    let words = match (instead, failure) {
        (Some((_, words)), _) => words,
        (None, Some(failure)) => failure.meaning(),
        (None, None) => return (border::OTHER.to_owned(), UNSAID.to_owned()),
    };
    (code.to_owned(), words.to_owned())
}

/// A line of the log.
fn line(line: LogLine) -> LogLine {
    let LogLine {
        seq,
        at,
        attempt,
        event,
        from: _,
        node: _,
    } = line;
    LogLine {
        seq,
        at,
        attempt,
        event: self::event(event),
        from: None,
        node: None,
    }
}

fn event(mut event: Value) -> Value {
    let text = |event: &Value, name: &str| {
        let text = event.get(name).and_then(Value::as_str);
        text.map(str::to_owned)
    };
    let kind = text(&event, "event").unwrap_or_default();
    let code = text(&event, "code");
    if code.as_deref().is_some_and(is_before_proof) {
        let failure = Failure::new(FailureCode::Unreachable, NOT_REACHED);
        // Plain fields: it always becomes JSON.
        return serde_json::to_value(Event::Error((&failure).into())).unwrap_or_default();
    }
    let Some((_, fields)) = EVENTS.iter().find(|(known, _)| *known == kind) else {
        return note(FOR_OPERATOR);
    };
    pass(&mut event, "", fields);
    let message = text(&event, "message").unwrap_or_default();
    let Value::Object(left) = &mut event else {
        return note(FOR_OPERATOR);
    };
    left.insert("event".to_owned(), kind.clone().into());
    match kind.as_str() {
        "note" if !NOTES.iter().any(|known| message.starts_with(known)) => {
            return note(FOR_OPERATOR);
        }
        "error" | "failed" => {
            // An entry may fail without a code.
            let none = if kind == "failed" { border::OTHER } else { "" };
            let (code, words) = said(code.as_deref().unwrap_or(none), &message);
            left.insert("code".to_owned(), code.into());
            left.insert("message".to_owned(), words.into());
        }
        "connection_lost" | "connection_regained" => {
            if kind == "connection_lost" {
                left.insert("why".to_owned(), "the connection is lost".into());
            }
            if let Some(number) = left.get("channel").and_then(Value::as_u64) {
                left.insert("name".to_owned(), ChannelView::unnamed_path(number).into());
            }
        }
        "channels" => {
            let channels = left.get_mut("channels").and_then(Value::as_array_mut);
            for channel in channels.into_iter().flatten() {
                let number = channel.get("number").and_then(Value::as_u64);
                if let Value::Object(fields) = channel {
                    let name = ChannelView::unnamed_path(number.unwrap_or(0));
                    fields.insert("name".to_owned(), name.into());
                }
            }
        }
        _ => {}
    }
    event
}

fn note(message: &str) -> Value {
    json!({"event": "note", "message": message})
}

/// Leaves what the list names. `at` is where the value stands.
fn pass(value: &mut Value, at: &str, list: &[&str]) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let name = match at {
                "" => name.clone(),
                _ => format!("{at}.{name}"),
            };
            let is_named = list.contains(&name.as_str());
            match value {
                Value::Object(_) => {
                    pass(value, &name, list);
                    value.as_object().is_some_and(|left| !left.is_empty())
                }
                Value::Array(items) if items.iter().any(Value::is_object) => {
                    pass(value, &name, list);
                    true
                }
                Value::String(_) | Value::Array(_) => is_named,
                Value::Null | Value::Bool(_) | Value::Number(_) => {
                    is_named || list.contains(&format!("{at}.*").as_str())
                }
            }
        }),
        Value::Array(items) => {
            items.retain(Value::is_object);
            items.iter_mut().for_each(|item| pass(item, at, list));
        }
        _ => {}
    }
}

#[cfg(test)]
#[path = "heard/tests.rs"]
mod tests;
