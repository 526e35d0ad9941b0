//! Owns the results of a row: its figures, and their comparison with bars. Runs nothing.

use serde::Serialize;

use super::flow::Trace;
use super::row::{Cut, Judge, Row};
use super::series::mean;
use super::turn::Course;

/// Time in seconds within which a dead channel must be noticed. Then the time within which a channel must have its old rate again after
/// its return, or this share of the remaining time.
const NOTICED_SECONDS: f64 = 2.0;
const BACK_SECONDS: f64 = 5.0;
const BACK_PART: f64 = 0.5;
/// Time within which two flows must share the rate, or this share of the time with both flows if that is less.
const SHARED_SECONDS: f64 = 5.0;
const SHARED_PART: f64 = 1.0 / 3.0;

/// A figure of one round, and its bar.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figure {
    pub(super) what: String,
    /// `None` if there was not enough data.
    pub(super) value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max: Option<f64>,
}

impl Figure {
    fn at_least(what: &str, value: Option<f64>, min: f64) -> Self {
        Self {
            what: what.to_owned(),
            value,
            min: Some(min),
            max: None,
        }
    }

    fn at_most(what: &str, value: Option<f64>, max: f64) -> Self {
        Self {
            what: what.to_owned(),
            value,
            min: None,
            max: Some(max),
        }
    }

    fn said(what: &str, value: Option<f64>) -> Self {
        Self {
            what: what.to_owned(),
            value,
            min: None,
            max: None,
        }
    }
}

/// Rate of a flow in Gbit/s during the last half of its time.
pub(super) fn half(trace: &Trace) -> Option<f64> {
    let (begin, end) = (trace.began, until(trace));
    trace.arrived.gbits(f64::midpoint(begin, end), end)
}

/// Rate of a flow in Gbit/s from its beginning to its end.
pub(super) fn whole(trace: &Trace) -> Option<f64> {
    trace.arrived.gbits(trace.began, until(trace))
}

/// The end of the known data: a stopped program does not print its last line.
pub(super) fn until(trace: &Trace) -> f64 {
    if trace.complete {
        trace.ended.min(trace.arrived.end())
    } else {
        trace.arrived.end()
    }
}

fn after(trace: &Trace, seconds: f64) -> Option<f64> {
    trace.arrived.gbits(trace.began + seconds, until(trace))
}

/// The figures of `row`, from its turns in one round.
pub(super) fn figures(row: &Row, courses: &[&Course]) -> Vec<Figure> {
    let Some((last, others)) = courses.split_last() else {
        return Vec::new();
    };
    match row.judge {
        Judge::Beside {
            half_min,
            after: from,
            after_min,
        } => {
            let beside = |rate: &dyn Fn(&Trace) -> Option<f64>| {
                let best = best(others.iter().flat_map(|course| &course.flows), rate);
                ratio(last.flows.first().and_then(rate), best)
            };
            let mut figures = vec![Figure::at_least(
                "rate over the last half, beside the best of the others",
                beside(&half),
                half_min,
            )];
            let from_then = beside(&|trace| after(trace, from));
            let what = format!("rate after {from:.0} s, beside the best of the others");
            figures.push(match after_min {
                Some(min) => Figure::at_least(&what, from_then, min),
                None => Figure::said(&what, from_then),
            });
            figures
        }
        Judge::Together {
            sum_min,
            uneven_max,
        } => {
            let first = others.first().copied().and_then(together);
            let mut figures = vec![Figure::at_least(
                "rate of all channels over the last half, beside that of iperf3 on each",
                ratio(together(last), first),
                sum_min,
            )];
            let (from, to) = (last.seconds / 2.0, last.seconds);
            if let Some(max) = uneven_max {
                let what = "largest share beside an even one, off by";
                figures.push(Figure::at_most(what, uneven(last, from, to), max));
            }
            for (name, sent) in &last.cables {
                figures.push(Figure::said(
                    &format!("Gbit/s of {name}"),
                    sent.gbits(from, to),
                ));
            }
            figures
        }
        Judge::Cut { kept_min } => {
            let cut = row.turns.iter().find_map(|turn| turn.cut);
            cut.map_or_else(Vec::new, |cut| kept(cut, kept_min, others, last))
        }
        Judge::Disk {
            streams_max,
            memory_mib_max,
        } => disk(last, streams_max, memory_mib_max),
        Judge::Joins {
            at,
            uneven_max,
            sum_min,
        } => joins(at, uneven_max, sum_min, others, last),
        Judge::Foreground { from, kept_min } => {
            let rate = |course: &Course| {
                let front = course.flows.last()?;
                front.arrived.gbits(from, until(front))
            };
            let alone = others.first().copied().and_then(rate);
            let behind = last.flows.first();
            vec![
                Figure::at_least(
                    "rate of the transfer in front, as a part of its rate alone",
                    ratio(rate(last), alone),
                    kept_min,
                ),
                Figure::said(
                    "Gbit/s of the transfer behind it in that time",
                    behind.and_then(|trace| trace.arrived.gbits(from, until(trace))),
                ),
            ]
        }
    }
}

