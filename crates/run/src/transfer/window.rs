//! Collects the counters of both ends and the bytes of channels over the last few seconds, which show the current
//! limit of a transfer. Does not judge.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use godwit_engine::{ChannelFigures, ChannelRate, EndCounters};

/// Length of the window. The other end reports twice a second.
const WINDOW: Duration = Duration::from_secs(4);

/// Interval between two stored samples.
const STEP: Duration = Duration::from_millis(500);

/// The samples of the last few seconds.
#[derive(Default)]
pub(super) struct Window {
    samples: VecDeque<Sample>,
}

struct Sample {
    at: Instant,
    end_counters: EndCounters,
    channels: Vec<ChannelFigures>,
}

impl Window {
    /// Adds a sample, and returns the counts of the window that ends with it.
    pub(super) fn add(
        &mut self,
        now: Instant,
        end_counters: EndCounters,
        channels: &[ChannelFigures],
    ) -> (EndCounters, Vec<ChannelRate>) {
        let began_again = self.samples.back().is_some_and(|last| {
            let elapsed = |end_counters: &EndCounters| {
                let of =
                    |side: Option<godwit_engine::Snapshot>| side.map_or(0, |side| side.elapsed_ns);
                (of(end_counters.source), of(end_counters.destination))
            };
            let ((source, destination), (was_source, was_destination)) =
                (elapsed(&end_counters), elapsed(&last.end_counters));
            source < was_source || destination < was_destination
        });
        if began_again {
            self.samples.clear();
        }
        while self
            .samples
            .get(1)
            .is_some_and(|sample| now.duration_since(sample.at) >= WINDOW)
        {
            self.samples.pop_front();
        }
        if self
            .samples
            .back()
            .is_none_or(|sample| now.duration_since(sample.at) >= STEP)
        {
            self.samples.push_back(Sample {
                at: now,
                end_counters,
                channels: channels.to_vec(),
            });
        }
        match self.samples.front() {
            // Before the first step has passed, the window starts at zero.
            Some(first) if now.duration_since(first.at) >= STEP => (
                end_counters.since(&first.end_counters),
                ChannelRate::between(&first.channels, channels),
            ),
            _ => (end_counters, ChannelRate::between(&[], channels)),
        }
    }
}

#[cfg(test)]
mod tests {
    use godwit_engine::Snapshot;

    use super::*;

    fn end_counters(elapsed: u64) -> EndCounters {
        EndCounters {
            source: Some(Snapshot {
                elapsed_ns: elapsed,
                ..Snapshot::default()
            }),
            destination: None,
        }
    }

    #[test]
    fn a_window_ends_now_and_forgets_what_is_older() {
        let mut window = Window::default();
        let began = Instant::now();
        let mut elapsed = 0;
        for step in 0..40_u64 {
            let now = began + Duration::from_millis(250 * step);
            let (found, _) = window.add(now, end_counters(250 * step), &[]);
            elapsed = found.source.unwrap().elapsed_ns;
            assert!(elapsed <= 4500, "{elapsed} after {step}");
        }
        assert!(elapsed >= 4000);
    }

    #[test]
    fn a_restarted_transfer_is_judged_again() {
        let mut window = Window::default();
        let began = Instant::now();
        window.add(began, end_counters(9000), &[]);
        let (found, _) = window.add(began + Duration::from_secs(1), end_counters(100), &[]);
        assert_eq!(found.source.unwrap().elapsed_ns, 100);
    }

    #[test]
    fn channels_are_judged_by_the_window_and_not_by_what_they_carried_before() {
        let mut window = Window::default();
        let began = Instant::now();
        let channel = |seconds, bytes| {
            vec![ChannelFigures {
                number: 0,
                name: String::new(),
                streams: 0,
                bytes,
                round_trip: Duration::ZERO,
                resent_bytes: 0,
                cuts: 0,
                age: Duration::from_secs(seconds),
            }]
        };
        let mut rates = Vec::new();
        for second in 0..20 {
            let now = began + Duration::from_secs(second);
            // 100 bytes a second for ten seconds, then nothing.
            let channels = channel(second, 100 * second.min(10));
            (_, rates) = window.add(now, end_counters(second), &channels);
        }
        assert_eq!(rates[0].bytes_per_second, 0.0);
        assert!(rates[0].before.unwrap() > 60.0, "{rates:?}");
    }
}
