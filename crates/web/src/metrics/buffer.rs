//! Owns the figures of the node's transfer buffer.
//! Moves no data.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use godwit_api::rest::{BufferView, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::StaticText;
use super::room::ExportLabel;
use crate::config::ExportInfo;

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct StateLabel {
    state: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct WayLabel {
    way: StaticText,
}

/// States of volumes that figures distinguish.
const VOLUMES: [&str; 4] = ["well", "slow", "out", "closed"];

/// The figures.
#[derive(Default)]
pub(super) struct BufferMetrics {
    size: Family<StateLabel, Gauge>,
    moved: Family<WayLabel, Counter>,
    volumes: Family<StateLabel, Gauge>,
    files: Gauge,
    pinned: Gauge,
    waiting: Family<StateLabel, Gauge>,
    kept: Gauge,
    age: Family<StateLabel, Gauge<f64, AtomicU64>>,
    stalled: Family<ExportLabel, Gauge<f64, AtomicU64>>,
}

impl BufferMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "buffer_size",
            "Extents of the transfer buffer by state",
            Unit::Bytes,
            self.size.clone(),
        );
        registry.register_with_unit(
            "buffer_moved",
            "Amounts since the start of the node: served from the buffer (hit), read from exports (missed), from other nodes (pooled), \
             written to it (filled), moved to slow storage (drained), past it (passed), not as written (damaged)",
            Unit::Bytes,
            self.moved.clone(),
        );
        registry.register(
            "buffer_volumes",
            "Volumes of the transfer buffer by state",
            self.volumes.clone(),
        );
        registry.register(
            "buffer_files",
            "Files in the transfer buffer",
            self.files.clone(),
        );
        registry.register(
            "buffer_pinned_files",
            "Files that users have pinned in the transfer buffer",
            self.pinned.clone(),
        );
        registry.register(
            "buffer_waiting_files",
            "Files that arrived, and are not at their export: all of them, after a failure (troubled), and until a user acts (aside)",
            self.waiting.clone(),
        );
        registry.register_with_unit(
            "buffer_kept",
            "Clean extents of the transfer buffer that stay: of files that are pinned, or kept until a time",
            Unit::Bytes,
            self.kept.clone(),
        );
        registry.register_with_unit(
            "buffer_oldest",
            "Age of the oldest content of the transfer buffer: of any, and of those that have not drained (dirty); 0 for none",
            Unit::Seconds,
            self.age.clone(),
        );
        registry.register_with_unit(
            "buffer_stalled",
            "Time since an export took data from the transfer buffer, while files drain to it and nothing moves; 0 otherwise",
            Unit::Seconds,
            self.stalled.clone(),
        );
    }

    /// Sets the figures of this moment.
    pub(super) fn set(&self, view: &BufferView, exports: &[ExportInfo], now: Timestamp) {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for (state, bytes) in [
            ("free", view.bytes_free),
            ("filling", view.bytes_filling),
            ("clean", view.bytes_clean),
            ("dirty", view.bytes_dirty),
        ] {
            let state = StaticText(state);
            let gauge = self.size.get_or_create(&StateLabel { state });
            gauge.set(whole(bytes));
        }
        for (way, bytes) in [
            ("hit", view.hit_bytes),
            ("missed", view.missed_bytes),
            ("pooled", view.pooled_bytes),
            ("filled", view.filled_bytes),
            ("drained", view.drained_bytes),
            ("passed", view.passed_bytes),
            ("damaged", view.damaged_bytes),
        ] {
            let way = StaticText(way);
            let counter = self.moved.get_or_create(&WayLabel { way });
            // The buffer counts from the start of the node, too.
            let inner: &AtomicU64 = counter.inner();
            inner.fetch_max(bytes, std::sync::atomic::Ordering::Relaxed);
        }
        for state in VOLUMES {
            let volumes = view.volumes.iter();
            let number = volumes.filter(|volume| volume.state == state).count();
            let state = StaticText(state);
            let gauge = self.volumes.get_or_create(&StateLabel { state });
            gauge.set(whole(number as u64));
        }
        self.files.set(whole(view.files));
        self.pinned.set(whole(view.files_pinned));
        for (state, files) in [
            ("all", view.files_waiting),
            ("troubled", view.files_troubled),
            ("aside", view.files_aside),
        ] {
            let state = StaticText(state);
            let gauge = self.waiting.get_or_create(&StateLabel { state });
            gauge.set(whole(files));
        }
        self.kept.set(whole(view.bytes_kept));
        let age = |since: Timestamp| {
            let millis = now.0.saturating_sub(since.0).max(0);
            Duration::from_millis(millis.unsigned_abs()).as_secs_f64()
        };
        for (state, since) in [("any", view.oldest), ("dirty", view.oldest_dirty)] {
            let state = StaticText(state);
            let gauge = self.age.get_or_create(&StateLabel { state });
            gauge.set(since.map_or(0.0, age));
        }
        for export in exports.iter().map(|export| export.name.clone()) {
            let stall = view.stalled.iter().find(|stall| stall.export == export);
            let gauge = self.stalled.get_or_create(&ExportLabel { export });
            gauge.set(stall.map_or(0.0, |stall| age(stall.since)));
        }
    }
}
