//! Owns the figures of flows: what each hop moves, what waits there and for how long.
//! Reads no state itself, and keeps nothing of flows that are gone.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use godwit_api::rest::{FlowHopState, FlowHopView, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// Flows that have time series.
pub(super) const FLOWS_SHOWN: usize = 50;

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct HopLabel {
    flow: String,
    /// Number of the hop, counted from 1.
    hop: u16,
}

/// The figures, one set of time series for each hop.
#[derive(Default)]
pub(super) struct FlowMetrics {
    rates: Family<HopLabel, Gauge<f64, AtomicU64>>,
    files: Family<HopLabel, Gauge>,
    bytes: Family<HopLabel, Gauge>,
    waiting_files: Family<HopLabel, Gauge>,
    waiting_bytes: Family<HopLabel, Gauge>,
    oldest: Family<HopLabel, Gauge<f64, AtomicU64>>,
    stuck: Family<HopLabel, Gauge>,
}

impl FlowMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "flow_rate",
            "Rate of each hop of a flow, per second; all nodes of a cluster have the same flows",
            Unit::Bytes,
            self.rates.clone(),
        );
        registry.register(
            "flow_moved_files",
            "Files that each hop has moved since the flow was added",
            self.files.clone(),
        );
        registry.register_with_unit(
            "flow_moved",
            "Amount that each hop has moved since the flow was added",
            Unit::Bytes,
            self.bytes.clone(),
        );
        registry.register(
            "flow_backlog_files",
            "Files that are known to wait at the source of each hop",
            self.waiting_files.clone(),
        );
        registry.register_with_unit(
            "flow_backlog",
            "Amount that is known to wait at the source of each hop",
            Unit::Bytes,
            self.waiting_bytes.clone(),
        );
        registry.register_with_unit(
            "flow_oldest",
            "How long the oldest of the waiting files has waited at most; 0 if none waits",
            Unit::Seconds,
            self.oldest.clone(),
        );
        registry.register(
            "flow_stuck",
            "1 for a hop that may not start, or whose latest run was not complete",
            self.stuck.clone(),
        );
    }

    /// Forgets all flows.
    pub(super) fn clear(&self) {
        self.rates.clear();
        self.files.clear();
        self.bytes.clear();
        self.waiting_files.clear();
        self.waiting_bytes.clear();
        self.oldest.clear();
        self.stuck.clear();
    }

    /// Takes the hops of a flow.
    pub(super) fn set(&self, flow: &str, hops: &[FlowHopView], now: Timestamp) {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for (number, hop) in (1..).zip(hops) {
            let label = HopLabel {
                flow: flow.to_owned(),
                hop: number,
            };
            let rate = hop.bytes_per_second.unwrap_or(0.0);
            self.rates.get_or_create(&label).set(rate);
            for (family, value) in [
                (&self.files, hop.files),
                (&self.bytes, hop.bytes),
                (&self.waiting_files, hop.backlog_files),
                (&self.waiting_bytes, hop.backlog_bytes),
            ] {
                family.get_or_create(&label).set(whole(value));
            }
            let millis = hop
                .oldest
                .map_or(0, |since| now.0.saturating_sub(since.0).max(0));
            let age = Duration::from_millis(millis.unsigned_abs());
            self.oldest.get_or_create(&label).set(age.as_secs_f64());
            let is_stuck = matches!(hop.state, FlowHopState::Refused | FlowHopState::Failed);
            self.stuck.get_or_create(&label).set(is_stuck.into());
        }
    }
}
