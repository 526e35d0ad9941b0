//! A hundred varied simulated jobs: mixed file sizes, paths whose rates vary, limits that change. After a tenth of each job the
//! forecast is compared with the actual end. Moves no data: `scripts/forecast-figures.py` runs jobs of the real program.

#![expect(
    clippy::cast_possible_truncation,
    reason = "amounts are far below the bounds of the types"
)]

use godwit_forecast::{Amount, Forecast, Forecaster, LimitFrom, Past};
use godwit_seeded::Seeded;

/// A job that is simulated second by second.
struct Job {
    seeded: Seeded,
    /// Bytes per second for large files, and additional seconds for each file.
    rate: f64,
    file_seconds: f64,
    /// Directories: the size of each file, and the number of files.
    directories: Vec<(f64, f64)>,
    /// The variation of the rate, the duration of a deviation, and the rates at the ends of a slow change.
    noise: f64,
    lasting: f64,
    drift: f64,
    /// The times when the limit changes, and the new limits; then whether the change is known in advance.
    limits: Vec<LimitFrom>,
    is_planned: bool,
}

fn between(seeded: &mut Seeded, low: f64, high: f64) -> f64 {
    let share = (seeded.draw() >> 11) as f64 / (1_u64 << 53) as f64;
    (low.ln() + share * (high / low).ln()).exp()
}

/// Approximately normal: the sum of twelve random numbers.
fn normal(seeded: &mut Seeded) -> f64 {
    (0..12)
        .map(|_| (seeded.draw() >> 11) as f64 / (1_u64 << 53) as f64)
        .sum::<f64>()
        - 6.0
}

impl Job {
    fn new(seed: u64) -> Self {
        let mut seeded = Seeded(seed);
        let rate = between(&mut seeded, 1e7, 1e9);
        let file_seconds = between(&mut seeded, 2e-5, 5e-3);
        let seconds = between(&mut seeded, 60.0, 20_000.0);
        let count = between(&mut seeded, 10.0, 500.0) as usize;
        let middle = between(&mut seeded, 3e4, 3e8);
        let spread = between(&mut seeded, 0.2, 2.0);
        let directories = (0..count)
            .map(|_| {
                let size = middle * (spread * normal(&mut seeded)).exp();
                let share = seconds / count as f64 * between(&mut seeded, 0.3, 3.0);
                let files = (share / (size / rate + file_seconds)).max(1.0).ceil();
                (size, files)
            })
            .collect();
        let noise = between(&mut seeded, 0.01, 0.25);
        let lasting = between(&mut seeded, 1.0, 60.0);
        let drift = 0.1 * normal(&mut seeded);
        let mut limits = Vec::new();
        if seeded.one_in(3) {
            // Two changes, each at 0.03 to 0.6 of the time.
            for _ in 0..2 {
                limits.push(LimitFrom {
                    after: seconds * between(&mut seeded, 0.03, 0.6),
                    limit: (!seeded.one_in(3))
                        .then(|| (rate * between(&mut seeded, 0.2, 2.0)) as u64),
                });
            }
            limits.sort_by(|one, other| one.after.total_cmp(&other.after));
        }
        let is_planned = !seeded.one_in(4);
        Self {
            seeded,
            rate,
            file_seconds,
            directories,
            noise,
            lasting,
            drift,
            limits,
            is_planned,
        }
    }

    /// Runs the job to its end; returns its duration in seconds, the time of the forecast, and the forecast.
    fn run(mut self) -> (f64, f64, Option<Forecast>) {
        let whole = self
            .directories
            .iter()
            .fold(Amount::default(), |sum, one| Amount {
                bytes: sum.bytes + (one.0 * one.1) as u64,
                files: sum.files + one.1 as u64,
            });
        let expected: f64 = self
            .directories
            .iter()
            .map(|(size, files)| files * (size / self.rate + self.file_seconds))
            .sum();
        let mut forecaster = Forecaster::new(Vec::new(), 12.0);
        let mut forecast = None;
        let (mut at, mut bytes, mut files) = (0.0_f64, 0.0, 0.0);
        let (mut deviation, mut limit) = (0.0, None);
        let mut directories = std::mem::take(&mut self.directories).into_iter();
        let mut open = directories.next();
        forecaster.see(0.0, Amount::default(), None);
        while open.is_some() {
            for change in &self.limits {
                if change.after <= at {
                    limit = change.limit;
                }
            }
            let kept = (-1.0 / self.lasting).exp();
            deviation = kept * deviation
                + self.noise * (1.0 - kept * kept).sqrt() * normal(&mut self.seeded);
            let slow = self.drift * (at / expected - 0.5);
            let (mut left, speed) = (1.0, (deviation + slow).exp());
            while left > 1e-9 {
                let Some((size, count)) = open else { break };
                let mut each = (size / self.rate + self.file_seconds) / speed;
                if let Some(limit) = limit {
                    each = each.max(size / limit as f64);
                }
                let now = count.min(left / each);
                bytes += now * size;
                files += now;
                left -= now * each;
                open = Some((size, count - now));
                if count - now < 1e-9 {
                    open = directories.next();
                }
            }
            at += 1.0 - left.max(0.0);
            let done = Amount {
                bytes: bytes as u64,
                files: files as u64,
            };
            forecaster.see(at, done, limit);
            if forecast.is_none() && bytes >= whole.bytes as f64 / 10.0 {
                let mut ahead = vec![LimitFrom { after: 0.0, limit }];
                if self.is_planned {
                    ahead.extend(self.limits.iter().filter(|one| one.after > at).map(|one| {
                        LimitFrom {
                            after: one.after - at,
                            ..*one
                        }
                    }));
                }
                forecast = Some((at, forecaster.forecast(whole, &ahead)));
            }
        }
        let (moment, forecast) = forecast.expect("a tenth was there");
        (at, moment, forecast)
    }
}

