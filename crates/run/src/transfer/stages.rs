//! Computes figures for each stage of a transfer from the counters of both ends over some seconds.
//! Does not count or determine the limiting stage (`tuner` does).

use std::collections::BTreeMap;

use godwit_engine::{EndCounters, Snapshot};

/// The names of all figures.
pub const STAGE_FIGURES: [&str; 30] = [
    "scan_entries_per_second",
    "read_bytes_per_second",
    "read_busy",
    "buffer_full",
    "send_idle",
    "send_limited",
    "send_blocked_by_network",
    "send_blocked",
    "send_busy",
    "send_bytes_per_second",
    "source_processors_busy",
    "source_processors",
    "network_busy",
    "network_window_limited",
    "network_buffer_limited",
    "network_resent",
    "network_round_trip_seconds",
    "network_round_trip_least_seconds",
    "network_in_flight_bytes",
    "receive_idle",
    "receive_blocked",
    "receive_busy",
    "receive_bytes_per_second",
    "destination_processors_busy",
    "destination_processors",
    "write_busy",
    "write_bytes_per_second",
    "sync_busy",
    "durable_bytes_per_second",
    "commit_files_per_second",
];

/// The figures by the names in `docs/events.md`. Figures that were not counted are omitted.
pub(super) fn stages(end_counters: &EndCounters) -> BTreeMap<String, f64> {
    let mut figures = Figures(BTreeMap::new());
    if let Some(source) = &end_counters.source {
        figures.source(source);
    }
    if let Some(destination) = &end_counters.destination {
        figures.destination(destination);
    }
    figures.0
}

struct Figures(BTreeMap<String, f64>);

impl Figures {
    fn put(&mut self, name: &str, figure: Option<f64>) {
        if let Some(figure) = figure.filter(|figure| figure.is_finite()) {
            // Users and plots need only microseconds and thousandths.
            let digits = if figure.abs() < 10.0 { 1e6 } else { 1.0 };
            self.0
                .insert(name.to_owned(), (figure * digits).round() / digits);
        }
    }

    fn source(&mut self, source: &Snapshot) {
        let rate = |count: u64| per_second(count, source);
        let share = |time: u64| part(time, source.streams_ns);
        self.put("scan_entries_per_second", rate(source.entries_scanned));
        self.put("read_bytes_per_second", rate(source.bytes_read));
        let at_work = source.streams_ns.saturating_sub(source.starved_ns);
        let workers = at_work.saturating_add(source.helping_ns);
        self.put("read_busy", part(source.storage_reading_ns, workers));
        self.put("buffer_full", share(source.unacknowledged_ns));
        self.put("send_idle", share(source.starved_ns));
        self.put("send_limited", share(source.limited_ns));
        self.put("send_blocked_by_network", share(source.blocked_sending_ns));
        let blocked = source
            .blocked_sending_ns
            .saturating_add(source.unacknowledged_ns)
            .saturating_add(source.limited_ns);
        self.put("send_blocked", share(blocked));
        let busy = at_work
            .saturating_sub(blocked)
            .saturating_sub(source.reading_ns);
        self.put("send_busy", share(busy));
        self.put("send_bytes_per_second", rate(source.bytes_sent));
        self.processors("source", source);
        self.put("network_busy", share(source.tcp_busy_ns));
        let of_busy = |time: u64| part(time, source.tcp_busy_ns);
        self.put(
            "network_window_limited",
            of_busy(source.tcp_window_limited_ns),
        );
        self.put(
            "network_buffer_limited",
            of_busy(source.tcp_buffer_limited_ns),
        );
        self.put(
            "network_resent",
            part(source.tcp_bytes_resent, source.tcp_bytes_sent),
        );
        let seconds = |time: u64| (time > 0).then(|| float(time) / 1e9);
        self.put("network_round_trip_seconds", seconds(source.round_trip_ns));
        self.put(
            "network_round_trip_least_seconds",
            seconds(source.round_trip_min_ns),
        );
        let in_flight = float(source.tcp_unacknowledged_bytes);
        self.put(
            "network_in_flight_bytes",
            (source.tcp_busy_ns > 0).then_some(in_flight),
        );
    }

