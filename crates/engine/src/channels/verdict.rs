//! Decides which streams run over a dead channel: a pure function of signs of life. Reads no socket and cuts no stream.
//!
//! A stream is dead if the peer's kernel is silent for 1.25 s while data is in flight, or leaves three keepalive probes
//! unanswered. If three round trips and half a second are longer than 1.25 s, they are the limit instead. A dead stream
//! is cut only if no stream of its channel is alive and another channel is alive. Therefore a dead stream is cut within
//! 2 s, and two round trips later on a long path.
//!
//! If the peer's window is full because its disk is slow, only the kernel probes, at intervals that double. A cut then
//! takes 7 s and two round trips. Acknowledgements of any kind count as life, so losses and retransmissions do not look
//! like a dead channel. A wrong cut costs one new connection.

use std::time::Duration;

/// Signs of life of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sign {
    pub(super) channel: u32,
    /// Time since the peer's kernel last sent anything.
    pub(super) quiet: Duration,
    /// How long data has been in flight without a break.
    pub(super) in_flight: Option<Duration>,
    /// How long probes have been sent without an answer.
    pub(super) asked: Option<Duration>,
    /// Nothing is in flight, because the peer's window is full.
    pub(super) is_full: bool,
    pub(super) round_trip: Duration,
}

/// After this silence the watch probes an idle stream at every check; the kernel does not probe sooner.
pub(super) const ASK_AFTER: Duration = Duration::from_secs(1);

/// A channel is alive if a sign of life arrived within this time and two round trips.
const ALIVE: Duration = Duration::from_millis(1_100);

/// Silence after which a stream with data in flight is dead: on a usual path the first two retransmissions are
/// unanswered. A wrong cut costs a new connection and resending the data in flight.
const IN_FLIGHT: Duration = Duration::from_millis(1_250);

/// The kernel counts silence in clock ticks of at most 10 ms, and one tick at each end may be missing.
const TICKS: Duration = Duration::from_millis(20);

/// Time in which an idle stream leaves three probes unanswered; the last probe had a third of this time and two round
/// trips.
const ASKED: Duration = Duration::from_millis(600);

/// Silence limit where the peer's window is full. Only the kernel probes then, at doubling intervals, so gaps of 3.2
/// and 6.4 s are normal.
const FULL: Duration = Duration::from_secs(7);

