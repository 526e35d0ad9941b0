//! Owns the tables in Markdown. Makes no comparisons: the report has their results.

use std::fmt::Write as _;

use super::super::case::{Expect, size};
use super::super::process::Usage;
use super::super::runner::{GIVEN_UP, Sample, Track};
use super::super::stats::Spread;
use super::super::wan::RowReport;
use super::{CaseReport, Comparison, Memory, Reach, Report};

impl Report {
    /// The whole report as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("## `{}`\n\n", self.command);
        // Writing to a `String` cannot fail.
        for fact in &self.machine {
            let _ = writeln!(text, "- {}: {}", fact.what, fact.how);
        }
        for case in &self.cases {
            text.push('\n');
            text.push_str(&case.markdown());
        }
        for row in &self.rows {
            text.push('\n');
            text.push_str(&row.markdown());
        }
        text.push_str("\n### Commands\n\n");
        let mut seen = Vec::new();
        for track in self.cases.iter().flat_map(|case| &case.tracks) {
            if !track.commands.is_empty() && !seen.contains(&&track.commands) {
                seen.push(&track.commands);
                let line = track.commands.replace('\n', " ; ");
                let _ = writeln!(text, "- {}: `{line}`", track.contender.title());
            }
        }
        let mut seen = Vec::new();
        for (title, command) in self.rows.iter().flat_map(RowReport::commands) {
            if !seen.contains(&command) {
                seen.push(command);
                let _ = writeln!(text, "- {title}: `{command}`");
            }
        }
        if !self.notes.is_empty() {
            text.push_str("\n### Peers and limits\n\n");
        }
        for (title, note) in &self.notes {
            let _ = writeln!(text, "- {title}: {note}");
        }
        text
    }
}

impl CaseReport {
    fn markdown(&self) -> String {
        let mut text = format!(
            "### {} (`{}`)\n\n\
             | contender | runs | seconds | Gbit/s | files/s | CPU s/GB, source + destination \
             | peak memory, source / destination | steal |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- |\n",
            self.title, self.name
        );
        for track in &self.tracks {
            row(track, &mut text);
        }
        text.push('\n');
        for comparison in &self.comparisons {
            comparison.lines(&mut text);
        }
        if let Some(memory) = &self.memory {
            memory.line(&mut text);
        }
        text
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn row(track: &Track, text: &mut String) {
    let name = track.title.replace('|', "\\|");
    let counted = |figure: &dyn Fn(&Sample) -> f64| Spread::of(track.counted().map(figure));
    let Some(seconds) = counted(&|sample| sample.outcome.seconds) else {
        let why = track.failure.as_deref().unwrap_or("no run was undisturbed");
        let why = why.replace('|', "\\|").replace('\n', " ");
        let _ = writeln!(text, "| {name} | 0 | {why} | | | | | |");
        return;
    };
    let per = |total: f64| total / seconds.median;
    let gigabytes = track.bytes as f64 / 1e9;
    let cpu = |side: fn(&Sample) -> Usage| {
        let spread = counted(&|sample| side(sample).cpu_seconds / gigabytes);
        spread.map_or(0.0, |spread| spread.median)
    };
    let peak = |side: fn(&Sample) -> Usage| {
        let peaks = track.counted().map(|sample| side(sample).peak_rss_bytes);
        size(peaks.max().unwrap_or(0))
    };
    let source = |sample: &Sample| sample.outcome.source;
    let destination = |sample: &Sample| sample.outcome.destination;
    let or_dash = |some: bool, text: String| if some { text } else { "–".to_owned() };
    let bytes = track.bytes > 0;
    let _ = writeln!(
        text,
        "| {name} | {} | {} | {} | {} | {} | {} / {} | {:.1} % |",
        seconds.count,
        spread(&seconds, 3),
        or_dash(bytes, format!("{:.1}", per(track.bytes as f64 * 8e-9))),
        or_dash(track.files > 1, format!("{:.0}", per(track.files as f64))),
        or_dash(
            bytes,
            format!("{:.2} + {:.2}", cpu(source), cpu(destination))
        ),
        peak(source),
        peak(destination),
        100.0 * counted(&|sample| sample.steal).map_or(0.0, |spread| spread.max),
    );
}

impl Comparison {
    fn lines(&self, text: &mut String) {
        let name = &self.title;
        let end = match self.bar.expect {
            Expect::Speed {
                ratio_min: None,
                cpu_ratio_max: None,
            } => "",
            _ => verdict(self.pass),
        };
        let said = |figure: Option<Spread>| {
            figure.map_or_else(|| "not measured".to_owned(), |figure| spread(&figure, 2))
        };
        // The figure of a reference that used too little to be measured is missing.
        let cost = |figure: Option<Spread>| {
            figure.map_or_else(|| "–".to_owned(), |figure| spread(&figure, 2))
        };
        let _ = match self.bar.expect {
            Expect::Speed {
                ratio_min,
                cpu_ratio_max,
            } => {
                let pairs = self.ratio.map_or(0, |ratio| ratio.count);
                let bar = |asked: f64, reached: f64| {
                    if (asked - reached).abs() < f64::EPSILON {
                        format!(", bar {asked:.2}")
                    } else {
                        format!(", bar {asked:.2}, by the limit {reached:.2}")
                    }
                };
                let min = ratio_min.map(|min| bar(min, Reach::lowered(self.reach, min)));
                let max = cpu_ratio_max.map(|max| bar(max, Reach::raised(self.reach, max)));
                let (min, max) = (min.unwrap_or_default(), max.unwrap_or_default());
                let speed = match self.given_up {
                    true => format!("more than {GIVEN_UP}"),
                    false => format!("{} over {pairs} pairs", said(self.ratio)),
                };
                writeln!(
                    text,
                    "- beside `{name}`: speed × {speed}{min}; processor time × {}{max}{end}",
                    cost(self.cpu_ratio),
                )
            }
            Expect::Extra { seconds_max } => writeln!(
                text,
                "- seconds above `{name}`: {}, at most {seconds_max:.2}{end}",
                said(self.extra_seconds)
            ),
            Expect::Growth {
                bytes_max,
                cpu_ratio_max,
            } => {
                let more = self.extra_bytes.map_or_else(
                    || "not measured".to_owned(),
                    |bytes| format!("{} more", size(bytes.max(0).unsigned_abs())),
                );
                writeln!(
                    text,
                    "- beside `{name}`: {more} memory, at most {}; processor time for each × {}, at most {cpu_ratio_max:.2}{end}",
                    size(bytes_max),
                    cost(self.cpu_ratio),
                )
            }
        };
    }
}

impl Memory {
    fn line(&self, text: &mut String) {
        let said = |bytes: Option<u64>| bytes.map_or_else(|| "not measured".to_owned(), size);
        let _ = writeln!(
            text,
            "- peak memory: source {}, destination {}, limit {}{}",
            said(self.source_bytes),
            said(self.destination_bytes),
            size(self.limit_bytes),
            verdict(self.pass)
        );
    }
}

fn spread(spread: &Spread, decimals: usize) -> String {
    let Spread {
        median, min, max, ..
    } = spread;
    format!("{median:.decimals$} [{min:.decimals$}–{max:.decimals$}]")
}

fn verdict(pass: Option<bool>) -> &'static str {
    match pass {
        Some(true) => ": **pass**",
        Some(false) => ": **FAIL**",
        None => ": **not measured**",
    }
}