    fn destination(&mut self, destination: &Snapshot) {
        let rate = |count: u64| per_second(count, destination);
        let total = destination.streams_ns;
        let share = |time: u64| part(time, total);
        let idle = destination
            .waiting_ns
            .saturating_add(destination.blocked_receiving_ns);
        self.put("receive_idle", share(idle));
        self.put("receive_blocked", share(destination.undurable_ns));
        let busy = total
            .saturating_sub(idle)
            .saturating_sub(destination.undurable_ns)
            .saturating_sub(destination.storage_writing_ns);
        self.put("receive_busy", share(busy));
        self.put("receive_bytes_per_second", rate(destination.bytes_received));
        self.processors("destination", destination);
        let workers = total.saturating_add(destination.helping_ns);
        self.put("write_busy", part(destination.storage_writing_ns, workers));
        self.put("write_bytes_per_second", rate(destination.bytes_written));
        self.put(
            "sync_busy",
            part(destination.syncing_ns, destination.elapsed_ns),
        );
        self.put("durable_bytes_per_second", rate(destination.bytes_durable));
        self.put("commit_files_per_second", rate(destination.files_done));
    }

    fn processors(&mut self, side: &str, counted: &Snapshot) {
        let busy =
            (counted.elapsed_ns > 0).then(|| float(counted.cpu_ns) / float(counted.elapsed_ns));
        self.put(&format!("{side}_processors_busy"), busy);
        let cores = (counted.cores > 0).then(|| float(counted.cores));
        self.put(&format!("{side}_processors"), cores);
    }
}

/// The fraction of a time or a count, at most 1.
fn part(of: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| (float(of) / float(all)).min(1.0))
}

fn per_second(count: u64, counted: &Snapshot) -> Option<f64> {
    (counted.elapsed_ns > 0).then(|| float(count) / (float(counted.elapsed_ns) / 1e9))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "figures for people and plots need no more than 53 bits"
)]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn each_stage_has_its_part_of_the_time() {
        let side = Snapshot {
            streams_ns: 20 * SECOND,
            elapsed_ns: 10 * SECOND,
            cores: 4,
            ..Snapshot::default()
        };
        let end_counters = EndCounters {
            source: Some(Snapshot {
                starved_ns: 5 * SECOND,
                blocked_sending_ns: 4 * SECOND,
                unacknowledged_ns: SECOND,
                reading_ns: 6 * SECOND,
                storage_reading_ns: 6 * SECOND,
                bytes_sent: 1_000,
                tcp_bytes_sent: 200,
                tcp_bytes_resent: 2,
                round_trip_ns: 30_000_000,
                cpu_ns: 15 * SECOND,
                ..side
            }),
            destination: Some(Snapshot {
                waiting_ns: 10 * SECOND,
                storage_writing_ns: 5 * SECOND,
                undurable_ns: 2 * SECOND,
                syncing_ns: SECOND,
                ..side
            }),
        };
        let figures = stages(&end_counters);
        for (name, expected) in [
            ("read_busy", 0.4),
            ("send_idle", 0.25),
            ("send_blocked", 0.25),
            ("send_busy", 0.2),
            ("buffer_full", 0.05),
            ("send_bytes_per_second", 100.0),
            ("network_resent", 0.01),
            ("network_round_trip_seconds", 0.03),
            ("source_processors_busy", 1.5),
            ("source_processors", 4.0),
            ("receive_idle", 0.5),
            ("receive_blocked", 0.1),
            ("receive_busy", 0.15),
            ("write_busy", 0.25),
            ("sync_busy", 0.1),
        ] {
            let found = figures.get(name).copied().unwrap_or(f64::NAN);
            assert!((found - expected).abs() < 1e-9, "{name}: {found}");
        }
    }

    #[test]
    fn the_names_are_those_of_the_figures() {
        let side = Snapshot {
            streams_ns: SECOND,
            helping_ns: SECOND,
            elapsed_ns: SECOND,
            cores: 1,
            tcp_busy_ns: SECOND,
            tcp_bytes_sent: 1,
            round_trip_ns: 1,
            round_trip_min_ns: 1,
            ..Snapshot::default()
        };
        let end_counters = EndCounters {
            source: Some(side),
            destination: Some(side),
        };
        let figures = stages(&end_counters);
        let mut names = STAGE_FIGURES;
        names.sort_unstable();
        assert!(figures.keys().eq(names.iter()), "{figures:?}");
    }

    #[test]
    fn nothing_counted_is_no_figure() {
        assert!(stages(&EndCounters::default()).is_empty());
        let end_counters = EndCounters {
            source: Some(Snapshot::default()),
            destination: Some(Snapshot::default()),
        };
        assert!(stages(&end_counters).is_empty());
    }
}
