//! The kernel's limits on a connection: buffers against RTT and rate, congestion control.
//! Reads `/proc/sys` and changes nothing in it.

use std::time::Duration;

use godwit_api::settings::CpSettings;
use godwit_api::units::{human_rate, human_size};
use godwit_data_port::probe;
use godwit_engine::limits::STREAMS_MAX;

use super::findings::{Direction, Findings, Limit};
use super::node::Path;

const SEND: &str = "net.ipv4.tcp_wmem";
const RECEIVE: &str = "net.ipv4.tcp_rmem";
/// Rate to dimension buffers for, if no other is known: 10 Gbit/s.
const RATE_WANTED: u64 = 1_250_000_000;
/// RTT from which loss-based congestion control suffers from each loss.
const FAR: Duration = Duration::from_millis(20);
/// Largest proposed buffer. A larger one is a sign of a wrong measurement.
const BUFFER_BYTES_MAX: u64 = 1 << 30;

/// One of the kernel's buffers.
struct Buffer {
    name: &'static str,
    way: Direction,
    least: u64,
    first: u64,
    most: u64,
    /// The other side's name, for a buffer there.
    there: Option<String>,
}

/// Checks the socket buffers. Runs last: it compares the buffers with all other bounds.
pub(super) fn look(path: Option<&Path>, settings: &CpSettings, findings: &mut Findings) {
    // A transfer makes up for small buffers with as many streams as it may have.
    let streams = u64::from(settings.streams.most);
    for (name, way) in [(SEND, Direction::Sending), (RECEIVE, Direction::Receiving)] {
        let Some(probe::Buffer { least, first, most }) = probe::buffer(name) else {
            continue;
        };
        let buffer = Buffer {
            name,
            way,
            least,
            first,
            most,
            there: None,
        };
        match path.filter(|path| !path.round_trip.is_zero()) {
            Some(path) => weigh(&buffer, path.round_trip, streams, findings),
            None => findings.fine(
                "buffers",
                format!(
                    "{name}: a connection has at most {}",
                    human_size(buffer.most)
                ),
            ),
        }
    }
    if let Some((path, machine)) = path.and_then(|path| Some((path, path.machine.as_ref()?))) {
        for (name, way, most, first) in [
            (
                RECEIVE,
                Direction::Sending,
                machine.receive_buffer_bytes,
                131_072,
            ),
            (
                SEND,
                Direction::Receiving,
                machine.send_buffer_bytes,
                16_384,
            ),
        ] {
            let buffer = Buffer {
                name,
                way,
                // The default of kernels.
                least: 4_096,
                first,
                most,
                there: Some(path.whose.clone()),
            };
            if most > 0 && !path.round_trip.is_zero() {
                weigh(&buffer, path.round_trip, streams, findings);
            }
        }
    }
    congestion(path, findings);
}

/// Bytes a second beyond the reach of any machine.
const BOUND_MAX: u64 = 1_000_000_000_000;

fn weigh(buffer: &Buffer, round_trip: Duration, streams: u64, findings: &mut Findings) {
    let micros = u64::try_from(round_trip.as_micros())
        .unwrap_or(u64::MAX)
        .max(1);
    // The kernel uses about half of a buffer itself.
    let bound = scaled((buffer.most / 2).saturating_mul(streams), 1_000_000, micros);
    let wanted = findings
        .tightest(buffer.way)
        .map_or(RATE_WANTED, |limit| limit.bytes_per_second.min(RATE_WANTED));
    let (at, of) = match &buffer.there {
        Some(whose) => (format!("on {whose}, "), format!(" of {whose}")),
        None => (String::new(), String::new()),
    };
    let has_bound = bound < BOUND_MAX;
    let at_most = match has_bound {
        true => format!("at most {} at this RTT", human_rate(bound)),
        false => "which is no limit at this RTT".to_owned(),
    };
    let message = format!(
        "{}{of}: {} for each of {streams} connections, {at_most}",
        buffer.name,
        human_size(buffer.most),
    );
    let needed = scaled(wanted, micros, 1_000_000) / streams * 2;
    let needed = needed.next_power_of_two().clamp(1 << 16, BUFFER_BYTES_MAX);
    let mend = format!(
        "{at}as root: sysctl -w {}='{} {} {}'{}",
        buffer.name,
        buffer.least,
        buffer.first,
        needed.max(buffer.most),
        if streams < STREAMS_MAX.into() {
            " (or more connections: --streams)"
        } else {
            ""
        }
    );
    let name = match buffer.there {
        Some(_) => "buffers there",
        None => "buffers",
    };
    if bound < wanted {
        findings.note(name, message, Some(mend.clone()));
    } else {
        findings.fine(name, message);
    }
    // A bound beyond the reach of any machine is none, and would only mislead.
    if !has_bound {
        return;
    }
    findings.limits.push(Limit {
        name,
        way: buffer.way,
        what: format!("the kernel's buffers ({}{of})", buffer.name),
        bytes_per_second: bound,
        mend,
    });
}