#[test]
fn after_a_tenth_half_of_the_forecasts_are_within_a_tenth_and_the_interval_holds_four_of_five() {
    let (mut near, mut held, mut wide) = (0, 0, Vec::new());
    let count = 1_000_u64;
    for seed in 0..count {
        let (end, moment, forecast) = Job::new(seed).run();
        let forecast = forecast.expect("something moved");
        let error = (moment + forecast.likely) / end - 1.0;
        near += u64::from(error.abs() <= 0.1);
        let rest = end - moment;
        let is_held = forecast.shortest <= rest && rest <= forecast.longest;
        held += u64::from(is_held);
        wide.push(forecast.longest / forecast.shortest.max(1.0));
        if std::env::var_os("FORECAST_SHOW").is_some() {
            println!(
                "{seed}\t{end:.0}\t{moment:.0}\t{error:.3}\t{:.2}\t{:.2}\t{is_held}",
                forecast.shortest / rest,
                forecast.longest / rest
            );
        }
    }
    wide.sort_by(f64::total_cmp);
    println!(
        "within a tenth: {near}, held: {held} of {count}; width of the middle one: {:.2}",
        wide[wide.len() / 2]
    );
    assert!(near >= count / 2, "{near} of {count} are within a tenth");
    assert!(held >= count * 4 / 5, "the interval held {held} of {count}");
    // An interval that always contains the end may be so wide that it is useless.
    assert!(wide[wide.len() / 2] < 1.8, "{:?}", wide[wide.len() / 2]);
}

#[test]
fn nothing_is_foretold_of_a_job_of_which_nothing_is_known() {
    let mut forecaster = Forecaster::new(Vec::new(), 12.0);
    let whole = Amount {
        bytes: 1_000,
        files: 10,
    };
    assert_eq!(forecaster.forecast(whole, &[]), None);
    forecaster.see(0.0, Amount::default(), None);
    forecaster.see(30.0, Amount::default(), None);
    assert_eq!(forecaster.forecast(whole, &[]), None);
    forecaster.see(31.0, whole, None);
    assert!(forecaster.is_done(whole));
    let none = forecaster.forecast(whole, &[]).expect("all is done");
    assert!(none.longest < 1e-9);
}

#[test]
fn earlier_jobs_tell_of_one_that_has_not_moved_yet() {
    let past = (0..5)
        .map(|n| Past {
            done: Amount {
                bytes: (20 + n) * 1_000_000_000,
                files: 100,
            },
            seconds: 200.0,
            hour: 12.0,
        })
        .collect();
    let mut forecaster = Forecaster::new(Vec::new(), 12.0);
    let whole = Amount {
        bytes: 11_000_000_000,
        files: 50,
    };
    assert!(!forecaster.is_done(whole) && forecaster.forecast(whole, &[]).is_none());
    forecaster.remember(past);
    let forecast = forecaster
        .forecast(whole, &[])
        .expect("five jobs are known");
    assert!((80.0..125.0).contains(&forecast.likely), "{forecast:?}");
    assert!(
        forecast.shortest < 90.0 && forecast.longest > 110.0,
        "{forecast:?}"
    );
}

#[test]
fn a_limit_that_has_gone_is_not_expected_to_hold() {
    let mut forecaster = Forecaster::new(Vec::new(), 12.0);
    let whole = Amount {
        bytes: 100_000_000,
        files: 1,
    };
    let bytes = |bytes| Amount { bytes, files: 0 };
    for second in 0..60 {
        forecaster.see(second as f64, bytes(second * 100_000), Some(100_000));
    }
    let held = forecaster
        .forecast(
            whole,
            &[LimitFrom {
                after: 0.0,
                limit: Some(100_000),
            }],
        )
        .expect("it moves");
    assert!((930.0..1_100.0).contains(&held.likely), "{held:?}");
    for second in 60..70_u64 {
        let done = bytes(5_900_000 + (second - 59) * 2_000_000);
        forecaster.see(second as f64, done, None);
    }
    let free = forecaster.forecast(whole, &[]).expect("it moves");
    assert!((30.0..45.0).contains(&free.likely), "{free:?}");
}
