//! Owns the judgement of one volume: well, slow, or out, by its own usual rate and its errors. Does no I/O, and reads no clock.
//!
//! A slow volume gets less work. A volume that fails or hangs is out. A probe decides when it comes back: no volume is out for good.

use std::collections::VecDeque;
use std::time::Duration;

/// The state of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// As usual.
    Well,
    /// Far slower than usual: it gets one write at a time.
    Slow,
    /// The volume gets no work except probes.
    Out(Cause),
}

/// Why a volume is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Several operations failed within a minute.
    Errors,
    /// An operation has not ended for [`HUNG_AFTER`].
    Hung,
    /// A commit failed, so the log has to be read again.
    Commit,
}

/// Operations that a judgement needs.
const JUDGED_BY: u32 = 16;
/// A volume is slow when the recent time for a byte is this many times the usual one.
const SLOW_FROM: f64 = 4.0;
/// A slow volume is well again when the recent time is less than this many times the usual one.
const WELL_BELOW: f64 = 2.0;
/// Weight of the latest operation in the recent time.
const RECENT_WEIGHT: f64 = 1.0 / 8.0;
/// Weight of the latest operation in the usual time. While the volume is slow, it is an eighth of this.
const USUAL_WEIGHT: f64 = 1.0 / 256.0;
/// Errors within [`ERRORS_WITHIN`] that take a volume out.
const ERRORS_MAX: usize = 3;
/// See [`ERRORS_MAX`].
const ERRORS_WITHIN: Duration = Duration::from_secs(60);
/// An operation that takes longer hangs.
pub const HUNG_AFTER: Duration = Duration::from_secs(30);
/// Time before the first probe; each failed one doubles it.
const PROBE_FIRST: Duration = Duration::from_secs(5);
/// Longest time between probes.
const PROBE_LAST: Duration = Duration::from_secs(300);
/// Good probes in turn that let a volume back in.
const PROBES_GOOD: u32 = 3;
/// Fixed cost of an operation as bytes, so that short operations do not look slow.
const COST_BYTES: f64 = 256.0 * 1024.0;

/// Judges a volume.
#[derive(Clone, Debug)]
pub struct Watch {
    health: Health,
    /// Seconds a byte.
    usual: Option<f64>,
    recent: f64,
    judged: u32,
    errors: VecDeque<Duration>,
    probe_at: Duration,
    probe_wait: Duration,
    is_probing: bool,
    good: u32,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            health: Health::Well,
            usual: None,
            recent: 0.0,
            judged: 0,
            errors: VecDeque::new(),
            probe_at: Duration::ZERO,
            probe_wait: PROBE_FIRST,
            is_probing: false,
            good: 0,
        }
    }
}

