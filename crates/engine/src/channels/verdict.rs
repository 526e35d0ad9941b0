//! Owns the judgement which streams run over a dead channel: pure, from signs of life alone.
//! Looks at no socket and cuts nothing.

use std::time::Duration;

/// Signs of life of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sign {
    pub(super) channel: u32,
    /// Since anything last came from the peer's kernel.
    pub(super) quiet: Duration,
    /// How long something has been on its way without a break.
    pub(super) in_flight: Option<Duration>,
    pub(super) round_trip: Duration,
}

/// A channel of which anything was heard within this time and two round trips is alive: a stream without anything to say asks
/// every second.
const ALIVE: Duration = Duration::from_millis(1_100);

/// Data on its way, and not a sign for so long: the first two retransmissions of a usual path have gone unanswered. What is wrongly
/// cut off costs a new connection and sending again what was on its way.
const IN_FLIGHT: Duration = Duration::from_millis(1_250);

/// Nothing on its way, and two questions unanswered.
const IDLE: Duration = Duration::from_millis(2_750);

/// The places of those that are to be cut off: nothing was heard on their channel, while another one is alive.
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
                // Where the round trip is long, so is what passes before a retransmission is missed.
                let limit = IN_FLIGHT.max(3 * sign.round_trip + Duration::from_millis(500));
                sign.quiet.min(time) >= limit
            }
            None => false,
        };
        silent || sign.quiet >= IDLE + 2 * sign.round_trip
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
            round_trip: ms(20),
        }
    }

    #[test]
    fn a_cut_channel_is_noticed_within_two_seconds_while_data_is_on_its_way() {
        // It is looked at every 200 ms, and what is on its way is seen at the first look.
        let cut = |after| dead(&[sign(0, 10, Some(500)), sign(1, after, Some(after))]);
        assert_eq!(cut(1_200), []);
        assert_eq!(cut(1_400), [1]);
        let idle = |after| dead(&[sign(0, 10, None), sign(1, after, None)]);
        assert_eq!(idle(2_000), []);
        assert_eq!(idle(2_900), [1]);
    }

    #[test]
    fn one_lost_packet_after_the_other_is_no_cut_where_a_sibling_goes_on() {
        let signs = [
            sign(0, 10, Some(500)),
            sign(1, 5_000, Some(5_000)),
            sign(1, 30, Some(90)),
        ];
        assert_eq!(dead(&signs), []);
    }

    #[test]
    fn when_everything_is_silent_nothing_is_cut_off() {
        let signs = [sign(0, 4_000, Some(4_000)), sign(1, 4_100, Some(4_100))];
        assert_eq!(dead(&signs), []);
    }

    #[test]
    fn what_was_idle_for_long_and_has_just_sent_is_not_dead() {
        assert_eq!(dead(&[sign(0, 10, None), sign(1, 2_000, Some(50))]), []);
    }

    fn signs() -> impl Strategy<Value = Vec<Sign>> {
        let one = (
            0..4_u32,
            0..6_000_u64,
            prop::option::of(0..6_000_u64),
            0..700_u64,
        );
        prop::collection::vec(one, 0..12).prop_map(|rows| {
            rows.into_iter()
                .map(|(channel, quiet, in_flight, round_trip)| Sign {
                    channel,
                    quiet: ms(quiet),
                    in_flight: in_flight.map(ms),
                    round_trip: ms(round_trip),
                })
                .collect()
        })
    }

    proptest! {
        /// Whatever is seen, something is left to carry on with, and it is on a channel of which something was heard.
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

        /// One channel is never cut off, whatever becomes of it: today's limits hold there.
        #[test]
        fn a_single_channel_is_left_alone(signs in signs()) {
            let single: Vec<Sign> = signs.into_iter().map(|sign| Sign { channel: 7, ..sign }).collect();
            prop_assert_eq!(dead(&single), []);
        }

        /// However it is retransmitted, a stream whose peer is heard of every second is left alone.
        #[test]
        fn a_stream_of_which_something_is_heard_is_left_alone(signs in signs()) {
            for at in dead(&signs) {
                prop_assert!(signs[at].quiet >= IN_FLIGHT);
            }
        }
    }
}
