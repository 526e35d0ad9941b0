//! Chooses the congestion control of connections over short paths if the system's default is paced. Does not change
//! other connections, nor a choice of the user.
//!
//! The kernel keeps pacing a connection that ever used BBR. Therefore, if the default is BBR, sockets get `cubic` or
//! `reno` before they connect or listen. The RTT of the TCP handshake decides: at 1 ms or more, the connection gets the
//! default before any data. Below 1 ms the connection gets the default later, if it loses too much in two windows in a
//! row or its path proves longer. A congestion control that the user named takes precedence.

use std::mem;
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::Duration;

use godwit_sys::tcp_info::{TcpInfo, tcp_info};
use rustix::net::sockopt;

use crate::congestion::socket_to_try;

/// Below this RTT a loss is repaired quickly, and pacing costs more than it saves: the kernel sets a timer for every
/// few segments, at both ends if they share a processor. Within one machine two streams are twice as fast without
/// pacing.
const SHORT: Duration = Duration::from_millis(1);

/// Congestion controls without pacing, in order of preference. An unprivileged user may choose those that
/// `net.ipv4.tcp_allowed_congestion_control` lists.
const WITHOUT_PACE: [&str; 2] = ["cubic", "reno"];

/// Share of lost segments on a short path above which the default may be better. At loss rate p, `reno` has 1.2 √p
/// segments in flight (RFC 3649), and so has `cubic` at such short RTTs (RFC 9438, 4.3). Here that is 38, with which a
/// stream moves 440 Mbit/s at 1 ms. A sender without pacing fills queues, and loses 0.01 to 0.05 % if they are shallow.
const LOSSES_MAX: f64 = 0.001;

/// Losses among fewer segments than this prove nothing: ten losses would be too many.
const SEGMENTS_MIN: u32 = 10_000;

/// The congestion control first replaced in this process; unset if none ever was.
static REPLACED: OnceLock<String> = OnceLock::new();

/// Whether a congestion control is paced: BBR in all its versions.
fn keeps_pace(name: &str) -> bool {
    name.starts_with("bbr")
}

/// Whether this module chose the congestion control of the connection. If the default is not paced, the route chose
/// this congestion control, which then takes precedence. If the default is paced, the two cases cannot be
/// distinguished.
fn was_replaced(has: &str, usual: &str) -> bool {
    keeps_pace(usual) && WITHOUT_PACE.contains(&has)
}

/// Whether the first RTT is short; zero means not measured, for instance after SYN cookies.
fn is_short(round_trip: Duration) -> bool {
    !round_trip.is_zero() && round_trip < SHORT
}

/// Prepares a socket as if the path were short. The socket is about to connect, or listens and passes the choice to
/// accepted sockets. This must happen before connecting, because once BBR has begun on a connection, the kernel keeps
/// pacing under any other congestion control. If the path proves longer, this is undone after connecting.
pub fn prepare_for_short_path(socket: impl AsFd) {
    let Ok(usual) = sockopt::tcp_congestion(&socket) else {
        return;
    };
    if keeps_pace(&usual)
        && let Some(name) = instead_of(&usual)
    {
        // If this fails, the socket keeps the default.
        let _ = sockopt::set_tcp_congestion(&socket, name);
        let _ = REPLACED.set(usual);
    }
}

/// A congestion control that this user may choose and later replace by `usual`. A user who may not choose `usual` could
/// never return to it, even on long paths.
fn instead_of(usual: &str) -> Option<&'static str> {
    let tried = socket_to_try().ok()?;
    let may_have = |name: &str| sockopt::set_tcp_congestion(&tried, name).is_ok();
    let there_and_back = |name: &&str| may_have(name) && may_have(usual);
    WITHOUT_PACE.into_iter().find(there_and_back)
}

/// The default congestion control, for a connection that has another one because its path is short.
#[derive(Debug)]
pub(crate) struct Usual {
    name: String,
    /// Segments sent and resent before the window in which losses are counted; the kernel's counters wrap.
    sent: u32,
    resent: u32,
    /// Whether the previous window had too many losses.
    was_lossy: bool,
}

impl Usual {
    /// Examines a new connection, and sets the default congestion control if its path is not short. `None` if the
    /// connection already has the default.
    pub(crate) fn of(connected: impl AsFd) -> Option<Self> {
        let replaced = REPLACED.get()?;
        let has = sockopt::tcp_congestion(&connected).ok()?;
        // The default may have changed, or differ in this network namespace; a socket to query it may not be available.
        let asked = socket_to_try().and_then(sockopt::tcp_congestion);
        let usual = asked.unwrap_or_else(|_| replaced.clone());
        if !was_replaced(&has, &usual) {
            return None;
        }
        if tcp_info(&connected).is_ok_and(|tcp| is_short(tcp.round_trip)) {
            return Some(Self::new(usual));
        }
        // Before the replacement, a test showed that this user may set the default again.
        let _ = sockopt::set_tcp_congestion(&connected, &usual);
        None
    }

    const fn new(name: String) -> Self {
        Self {
            name,
            sent: 0,
            resent: 0,
            was_lossy: false,
        }
    }

