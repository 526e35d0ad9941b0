//! Names the figures of a report in plain words, and writes their values with units.
//! Computes no figure.

use godwit_api::energy::UNREAD_FIGURE;
use godwit_api::units::human_size;

use super::{rate_text, whole};

/// The unit of a figure.
#[derive(Clone, Copy)]
enum Unit {
    /// Part of the time or of all bytes, from 0 to 1.
    Part,
    /// Bytes per second.
    Rate,
    Bytes,
    Seconds,
    Watts,
    /// Processors at work; a fraction counts.
    Processors,
    Number,
}

const FIGURES: &[(&str, &str, Unit)] = &[
    ("bytes_per_second", "Rate of the job", Unit::Rate),
    ("streams", "Streams", Unit::Number),
    (
        "scan_entries_per_second",
        "Scan: entries per second",
        Unit::Number,
    ),
    ("read_busy", "Read: busy", Unit::Part),
    ("read_bytes_per_second", "Read: rate", Unit::Rate),
    ("buffer_full", "Buffers of the source: full", Unit::Part),
    ("send_idle", "Send: waits for data", Unit::Part),
    ("send_busy", "Send: busy", Unit::Part),
    ("send_blocked", "Send: held back", Unit::Part),
    (
        "send_blocked_by_network",
        "Send: held back by the network",
        Unit::Part,
    ),
    ("send_limited", "Send: held back by the limit", Unit::Part),
    ("send_bytes_per_second", "Send: rate", Unit::Rate),
    ("source_processors", "Source: processors", Unit::Number),
    (
        "source_processors_busy",
        "Source: processors busy",
        Unit::Processors,
    ),
    ("network_busy", "Network: data under way", Unit::Part),
    (
        "network_window_limited",
        "Network: held back by the receive window",
        Unit::Part,
    ),
    (
        "network_buffer_limited",
        "Network: held back by the send buffer",
        Unit::Part,
    ),
    ("network_resent", "Network: bytes sent again", Unit::Part),
    ("network_round_trip_seconds", "Network: RTT", Unit::Seconds),
    (
        "network_round_trip_least_seconds",
        "Network: least RTT",
        Unit::Seconds,
    ),
    (
        "network_in_flight_bytes",
        "Network: bytes in flight",
        Unit::Bytes,
    ),
    ("receive_idle", "Receive: waits for data", Unit::Part),
    ("receive_busy", "Receive: busy", Unit::Part),
    (
        "receive_blocked",
        "Receive: held back by the storage",
        Unit::Part,
    ),
    ("receive_bytes_per_second", "Receive: rate", Unit::Rate),
    (
        "destination_processors",
        "Destination: processors",
        Unit::Number,
    ),
    (
        "destination_processors_busy",
        "Destination: processors busy",
        Unit::Processors,
    ),
    ("write_busy", "Write: busy", Unit::Part),
    ("write_bytes_per_second", "Write: rate", Unit::Rate),
    ("sync_busy", "Sync: busy", Unit::Part),
    (
        "durable_bytes_per_second",
        "Sync: rate of durable bytes",
        Unit::Rate,
    ),
    (
        "commit_files_per_second",
        "Commit: files per second",
        Unit::Number,
    ),
    ("cpu_user", "Host: processors, programs", Unit::Part),
    ("cpu_system", "Host: processors, system", Unit::Part),
    (
        "cpu_iowait",
        "Host: processors, wait for storage",
        Unit::Part,
    ),
    ("cpu_interrupts", "Host: processors, interrupts", Unit::Part),
    (
        "cpu_steal",
        "Host: processors, taken by other machines",
        Unit::Part,
    ),
    ("cpu_busiest_core", "Host: busiest core", Unit::Part),
    (
        "context_switches_per_second",
        "Host: context switches per second",
        Unit::Number,
    ),
    (
        "interrupts_per_second",
        "Host: interrupts per second",
        Unit::Number,
    ),
    (
        "softirqs_per_second",
        "Host: soft interrupts per second",
        Unit::Number,
    ),
    (
        "segments_resent_per_second",
        "Host: TCP segments sent again per second",
        Unit::Number,
    ),
    (
        "sack_recoveries_per_second",
        "Host: SACK recoveries per second",
        Unit::Number,
    ),
    (
        "memory_available_bytes",
        "Host: memory available",
        Unit::Bytes,
    ),
    (
        "disk_read_bytes_per_second",
        "Host: disks, read",
        Unit::Rate,
    ),
    (
        "disk_written_bytes_per_second",
        "Host: disks, written",
        Unit::Rate,
    ),
    (
        "network_received_bytes_per_second",
        "Host: network, received",
        Unit::Rate,
    ),
    (
        "network_sent_bytes_per_second",
        "Host: network, sent",
        Unit::Rate,
    ),
    (
        "network_received_packets_per_second",
        "Host: network, packets received per second",
        Unit::Number,
    ),
    (
        "network_sent_packets_per_second",
        "Host: network, packets sent per second",
        Unit::Number,
    ),
    (
        "package_watts",
        "Host: power of the processor packages",
        Unit::Watts,
    ),
    (
        UNREAD_FIGURE,
        "Host: processor packages whose energy may not be read",
        Unit::Number,
    ),
];

