//! Owns the report: the results of each case, and one JSON file with every sample. Measures nothing; `table` makes the tables,
//! `plot` the pictures.

mod plot;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

pub(crate) use plot::escaped;

use super::case::{Bar, Case, Ceiling, Expect, Kind};
use super::machine::Fact;
use super::process::Usage;
use super::runner::{Sample, Track};
use super::spent::Spent;
use super::stats::{Spread, paired_difference, paired_ratio};
use super::wan::RowReport;

/// The report of a whole benchmark.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) command: String,
    pub(crate) machine: Vec<Fact>,
    /// The metadata that each peer transfers, and its settings.
    pub(crate) notes: Vec<(&'static str, &'static str)>,
    pub(crate) cases: Vec<CaseReport>,
    /// Long lines and channels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) rows: Vec<RowReport>,
}

/// A case with all runs of all contenders.
#[derive(Debug, Serialize)]
pub(crate) struct CaseReport {
    name: &'static str,
    title: String,
    comparisons: Vec<Comparison>,
    /// Limit and peak of each side, if the case measures memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
    tracks: Vec<Track>,
    /// The time of the case, by kind of work.
    spent: Spent,
}

/// Godwit compared with one reference.
#[derive(Debug, Serialize)]
struct Comparison {
    #[serde(flatten)]
    bar: Bar,
    /// The reference's name in tables.
    title: String,
    /// Ratio of Godwit's speed to the reference's for each pair of runs; in bytes or files per second if they move different loads.
    ratio: Option<Spread>,
    /// Additional seconds of Godwit for each pair of runs.
    extra_seconds: Option<Spread>,
    /// Ratio of Godwit's processor time of both sides to the reference's for each pair; per byte or file if they move different
    /// loads.
    cpu_ratio: Option<Spread>,
    /// The lowered bar, if the limit is not far enough ahead of the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    reach: Option<Reach>,
    /// Godwit's peak memory minus that of the reference, on the side with the larger difference.
    extra_bytes: Option<i64>,
    /// The contender was so slow that it was stopped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    given_up: bool,
    /// `None` if there is no bar, or no value for the comparison.
    pass: Option<bool>,
}

/// The required share of the limit, in the comparison with a peer.
#[derive(Debug, Clone, Copy, Serialize)]
struct Reach {
    ceiling: Ceiling,
    /// Ratio of the limit's speed to the peer's.
    ratio: f64,
    /// Ratio of the limit's processor time to the peer's.
    cpu_ratio: Option<f64>,
}

/// Peak resident memory, and its limit.
#[derive(Debug, Serialize)]
struct Memory {
    limit_bytes: u64,
    source_bytes: Option<u64>,
    destination_bytes: Option<u64>,
    pass: Option<bool>,
}