fn congestion(path: Option<&Path>, findings: &mut Findings) {
    let is_far = path.is_some_and(|path| path.round_trip >= FAR);
    let mut add = |used: &str, at: &str, first: &str| {
        if is_far && !used.starts_with("bbr") {
            let mend = format!("{at}as root: {first}sysctl -w net.ipv4.tcp_congestion_control=bbr");
            let message = format!(
                "{at}{used}; at this RTT each lost packet slows it down much, and bbr less"
            );
            findings.note("congestion control", message, Some(mend));
        } else {
            findings.fine("congestion control", format!("{at}{used}"));
        }
    };
    if let Some((used, available)) = probe::congestion() {
        let first = match available.split_whitespace().any(|name| name == "bbr") {
            true => "",
            false => "modprobe tcp_bbr; ",
        };
        add(&used, "", first);
    }
    if let Some((path, machine)) = path.and_then(|path| Some((path, path.machine.as_ref()?)))
        && !machine.congestion.is_empty()
    {
        let at = format!("on {}, ", path.whose);
        add(&machine.congestion, &at, "modprobe tcp_bbr; ");
    }
}

fn scaled(value: u64, by: u64, over: u64) -> u64 {
    let exact = u128::from(value) * u128::from(by) / u128::from(over.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_weighed_against_rate_and_distance() {
        let buffer = Buffer {
            name: "net.ipv4.tcp_wmem",
            way: Direction::Sending,
            least: 4096,
            first: 16_384,
            most: 4 << 20,
            there: None,
        };
        let mut findings = Findings::default();
        // 2 connections of 2 MiB in 100 ms are 42 MB/s; 10 Gbit/s take 125 MB in flight.
        weigh(&buffer, Duration::from_millis(100), 2, &mut findings);
        let limit = findings.tightest(Direction::Sending).expect("a bound");
        assert_eq!(limit.bytes_per_second, 41_943_040);
        assert!(
            limit.mend.contains("tcp_wmem='4096 16384 134217728'"),
            "{}",
            limit.mend
        );
        assert_eq!(findings.all[0].level.name(), "note");
        let mut findings = Findings::default();
        weigh(&buffer, Duration::from_micros(100), 2, &mut findings);
        assert_eq!(findings.all[0].level.name(), "fine");
    }

    #[test]
    fn each_figure_of_the_other_side_is_weighed() {
        for most in [0, 1, 1 << 58, 1 << 63, u64::MAX] {
            for micros in [1, 100, 10_000_000] {
                for streams in [1, 2, STREAMS_MAX.into()] {
                    let buffer = Buffer {
                        name: RECEIVE,
                        way: Direction::Sending,
                        least: 4_096,
                        first: 131_072,
                        most,
                        there: Some("there".to_owned()),
                    };
                    let mut findings = Findings::default();
                    let round_trip = Duration::from_micros(micros);
                    weigh(&buffer, round_trip, streams, &mut findings);
                    let limit = findings.tightest(Direction::Sending);
                    let is_much = limit.is_none_or(|limit| limit.bytes_per_second >= RATE_WANTED);
                    assert_eq!(is_much, most >= 1 << 58, "{most} {micros} {streams}");
                }
            }
        }
    }
}
