//! Owns which congestion control connections over short ways have where the system's own keeps a pace.
//! Sets nothing on others, and nothing that a user chose.

use std::os::fd::AsFd;
use std::time::Duration;

use godwit_sys::tcp_info::{TcpInfo, tcp_info};
use rustix::net::{AddressFamily, SocketType, socket, sockopt};

/// Below this round trip a loss is made good before anybody notices, and keeping a pace costs more than it saves: the
/// kernel sets a timer for every few segments, at both ends where they share a processor. Within one machine two streams
/// move twice as much without.
const SHORT: Duration = Duration::from_millis(1);

/// What needs no pace, the best first. An unprivileged user may have those that `net.ipv4.tcp_allowed_congestion_control` lists.
const WITHOUT_PACE: [&str; 2] = ["cubic", "reno"];

/// On a short way with more than this part of its segments lost the system's choice may be the better one.
const LOSSES_MAX: f64 = 0.01;

/// Losses among fewer segments than these tell nothing.
const SEGMENTS_MIN: u32 = 10_000;

/// Whether a congestion control sends by a clock of its own instead of by acknowledgements: BBR in all its versions.
fn keeps_pace(name: &str) -> bool {
    name.starts_with("bbr")
}

/// Prepares a socket that is to connect, or a listening one for those that it accepts, as if the way were short: once BBR
/// has begun on a connection the kernel goes on keeping a pace under any other. Where the way turns out to be longer it is undone once connected.
pub fn prepare_for_short_way(socket: impl AsFd) {
    if !sockopt::tcp_congestion(&socket).is_ok_and(|usual| keeps_pace(&usual)) {
        return;
    }
    for name in WITHOUT_PACE {
        if sockopt::set_tcp_congestion(&socket, name).is_ok() {
            return;
        }
    }
}

/// The congestion control that the system would have chosen for a connection that has another, for its way is short.
#[derive(Debug)]
pub(crate) struct Usual(String);

impl Usual {
    /// Looks at a connection that was just made, and gives it what is usual if its way is not short. `None`: it has that.
    pub(crate) fn of(connected: impl AsFd) -> Option<Self> {
        let has = sockopt::tcp_congestion(&connected).ok()?;
        if !WITHOUT_PACE.contains(&&*has) {
            return None;
        }
        let fresh = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
        let usual = sockopt::tcp_congestion(&fresh).ok()?;
        if usual == has {
            return None;
        }
        let is_short = tcp_info(&connected).is_ok_and(|tcp| tcp.round_trip < SHORT);
        if is_short {
            return Some(Self(usual));
        }
        // It was allowed to have this before anybody asked.
        let _ = sockopt::set_tcp_congestion(&connected, &usual);
        None
    }

    /// Whether so much was lost that the connection should have it after all.
    pub(crate) fn is_wanted(&self, tcp: &TcpInfo) -> bool {
        tcp.data_segments >= SEGMENTS_MIN
            && f64::from(tcp.retransmitted_segments) > LOSSES_MAX * f64::from(tcp.data_segments)
    }

    /// Gives it back.
    pub(crate) fn give_to(&self, connected: impl AsFd) {
        let _ = sockopt::set_tcp_congestion(&connected, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn congestion(socket: impl AsFd) -> String {
        sockopt::tcp_congestion(socket).unwrap()
    }

    #[test]
    fn only_what_keeps_a_pace_is_replaced() {
        for name in ["bbr", "bbr2", "bbr3"] {
            assert!(keeps_pace(name), "{name}");
        }
        for name in ["cubic", "reno", "htcp", "dctcp"] {
            assert!(!keeps_pace(name), "{name}");
        }
        let chosen = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let usual = congestion(&chosen);
        prepare_for_short_way(&chosen);
        let prepared = congestion(&chosen);
        assert_eq!(prepared == usual, !keeps_pace(&usual), "{prepared}");
    }

    #[test]
    fn a_connection_within_the_machine_has_no_pace_at_either_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let usual = congestion(&listener);
        prepare_for_short_way(&listener);
        let near = crate::connect(listener.local_addr().unwrap(), Duration::from_secs(10)).unwrap();
        let (far, _) = listener.accept().unwrap();
        for end in [&near, &far] {
            let other = Usual::of(end);
            // Where the machine stood still for a moment the way looks long.
            let expected = other.as_ref().map_or(&*usual, |_| "cubic");
            let has = congestion(end);
            assert!(
                has == expected || (other.is_some() && has == "reno"),
                "{has}"
            );
            if let Some(other) = other {
                other.give_to(end);
                assert_eq!(congestion(end), usual);
            }
        }
    }

    #[test]
    fn losses_count_once_there_are_segments_enough() {
        let usual = Usual("bbr".to_owned());
        let stream = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(stream.local_addr().unwrap()).unwrap();
        let measured = tcp_info(&stream).unwrap();
        let tcp = |data_segments, retransmitted_segments| TcpInfo {
            data_segments,
            retransmitted_segments,
            ..measured
        };
        assert!(!usual.is_wanted(&tcp(SEGMENTS_MIN - 1, 5000)));
        assert!(!usual.is_wanted(&tcp(1_000_000, 10_000)));
        assert!(usual.is_wanted(&tcp(1_000_000, 10_001)));
    }
}
