//! Owns the rates of the node's jobs over the last hours, by node, site and network path.
//! See `rates_file` for persistence. Reports of jobs have the samples that last longer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use godwit_api::rest::{HERE, JobView, RateKind, RateSeries, RatesView, Timestamp};
use godwit_jobs::{is_for_other_site, now};
use godwit_state::JobFilter;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::app::App;
use crate::rates_file::RatesFile;
use crate::server::stopped;

/// How often running jobs are sampled.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Samples of one value.
const LOOKS: u32 = 6;

/// Seconds from one value to the next.
const STEP_SECONDS: u32 = 30;

const _: () = assert!(LOOK_EVERY.as_secs() * LOOKS as u64 == STEP_SECONDS as u64);

/// Values that are kept: those of one day.
pub(crate) const STEPS_MAX: usize = 86_400 / STEP_SECONDS as usize;

/// Sites and channels of one value. 16 bytes of each are kept for a day, so all take about 5 MB at most.
const NAMES_MAX: usize = 100;

/// Running jobs that are sampled: the maximum of a page of jobs.
const RUNNING_MAX: usize = 1_000;

/// Older progress says nothing about the current rate.
const FRESH_MS: i64 = 10_000;

/// The rates of one step, by key.
pub(crate) type Step = BTreeMap<Key, f64>;

/// Key of a rate.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Key {
    kind: RateKind,
    name: Box<str>,
    /// A site, or a network path, of jobs that run for other sites. As in the outlines of those jobs, only admins see it.
    for_others: bool,
}

impl Key {
    fn new(kind: RateKind, name: &str) -> Self {
        Self {
            kind,
            name: Box::from(name),
            for_others: false,
        }
    }
}

/// The rates of the last hours.
#[derive(Default)]
pub(crate) struct Rates(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// The values of each step; the last one ended at `ended`. None is a step without samples.
    steps: VecDeque<Option<Step>>,
    ended: Timestamp,
    /// Sums of the samples of the current step.
    sums: Step,
    looks: u32,
}

impl Rates {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Continues from the values that an earlier run of the node kept.
    pub(crate) fn resume(&self, steps: Vec<(Timestamp, Step)>) {
        let mut kept = self.lock();
        for (at, step) in steps {
            kept.push(step, at);
        }
    }

    /// Samples the running jobs at `at`. Returns the values of a step that has ended.
    fn look(&self, jobs: &[JobView], at: Timestamp) -> Option<Step> {
        let mut kept = self.lock();
        for job in jobs {
            kept.add(job, at);
        }
        kept.looks += 1;
        if kept.looks < LOOKS {
            return None;
        }
        let mut step = std::mem::take(&mut kept.sums);
        for rate in step.values_mut() {
            *rate = (*rate / f64::from(LOOKS)).round();
        }
        kept.looks = 0;
        kept.push(step.clone(), at);
        Some(step)
    }

    /// The values of all steps that an admin, or another user, may see.
    pub(crate) fn view(&self, is_admin: bool) -> RatesView {
        let kept = self.lock();
        let node = Key::new(RateKind::Node, "node");
        let mut keys: BTreeSet<&Key> = kept
            .steps
            .iter()
            .flatten()
            .flat_map(BTreeMap::keys)
            .collect();
        // The name of a network path has addresses, which the outline of a job leaves out.
        keys.retain(|key| is_admin || !key.for_others && key.kind != RateKind::Channel);
        keys.insert(&node);
        let mut series: Vec<RateSeries> = Vec::new();
        // Other sites choose names, too. Those names take no room from this site's own.
        let (others, own): (Vec<&Key>, Vec<&Key>) =
            keys.into_iter().partition(|key| key.for_others);
        for key in own.into_iter().chain(others).take(NAMES_MAX + 1) {
            let of = |step: &Step| step.get(key).copied().unwrap_or(0.0);
            let value = |step: &Option<Step>| step.as_ref().map(of);
            let values = kept.steps.iter().map(value);
            let is_same =
                |known: &&mut RateSeries| (known.kind, &*known.name) == (key.kind, &*key.name);
            match series.iter_mut().find(is_same) {
                Some(last) => {
                    let sums = last.bytes_per_second.iter_mut().zip(values);
                    sums.for_each(|(sum, value)| *sum = sum.zip(value).map(|(a, b)| a + b));
                }
                None => series.push(RateSeries {
                    kind: key.kind,
                    name: key.name.to_string(),
                    bytes_per_second: values.collect(),
                }),
            }
        }
        series.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
        let steps = i64::try_from(kept.steps.len().saturating_sub(1)).unwrap_or(0);
        RatesView {
            begin: Timestamp(kept.ended.0 - steps * i64::from(STEP_SECONDS) * 1_000),
            step_seconds: STEP_SECONDS,
            series,
        }
    }
}