    /// Whether the connection needs the default after all: too many segments were lost lately, or the path is not
    /// short.
    pub(crate) fn is_wanted(&mut self, tcp: &TcpInfo) -> bool {
        let segments = tcp.data_segments.wrapping_sub(self.sent);
        if segments < SEGMENTS_MIN {
            return false;
        }
        let lost = tcp.retransmitted_segments.wrapping_sub(self.resent);
        (self.sent, self.resent) = (tcp.data_segments, tcp.retransmitted_segments);
        let is_lossy = f64::from(lost) > LOSSES_MAX * f64::from(segments);
        // One lossy window proves nothing: it may be the start, which overfills a queue, or a moment in which other
        // traffic started.
        let goes_on_losing = mem::replace(&mut self.was_lossy, is_lossy) && is_lossy;
        // The kernel keeps the minimum for five minutes. After that, an early answer of a nearby middlebox no longer
        // hides a distant host.
        goes_on_losing || tcp.round_trip_min >= SHORT
    }

    /// Sets the default congestion control on the connection.
    pub(crate) fn give_to(&self, connected: impl AsFd) {
        let _ = sockopt::set_tcp_congestion(&connected, &self.name);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

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
        let chosen = socket_to_try().unwrap();
        let usual = congestion(&chosen);
        prepare_for_short_path(&chosen);
        let prepared = congestion(&chosen);
        assert_eq!(prepared == usual, !keeps_pace(&usual), "{prepared}");
    }

    #[test]
    fn an_unavailable_congestion_control_has_no_replacement() {
        // Reno is part of every kernel, and allowed unless an administrator removed it from the list.
        let usual = congestion(socket_to_try().unwrap());
        assert!(instead_of(&usual).is_some());
        assert_eq!(instead_of("bbr-nosuch"), None);
    }

    #[test]
    fn the_congestion_control_of_a_route_stays_unless_it_was_replaced() {
        let replaced = [("cubic", "bbr"), ("reno", "bbr"), ("cubic", "bbr3")];
        for (has, usual) in replaced {
            assert!(was_replaced(has, usual), "{has} where {usual} is usual");
        }
        let others = [
            ("cubic", "dctcp"),
            ("reno", "cubic"),
            ("cubic", "htcp"),
            ("cubic", "cubic"),
            ("bbr", "bbr"),
            ("dctcp", "bbr"),
        ];
        for (has, usual) in others {
            assert!(!was_replaced(has, usual), "{has} where {usual} is usual");
        }
    }

    #[test]
    fn a_connection_within_the_machine_has_no_pace_at_either_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let usual = congestion(&listener);
        prepare_for_short_path(&listener);
        let near = crate::connect(listener.local_addr().unwrap(), Duration::from_secs(10)).unwrap();
        let (far, _) = listener.accept().unwrap();
        for end in [&near, &far] {
            let other = Usual::of(end);
            // If the machine was suspended for a moment, the measured path looks long.
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

    /// Results of `usual` for a series of windows, each with the segments sent and resent since the last window.
    fn wanted(usual: &mut Usual, windows: &[(u32, u32)]) -> Vec<bool> {
        let mut tcp = TcpInfo {
            data_segments: usual.sent,
            retransmitted_segments: usual.resent,
            ..TcpInfo::default()
        };
        let one = |&(sent, resent): &(u32, u32)| {
            tcp.data_segments = tcp.data_segments.wrapping_add(sent);
            tcp.retransmitted_segments = tcp.retransmitted_segments.wrapping_add(resent);
            usual.is_wanted(&tcp)
        };
        windows.iter().map(one).collect()
    }

    #[test]
    fn losses_count_in_two_windows_of_segments_enough() {
        let usual = || Usual::new("bbr".to_owned());
        let few = [(SEGMENTS_MIN - 1, 5000), (1, 0), (SEGMENTS_MIN - 1, 5000)];
        assert_eq!(wanted(&mut usual(), &few), [false; 3]);
        let at_the_limit = [(20_000, 20); 3];
        assert_eq!(wanted(&mut usual(), &at_the_limit), [false; 3]);
        let above = [(20_000, 21); 2];
        assert_eq!(wanted(&mut usual(), &above), [false, true]);
        let now_and_then = [(20_000, 500), (20_000, 0), (20_000, 500)];
        assert_eq!(wanted(&mut usual(), &now_and_then), [false; 3]);
    }

    #[test]
    fn a_way_is_short_below_a_millisecond_if_that_was_measured() {
        assert!(is_short(Duration::from_micros(1)));
        assert!(is_short(SHORT - Duration::from_micros(1)));
        assert!(!is_short(SHORT));
        assert!(!is_short(Duration::ZERO));
    }

    #[test]
    fn a_way_that_turns_out_long_gets_what_is_usual_once_that_is_sure() {
        let wants = |data_segments, round_trip_min| {
            Usual::new("bbr".to_owned()).is_wanted(&TcpInfo {
                data_segments,
                round_trip_min,
                ..TcpInfo::default()
            })
        };
        assert!(wants(SEGMENTS_MIN, SHORT));
        assert!(!wants(SEGMENTS_MIN, SHORT - Duration::from_micros(1)));
        // After a pause only a few segments count for the minimum.
        assert!(!wants(SEGMENTS_MIN - 1, 40 * SHORT));
    }

    #[test]
    fn losses_count_after_a_long_time_without_and_where_the_counters_wrap() {
        let mut usual = Usual::new("bbr".to_owned());
        let clean = [(1 << 30, 0); 3];
        assert_eq!(wanted(&mut usual, &clean), [false; 3]);
        let (sent, resent) = (u32::MAX - 100, u32::MAX - 10);
        (usual.sent, usual.resent) = (sent, resent);
        let lossy = [(20_000, 100); 2];
        assert_eq!(wanted(&mut usual, &lossy), [false, true]);
        assert!(usual.sent < sent && usual.resent < resent);
    }
}
