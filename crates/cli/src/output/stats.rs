//! The table of `--stats`: the work, speed and waits of each stage.
//! Prints nothing itself.

use godwit_api::event::Stats;
use godwit_api::units::{human_rate, human_size};
use godwit_engine::Snapshot;
use std::collections::BTreeMap;
use std::time::Duration;

/// The table, without a newline at its end.
pub(super) fn table(stats: &Stats, elapsed: Duration) -> String {
    let mut lines = vec![row("stage", "source", "destination")];
    let side = |counters: &Option<BTreeMap<String, u64>>| {
        let counters = counters.as_ref()?;
        Some(Snapshot::of_fields(|name| {
            counters.get(name).copied().unwrap_or_default()
        }))
    };
    let (source, destination) = (side(&stats.source), side(&stats.destination));
    for (name, field) in COUNTS {
        lines.push(row(
            name,
            &number(source, field),
            &number(destination, field),
        ));
    }
    for (name, field) in BYTES {
        let show = |side: Option<Snapshot>| match side.map(|side| field(&side)) {
            Some(0) | None => "-".to_owned(),
            Some(bytes) => format!("{}, {}", human_size(bytes), rate(bytes, elapsed)),
        };
        lines.push(row(name, &show(source), &show(destination)));
    }
    for (name, field) in TIMES {
        let show = |side: Option<Snapshot>| match side.map(|side| field(&side)) {
            Some(0) | None => "-".to_owned(),
            Some(time) => format!("{:.2} s", Duration::from_nanos(time).as_secs_f64()),
        };
        lines.push(row(name, &show(source), &show(destination)));
    }
    let memory = |side: Option<u64>| side.map_or_else(|| "-".to_owned(), human_size);
    let rss = &stats.max_rss_bytes;
    lines.push(row("memory", &memory(rss.source), &memory(rss.destination)));
    lines.join("\n")
}

type Field = fn(&Snapshot) -> u64;

const COUNTS: [(&str, Field); 6] = [
    ("entries", |side| side.entries_scanned),
    ("files done", |side| side.files_done),
    ("files skipped", |side| side.files_skipped),
    ("entries failed", |side| side.entries_failed),
    ("blocks damaged", |side| side.digest_failures),
    ("streams lost", |side| side.streams_lost),
];

const BYTES: [(&str, Field); 8] = [
    ("scanned", |side| side.bytes_scanned),
    ("skipped", |side| side.bytes_skipped),
    ("read", |side| side.bytes_read),
    ("sent", |side| side.bytes_sent),
    ("sent again", |side| side.bytes_resent),
    ("received", |side| side.bytes_received),
    ("written", |side| side.bytes_written),
    ("durable", |side| side.bytes_durable),
];

/// Times of all threads together.
const TIMES: [(&str, Field); 11] = [
    ("reading", |side| side.reading_ns),
    ("sending", |side| side.sending_ns),
    ("no work", |side| side.starved_ns),
    ("unacknowledged", |side| side.unacknowledged_ns),
    ("rate limit", |side| side.limited_ns),
    ("no data", |side| side.waiting_ns),
    ("receiving", |side| side.receiving_ns),
    ("writing", |side| side.writing_ns),
    ("not durable", |side| side.undurable_ns),
    ("syncing", |side| side.syncing_ns),
    ("processor", |side| side.cpu_ns),
];

fn row(name: &str, source: &str, destination: &str) -> String {
    format!("{name:<16}{source:<28}{destination}")
        .trim_end()
        .to_owned()
}

fn number(side: Option<Snapshot>, field: Field) -> String {
    side.map_or_else(|| "-".to_owned(), |side| field(&side).to_string())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, and a rate is never negative"
)]
fn rate(bytes: u64, elapsed: Duration) -> String {
    human_rate((bytes as f64 / elapsed.as_secs_f64().max(0.001)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_has_a_row_and_an_unknown_side_a_dash() {
        let source = [
            ("entries_scanned", 3),
            ("bytes_read", 2_000_000),
            ("reading_ns", 250_000_000),
        ];
        let stats = Stats {
            source: Some(
                source
                    .map(|(name, number)| (name.to_owned(), number))
                    .into(),
            ),
            ..Stats::default()
        };
        let text = table(&stats, Duration::from_secs(2));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines.len(),
            1 + COUNTS.len() + BYTES.len() + TIMES.len() + 1
        );
        assert_eq!(lines[1], "entries         3                           -");
        assert!(lines.contains(&"read            2.00 MB, 1.00 MB/s          -"));
        assert!(lines.contains(&"reading         0.25 s                      -"));
    }
}