impl Kept {
    /// Adds a step. The time between this step and the previous one becomes a gap.
    fn push(&mut self, step: Step, at: Timestamp) {
        let step_ms = i64::from(STEP_SECONDS) * 1_000;
        let since = at.0.saturating_sub(self.ended.0);
        if self.ended.0 > 0 && since > step_ms {
            let missing = usize::try_from((since + step_ms / 2) / step_ms - 1).unwrap_or(0);
            let missing = missing.min(STEPS_MAX);
            self.steps.extend(std::iter::repeat_n(None, missing));
        }
        self.ended = at;
        self.steps.push_back(Some(step));
        let surplus = self.steps.len().saturating_sub(STEPS_MAX);
        self.steps.drain(..surplus);
    }

    fn add(&mut self, job: &JobView, at: Timestamp) {
        // A job with several destinations moves what the job of each one moves.
        let progress = job.progress.as_ref();
        let Some(progress) = progress.filter(|_| job.destinations.is_none()) else {
            return;
        };
        let fresh = at.0.saturating_sub(progress.at.0) <= FRESH_MS;
        let Some(rate) = progress.bytes_per_second.filter(|_| fresh) else {
            return;
        };
        self.sum(Key::new(RateKind::Node, "node"), rate);
        let places = job.sources.iter().chain([&job.destination]);
        let sites: BTreeSet<&str> = places
            .filter_map(|place| place.split_once(':'))
            .map(|(site, _)| site)
            .filter(|site| *site != HERE)
            .collect();
        let for_others = is_for_other_site(&job.owner);
        for site in sites {
            let key = Key::new(RateKind::Site, site);
            self.sum(Key { for_others, ..key }, rate);
        }
        for channel in &progress.channels {
            let rate = channel.bytes_per_second.unwrap_or(0.0);
            let key = Key::new(RateKind::Channel, &channel.name);
            self.sum(Key { for_others, ..key }, rate);
        }
    }

    fn sum(&mut self, key: Key, rate: f64) {
        if self.sums.len() < NAMES_MAX || self.sums.contains_key(&key) {
            *self.sums.entry(key).or_insert(0.0) += rate;
        }
    }
}

/// Samples the running jobs until the server stops.
pub(crate) async fn follow(app: Arc<App>, mut stopping: watch::Receiver<bool>) {
    let file = RatesFile::beside(app.jobs.directory());
    let (file, steps) = file.open(now());
    app.rates.resume(steps);
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stopped(&mut stopping) => return,
        }
        let looked = app.run(|app| {
            let filter = JobFilter::moving();
            Ok(app.jobs.list(&filter, None, RUNNING_MAX)?.jobs)
        });
        // An unreadable state has no rates.
        let jobs = looked.await.unwrap_or_default();
        let at = now();
        if let Some(step) = app.rates.look(&jobs, at) {
            file.add(at, &step);
        }
    }
}

#[cfg(test)]
mod tests {
    use godwit_api::rest::{ChannelView, ProgressView};
    use serde_json::json;

    use super::*;

    fn job(destination: &str, rate: f64, at: i64) -> JobView {
        let mut job: JobView = serde_json::from_value(json!({
            "id": "j", "label": "", "owner": "o", "kind": "copy", "sources": ["here:/data"],
            "destination": destination, "state": "running", "since": Timestamp(0), "priority": 0,
            "attempts": 1, "created": Timestamp(0),
        }))
        .expect("a job");
        job.progress = Some(ProgressView {
            at: Timestamp(at),
            bytes_per_second: Some(rate),
            channels: vec![ChannelView {
                name: "eth0".to_owned(),
                bytes_per_second: Some(rate),
                ..ChannelView::default()
            }],
            ..ProgressView::default()
        });
        job
    }

