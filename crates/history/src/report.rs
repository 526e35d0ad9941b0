//! Joins the facts about a job, and sums up its samples.
//! Reads no file and no state; draws nothing (`html`).

mod foretold;
mod hosts;
mod html;
mod nodes;

use std::collections::BTreeMap;

use godwit_api::rest::{
    AttemptView, Distribution, FailureGroup, JobReport, JobView, LogLine, MissingNode, NewJob,
    SampleView,
};

use crate::now;

pub use html::render;

/// Steps of a histogram.
const STEPS: usize = 10;

/// Events of the log that belong on the time line.
const ON_TIME_LINE: [&str; 9] = [
    "started",
    "tuning",
    "connection_lost",
    "connection_regained",
    "paused",
    "note",
    "error",
    "summary",
    "channels",
];

/// Lines of the time line: the first and the last ones of a long job.
const TIME_LINE_MAX: usize = 1_000;

/// The facts about a job from the state and the files.
pub struct Known {
    /// The job as the state has it.
    pub job: JobView,
    /// The job as it was submitted.
    pub description: NewJob,
    /// The first one first.
    pub attempts: Vec<AttemptView>,
    /// Failed entries in groups.
    pub failures: Vec<FailureGroup>,
    /// Lines of all nodes.
    pub log: Vec<LogLine>,
    /// Samples of all nodes, by time.
    pub samples: Vec<SampleView>,
    /// Nodes whose part is missing.
    pub missing: Vec<MissingNode>,
}

/// Makes the report.
pub fn make(known: Known) -> JobReport {
    let Known {
        job,
        description,
        attempts,
        failures,
        log,
        samples,
        missing,
    } = known;
    let made = now();
    let seconds_running = attempts
        .iter()
        .map(|attempt| {
            let ended = attempt.ended.unwrap_or(made);
            seconds(ended.0.saturating_sub(attempt.started.0))
        })
        .sum();
    let bytes_moved = attempts
        .iter()
        .fold(0_u64, |sum, attempt| sum.saturating_add(attempt.bytes));
    let bytes_again = attempts.iter().fold(0_u64, |sum, attempt| {
        sum.saturating_add(attempt.bytes_again)
    });
    let mut time_line: Vec<LogLine> = log
        .into_iter()
        .filter(|line| {
            let event = line.event["event"].as_str().unwrap_or_default();
            ON_TIME_LINE.contains(&event)
        })
        .collect();
    if time_line.len() > TIME_LINE_MAX {
        let last = time_line.split_off(time_line.len() - TIME_LINE_MAX / 2);
        time_line.truncate(TIME_LINE_MAX / 2);
        time_line.extend(last);
    }
    JobReport {
        joules_per_terabyte: joules_per_terabyte(&samples),
        bottlenecks: bottlenecks(&samples),
        figures: figures(&samples),
        nodes: nodes::shares(&samples),
        forecast: foretold::review(&job, &attempts, &samples),
        made,
        job,
        description,
        attempts,
        failures,
        seconds_running,
        bytes_moved,
        bytes_again,
        time_line,
        samples,
        missing,
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "figures for people and plots need no more than 53 bits"
)]
const fn float(number: u64) -> f64 {
    number as f64
}

fn seconds(millis: i64) -> f64 {
    float(u64::try_from(millis).unwrap_or(0)) / 1_000.0
}

/// Pairs of samples of one attempt that follow each other.
fn steps(samples: &[SampleView]) -> impl Iterator<Item = (&SampleView, &SampleView)> {
    samples
        .windows(2)
        .filter(|pair| pair[0].attempt == pair[1].attempt)
        .map(|pair| (&pair[0], &pair[1]))
}

fn joules_per_terabyte(samples: &[SampleView]) -> Option<f64> {
    let (mut joules, mut bytes) = (0.0, 0_u64);
    for (before, sample) in steps(samples) {
        if let Some(watts) = sample.host.get("package_watts") {
            joules += watts * seconds(sample.at.0.saturating_sub(before.at.0));
            bytes = bytes.saturating_add(sample.bytes.saturating_sub(before.bytes));
        }
    }
    (bytes > 0 && joules > 0.0).then(|| joules / (float(bytes) / 1e12))
}