impl CaseReport {
    /// Makes the report of a case from its runs.
    pub(crate) fn new(case: &Case, rounds: u32, tracks: Vec<Track>, spent: Spent) -> Self {
        let of = |kind: Kind| tracks.iter().find(|track| track.contender == kind);
        let subject = of(case.subject);
        let compare = |&bar: &Bar| {
            let title = case.title_of(bar.reference);
            let reference = of(bar.reference);
            let ceiling = case.ceiling.filter(|_| bar.reference.is_unchecked());
            let reach = ceiling
                .and_then(|ceiling| Reach::new(ceiling, rounds, of(ceiling.limit), reference));
            Comparison::new(bar, title, rounds, subject, reference, reach)
        };
        // A contender that was not selected is omitted.
        let bars = case.bars.iter().filter(|bar| of(bar.reference).is_some());
        let comparisons = bars.map(compare).collect();
        let memory = case.rss_max.map(|limit_bytes| {
            let peak = |side: fn(&Sample) -> Usage| {
                let samples = &subject?.samples;
                let peaks = samples.iter().map(|sample| side(sample).peak_rss_bytes);
                peaks.max()
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
        Self {
            name: case.name,
            title: case.title.clone(),
            comparisons,
            memory,
            tracks,
            spent,
        }
    }
}

/// Ratios of speed and processor time of `one` to those of `other` for each pair: per byte, or per file if there are no bytes.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn ratios(
    rounds: u32,
    one: Option<&Track>,
    other: Option<&Track>,
) -> (Option<Spread>, Option<Spread>) {
    let units = |track: &Track| track.bytes.max(track.files).max(1) as f64;
    let by_round = |track: Option<&Track>, figure: &dyn Fn(&Sample) -> f64| {
        let Some(track) = track else {
            return Vec::new();
        };
        let all = track.by_round(rounds, figure);
        let unit = units(track);
        all.into_iter()
            .map(|figure| figure.map(|figure| figure / unit))
            .collect::<Vec<_>>()
    };
    let cpu = |sample: &Sample| {
        sample.outcome.source.cpu_seconds + sample.outcome.destination.cpu_seconds
    };
    (
        paired_ratio(&by_round(one, &seconds), &by_round(other, &seconds)),
        paired_ratio(&by_round(other, &cpu), &by_round(one, &cpu)),
    )
}

fn seconds(sample: &Sample) -> f64 {
    sample.outcome.seconds
}

impl Reach {
    fn new(
        ceiling: Ceiling,
        rounds: u32,
        limit: Option<&Track>,
        peer: Option<&Track>,
    ) -> Option<Self> {
        let (ratio, cpu_ratio) = ratios(rounds, limit, peer);
        Some(Self {
            ceiling,
            ratio: ratio?.median * ceiling.share,
            cpu_ratio: cpu_ratio.map(|ratio| ratio.median / ceiling.share),
        })
    }

    /// The required speed in the comparison with a peer, lowered to the reachable speed.
    fn lowered(reach: Option<Self>, ratio_min: f64) -> f64 {
        reach.map_or(ratio_min, |reach| reach.ratio.min(ratio_min))
    }

    /// The allowed processor time in the comparison with a peer, raised to the reachable time.
    fn raised(reach: Option<Self>, cpu_ratio_max: f64) -> f64 {
        let reached = reach.and_then(|reach| reach.cpu_ratio);
        reached.map_or(cpu_ratio_max, |reached| reached.max(cpu_ratio_max))
    }
}

impl Comparison {
    fn new(
        bar: Bar,
        title: String,
        rounds: u32,
        subject: Option<&Track>,
        reference: Option<&Track>,
        reach: Option<Reach>,
    ) -> Self {
        let (ratio, cpu_ratio) = ratios(rounds, subject, reference);
        let plain = |track: Option<&Track>| {
            let all = track.map(|track| track.by_round(rounds, &seconds));
            all.unwrap_or_default()
        };
        let extra_seconds = paired_difference(&plain(subject), &plain(reference));
        let extra_bytes = subject.zip(reference).and_then(|(subject, reference)| {
            let sides = subject
                .peak_bytes()?
                .into_iter()
                .zip(reference.peak_bytes()?);
            sides
                .map(|(more, less)| more.cast_signed() - less.cast_signed())
                .max()
        });
        let given_up = reference.is_some_and(|reference| reference.given_up);
        let pass = match bar.expect {
            // No bar requires as large a difference.
            Expect::Speed { ratio_min, .. } if given_up => ratio_min.map(|_| true),
            Expect::Speed {
                ratio_min,
                cpu_ratio_max,
            } => {
                let fast = ratio_min.map(|min| {
                    let min = Reach::lowered(reach, min);
                    ratio.map(|is| is.median >= min)
                });
                let cheap = cpu_ratio_max.map(|max| {
                    let max = Reach::raised(reach, max);
                    cpu_ratio.map(|is| is.median <= max)
                });
                both(fast, cheap)
            }
            Expect::Extra { seconds_max } => extra_seconds.map(|is| is.median <= seconds_max),
            Expect::Growth {
                bytes_max,
                cpu_ratio_max,
            } => {
                let small = extra_bytes.map(|is| is <= bytes_max.cast_signed());
                let cheap = cpu_ratio.map(|is| is.median <= cpu_ratio_max);
                both(Some(small), Some(cheap))
            }
        };
        Self {
            bar,
            title,
            ratio,
            extra_seconds,
            cpu_ratio,
            reach,
            extra_bytes,
            given_up,
            pass,
        }
    }
}

/// Whether all required bars were met: false if one was missed; `None` inside if one was not measured.
fn both(one: Option<Option<bool>>, other: Option<Option<bool>>) -> Option<bool> {
    let asked = || one.iter().chain(&other);
    if asked().any(|held| *held == Some(false)) {
        return Some(false);
    }
    let known = asked().count() > 0 && asked().all(|held| *held == Some(true));
    known.then_some(true)
}

impl Report {
    /// Whether a bar was missed, or a contender failed.
    pub(crate) fn has_failed(&self) -> bool {
        let missed = self.rows.iter().any(RowReport::has_failed);
        missed
            || self.cases.iter().any(|case| {
                case.comparisons
                    .iter()
                    .any(|comparison| comparison.pass == Some(false))
                    || case
                        .memory
                        .as_ref()
                        .is_some_and(|memory| memory.pass == Some(false))
                    || case
                        .tracks
                        .iter()
                        .any(|track| track.failure.is_some() && !track.given_up)
            })
    }

    /// Writes `bench.json`, `bench.md` and `bench.svg` into `directory`; returns the path of the second.
    ///
    /// # Errors
    /// The files cannot be written.
    pub(crate) fn save(&self, directory: &Path) -> anyhow::Result<PathBuf> {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {directory:?}"))?;
        let json = serde_json::to_vec_pretty(self)?;
        fs::write(directory.join("bench.json"), json).context("cannot write the report")?;
        fs::write(directory.join("bench.svg"), self.plot()).context("cannot write the plot")?;
        for row in &self.rows {
            let picture = directory.join(row.picture_name());
            fs::write(picture, row.picture()).context("cannot write the plot")?;
        }
        let table = directory.join("bench.md");
        fs::write(&table, self.markdown()).context("cannot write the report")?;
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_beside_a_peer_asks_for_no_more_than_the_limit_has() {
        let reach = |ratio, cpu_ratio| {
            let ceiling = Ceiling::of(Kind::PipeDigest, 0.95);
            Some(Reach {
                ceiling,
                ratio,
                cpu_ratio,
            })
        };
        for (reach, speed, cost) in [
            (None, 1.2, 1.0),
            (reach(2.0, Some(0.7)), 1.2, 1.0),
            (reach(1.02, Some(1.17)), 1.02, 1.17),
            (reach(1.02, None), 1.02, 1.0),
        ] {
            assert!((Reach::lowered(reach, 1.2) - speed).abs() < 1e-9);
            assert!((Reach::raised(reach, 1.0) - cost).abs() < 1e-9);
        }
    }

    #[test]
    fn a_bar_that_was_not_measured_is_not_held() {
        let (held, missed) = (Some(Some(true)), Some(Some(false)));
        assert_eq!(both(None, None), None);
        assert_eq!(both(held, None), Some(true));
        assert_eq!(both(held, held), Some(true));
        assert_eq!(both(held, missed), Some(false));
        assert_eq!(both(Some(None), missed), Some(false));
        assert_eq!(both(held, Some(None)), None);
    }
}