    #[test]
    fn values_are_the_mean_of_their_looks() {
        let rates = Rates::default();
        for look in 0..LOOKS {
            let at = i64::from(look) * 5_000;
            let to_a = job("a:/x", if look < LOOKS / 2 { 10.0 } else { 30.0 }, at);
            let old = job("b:/x", 1_000.0, at - FRESH_MS - 1);
            rates.look(&[to_a, old], Timestamp(at));
        }
        let view = rates.view(true);
        let found: Vec<(RateKind, &str, &[Option<f64>])> = view
            .series
            .iter()
            .map(|one| (one.kind, &*one.name, &*one.bytes_per_second))
            .collect();
        let expected: [(RateKind, &str, &[Option<f64>]); 3] = [
            (RateKind::Node, "node", &[Some(20.0)]),
            (RateKind::Site, "a", &[Some(20.0)]),
            (RateKind::Channel, "eth0", &[Some(20.0)]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn only_admins_see_network_paths_and_the_third_site_of_a_job_for_another_site() {
        let rates = Rates::default();
        for look in 0..LOOKS {
            let at = i64::from(look) * 5_000;
            let mut guests = [job("secret:/x", 10.0, at), job("a:/x", 10.0, at)];
            for guest in &mut guests {
                guest.owner = "site:gw1-x".to_owned();
            }
            let [hidden, shared] = guests;
            rates.look(&[hidden, shared, job("a:/x", 5.0, at)], Timestamp(at));
        }
        let of = |kind: RateKind, is_admin: bool| -> Vec<(String, f64)> {
            let series = rates.view(is_admin).series.into_iter();
            let sites = series.filter(|one| one.kind == kind);
            sites
                .map(|one| (one.name, one.bytes_per_second[0].expect("looked")))
                .collect()
        };
        assert_eq!(of(RateKind::Site, false), [("a".to_owned(), 5.0)]);
        assert_eq!(
            of(RateKind::Site, true),
            [("a".to_owned(), 15.0), ("secret".to_owned(), 10.0)]
        );
        assert_eq!(of(RateKind::Channel, false), []);
        let path = [("eth0".to_owned(), 25.0)];
        assert_eq!(of(RateKind::Channel, true), path);
        assert_eq!(rates.view(false).series[0].bytes_per_second, [Some(25.0)]);
    }

    #[test]
    fn a_day_is_kept_and_no_more() {
        let rates = Rates::default();
        let looks = i64::from(LOOKS) * (i64::try_from(STEPS_MAX).expect("few") + 3);
        for look in 0..looks {
            rates.look(&[], Timestamp(look * 5_000));
        }
        let view = rates.view(true);
        assert_eq!(view.series.len(), 1);
        assert_eq!(view.series[0].bytes_per_second.len(), STEPS_MAX);
        let last = view.begin.0 + (i64::try_from(STEPS_MAX).expect("few") - 1) * 30_000;
        assert_eq!(last, (looks - 1) * 5_000);
    }

    #[test]
    fn the_values_outlive_the_node_and_the_time_without_it_is_a_gap() {
        let home = tempfile::tempdir().expect("a directory");
        let jobs = home.path().join("jobs");
        let (file, steps) = RatesFile::beside(&jobs).open(Timestamp(0));
        assert!(steps.is_empty());
        let rates = Rates::default();
        let look = |rates: &Rates, file: &RatesFile, begin: i64, rate: f64| {
            for look in 1..=i64::from(LOOKS) {
                let at = begin + look * 5_000;
                let step = rates.look(&[job("a:/x", rate, at)], Timestamp(at));
                step.iter().for_each(|step| file.add(Timestamp(at), step));
            }
        };
        look(&rates, &file, 1_000_000, 10.0);
        look(&rates, &file, 1_030_000, 20.0);
        // The node is down for about a minute.
        let (file, steps) = RatesFile::beside(&jobs).open(Timestamp(1_120_000));
        let rates = Rates::default();
        rates.resume(steps);
        look(&rates, &file, 1_125_000, 30.0);
        let view = rates.view(false);
        let expected = [Some(10.0), Some(20.0), None, None, Some(30.0)];
        assert_eq!(view.series[0].bytes_per_second, expected);
        // Values older than a day are dropped.
        let (_, steps) = RatesFile::beside(&jobs).open(Timestamp(1_000_000 + 86_400_000 + 40_000));
        assert_eq!(steps.len(), 2, "{steps:?}");
    }
}
