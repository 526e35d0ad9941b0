//! Owns the state of one stream between two checks of the watch: the event that the watch waits for, and since when. Time
//! is an argument. Reads no socket and does not judge; `verdict` does.
//!
//! Any sign of life since a probe, or since data was first seen in flight, counts as an answer, however late the watch
//! checks. After a gap of more than two checks all timers restart, because the machine may have been suspended.

use std::time::{Duration, Instant};

use godwit_net::Vital;

use super::LOOK_EVERY;
use super::verdict::{ASK_AFTER, Sign};

/// A longer gap between two checks invalidates earlier observations: the machine may have been suspended.
const UNWATCHED: Duration = LOOK_EVERY.saturating_mul(2);

/// Timers of one stream, kept by the watch.
#[derive(Debug, Default)]
pub(super) struct Timers {
    looked: Option<Instant>,
    /// Data has been in flight at every check since then.
    in_flight_since: Option<Instant>,
    /// The stream has been probed at every check since then.
    asked_since: Option<Instant>,
}

impl Timers {
    /// Records a check of the stream, which had this state at `now` or a moment before. If the peer was quiet for
    /// [`ASK_AFTER`], the caller must probe it at once.
    pub(super) fn look(&mut self, channel: u32, vital: &Vital, now: Instant) -> Sign {
        let before = self.looked.replace(now).unwrap_or(now);
        let was_watched = now.saturating_duration_since(before) <= UNWATCHED;
        let passed = |since: Instant| now.saturating_duration_since(since);
        // Any sign of life since then answers both a probe and the data in flight; the timer restarts with the current
        // state.
        let goes_on = |since: &Instant| was_watched && vital.quiet >= passed(*since);
        let since = |before: Option<Instant>, is_so: bool| {
            is_so.then(|| before.filter(goes_on).unwrap_or(now))
        };
        self.in_flight_since = since(self.in_flight_since, vital.in_flight);
        self.asked_since = since(self.asked_since, vital.quiet >= ASK_AFTER);
        Sign {
            channel,
            quiet: vital.quiet,
            in_flight: self.in_flight_since.map(passed),
            asked: self.asked_since.map(passed),
            is_full: vital.waiting && !vital.in_flight,
            round_trip: vital.round_trip,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::verdict::dead;
    use super::*;

    /// One stream of a channel, beside another channel that carries data all the time. Times are milliseconds.
    struct World {
        begin: Instant,
        timers: Timers,
        round_trip: u64,
    }

    impl World {
        fn new(round_trip: u64) -> Self {
            Self {
                begin: Instant::now(),
                timers: Timers::default(),
                round_trip,
            }
        }

        /// Whether the stream is cut off by a check at `now`.
        fn is_cut(&mut self, now: u64, quiet: u64, in_flight: bool) -> bool {
            let ms = Duration::from_millis;
            let vital = Vital {
                quiet: ms(quiet),
                in_flight,
                round_trip: ms(self.round_trip),
                ..Vital::default()
            };
            let sign = self.timers.look(1, &vital, self.begin + ms(now));
            let busy = Sign {
                channel: 0,
                quiet: ms(10),
                in_flight: Some(ms(500)),
                asked: None,
                ..sign
            };
            dead(&[busy, sign]) == [1]
        }
    }

    const EVERY: u64 = 200;
    const CUT_AT: u64 = 4_000;

    /// Time at which the watch notices a path that is cut at [`CUT_AT`]. The last sign of life came shortly before; data
    /// has been in flight since `sent_at`.
    fn noticed(alive_before: u64, first_look: u64, round_trip: u64, sent_at: Option<u64>) -> u64 {
        let mut world = World::new(round_trip);
        let alive_at = CUT_AT - alive_before;
        let mut now = first_look;
        loop {
            let in_flight = sent_at.is_some_and(|sent| sent <= now);
            if world.is_cut(now, now.saturating_sub(alive_at), in_flight) {
                return now;
            }
            now += EVERY;
        }
    }

    #[test]
    fn a_cut_is_noticed_within_two_seconds_whatever_the_stream_did() {
        let sent = [
            None,
            // The stream was busy all the time.
            Some(0),
            Some(CUT_AT),
            Some(CUT_AT + 300),
            Some(CUT_AT + 900),
            Some(CUT_AT + 1_500),
            Some(CUT_AT + 1_900),
        ];
        for sent_at in sent {
            for alive_before in (0..1_000).step_by(50) {
                for first_look in (0..200).step_by(10) {
                    for round_trip in [0, 1, 50, 100] {
                        let at = noticed(alive_before, first_look, round_trip, sent_at);
                        assert!(
                            (CUT_AT..=CUT_AT + 2_000).contains(&at),
                            "{at} ms: sent at {sent_at:?}, alive {alive_before} ms before, looked at {first_look} ms, {round_trip} ms"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn an_answer_that_arrived_between_two_looks_counts() {
        let mut world = World::new(20);
        assert!(!world.is_cut(0, 1_050, false));
        // The answer arrived at 20 ms, but the next check is late.
        assert!(!world.is_cut(1_800, 1_780, false));
        assert!(!world.is_cut(2_000, 180, false));
    }

    #[test]
    fn data_in_flight_at_two_looks_is_no_stall_if_the_peer_answered_between_them() {
        let mut world = World::new(20);
        assert!(!world.is_cut(0, 10, true));
        assert!(!world.is_cut(1_600, 1_590, true));
    }

    #[test]
    fn a_machine_that_stood_still_gets_the_time_to_hear_what_has_come_meanwhile() {
        for in_flight in [false, true] {
            let mut world = World::new(20);
            assert!(!world.is_cut(0, 1_050, in_flight));
            assert!(!world.is_cut(5_000, 6_050, in_flight));
            // A stream that is really dead is still noticed soon.
            let soon = (5_200..7_000).step_by(200);
            let mut looks = soon.map(|now| world.is_cut(now, now + 1_050, in_flight));
            assert!(looks.any(|is_cut| is_cut), "{in_flight}");
        }
    }

    proptest! {
        /// A stream that answers everything is never cut, however late the watch checks.
        #[test]
        fn a_stream_that_answers_is_never_cut(
            round_trip in 0..400_u64,
            looks in prop::collection::vec(
                (
                    prop_oneof![Just(EVERY), 1..500_u64, 1..6_000_u64],
                    prop::collection::vec(0..6_000_u64, 0..4),
                ),
                1..60,
            ),
        ) {
            let mut world = World::new(round_trip);
            let mut sent: Vec<u64> = Vec::new();
            let mut alive_at: Vec<u64> = vec![0];
            let mut now = 0;
            for (gap, sends) in looks {
                // The worst case: the kernel itself sends no probes.
                let sends = sends.into_iter().filter(|after| *after <= gap).map(|after| now + after);
                sent.extend(sends);
                now += gap;
                let answers = sent.iter().map(|at| at + round_trip);
                let last = answers.chain(alive_at.iter().copied()).filter(|at| *at <= now).max();
                let quiet = now - last.unwrap_or(0);
                let in_flight = sent.iter().any(|at| (*at..at + round_trip).contains(&now));
                prop_assert!(!world.is_cut(now, quiet, in_flight), "at {now}, quiet {quiet}, {in_flight}");
                if quiet >= 1_000 && !in_flight {
                    alive_at.push(now + round_trip);
                }
            }
        }
    }
}
