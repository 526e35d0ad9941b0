//! Owns the forecast of one attempt's end: what it hears, and the earlier jobs between the same sites.
//! Computes nothing itself: `godwit-forecast` does.

use chrono::{DateTime, Timelike as _};
use godwit_api::rest::{ForecastView, ProgressView, Timestamp};
use godwit_forecast::{Amount, Forecaster, LimitFrom, Past};
use godwit_state::{Job, JobAmounts, JobFilter, JobState, Reader};

use crate::attempt::live::Limits;
use crate::basis::clock::now;
use crate::basis::pages::each_job;

/// Earlier jobs that are looked at.
const PAST_MAX: usize = 32;

/// Milliseconds between two forecasts.
const EVERY: i64 = 2_000;

/// A forecast looks no further ahead: about three years.
const SECONDS_MAX: f64 = 1e8;

/// The forecast of one attempt.
pub(super) struct Foresight {
    forecaster: Forecaster,
    /// The job, until the earlier ones are read.
    job: Option<Job>,
    began: Timestamp,
    given: Option<(Timestamp, ForecastView)>,
}

impl Foresight {
    /// An attempt that begins now.
    pub(super) fn begin(job: &Job) -> Self {
        let began = now();
        Self {
            forecaster: Forecaster::new(Vec::new(), hour(began)),
            job: Some(job.clone()),
            began,
            given: None,
        }
    }

    /// The end, by the progress now.
    ///
    /// None until the scan has ended: before its end the whole amount is not known.
    pub(super) fn foresee(
        &mut self,
        reader: &Reader,
        view: &ProgressView,
        limits: &Limits,
    ) -> Option<ForecastView> {
        let at = view.at;
        let done = Amount {
            bytes: view.bytes,
            // A peer of an older version sends no settled files.
            files: view.files_settled.max(view.files),
        };
        self.forecaster
            .see(seconds(self.began, at), done, some(limits.now));
        let whole = Amount {
            bytes: view.bytes_total?,
            files: view.files_total,
        };
        if let Some((then, given)) = self.given
            && (0..EVERY).contains(&(at.0 - then.0))
        {
            return Some(given);
        }
        // A short job ends before it needs the earlier ones, whose reading would take longer than the job.
        if !self.forecaster.is_done(whole)
            && let Some(job) = self.job.take()
        {
            // A forecast without earlier jobs is better than none.
            let past = earlier(reader, &job).unwrap_or_default();
            self.forecaster.remember(past);
        }
        let ahead = limits.ahead.iter().filter(|(from, _)| *from > at);
        let limits: Vec<LimitFrom> = std::iter::once((0.0, limits.now))
            .chain(ahead.map(|(from, limit)| (seconds(at, *from), *limit)))
            .map(|(after, limit)| LimitFrom {
                after,
                limit: some(limit),
            })
            .collect();
        let forecast = self.forecaster.forecast(whole, &limits)?;
        let then = |seconds: f64| {
            // Bounded above, so the milliseconds fit.
            #[expect(clippy::cast_possible_truncation, reason = "bounded")]
            let millis = (seconds.min(SECONDS_MAX) * 1_000.0) as i64;
            Timestamp(at.0.saturating_add(millis))
        };
        let view = ForecastView {
            earliest: then(forecast.shortest),
            likely: then(forecast.likely),
            latest: then(forecast.longest),
        };
        self.given = Some((at, view));
        Some(view)
    }
}

/// Jobs between the same sites that ended in one attempt, latest first.
fn earlier(reader: &Reader, job: &Job) -> Option<Vec<Past>> {
    let filter = JobFilter {
        states: vec![JobState::Complete],
        site: Some(job.destination.site.clone()),
        ..JobFilter::default()
    };
    let from = |job: &Job| job.sources.first().map(|place| place.site.clone());
    let mut found = Vec::new();
    let read = each_job(reader, filter, 4 * PAST_MAX, &mut |mut job| {
        job.sources.truncate(1);
        found.push(job);
        Ok(true)
    });
    read.ok()?;
    let mut past = Vec::new();
    for earlier in found {
        let is_alike = earlier.attempts == 1
            && earlier.destination.site == job.destination.site
            && from(&earlier) == from(job);
        let (Some(started), Some(ended)) = (earlier.started, earlier.ended) else {
            continue;
        };
        if !is_alike {
            continue;
        }
        let moved = JobAmounts(reader).of(&earlier.id).ok()?;
        let millis = ended.0.saturating_sub(started.0);
        past.push(Past {
            done: Amount {
                bytes: moved.bytes,
                files: moved.files,
            },
            seconds: seconds(started, ended),
            hour: hour(Timestamp(started.0.saturating_add(millis / 2))),
        });
        if past.len() == PAST_MAX {
            break;
        }
    }
    Some(past)
}

fn some(limit: u64) -> Option<u64> {
    (limit > 0).then_some(limit)
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.0.saturating_sub(from.0) as f64 / 1_000.0
}

/// The hour of the day in UTC.
fn hour(at: Timestamp) -> f64 {
    DateTime::from_timestamp_millis(at.0).map_or(0.0, |at| {
        f64::from(at.num_seconds_from_midnight()) / 3_600.0
    })
}