fn known(name: &str) -> Option<(&'static str, Unit)> {
    let known = FIGURES.iter().find(|(known, ..)| *known == name);
    known.map(|(_, words, unit)| (*words, *unit))
}

fn core(name: &str) -> Option<&str> {
    name.strip_prefix("cpu_core_")
}

/// Interface and way of the figure of a single interface.
pub(super) fn interface(name: &str) -> Option<(&str, &str)> {
    let rest = name.strip_prefix("interface_")?;
    rest.strip_suffix("_bytes_per_second")?.rsplit_once('_')
}

/// The name for people. A figure of a newer version keeps its name.
pub(super) fn title(name: &str) -> String {
    match (known(name), core(name), interface(name)) {
        (Some((words, _)), ..) => words.to_owned(),
        (None, Some(core), _) => format!("Host: core {core}"),
        (None, None, Some((interface, way))) => format!("Host: {interface}, {way}"),
        (None, None, None) => name.replace('_', " "),
    }
}

/// The value with its unit.
pub(super) fn text(name: &str, value: f64) -> String {
    let unit = match (known(name), core(name), interface(name)) {
        (Some((_, unit)), ..) => Some(unit),
        (None, Some(_), _) => Some(Unit::Part),
        (None, None, Some(_)) => Some(Unit::Rate),
        (None, None, None) => None,
    };
    match unit {
        Some(Unit::Part) => part(value),
        Some(Unit::Rate) => rate_text(value),
        Some(Unit::Bytes) => human_size(whole(value)),
        Some(Unit::Seconds) => seconds(value),
        Some(Unit::Watts) => format!("{value:.0} W"),
        Some(Unit::Processors) => format!("{value:.1}"),
        Some(Unit::Number) => format!("{value:.0}"),
        // The unit is unknown, so no digit that counts may be cut off.
        None if value.abs() < 10.0 => format!("{value:.3}"),
        None => format!("{value:.0}"),
    }
}

/// A small part counts, too: a hundredth of the bytes sent again is a bad network.
fn part(value: f64) -> String {
    let percent = value * 100.0;
    match percent.abs() {
        some if some > 0.0 && some < 0.01 => "< 0.01 %".to_owned(),
        some if some > 0.0 && some < 1.0 => format!("{percent:.2} %"),
        _ => format!("{percent:.0} %"),
    }
}

fn seconds(value: f64) -> String {
    let millis = value * 1_000.0;
    match millis.abs() {
        few if few < 10.0 => format!("{millis:.2} ms"),
        some if some < 1_000.0 => format!("{millis:.0} ms"),
        _ => format!("{value:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_plain_names_and_units() {
        for (name, value, expected, shown) in [
            ("network_round_trip_seconds", 0.035, "Network: RTT", "35 ms"),
            (
                "network_round_trip_least_seconds",
                0.000_2,
                "Network: least RTT",
                "0.20 ms",
            ),
            ("network_resent", 0.012, "Network: bytes sent again", "1 %"),
            (
                "network_resent",
                0.003,
                "Network: bytes sent again",
                "0.30 %",
            ),
            (
                "network_resent",
                0.000_001,
                "Network: bytes sent again",
                "< 0.01 %",
            ),
            ("network_resent", 0.0, "Network: bytes sent again", "0 %"),
            ("cpu_core_0", 0.5, "Host: core 0", "50 %"),
            (
                "interface_eth0-5_sent_bytes_per_second",
                5e6,
                "Host: eth0-5, sent",
                "5.00 MB/s",
            ),
            (
                "source_processors_busy",
                1.5,
                "Source: processors busy",
                "1.5",
            ),
            (
                "package_watts",
                90.4,
                "Host: power of the processor packages",
                "90 W",
            ),
            ("of_tomorrow", 0.25, "of tomorrow", "0.250"),
        ] {
            let found = (title(name), text(name, value));
            assert_eq!(found, (expected.to_owned(), shown.to_owned()), "{name}");
        }
    }

    #[test]
    fn all_figures_of_stages_and_of_this_host_have_names() {
        let source = include_str!("../../../../run/src/transfer/stages.rs");
        let (_, list) = source.split_once("STAGE_FIGURES").expect("the list");
        let (list, _) = list.split_once("];").expect("its end");
        let names: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert!(names.contains(&"network_resent"), "{names:?}");
        for name in names {
            assert!(known(name).is_some(), "{name}");
        }
        for name in crate::host::Host::begin().figures().keys() {
            let single = core(name).is_some() || interface(name).is_some();
            assert!(known(name).is_some() || single, "{name}");
        }
    }
}
