//! Owns the report: one JSON file with every sample, one Markdown table for people.
//! Measures nothing.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

use super::case::{Bar, Case, size};
use super::machine::Fact;
use super::process::Usage;
use super::runner::{Sample, Track};
use super::stats::{Spread, paired_difference, paired_ratio};

/// A whole benchmark.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) command: String,
    pub(crate) machine: Vec<Fact>,
    pub(crate) cases: Vec<CaseReport>,
}

/// A case with all runs of all contenders.
#[derive(Debug, Serialize)]
pub(crate) struct CaseReport {
    name: &'static str,
    title: String,
    bytes: u64,
    files: u64,
    comparisons: Vec<Comparison>,
    /// Limit and peak of each side, where memory is the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
    tracks: Vec<Track>,
}

/// Godwit against one other.
#[derive(Debug, Serialize)]
struct Comparison {
    #[serde(flatten)]
    bar: Bar,
    /// Godwit's speed over the other's, pair by pair.
    ratio: Option<Spread>,
    /// Seconds that Godwit took longer, pair by pair.
    extra_seconds: Option<Spread>,
    /// `None` where there is no bar, or nothing to hold against it.
    pass: Option<bool>,
}

/// Peak resident memory against its limit.
#[derive(Debug, Serialize)]
struct Memory {
    limit_bytes: u64,
    source_bytes: Option<u64>,
    destination_bytes: Option<u64>,
    pass: Option<bool>,
}

impl CaseReport {
    /// Draws the conclusions of a case from its runs.
    pub(crate) fn new(case: &Case, rounds: u32, tracks: Vec<Track>) -> Self {
        let of = |kind| tracks.iter().find(|track| track.contender == kind);
        let seconds = |kind| {
            of(kind)
                .map(|track| track.seconds(rounds))
                .unwrap_or_default()
        };
        let subject = seconds(case.subject());
        let compare = |&bar: &Bar| {
            let ratio = paired_ratio(&subject, &seconds(bar.reference));
            let extra_seconds = paired_difference(&subject, &seconds(bar.reference));
            let fast = ratio
                .zip(bar.ratio_min)
                .map(|(ratio, min)| ratio.median >= min);
            let near = extra_seconds
                .zip(bar.extra_seconds_max)
                .map(|(extra, max)| extra.median <= max);
            let pass = fast.or(near);
            Comparison {
                bar,
                ratio,
                extra_seconds,
                pass,
            }
        };
        let comparisons = case.bars.iter().map(compare).collect();
        let memory = case.rss_max.map(|limit_bytes| {
            let peak = |side: fn(&Sample) -> Usage| {
                let godwit = of(case.subject())?;
                godwit
                    .samples
                    .iter()
                    .map(|sample| side(sample).peak_rss_bytes)
                    .max()
            };
            let source_bytes = peak(|sample| sample.outcome.source);
            let destination_bytes = peak(|sample| sample.outcome.destination);
            let both = source_bytes.zip(destination_bytes);
            let pass = both.map(|(source, destination)| source.max(destination) <= limit_bytes);
            Memory {
                limit_bytes,
                source_bytes,
                destination_bytes,
                pass,
            }
        });
        let (bytes, files) = (case.load.bytes(), case.load.names());
        let (name, title) = (case.name, case.title.clone());
        Self {
            name,
            title,
            bytes,
            files,
            comparisons,
            memory,
            tracks,
        }
    }

    /// The case as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!(
            "### {} (`{}`)\n\n\
             | contender | runs | seconds | Gbit/s | files/s | CPU s/GB, source + destination \
             | peak memory, source / destination | steal |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- |\n",
            self.title, self.name
        );
        for track in &self.tracks {
            self.row(track, &mut text);
        }
        text.push('\n');
        for comparison in &self.comparisons {
            comparison.line(&mut text);
        }
        if let Some(memory) = &self.memory {
            memory.line(&mut text);
        }
        text
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn row(&self, track: &Track, text: &mut String) {
        let name = track.contender.name().replace('|', "\\|");
        // A String takes everything that is written to it.
        let counted = |figure: &dyn Fn(&Sample) -> f64| Spread::of(track.counted().map(figure));
        let Some(seconds) = counted(&|sample| sample.outcome.seconds) else {
            let why = track.failure.as_deref().unwrap_or("no run was undisturbed");
            let _ = writeln!(
                text,
                "| {name} | 0 | {} | | | | | |",
                why.replace('|', "\\|")
            );
            return;
        };
        let per = |total: f64| total / seconds.median;
        let gigabytes = self.bytes as f64 / 1e9;
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
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} / {} | {:.1} % |",
            seconds.count,
            spread(&seconds, 3),
            or_dash(
                self.bytes > 0,
                format!("{:.1}", per(self.bytes as f64 * 8e-9))
            ),
            or_dash(self.files > 1, format!("{:.0}", per(self.files as f64))),
            or_dash(
                self.bytes > 0,
                format!("{:.2} + {:.2}", cpu(source), cpu(destination))
            ),
            peak(source),
            peak(destination),
            100.0 * counted(&|sample| sample.steal).map_or(0.0, |spread| spread.max),
        );
    }
}

impl Comparison {
    fn line(&self, text: &mut String) {
        let name = self.bar.reference.name();
        if let Some(max) = self.bar.extra_seconds_max {
            let measured = self
                .extra_seconds
                .map_or_else(|| "not measured".to_owned(), |extra| spread(&extra, 2));
            let end = verdict(self.pass);
            let _ = writeln!(
                text,
                "- seconds above `{name}`: {measured}, at most {max:.2}{end}"
            );
            return;
        }
        let measured = self.ratio.map_or_else(
            || "not measured".to_owned(),
            |ratio| format!("{} over {} pairs", spread(&ratio, 2), ratio.count),
        );
        let bar = self
            .bar
            .ratio_min
            .map_or_else(String::new, |min| format!(", bar {min:.2}"));
        let _ = writeln!(
            text,
            "- speed over `{name}`: {measured}{bar}{}",
            verdict(self.pass)
        );
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

impl Report {
    /// The whole report as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("## `{}`\n\n", self.command);
        for fact in &self.machine {
            let _ = writeln!(text, "- {}: {}", fact.what, fact.how);
        }
        for case in &self.cases {
            text.push('\n');
            text.push_str(&case.markdown());
        }
        text.push_str("\n### Commands\n\n");
        let mut seen = Vec::new();
        for track in self.cases.iter().flat_map(|case| &case.tracks) {
            if !track.commands.is_empty() && !seen.contains(&&track.commands) {
                seen.push(&track.commands);
                let _ = writeln!(text, "- {}: `{}`", track.contender.name(), track.commands);
            }
        }
        text
    }

    /// Whether a bar was missed, or a contender failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.cases.iter().any(|case| {
            case.comparisons
                .iter()
                .any(|comparison| comparison.pass == Some(false))
                || case
                    .memory
                    .as_ref()
                    .is_some_and(|memory| memory.pass == Some(false))
                || case.tracks.iter().any(|track| track.failure.is_some())
        })
    }

    /// Writes `bench.json` and `bench.md` into `directory`; returns the path of the latter.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(crate) fn save(&self, directory: &Path) -> anyhow::Result<PathBuf> {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {directory:?}"))?;
        let json = serde_json::to_vec_pretty(self)?;
        fs::write(directory.join("bench.json"), json).context("cannot write the report")?;
        let table = directory.join("bench.md");
        fs::write(&table, self.markdown()).context("cannot write the report")?;
        Ok(table)
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
        None => "",
    }
}
