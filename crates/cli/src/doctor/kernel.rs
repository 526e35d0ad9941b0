//! What the kernel lets a connection have: buffers against round trip and rate, congestion control.
//! Reads `/proc/sys` and changes nothing in it.

use std::fs;
use std::time::Duration;

use godwit_api::settings::CpSettings;
use godwit_api::units::{human_rate, human_size};

use super::findings::{Findings, Limit, Way};
use super::node::Path;

/// A rate to dimension buffers for, where nothing else is known: 10 Gbit/s.
const RATE_WANTED: u64 = 1_250_000_000;
/// Far enough that loss-based congestion control suffers from each loss.
const FAR: Duration = Duration::from_millis(20);
/// What is proposed at most: more is a sign of a wrong measurement.
const BUFFER_BYTES_MAX: u64 = 1 << 30;

/// A buffer's least, first and largest size.
struct Buffer {
    name: &'static str,
    way: Way,
    least: u64,
    first: u64,
    most: u64,
}

/// Looks at it. Comes last: it weighs the buffers against all other bounds.
pub(super) fn look(path: Option<&Path>, settings: &CpSettings, findings: &mut Findings) {
    let streams = u64::from(settings.streams.max(1));
    for (name, way) in [
        ("net.ipv4.tcp_wmem", Way::Sending),
        ("net.ipv4.tcp_rmem", Way::Receiving),
    ] {
        let Some(buffer) = read(name, way) else {
            continue;
        };
        match path {
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
    congestion(path, findings);
}

fn read(name: &'static str, way: Way) -> Option<Buffer> {
    let text = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
    let sizes: Vec<u64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [least, first, most] = sizes[..] else {
        return None;
    };
    Some(Buffer {
        name,
        way,
        least,
        first,
        most,
    })
}

fn weigh(buffer: &Buffer, round_trip: Duration, streams: u64, findings: &mut Findings) {
    let micros = u64::try_from(round_trip.as_micros())
        .unwrap_or(u64::MAX)
        .max(1);
    // About half of a buffer is the kernel's own.
    let bound = scaled(buffer.most / 2 * streams, 1_000_000, micros);
    let wanted = findings
        .tightest(buffer.way)
        .map_or(RATE_WANTED, |limit| limit.bytes_per_second.min(RATE_WANTED));
    let message = format!(
        "{}: {} for each of {streams} connections, {} at most with this round trip",
        buffer.name,
        human_size(buffer.most),
        human_rate(bound)
    );
    let needed = scaled(wanted, micros, 1_000_000) / streams * 2;
    let needed = needed.next_power_of_two().clamp(1 << 16, BUFFER_BYTES_MAX);
    let mend = format!(
        "as root: sysctl -w {}='{} {} {}' (or more connections: --streams)",
        buffer.name,
        buffer.least,
        buffer.first,
        needed.max(buffer.most)
    );
    if bound < wanted {
        findings.note("buffers", message, Some(mend.clone()));
    } else {
        findings.fine("buffers", message);
    }
    findings.limits.push(Limit {
        name: "buffers",
        way: buffer.way,
        what: format!("the kernel's buffers ({})", buffer.name),
        bytes_per_second: bound,
        mend,
    });
}

fn congestion(path: Option<&Path>, findings: &mut Findings) {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
    let Ok(used) = read("tcp_congestion_control") else {
        return;
    };
    let used = used.trim();
    let available = read("tcp_available_congestion_control").unwrap_or_default();
    let is_far = path.is_some_and(|path| path.round_trip >= FAR);
    if is_far && !used.starts_with("bbr") {
        let first = if available.split_whitespace().any(|name| name == "bbr") {
            ""
        } else {
            "modprobe tcp_bbr; "
        };
        let mend = format!("as root: {first}sysctl -w net.ipv4.tcp_congestion_control=bbr");
        let message =
            format!("{used}; over a line this long each lost packet costs it much, bbr less");
        findings.note("congestion control", message, Some(mend));
    } else {
        findings.fine("congestion control", used.to_owned());
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
            way: Way::Sending,
            least: 4096,
            first: 16_384,
            most: 4 << 20,
        };
        let mut findings = Findings::default();
        // 2 connections of 2 MiB in 100 ms are 42 MB/s; 10 Gbit/s take 125 MB in flight.
        weigh(&buffer, Duration::from_millis(100), 2, &mut findings);
        let limit = findings.tightest(Way::Sending).expect("a bound");
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
}
