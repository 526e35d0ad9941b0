//! Records how many bytes were transferred over the last seconds: the mean rate, and whether they arrived in bursts. Does
//! not decide.

use std::collections::VecDeque;
use std::time::Duration;

/// Length of the recorded time.
const SPAN: Duration = Duration::from_secs(16);
/// Bursts are not measured over a shorter time, because their mean would be random.
const SPAN_MIN: Duration = Duration::from_secs(8);
const APART_MIN: Duration = Duration::from_secs(4);
/// Length of a pause, in which less than this part of the mean rate is transferred.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_PART: f64 = 0.1;

/// Byte counts at moments of the last seconds.
#[derive(Debug, Default)]
pub(super) struct Pace {
    marks: VecDeque<(Duration, u64)>,
}

/// How evenly bytes are transferred.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Course {
    /// There was no pause.
    Even,
    /// There was a pause; whether there are bursts is not known yet.
    Uneven,
    /// There are bursts with several pauses; a single pause may have another cause.
    Bursts(Bursts),
}

/// Bursts with pauses between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bursts {
    /// Mean rate in bytes a second, including pauses.
    pub(super) rate: f64,
    /// Range of the deviation from an even course, from the lowest to the highest, in bytes.
    pub(super) bytes: f64,
}

impl Bursts {
    /// Length of a burst in seconds at the mean rate.
    pub(super) fn seconds(&self) -> f64 {
        self.bytes / self.rate.max(1.0)
    }
}

impl Pace {
    /// Records that `bytes` were transferred in total by `now`.
    pub(super) fn add(&mut self, now: Duration, bytes: u64) {
        let since = now.saturating_sub(SPAN);
        while self.marks.front().is_some_and(|&(when, _)| when < since) {
            self.marks.pop_front();
        }
        self.marks.push_back((now, bytes));
    }

    /// The latest byte count.
    pub(super) fn bytes(&self) -> u64 {
        self.marks.back().map_or(0, |&(_, bytes)| bytes)
    }

    /// Bytes a second since `from`, or since the earliest record; `None` if no time has passed.
    pub(super) fn mean_since(&self, from: Duration) -> Option<f64> {
        let &last = self.marks.back()?;
        let &first = self.marks.iter().find(|(when, _)| *when >= from)?;
        (last.0 > first.0).then(|| rate(first, last))
    }

    /// How evenly bytes were transferred.
    pub(super) fn course(&self) -> Course {
        let (Some(&(from, first)), Some(&(to, last))) = (self.marks.front(), self.marks.back())
        else {
            return Course::Even;
        };
        let mean = rate((from, first), (to, last));
        // Starts of the first and the last pause: only whole bursts lie between them, and not the burst that filled an empty
        // cache.
        let mut began: Option<[(Duration, u64); 2]> = None;
        let mut quiet_from = (from, first);
        let mut is_pause = false;
        for (&before, &mark) in self.marks.iter().zip(self.marks.iter().skip(1)) {
            if rate(before, mark) > PAUSE_PART * mean {
                quiet_from = mark;
                is_pause = false;
            } else if !is_pause && mark.0.saturating_sub(quiet_from.0) >= PAUSE {
                is_pause = true;
                let first = began.map_or(quiet_from, |[first, _]| first);
                began = Some([first, quiet_from]);
            }
        }
        let Some([first, last]) = began else {
            return Course::Even;
        };
        let apart = last.0.saturating_sub(first.0);
        if apart < APART_MIN || to.saturating_sub(from) < SPAN_MIN {
            return Course::Uneven;
        }
        let rate = rate(first, last);
        let (mut least, mut most) = (0.0_f64, 0.0_f64);
        for &(when, bytes) in self.marks.iter().filter(|(when, _)| *when >= first.0) {
            let even = rate * when.saturating_sub(first.0).as_secs_f64();
            let off = bytes.saturating_sub(first.1) as f64 - even;
            (least, most) = (least.min(off), most.max(off));
        }
        Course::Bursts(Bursts {
            rate,
            bytes: most - least,
        })
    }
}

/// Bytes a second between two marks.
fn rate((from, before): (Duration, u64), (to, after): (Duration, u64)) -> f64 {
    let seconds = to.saturating_sub(from).as_secs_f64();
    after.saturating_sub(before) as f64 / seconds.max(1e-3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(seconds: u32, bytes: impl Fn(u32) -> u64) -> Course {
        let mut pace = Pace::default();
        for tick in 0..=seconds * 5 {
            pace.add(Duration::from_millis(200) * tick, bytes(tick));
        }
        pace.course()
    }

    #[test]
    fn a_flow_is_even_and_sudden_data_is_a_burst() {
        assert_eq!(Pace::default().course(), Course::Even);
        assert_eq!(course(20, |tick| u64::from(tick) * 1_000_000), Course::Even);
        let grows = |tick: u32| u64::from(tick) * u64::from(tick) * 1_000_000;
        assert_eq!(course(20, grows), Course::Even);
        let pause = |tick: u32| u64::from(if tick > 40 { tick.max(45) } else { tick });
        assert_eq!(course(20, |tick| pause(tick) * 1_000_000), Course::Uneven);
        // All bytes of four seconds arrive in the first one.
        let staircase =
            |tick: u32| u64::from(tick / 20) * 20_000_000 + u64::from(tick % 20).min(5) * 4_000_000;
        assert_eq!(course(4, staircase), Course::Uneven);
        let Course::Bursts(bursts) = course(40, |tick| staircase(tick) + 50_000_000) else {
            panic!("they are bursts");
        };
        assert!((bursts.rate - 5e6).abs() < 1e-3, "{bursts:?}");
        assert!((bursts.bytes - 15e6).abs() < 1e-3, "{bursts:?}");
        assert!((bursts.seconds() - 3.0).abs() < 1e-3, "{bursts:?}");
    }
}
