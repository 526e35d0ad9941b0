//! Owns the report of a row: its figures over all rounds, a table of its flows, and a picture of the rates over time.
//! Measures nothing; `curves` draws the picture.

use std::fmt::Write as _;

use serde::Serialize;

use super::super::case::size;
use super::super::rates::CpuCost;
use super::super::runner::STEAL_MAX;
use super::super::stats::Spread;
use super::flow::Trace;
use super::judge::{self, Figure};
use super::row::Row;
use super::turn::Course;

/// A row with all observations.
#[derive(Debug, Serialize)]
pub(crate) struct RowReport {
    pub(super) name: String,
    pub(super) title: String,
    /// The figures, by round.
    figures: Vec<Vec<Figure>>,
    rounds: Vec<Vec<Course>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<String>,
}

impl RowReport {
    pub(super) fn new(row: &Row) -> Self {
        Self {
            name: row.name.clone(),
            title: row.title.clone(),
            figures: Vec::new(),
            rounds: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, figures: Vec<Figure>, courses: Vec<Course>) {
        self.figures.push(figures);
        self.rounds.push(courses);
    }

    pub(super) fn fail(&mut self, failure: String) {
        self.failures.push(failure);
    }

    /// The valid courses of the round with the most valid courses; if several rounds are equal, of the last one.
    pub(super) fn shown(&self) -> Vec<&Course> {
        let rounds = self.rounds.iter().map(|courses| {
            let counted = courses.iter().filter(|course| course.counts);
            counted.collect::<Vec<_>>()
        });
        rounds.max_by_key(Vec::len).unwrap_or_default()
    }

    /// The file name of the row's picture.
    pub(crate) fn picture_name(&self) -> String {
        format!("wan-{}.svg", self.name)
    }

    /// Whether a bar was missed, or an operation failed.
    pub(crate) fn has_failed(&self) -> bool {
        !self.failures.is_empty()
            || self
                .judged()
                .iter()
                .any(|(_, _, pass)| *pass == Some(false))
    }

    /// Each figure with its spread over the rounds, and whether its bar was met.
    fn judged(&self) -> Vec<(&Figure, Option<Spread>, Option<bool>)> {
        let first = self.figures.iter().max_by_key(|figures| figures.len());
        let each = first.into_iter().flatten().map(|figure| {
            let same = |figures: &Vec<Figure>| {
                let found = figures.iter().find(|other| other.what == figure.what);
                found.and_then(|found| found.value)
            };
            let spread = Spread::of(self.figures.iter().filter_map(same));
            let pass = spread.and_then(|Spread { median, .. }| match (figure.min, figure.max) {
                (Some(min), _) => Some(median >= min),
                (None, Some(max)) => Some(median <= max),
                (None, None) => None,
            });
            (figure, spread, pass)
        });
        each.collect()
    }

    /// The programs and their commands.
    pub(crate) fn commands(&self) -> impl Iterator<Item = (&str, &str)> {
        let flows = self
            .rounds
            .iter()
            .flatten()
            .flat_map(|course| &course.flows);
        flows.map(|flow| (&*flow.title, &*flow.commands))
    }

    /// The report in Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!(
            "### {} (`{}`)\n\n\
             | flow | runs | seconds | Gbit/s, last half | Gbit/s, whole | files/s | streams, mean and most | RTT, ms \
             | CPU s/GB, source + destination | cores, source + destination + line | peak memory, source / destination | steal |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
            self.title, self.name
        );
        for course in self.shown() {
            for flow in &course.flows {
                self.line(&course.title, &flow.title, &mut text);
            }
        }
        text.push('\n');
        let disturbed = self.rounds.iter().flatten().filter(|course| !course.counts);
        match disturbed.count() {
            0 => {}
            count => {
                let _ = writeln!(
                    text,
                    "- {count} disturbed turns (steal above {:.0} %) count nowhere; they are in `bench.json`",
                    100.0 * STEAL_MAX
                );
            }
        }
        for (figure, spread, pass) in self.judged() {
            let said = spread.map_or_else(
                || "too little to see".to_owned(),
                |spread| {
                    let Spread {
                        median, min, max, ..
                    } = spread;
                    format!("{median:.3} [{min:.3}–{max:.3}]")
                },
            );
            let bar = match (figure.min, figure.max) {
                (Some(min), _) => format!(", at least {min}"),
                (None, Some(max)) => format!(", at most {max}"),
                (None, None) => String::new(),
            };
            let verdict = match pass {
                Some(true) => ": **pass**",
                Some(false) => ": **FAIL**",
                None => "",
            };
            let _ = writeln!(text, "- {}: {said}{bar}{verdict}", figure.what);
        }
        for failure in &self.failures {
            let _ = writeln!(text, "- **failed**: {}", failure.replace('\n', " "));
        }
        let _ = writeln!(text, "\n![over time]({})", self.picture_name());
        text
    }

    fn line(&self, course: &str, title: &str, text: &mut String) {
        let all = || {
            let courses = self.rounds.iter().flatten();
            courses
                .filter(|other| other.counts && other.title == course)
                .flat_map(|course| course.flows.iter().map(move |flow| (course, flow)))
                .filter(|(_, flow)| flow.title == title)
        };
        let of = |figure: &dyn Fn(&Course, &Trace) -> Option<f64>| {
            Spread::of(all().filter_map(|(course, flow)| figure(course, flow)))
        };
        let median = |figure: &dyn Fn(&Course, &Trace) -> Option<f64>, digits: usize| {
            of(figure).map_or_else(|| "–".to_owned(), |is| format!("{:.digits$}", is.median))
        };
        let seen = |points: fn(&Trace) -> &[(f64, f64)]| {
            move |_: &Course, flow: &Trace| {
                super::series::mean(points(flow), flow.began, flow.ended)
            }
        };
        let most = |_: &Course, flow: &Trace| {
            let streams = flow.seen.streams.iter().map(|&(_, count)| count);
            streams.max_by(f64::total_cmp)
        };
        let cores = |usage: fn(&Trace) -> f64| {
            move |_: &Course, flow: &Trace| Some(usage(flow) / (flow.ended - flow.began))
        };
        let cost = |side: fn(&CpuCost) -> f64| {
            move |_: &Course, flow: &Trace| flow.rates.cpu_seconds_per_gb.as_ref().map(side)
        };
        let peak =
            |bytes: fn(&Trace) -> u64| size(all().map(|(_, flow)| bytes(flow)).max().unwrap_or(0));
        let _ = writeln!(
            text,
            "| {title} | {} | {} | {} | {} | {} | {}, {} | {} | {} + {} | {} + {} + {} | {} / {} | {:.1} % |",
            all().count(),
            median(&|_, flow| Some(flow.ended - flow.began), 1),
            median(&|_, flow| judge::half(flow), 3),
            median(&|_, flow| judge::whole(flow), 3),
            median(&|_, flow| flow.rates.files_s, 0),
            median(&seen(|flow| &flow.seen.streams), 1),
            median(&most, 0),
            median(&seen(|flow| &flow.seen.rtt_ms), 1),
            median(&cost(|cost| cost.source), 2),
            median(&cost(|cost| cost.destination), 2),
            median(&cores(|flow| flow.source.cpu_seconds), 2),
            median(&cores(|flow| flow.destination.cpu_seconds), 2),
            median(&|course, _| course.line_cpu, 2),
            peak(|flow| flow.source.peak_rss_bytes),
            peak(|flow| flow.destination.peak_rss_bytes),
            100.0 * of(&|course, _| Some(course.steal)).map_or(0.0, |steal| steal.max),
        );
    }
}