fn bottlenecks(samples: &[SampleView]) -> BTreeMap<String, f64> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for sample in samples {
        if let Some(stage) = &sample.bottleneck {
            *counts.entry(stage.clone()).or_default() += 1;
        }
    }
    let all = u64::try_from(samples.len()).unwrap_or(u64::MAX).max(1);
    counts
        .into_iter()
        .map(|(stage, count)| (stage, float(count) / float(all)))
        .collect()
}

fn figures(samples: &[SampleView]) -> BTreeMap<String, Distribution> {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (_, sample) in steps(samples) {
        let mut put = |name: &str, value: f64| {
            values.entry(name.to_owned()).or_default().push(value);
        };
        put("bytes_per_second", sample.bytes_per_second);
        put("streams", f64::from(sample.streams));
        for (name, value) in sample.host.iter().chain(&sample.stages) {
            put(name, *value);
        }
    }
    values
        .into_iter()
        .filter_map(|(name, values)| Some((name, distribution(values)?)))
        .collect()
}

/// Quartiles by linear interpolation between the two nearest values (type 7 of Hyndman and Fan, 1996).
fn distribution(mut values: Vec<f64>) -> Option<Distribution> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let (first, last) = (*values.first()?, *values.last()?);
    let at = |part: u64| {
        let place = (values.len() as u64 - 1) * part;
        let (index, rest) = (place / 4, float(place % 4) / 4.0);
        let value = |index: u64| {
            usize::try_from(index)
                .ok()
                .and_then(|index| values.get(index))
                .copied()
                .unwrap_or(last)
        };
        value(index) + (value(index + 1) - value(index)) * rest
    };
    let mut histogram = vec![0; STEPS];
    for value in &values {
        let width = last - first;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the number of steps"
        )]
        let step = if width > 0.0 {
            ((value - first) / width * float(STEPS as u64)) as usize
        } else {
            0
        };
        histogram[step.min(STEPS - 1)] += 1;
    }
    Some(Distribution {
        samples: values.len() as u64,
        min: first,
        quartile1: at(1),
        median: at(2),
        quartile3: at(3),
        max: last,
        histogram,
    })
}

#[cfg(test)]
mod tests {
    use godwit_api::rest::Timestamp;

    use super::*;

    #[test]
    fn quartiles_lie_between_the_nearest_values() {
        let found = distribution(vec![4.0, 1.0, 2.0, 3.0]).expect("values");
        assert_eq!(
            (
                found.min,
                found.quartile1,
                found.median,
                found.quartile3,
                found.max
            ),
            (1.0, 1.75, 2.5, 3.25, 4.0)
        );
        assert_eq!(found.histogram.iter().sum::<u64>(), 4);
        assert_eq!((found.histogram[0], found.histogram[9]), (1, 1));
        assert_eq!(distribution(vec![f64::NAN]), None);
        assert_eq!(distribution(vec![5.0]).expect("one").median, 5.0);
    }

    #[test]
    fn energy_counts_for_what_was_moved_meanwhile() {
        let sample = |second: i64, attempt, bytes| SampleView {
            at: Timestamp(second * 1_000),
            attempt,
            bytes,
            bottleneck: (second > 0).then(|| "network".to_owned()),
            host: BTreeMap::from([("package_watts".to_owned(), 100.0)]),
            ..SampleView::default()
        };
        let samples = [
            sample(0, 1, 0),
            sample(10, 1, 1_000_000_000_000),
            // The energy used between two attempts is unknown.
            sample(500, 2, 1_000_000_000_000),
            sample(510, 2, 2_000_000_000_000),
        ];
        assert_eq!(joules_per_terabyte(&samples), Some(1_000.0));
        assert_eq!(
            bottlenecks(&samples),
            BTreeMap::from([("network".to_owned(), 0.75)])
        );
        assert_eq!(joules_per_terabyte(&samples[..1]), None);
    }
}
