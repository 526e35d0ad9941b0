//! Owns the list of items that another site gets of the job that runs here for it: views, lines of the log, samples, reasons.
//! Decides nothing about the rights of askers, and keeps nothing.
//!
//! Only listed items pass, so a new event, field, code or figure passes only after a decision. No name of a node, of an interface or of a
//! user is listed. A document is taken apart field by field, so that the compiler asks about a new one.

mod passes;

use std::collections::BTreeMap;

use godwit_api::ask::{JobPast, JobSeen};
use godwit_api::event::Event;
use godwit_api::failure::{Code, Failure, FailureCode, Scope};
use godwit_api::rest::{
    ChannelView, FailureGroup, JobView, LogLine, NodeProgress, Place, ProgressView, Reason,
    SampleView,
};
use godwit_run::STAGE_FIGURES;
use serde_json::{Value, json};

use self::passes::{
    ACTS, EVENTS, FAILURES, FOR_OPERATOR, HOST_FIGURES, INSTEAD, NOTES, REASONS, SUMMARY, UNSAID,
};
use super::submission::NAMELESS;
use crate::asking::border;
use crate::asking::reach::{NOT_REACHED, is_unproven};
use crate::basis::owners::OWNER;

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

/// The field of a summary with the figures of a manifest, and the path that the asker gets in it.
const MANIFEST: &str = "manifest";

/// A place without the name of its site: that name is private to this node.
fn place(text: String) -> String {
    match text.parse::<Place>() {
        Ok(place) if place.is_here() => text,
        Ok(place) => Place {
            site: NAMELESS.to_owned(),
            ..place
        }
        .to_string(),
        Err(_) => String::new(),
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
        destinations: _,
        parent: _,
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
        buffered: _,
    } = view;
    if let Some(summary) = &mut summary {
        pass(summary, "", &SUMMARY);
        hide_unproven(summary);
    }
    JobView {
        id,
        label,
        owner,
        kind,
        sources: sources.into_iter().map(place).collect(),
        destination: place(destination),
        destinations: None,
        parent: None,
        state,
        reason: reason.map(self::reason),
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
        buffered: None,
    }
}

/// Leaves nothing of the summary of an attempt that failed before the other end had proved its identity: the reason has the one code for
/// all such ends.
fn hide_unproven(summary: &mut Value) {
    let code = summary.get("code").and_then(Value::as_str);
    let code = code.and_then(|word| Code::of_word(word).known());
    if code.is_some_and(is_unproven) {
        *summary = json!({});
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
        files_settled,
        forecast: _,
        scanning,
        behind,
        streams,
        bottleneck,
        bottleneck_text: _,
        failed,
        stages,
        channels,
        moved,
        host,
        other_host: _,
        nodes,
    } = progress;
    ProgressView {
        at,
        bytes,
        bytes_total,
        bytes_per_second,
        files,
        files_total,
        files_settled,
        // This site knows limits that the other one does not.
        forecast: None,
        scanning,
        behind,
        streams,
        bottleneck,
        bottleneck_text: None,
        failed,
        stages: listed(stages, &STAGE_FIGURES),
        channels: channels.into_iter().map(channel).collect(),
        moved,
        host: listed(host, &HOST_FIGURES),
        // The node at the other end gave these figures to this node alone.
        other_host: BTreeMap::new(),
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
            other_host: _,
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
            // The node at the other end gave these figures to this node alone.
            other_host: BTreeMap::new(),
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
        other_host: _,
        nodes,
        forecast: _,
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
        // The node at the other end gave these figures to this node alone.
        other_host: BTreeMap::new(),
        nodes: self::nodes(nodes),
        // As for progress: this site knows limits and jobs that the other one does not.
        forecast: None,
        site: None,
        node: None,
    }
}

/// The figures of this host for the other end of a running transfer. Single interfaces have numbers: their names do not pass.
pub(super) fn host(figures: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let unnamed = |(name, figure): (String, f64)| {
        let Some((interface, way)) = of_interface(&name) else {
            return (name, figure);
        };
        let next = numbers.len() + 1;
        let number = *numbers.entry(interface.to_owned()).or_insert(next);
        (format!("interface_{number}_{way}"), figure)
    };
    figures.into_iter().map(unnamed).collect()
}

/// The interface of the figure of a single one, and the rest of the figure's name.
fn of_interface(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("interface_")?.split_once('_')
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
        reason: self::reason(reason),
        count,
        examples,
    }
}

fn reason(reported: Reason) -> Reason {
    let Reason { code, text } = reported;
    let (code, text) = said(&code, &text);
    Reason::new(code, text)
}

/// A code and its text, as they pass to the asker.
fn said(code: &Code, text: &str) -> (Code, String) {
    let Some(known) = code.known() else {
        return (border::OTHER.into(), UNSAID.to_owned());
    };
    // The text of a lost connection reveals the outcome of later tries, at addresses that may have moved.
    if is_unproven(known) || known == FailureCode::ConnectionLost {
        return (FailureCode::Unreachable.into(), NOT_REACHED.to_owned());
    }
    let passes = known.scope() == Scope::Entry
        || FAILURES.contains(&known)
        || REASONS.contains(&known)
        || ACTS.contains(&known) && text.starts_with(OWNER);
    if passes {
        return (known.into(), text.to_owned());
    }
    let instead = INSTEAD.iter().find(|(code, _)| *code == known);
    let words = instead.map_or_else(|| known.meaning(), |(_, words)| words);
    (known.into(), words.to_owned())
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
    let code = text(&event, "code").map(|word| Code::of_word(&word));
    let known = code.as_ref().and_then(Code::known);
    if known.is_some_and(is_unproven) {
        let failure = Failure::new(FailureCode::Unreachable, NOT_REACHED);
        // The value has only plain fields, so it always becomes JSON.
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
            let (code, words) = said(&code.unwrap_or_default(), &message);
            left.insert("code".to_owned(), code.as_str().into());
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

/// Keeps the values that the list names. `at` is the path of the value.
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
                    // Its path names the node that has the manifest.
                    if let Some(left) = value.as_object_mut().filter(|_| name == MANIFEST) {
                        left.insert("path".to_owned(), MANIFEST.into());
                    }
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
#[path = "disclosure/tests.rs"]
mod tests;