impl Watch {
    /// The state.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health
    }

    /// Whether the volume gets no work.
    #[must_use]
    pub fn is_out(&self) -> bool {
        matches!(self.health, Health::Out(_))
    }

    /// Notes the end of an operation on `bytes` after `took`, while `at_once` operations ran, this one included. Returns the new state
    /// if it changed.
    pub fn handle_done(&mut self, bytes: u64, took: Duration, at_once: u32) -> Option<Health> {
        if self.is_out() {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "an extent is small")]
        let cost = took.as_secs_f64() / (bytes as f64 + COST_BYTES) / f64::from(at_once.max(1));
        let usual = *self.usual.get_or_insert(cost);
        self.judged = self.judged.saturating_add(1);
        if self.judged == 1 {
            self.recent = cost;
        }
        self.recent += (cost - self.recent) * RECENT_WEIGHT;
        // The first operations set the usual time; later ones move it slowly.
        let weight = match self.health {
            _ if self.judged < JUDGED_BY => RECENT_WEIGHT,
            Health::Slow => USUAL_WEIGHT / 8.0,
            _ => USUAL_WEIGHT,
        };
        // One slow operation must not set the usual time.
        let seen = cost.min(usual * SLOW_FROM * 2.0);
        let usual = usual + (seen - usual) * weight;
        self.usual = Some(usual);
        if self.judged < JUDGED_BY {
            return None;
        }
        match self.health {
            Health::Well if self.recent > usual * SLOW_FROM => self.change_to(Health::Slow),
            Health::Slow if self.recent < usual * WELL_BELOW => self.change_to(Health::Well),
            _ => None,
        }
    }

    /// An operation failed. Returns the new state if it changed.
    pub fn handle_error(&mut self, now: Duration) -> Option<Health> {
        self.errors
            .retain(|at| now.saturating_sub(*at) < ERRORS_WITHIN);
        self.errors.push_back(now);
        if self.errors.len() < ERRORS_MAX {
            return None;
        }
        self.take_out(now, Cause::Errors)
    }

    /// Takes the volume out at once.
    pub fn take_out(&mut self, now: Duration, cause: Cause) -> Option<Health> {
        if self.is_out() {
            return None;
        }
        self.errors.clear();
        self.good = 0;
        self.is_probing = false;
        self.probe_wait = PROBE_FIRST;
        self.probe_at = now.saturating_add(PROBE_FIRST);
        self.change_to(Health::Out(cause))
    }

    /// Whether to probe now. The caller then owes a [`Self::handle_probed`].
    pub fn poll_probe(&mut self, now: Duration) -> bool {
        let is_due = self.is_out() && !self.is_probing && now >= self.probe_at;
        self.is_probing |= is_due;
        is_due
    }

    /// When the next probe is due.
    #[must_use]
    pub fn probe_due(&self) -> Option<Duration> {
        (self.is_out() && !self.is_probing).then_some(self.probe_at)
    }

    /// The result of a probe. Returns whether the volume may come back. Its log must then be read again.
    pub fn handle_probed(&mut self, now: Duration, is_good: bool) -> bool {
        if !self.is_out() {
            return false;
        }
        self.is_probing = false;
        if is_good {
            self.good += 1;
            self.probe_wait = PROBE_FIRST;
        } else {
            self.good = 0;
            self.probe_wait = (self.probe_wait * 2).min(PROBE_LAST);
        }
        self.probe_at = now.saturating_add(self.probe_wait);
        self.good >= PROBES_GOOD
    }

    /// The log of the volume was read again. Its rates are judged afresh.
    pub fn let_in(&mut self) -> Option<Health> {
        *self = Self {
            health: self.health,
            ..Self::default()
        };
        self.change_to(Health::Well)
    }

    fn change_to(&mut self, to: Health) -> Option<Health> {
        (self.health != to).then(|| {
            self.health = to;
            to
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn run(watch: &mut Watch, times: u32, took: Duration) -> Vec<Health> {
        (0..times)
            .filter_map(|_| watch.handle_done(4 * MIB, took, 1))
            .collect()
    }

    #[test]
    fn a_volume_is_slow_by_its_own_usual_rate_and_recovers() {
        for usual in [1, 100] {
            let usual = Duration::from_millis(usual);
            let mut watch = Watch::default();
            assert_eq!(run(&mut watch, 100, usual), []);
            assert_eq!(run(&mut watch, 100, usual * 3), []);
            assert_eq!(run(&mut watch, 40, usual * 20), [Health::Slow]);
            assert_eq!(run(&mut watch, 100, usual), [Health::Well]);
        }
    }

    #[test]
    fn a_volume_that_stays_slow_is_usual_in_the_end() {
        let mut watch = Watch::default();
        run(&mut watch, 100, Duration::from_millis(1));
        let turns = run(&mut watch, 20_000, Duration::from_millis(6));
        assert_eq!(turns, [Health::Slow, Health::Well]);
    }

    #[test]
    fn short_operations_and_one_stall_are_not_slow() {
        let mut watch = Watch::default();
        run(&mut watch, 100, Duration::from_millis(4));
        let stall = Duration::from_millis(60);
        assert_eq!(watch.handle_done(4 * MIB, stall, 1), None);
        for _ in 0..100 {
            let short = Duration::from_micros(400);
            assert_eq!(watch.handle_done(4096, short, 1), None);
        }
        // Each of eight operations at once takes eight times as long.
        for _ in 0..100 {
            let shared = Duration::from_millis(32);
            assert_eq!(watch.handle_done(4 * MIB, shared, 8), None);
        }
    }

    #[test]
    fn three_errors_within_a_minute_take_it_out_and_three_probes_let_it_in() {
        let mut watch = Watch::default();
        for second in [0, 50, 100] {
            assert_eq!(watch.handle_error(at(second)), None);
        }
        assert_eq!(
            watch.handle_error(at(105)),
            Some(Health::Out(Cause::Errors))
        );
        assert_eq!(watch.handle_done(MIB, at(1), 1), None);
        assert!(!watch.poll_probe(at(106)) && watch.poll_probe(at(110)));
        assert!(!watch.poll_probe(at(110)), "one probe at a time");
        assert!(!watch.handle_probed(at(111), false));
        assert_eq!(watch.probe_due(), Some(at(121)));
        let mut now = at(121);
        for turn in 0..PROBES_GOOD {
            assert!(watch.poll_probe(now));
            assert_eq!(watch.handle_probed(now, true), turn + 1 == PROBES_GOOD);
            now += PROBE_FIRST;
        }
        assert_eq!(watch.let_in(), Some(Health::Well));
    }

    #[test]
    fn probes_continue_for_ever() {
        let mut watch = Watch::default();
        watch.take_out(at(0), Cause::Hung);
        for _ in 0..50 {
            let due = watch.probe_due().expect("out");
            assert!(watch.poll_probe(due));
            watch.handle_probed(due, false);
            assert!(watch.probe_due().expect("out") - due <= PROBE_LAST);
        }
    }
}