fn best<'a>(
    traces: impl Iterator<Item = &'a Trace>,
    rate: &dyn Fn(&Trace) -> Option<f64>,
) -> Option<f64> {
    traces.filter_map(rate).max_by(f64::total_cmp)
}

fn ratio(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    let (one, other) = one.zip(other)?;
    (other > 0.0).then(|| one / other)
}

/// The rate of all flows together during the last half.
fn together(course: &Course) -> Option<f64> {
    course.flows.iter().map(half).sum()
}

/// The largest difference of a cable's share from an even share.
fn uneven(course: &Course, from: f64, to: f64) -> Option<f64> {
    let shares: Option<Vec<f64>> = course
        .cables
        .values()
        .map(|sent| sent.gbits(from, to))
        .collect();
    off(&shares?)
}

/// The largest difference between one of `shares` and their mean.
#[expect(clippy::cast_precision_loss, reason = "a few cables")]
fn off(shares: &[f64]) -> Option<f64> {
    let even = shares.iter().sum::<f64>() / shares.len() as f64;
    let worst = shares
        .iter()
        .map(|share| (share / even - 1.0).abs())
        .max_by(f64::total_cmp);
    worst.filter(|worst| worst.is_finite())
}

#[expect(clippy::cast_precision_loss, reason = "a few cables")]
fn kept(cut: Cut, kept_min: f64, others: &[&Course], last: &Course) -> Vec<Figure> {
    let (Some(flow), Some(all)) = (
        last.flows.first(),
        others.first().copied().and_then(together),
    ) else {
        return Vec::new();
    };
    let cables = last.cables.len().max(1) as f64;
    let left = all * (cables - 1.0) / cables;
    let rate = |from: f64, to: f64| flow.arrived.gbits(from, to.min(until(flow)));
    let end = until(flow);
    let back = cut.until + BACK_SECONDS.min((end - cut.until).max(0.0) * BACK_PART);
    let done = f64::from(u8::from(flow.complete));
    vec![
        Figure::at_least(
            "rate while one is away, beside what the others carry for iperf3",
            ratio(rate(cut.from + NOTICED_SECONDS, cut.until), Some(left)),
            kept_min,
        ),
        Figure::at_least(
            "rate after its return, beside what all carry for iperf3",
            ratio(rate(back, end), Some(all)),
            kept_min,
        ),
        Figure::at_least("complete, nothing lost", Some(done), 1.0),
    ]
}

fn disk(last: &Course, streams_max: f64, memory_mib_max: f64) -> Vec<Figure> {
    let Some(flow) = last.flows.first() else {
        return Vec::new();
    };
    let end = until(flow);
    let quarter = |number: f64| (end * (number - 1.0) / 4.0, end * number / 4.0);
    let of = |points: &[(f64, f64)], (from, to): (f64, f64)| mean(points, from, to);
    let streams = of(&flow.seen.streams, quarter(4.0));
    let memory = |number| of(&flow.seen.memory_mib, quarter(number));
    let grown = memory(4.0)
        .zip(memory(2.0))
        .map(|(then, before)| then - before);
    vec![
        Figure::at_most("streams in the last quarter", streams, streams_max),
        Figure::at_most(
            "MiB more memory in the last quarter than in the second",
            grown,
            memory_mib_max,
        ),
        Figure::said("Gbit/s over the last half", half(flow)),
    ]
}