/// Indices of the streams to cut off: their channel is silent, but another channel is alive.
pub(super) fn dead(signs: &[Sign]) -> Vec<usize> {
    let is_alive = |channel: u32| {
        signs
            .iter()
            .any(|sign| sign.channel == channel && sign.quiet <= ALIVE + 2 * sign.round_trip)
    };
    let others_live = |channel: u32| {
        signs
            .iter()
            .any(|sign| sign.channel != channel && is_alive(sign.channel))
    };
    let is_dead = |sign: &Sign| {
        let silent = match sign.in_flight {
            Some(time) => {
                // With a long RTT, missing retransmissions are noticed correspondingly later.
                let limit = IN_FLIGHT.max(3 * sign.round_trip + Duration::from_millis(500));
                sign.quiet.min(time) >= limit
            }
            None => false,
        };
        let limit = 2 * sign.round_trip;
        // The stream was already quiet for long at its first probe. A stream with a shorter silence than both times
        // together has answered.
        let unanswered = sign
            .asked
            .is_some_and(|time| time >= ASKED + limit && sign.quiet + TICKS >= ASK_AFTER + time);
        silent || unanswered && (!sign.is_full || sign.quiet >= FULL + limit)
    };
    (0..signs.len())
        .filter(|at| {
            let sign = &signs[*at];
            is_dead(sign) && !is_alive(sign.channel) && others_live(sign.channel)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn sign(channel: u32, quiet: u64, in_flight: Option<u64>) -> Sign {
        Sign {
            channel,
            quiet: ms(quiet),
            in_flight: in_flight.map(ms),
            asked: None,
            is_full: false,
            round_trip: ms(20),
        }
    }

    #[test]
    fn questions_that_are_answered_late_or_were_not_asked_are_no_cut() {
        let of = |quiet, asked: Option<u64>| {
            let asked = asked.map(ms);
            dead(&[
                sign(0, 10, Some(500)),
                Sign {
                    asked,
                    ..sign(1, quiet, None)
                },
            ])
        };
        // The stream was idle for long before the first check.
        assert_eq!(of(14_000, None), [0; 0]);
        assert_eq!(of(14_000, Some(0)), [0; 0]);
        assert_eq!(of(1_500, Some(500)), [0; 0]);
        assert_eq!(of(1_700, Some(700)), [1]);
        // The stream answered, and the next check was much later.
        assert_eq!(of(1_790, Some(1_800)), [0; 0]);
        assert_eq!(of(1_600, Some(700)), [0; 0]);
    }

    #[test]
    fn a_full_window_is_no_cut_for_the_kernel_asks_rarely() {
        let full = |quiet, asked| {
            dead(&[
                sign(0, 10, Some(500)),
                Sign {
                    asked: Some(ms(asked)),
                    is_full: true,
                    ..sign(1, quiet, None)
                },
            ])
        };
        assert_eq!(full(6_400, 5_400), [0; 0]);
        assert_eq!(full(7_100, 6_100), [1]);
    }

    #[test]
    fn a_cut_channel_is_noticed_within_two_seconds_while_data_is_on_its_way() {
        // The stream is checked every 200 ms, and data in flight is seen at the first check.
        let cut = |after| dead(&[sign(0, 10, Some(500)), sign(1, after, Some(after))]);
        assert_eq!(cut(1_200), [0; 0]);
        assert_eq!(cut(1_400), [1]);
    }

    #[test]
    fn one_lost_packet_after_the_other_is_no_cut_where_a_sibling_continues() {
        let signs = [
            sign(0, 10, Some(500)),
            sign(1, 5_000, Some(5_000)),
            sign(1, 30, Some(90)),
        ];
        assert_eq!(dead(&signs), [0; 0]);
    }

    #[test]
    fn when_everything_is_silent_nothing_is_cut_off() {
        let signs = [sign(0, 4_000, Some(4_000)), sign(1, 4_100, Some(4_100))];
        assert_eq!(dead(&signs), [0; 0]);
    }

    #[test]
    fn a_channel_that_just_sent_after_a_long_idle_time_is_not_dead() {
        assert_eq!(dead(&[sign(0, 10, None), sign(1, 2_000, Some(50))]), [0; 0]);
    }

    fn signs() -> impl Strategy<Value = Vec<Sign>> {
        let one = (
            0..4_u32,
            0..6_000_u64,
            prop::option::of(0..6_000_u64),
            0..700_u64,
            prop::option::of(0..2_000_u64),
            any::<bool>(),
        );
        prop::collection::vec(one, 0..12).prop_map(|rows| {
            rows.into_iter()
                .map(
                    |(channel, quiet, in_flight, round_trip, asked, is_full)| Sign {
                        channel,
                        quiet: ms(quiet),
                        in_flight: in_flight.map(ms),
                        asked: asked.map(ms),
                        is_full,
                        round_trip: ms(round_trip),
                    },
                )
                .collect()
        })
    }

    proptest! {
        /// At least one stream remains, on a channel with signs of life, even if all signs are bad.
        #[test]
        fn never_are_all_cut_off(signs in signs()) {
            let dead = dead(&signs);
            prop_assert!(signs.is_empty() || dead.len() < signs.len());
            if !dead.is_empty() {
                let alive = |at: usize| {
                    let sign = &signs[at];
                    !dead.contains(&at) && sign.quiet <= ALIVE + 2 * sign.round_trip
                };
                prop_assert!((0..signs.len()).any(alive));
            }
        }

        /// A single channel is never cut off; other limits apply there.
        #[test]
        fn a_single_channel_is_left_alone(signs in signs()) {
            let single: Vec<Sign> = signs.into_iter().map(|sign| Sign { channel: 7, ..sign }).collect();
            prop_assert_eq!(dead(&single), [0; 0]);
        }

        /// A stream whose peer sends a sign of life every second is never cut, however much is retransmitted.
        #[test]
        fn a_stream_of_which_something_is_heard_is_left_alone(signs in signs()) {
            for at in dead(&signs) {
                prop_assert!(signs[at].quiet >= IN_FLIGHT);
            }
        }
    }
}
