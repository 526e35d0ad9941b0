//! Joins the facts about a job, and sums up its samples.
//! Reads no file and no state; draws nothing (`html`).

mod foretold;
mod hosts;
mod html;
mod nodes;
mod time_line;

use std::collections::BTreeMap;

use godwit_api::rest::{
    AttemptView, Bottleneck, Distribution, FailureGroup, JobReport, JobView, MissingNode, NewJob,
    SampleView,
};

use crate::now;

pub use html::render;
pub use time_line::TimeLine;

/// Steps of a histogram.
const STEPS: usize = 10;

/// The facts about a job from the state and the files.
pub struct Known {
    /// The job, from the state.
    pub job: JobView,
    /// The job as it was submitted.
    pub description: NewJob,
    /// The job of each destination, for a job with several.
    pub destinations: Vec<JobView>,
    /// Oldest first.
    pub attempts: Vec<AttemptView>,
    /// Failed entries in groups.
    pub failures: Vec<FailureGroup>,
    /// From the lines of all nodes.
    pub time_line: TimeLine,
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
        destinations,
        attempts,
        failures,
        time_line,
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
    // A job with several destinations has no attempt.
    let bytes_moved = match destinations.is_empty() {
        true => bytes_moved,
        false => job.moved.bytes,
    };
    let bytes_again = attempts.iter().fold(0_u64, |sum, attempt| {
        sum.saturating_add(attempt.bytes_again)
    });
    let nodes = nodes::shares(&samples);
    JobReport {
        joules_per_terabyte: joules_per_terabyte(&samples),
        bottlenecks: bottlenecks(&samples),
        figures: figures(&samples),
        evenness: nodes::evenness(&nodes).filter(|_| job.ended.is_some()),
        nodes,
        forecast: foretold::review(&job, &attempts, &samples),
        made,
        job,
        description,
        destinations,
        attempts,
        failures,
        seconds_running,
        bytes_moved,
        bytes_again,
        time_line: time_line.into_lines(),
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

/// The hosts whose nodes ran the job: one, or that of each node of a divided job.
fn hosts_of(sample: &SampleView) -> impl Iterator<Item = &BTreeMap<String, f64>> {
    let lone = sample.nodes.is_empty().then_some(&sample.host);
    lone.into_iter()
        .chain(sample.nodes.iter().map(|node| &node.host))
}

/// Power of the hosts whose nodes ran the job; `None` if one of them does not measure it.
fn watts(sample: &SampleView) -> Option<f64> {
    hosts_of(sample)
        .map(|host| host.get("package_watts").copied())
        .sum()
}

fn joules_per_terabyte(samples: &[SampleView]) -> Option<f64> {
    // The rate counts, not the delivered bytes: files that were already complete cost no transfer.
    let (mut joules, mut bytes) = (0.0, 0.0);
    for (before, sample) in steps(samples) {
        if let Some(watts) = watts(sample) {
            let span = seconds(sample.at.0.saturating_sub(before.at.0));
            joules += watts * span;
            bytes += sample.bytes_per_second * span;
        }
    }
    (bytes > 0.0 && joules > 0.0).then(|| joules / (bytes / 1e12))
}

fn bottlenecks(samples: &[SampleView]) -> BTreeMap<Bottleneck, f64> {
    let mut counts: BTreeMap<Bottleneck, u64> = BTreeMap::new();
    for sample in samples {
        if let Some(stage) = sample.bottleneck {
            *counts.entry(stage).or_default() += 1;
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
        for (name, value) in hosts_of(sample).flatten().chain(&sample.stages) {
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
    use godwit_api::rest::{NodeProgress, Timestamp};

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
            bytes_per_second: 1e11,
            bottleneck: (second > 0).then_some(Bottleneck::Network),
            host: BTreeMap::from([("package_watts".to_owned(), 100.0)]),
            ..SampleView::default()
        };
        let samples = [
            sample(0, 1, 0),
            sample(10, 1, 1_000_000_000_000),
            // The energy used between two attempts is unknown.
            sample(500, 2, 1_000_000_000_000),
            // A half of these was found complete.
            sample(510, 2, 3_000_000_000_000),
        ];
        assert_eq!(joules_per_terabyte(&samples), Some(1_000.0));
        assert_eq!(
            bottlenecks(&samples),
            BTreeMap::from([(Bottleneck::Network, 0.75)])
        );
        assert_eq!(joules_per_terabyte(&samples[..1]), None);
    }

    #[test]
    fn the_hosts_of_a_divided_job_are_those_of_all_its_nodes() {
        let node = |watts: Option<f64>| NodeProgress {
            host: watts
                .map(|watts| ("package_watts".to_owned(), watts))
                .into_iter()
                .collect(),
            ..NodeProgress::default()
        };
        let sample = |second: i64, watts: [Option<f64>; 2]| SampleView {
            at: Timestamp(second * 1_000),
            attempt: 1,
            bytes_per_second: 1e11,
            // That of the controller, which is one of the nodes.
            host: BTreeMap::from([("package_watts".to_owned(), 100.0)]),
            nodes: watts.map(node).to_vec(),
            ..SampleView::default()
        };
        let both = [Some(100.0), Some(300.0)];
        let samples = [sample(0, both), sample(10, both)];
        assert_eq!(joules_per_terabyte(&samples), Some(4_000.0));
        let watts = &figures(&samples)["package_watts"];
        assert_eq!((watts.samples, watts.min, watts.max), (2, 100.0, 300.0));
        // The energy of one node alone is not that of the job.
        let lacks = [Some(100.0), None];
        let samples = [sample(0, lacks), sample(10, lacks)];
        assert_eq!(joules_per_terabyte(&samples), None);
    }
}