fn joins(at: f64, uneven_max: f64, sum_min: f64, others: &[&Course], last: &Course) -> Vec<Figure> {
    let to = last.flows.iter().map(until).fold(f64::MAX, f64::min);
    let from = at + SHARED_SECONDS.min((to - at) * SHARED_PART);
    let rates: Option<Vec<f64>> = last
        .flows
        .iter()
        .map(|flow| flow.arrived.gbits(from, to))
        .collect();
    let sum = rates.as_ref().map(|rates| rates.iter().sum());
    let alone = best(others.iter().flat_map(|course| &course.flows), &half);
    vec![
        Figure::at_most(
            "shares, off from half by",
            rates.as_deref().and_then(off),
            uneven_max,
        ),
        Figure::at_least(
            "both together, beside iperf3 alone",
            ratio(sum, alone),
            sum_min,
        ),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::super::rates::Rates;
    use super::super::series::Series;
    use super::super::watch::Seen;
    use super::*;

    pub(in super::super) fn flow(title: &str, began: f64, gbits: f64) -> Trace {
        let mut arrived = Series::default();
        for quarter in 0..=40 {
            let at = f64::from(quarter) / 4.0;
            arrived.add(at, at * gbits * 125e6);
        }
        Trace {
            title: title.to_owned(),
            commands: String::new(),
            began,
            ended: began + 10.0,
            complete: true,
            arrived: arrived.later_by(began),
            seen: Seen::default(),
            source: Default::default(),
            destination: Default::default(),
            rates: Rates {
                gbit_s: Some(gbits),
                ..Rates::default()
            },
            summary: None,
            events: Vec::new(),
        }
    }

    pub(in super::super) fn course(flows: Vec<Trace>) -> Course {
        Course {
            title: String::new(),
            flows,
            cables: Default::default(),
            line_cpu: None,
            steal: 0.0,
            counts: true,
            seconds: 10.0,
        }
    }

    fn values(name: &str, courses: &[Course]) -> Vec<f64> {
        let rows = super::super::rows(12.0);
        let row = rows.iter().find(|row| row.name == name).expect("a row");
        let courses: Vec<&Course> = courses.iter().collect();
        let figures = figures(row, &courses);
        figures
            .iter()
            .map(|figure| figure.value.unwrap_or(f64::NAN))
            .collect()
    }

    #[test]
    fn godwit_is_held_against_the_best_of_the_others() {
        let courses = [0.5, 1.0, 0.8, 0.9].map(|rate| course(vec![flow("x", 0.0, rate)]));
        let values = values("rtt-10-one", &courses);
        assert_eq!(values.len(), 2);
        assert!(values.iter().all(|value| (value - 0.9).abs() < 1e-9));
    }

    #[test]
    fn two_that_share_are_looked_at_while_both_are_there() {
        let courses = [
            course(vec![flow("iperf3", 0.0, 1.0)]),
            course(vec![flow("one", 0.0, 0.6), flow("other", 4.0, 0.4)]),
        ];
        let values = values("joins", &courses);
        assert!((values[0] - 0.2).abs() < 1e-9, "{values:?}");
        assert!((values[1] - 1.0).abs() < 1e-9, "{values:?}");
    }

    #[test]
    fn channels_are_summed_and_compared() {
        let mut both = course(vec![flow("godwit", 0.0, 1.8)]);
        for (name, gbits) in [("cable0", 0.5), ("cable1", 0.4), ("cable2", 0.45)] {
            let sent = flow(name, 0.0, gbits).arrived;
            both.cables.insert(name.to_owned(), sent);
        }
        let iperf = (0..4).map(|_| flow("iperf3", 0.0, 0.5)).collect();
        let values = values("channels", &[course(iperf), both]);
        assert!((values[0] - 0.9).abs() < 1e-9, "{values:?}");
        assert!((values[1] - 1.0 / 9.0).abs() < 1e-9, "{values:?}");
        assert_eq!(values.len(), 5);
    }
}
