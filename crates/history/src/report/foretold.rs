//! Compares the forecast that a job gave after a tenth of its bytes with its end.
//! Makes no forecast: the samples have it.

use godwit_api::rest::{AttemptView, ForecastReview, JobState, JobView, SampleView, Timestamp};

/// The review of a complete job.
pub(super) fn review(
    job: &JobView,
    attempts: &[AttemptView],
    samples: &[SampleView],
) -> Option<ForecastReview> {
    let ended = job.ended.filter(|_| job.state == JobState::Complete)?;
    let last = attempts.last()?;
    of_attempt(last.number, last.started, ended, samples)
}

/// The review of the attempt with this number, which ran from `started` to `ended`.
fn of_attempt(
    number: u32,
    started: Timestamp,
    ended: Timestamp,
    samples: &[SampleView],
) -> Option<ForecastReview> {
    let own = || samples.iter().filter(|one| one.attempt == number);
    let (first, whole) = (own().next()?, own().map(|one| one.bytes).max()?);
    // An attempt that resumes begins with the bytes of the earlier ones.
    let tenth = first
        .bytes
        .saturating_add(whole.saturating_sub(first.bytes) / 10);
    let sample =
        own().find(|one| one.bytes >= tenth && one.forecast.is_some() && one.bytes < whole)?;
    let forecast = sample.forecast?;
    let took = super::seconds(ended.0.saturating_sub(started.0));
    let missed = forecast.likely.0.saturating_sub(ended.0);
    let seconds = super::seconds(missed.abs());
    (took > 0.0).then(|| ForecastReview {
        given: sample.at,
        forecast,
        error: if missed < 0 { -seconds } else { seconds } / took,
        held: (forecast.earliest..=forecast.latest).contains(&ended),
    })
}

#[cfg(test)]
mod tests {
    use godwit_api::rest::ForecastView;

    use super::*;

    #[test]
    fn the_first_forecast_after_a_tenth_counts() {
        let forecast = |seconds: i64| {
            Some(ForecastView {
                earliest: Timestamp(seconds * 900),
                likely: Timestamp(seconds * 1_000),
                latest: Timestamp(seconds * 1_100),
            })
        };
        let sample = |at: i64, bytes, forecast| SampleView {
            at: Timestamp(at * 1_000),
            attempt: 1,
            bytes,
            forecast,
            ..SampleView::default()
        };
        let samples = [
            sample(0, 0, None),
            sample(5, 5, forecast(300)),
            sample(12, 11, forecast(96)),
            sample(60, 60, forecast(101)),
            sample(100, 100, forecast(100)),
        ];
        let of = |number| of_attempt(number, Timestamp(0), Timestamp(100_000), &samples);
        let review = of(1).expect("there was one");
        assert_eq!(review.given, Timestamp(12_000));
        assert!((review.error + 0.04).abs() < 1e-9, "{}", review.error);
        assert!(review.held);
        assert_eq!(of(2), None);
    }
}
