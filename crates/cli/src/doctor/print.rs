//! Prints findings: for people, a line each and a sentence at the end; for programs, one object.
//! Judges nothing.

use std::collections::HashSet;

use godwit_api::units::human_rate;
use serde_json::{Value, json};

use super::findings::{Direction, Findings, Level, Limit};
use super::node::Path;
use crate::output::{print, print_data, printable};

/// Prints the findings for people. A remedy is printed once.
pub(super) fn people(findings: &Findings) {
    let mut mends = HashSet::new();
    for finding in &findings.all {
        let sign = match finding.level {
            Level::Fine => "ok   ",
            Level::Note => "note ",
            Level::Stop => "STOP ",
        };
        line(&format!("{sign} {}: {}", finding.name, finding.message));
        match &finding.mend {
            Some(mend) if mends.insert(mend) => line(&format!("       -> {mend}")),
            Some(_) => line("       -> as above"),
            None => {}
        }
    }
    match findings.stops() {
        // The remedy is printed above.
        Some(stop) => line(&format!(
            "A transfer would be stopped ({}): see STOP above",
            stop.name
        )),
        None => line(&sentence(findings)),
    }
}

/// Prints a line; words of a peer or a file system may be in it.
fn line(text: &str) {
    print(&printable(text));
}

/// Prints the findings for programs.
pub(super) fn json(findings: &Findings, path: Option<&Path>) {
    let checks: Vec<Value> = findings
        .all
        .iter()
        .map(|finding| {
            json!({"name": finding.name, "level": finding.level.name(), "message": finding.message, "mend": finding.mend})
        })
        .collect();
    let limits: Vec<Value> = findings.limits.iter().map(limit).collect();
    let path = path.map(|path| {
        json!({
            "round_trip_seconds": path.round_trip.as_secs_f64(),
            "path_mtu_bytes": path.mtu_bytes,
            "path_mtu_bytes_back": path.mtu_bytes_back,
            "segment_bytes": path.segment_bytes,
            "software": path.software,
            "clock_ahead_seconds": path.clock.map(|clock| clock.ahead_seconds()),
            "clock_uncertainty_seconds": path.clock.map(|clock| clock.uncertainty.as_secs_f64()),
        })
    });
    let object = json!({
        "event": "doctor",
        "status": if findings.would_stop() { "stop" } else { "fine" },
        "message": sentence(findings),
        "checks": checks,
        "limits": limits,
        "path": path,
        "sending": findings.tightest(Direction::Sending).map(limit),
        "receiving": findings.tightest(Direction::Receiving).map(limit),
    });
    print_data(&object.to_string());
}

fn limit(limit: &Limit) -> Value {
    let way = match limit.way {
        Direction::Sending => "sending",
        Direction::Receiving => "receiving",
    };
    json!({"name": limit.name, "way": way, "what": limit.what, "bytes_per_second": limit.bytes_per_second, "mend": limit.mend})
}

/// The factor that would limit a transfer, and the remedy.
fn sentence(findings: &Findings) -> String {
    if let Some(stop) = findings.stops() {
        return match &stop.mend {
            Some(mend) => format!("A transfer would be stopped ({}): {mend}", stop.name),
            None => format!("A transfer would be stopped ({})", stop.name),
        };
    }
    let about = |way, verb: &str| {
        findings.tightest(way).map(|limit| {
            format!(
                "{verb} at most about {}, limited by {}: {}",
                human_rate(limit.bytes_per_second),
                limit.what,
                limit.mend
            )
        })
    };
    let both = [
        about(Direction::Sending, "Sending"),
        about(Direction::Receiving, "receiving"),
    ];
    let said: Vec<String> = both.into_iter().flatten().collect();
    format!("{}.", said.join("; "))
}
