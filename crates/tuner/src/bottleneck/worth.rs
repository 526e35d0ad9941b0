//! Decides whether a bottleneck is worth reporting, and which advice still applies after the user's choices. Does not find
//! bottlenecks.

use std::time::Duration;

use super::{Bottleneck, EndCounters, positive};
use crate::{STREAMS_MAX, Snapshot};

/// Settings in force on which advice depends. The default corresponds to the program's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    /// Most streams that the tuner may use.
    pub streams_most: u32,
    /// Whether the tuner chooses the number of readers.
    pub readers_free: bool,
    /// Whether the tuner chooses the number of writers.
    pub writers_free: bool,
    /// Whether the digest is slower than the fastest one.
    pub costly_digest: bool,
    /// Whether contents are encrypted.
    pub encrypted: bool,
    /// Whether the destination waits until data is durable.
    pub syncs: bool,
    /// Whether the sending end has `bbr` but does not use it, and the user has chosen no congestion control.
    pub bbr_is_left: bool,
}

impl Default for Chosen {
    fn default() -> Self {
        Self {
            streams_most: STREAMS_MAX,
            readers_free: true,
            writers_free: true,
            costly_digest: false,
            encrypted: true,
            syncs: true,
            bbr_is_left: false,
        }
    }
}

impl Chosen {
    /// Whether the user allows at most `streams` streams, and the tuner might want more.
    pub(super) const fn holds_streams(&self, streams: u64) -> bool {
        self.streams_most < STREAMS_MAX && streams >= self.streams_most as u64
    }
}

/// A shorter transfer ends before any stage limits it, unless it moves [`MUCH_BYTES`]: connections start and kernels
/// buffer.
const SHORT: Duration = Duration::from_secs(1);

/// 512 Mbit/s over [`SHORT`].
const MUCH_BYTES: u64 = 64 << 20;

/// Bytes that a new connection sends in three RTTs, with ten segments in the first. Fewer bytes are not enough to judge a
/// path.
const A_FEW_BYTES: u64 = 100_000;

/// A loss of fewer bytes, some forty segments, is noise.
const LOST_BYTES_MIN: u64 = 64 << 10;

/// A smaller share of lost bytes slows no congestion control much.
const LOST_SHARE: f64 = 0.001;

/// From this RTT on, loss-based congestion control suffers from each loss. `godwit doctor` uses the same threshold.
const FAR_NS: u64 = 20_000_000;

/// Whether the stage is worth reporting.
pub(super) fn is_worth_naming(stage: Bottleneck, end_counters: &EndCounters) -> bool {
    let source = end_counters.source.unwrap_or_default();
    let destination = end_counters.destination.unwrap_or_default();
    let moved = source.bytes_sent.max(destination.bytes_received);
    let files = source.files_done.max(destination.files_done);
    let elapsed = source.elapsed_ns.max(destination.elapsed_ns);
    let is_short = u128::from(elapsed) < SHORT.as_nanos() && moved < MUCH_BYTES;
    match stage {
        // The user has set the limit, and blocks wait for it.
        Bottleneck::Limit => true,
        _ if is_short => false,
        Bottleneck::Network => moved >= A_FEW_BYTES,
        Bottleneck::SourceStorage | Bottleneck::SourceCpu => {
            moved > 0 || files > 0 || source.bytes_read > 0
        }
        Bottleneck::DestinationCpu | Bottleneck::DestinationStorage => {
            moved > 0 || files > 0 || destination.undurable_ns > 0
        }
    }
}

/// Whether enough bytes were retransmitted to conclude that the path loses packets.
pub(super) fn loses_packets(source: &Snapshot) -> bool {
    let share =
        positive(source.tcp_bytes_sent).map_or(0.0, |sent| source.tcp_bytes_resent as f64 / sent);
    source.tcp_bytes_resent >= LOST_BYTES_MIN && share >= LOST_SHARE
}

/// Whether the RTT is so long that another congestion control may help.
pub(super) const fn is_far(source: &Snapshot) -> bool {
    source.round_trip_min_ns >= FAR_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn end_counters(change: impl FnOnce(&mut Snapshot, &mut Snapshot)) -> EndCounters {
        let (mut source, mut destination) = (Snapshot::default(), Snapshot::default());
        change(&mut source, &mut destination);
        EndCounters {
            source: Some(source),
            destination: Some(destination),
        }
    }

    /// Which stages except the limit are worth reporting: source storage and CPU, network, destination CPU and storage.
    fn worth(end_counters: &EndCounters) -> [bool; 5] {
        [
            Bottleneck::SourceStorage,
            Bottleneck::SourceCpu,
            Bottleneck::Network,
            Bottleneck::DestinationCpu,
            Bottleneck::DestinationStorage,
        ]
        .map(|stage| is_worth_naming(stage, end_counters))
    }

    #[test]
    fn a_bottleneck_is_named_only_of_a_transfer_that_moves_something_for_a_while() {
        type Change = fn(&mut Snapshot, &mut Snapshot);
        let cases: [(&str, Change, [bool; 5]); 8] = [
            ("nothing", |_, _| (), [false; 5]),
            (
                "all was there",
                |source, destination| {
                    source.elapsed_ns = 60 * SECOND;
                    source.entries_scanned = 1_000_000;
                    source.files_skipped = 1_000_000;
                    source.storage_reading_ns = 50 * SECOND;
                    source.tcp_bytes_sent = 100_000_000;
                    source.tcp_bytes_resent = 10_000_000;
                    destination.storage_writing_ns = 50 * SECOND;
                },
                [false; 5],
            ),
            (
                "a few bytes, soon",
                |source, _| {
                    source.elapsed_ns = SECOND / 2;
                    source.bytes_sent = 1_000_000;
                },
                [false; 5],
            ),
            (
                "a few bytes, late",
                |source, _| {
                    source.elapsed_ns = 5 * SECOND;
                    source.bytes_sent = 10;
                },
                [true, true, false, true, true],
            ),
            (
                "many bytes, soon",
                |source, _| {
                    source.elapsed_ns = SECOND / 2;
                    source.bytes_sent = MUCH_BYTES;
                },
                [true; 5],
            ),
            (
                "a thin path",
                |_, destination| {
                    destination.elapsed_ns = 30 * SECOND;
                    destination.bytes_received = 150_000;
                },
                [true; 5],
            ),
            (
                "empty files",
                |source, destination| {
                    source.elapsed_ns = 5 * SECOND;
                    destination.files_done = 10;
                },
                [true, true, false, true, true],
            ),
            (
                "a disk that holds everything up",
                |_, destination| {
                    destination.elapsed_ns = 4 * SECOND;
                    destination.undurable_ns = 8 * SECOND;
                },
                [false, false, false, true, true],
            ),
        ];
        for (name, change, named) in cases {
            let end_counters = end_counters(change);
            assert_eq!(worth(&end_counters), named, "{name}");
            assert!(is_worth_naming(Bottleneck::Limit, &end_counters), "{name}");
        }
    }

    #[test]
    fn packets_are_lost_only_where_many_were() {
        for (sent, resent, lost) in [
            (0, 0, false),
            (10_000, 10_000, false),
            (1_000_000_000, 65_536, false),
            (10_000_000, 65_536, true),
            (10_000_000, 65_535, false),
        ] {
            let source = Snapshot {
                tcp_bytes_sent: sent,
                tcp_bytes_resent: resent,
                ..Snapshot::default()
            };
            assert_eq!(loses_packets(&source), lost, "{resent} of {sent}");
        }
    }
}
