//! Owns the figures of the network paths of running jobs.
//! Measures nothing, and keeps nothing of jobs that have ended.

use std::sync::atomic::AtomicU64;

use godwit_api::rest::ChannelView;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// Network paths of a job that have time series of their own: those of sixteen nodes with four interfaces at each end.
const CHANNELS_MAX: usize = 256;

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ChannelLabel {
    job_id: String,
    channel: u32,
}

/// The figures, one time series for each channel of each running job.
#[derive(Default)]
pub(super) struct ChannelMetrics {
    carried: Family<ChannelLabel, Gauge>,
    rates: Family<ChannelLabel, Gauge<f64, AtomicU64>>,
    streams: Family<ChannelLabel, Gauge>,
    round_trips: Family<ChannelLabel, Gauge<f64, AtomicU64>>,
    resent: Family<ChannelLabel, Gauge>,
    cuts: Family<ChannelLabel, Gauge>,
}

impl ChannelMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "channel_carried",
            "Bytes that each channel of a running job has carried, with all overhead",
            Unit::Bytes,
            self.carried.clone(),
        );
        registry.register_with_unit(
            "channel_rate",
            "Rate of each channel of a running job, per second",
            Unit::Bytes,
            self.rates.clone(),
        );
        registry.register(
            "channel_streams",
            "Streams of each channel of a running job",
            self.streams.clone(),
        );
        registry.register_with_unit(
            "channel_round_trip",
            "Smoothed RTT of each channel of a running job",
            Unit::Seconds,
            self.round_trips.clone(),
        );
        registry.register_with_unit(
            "channel_resent",
            "Amounts that this node sent again on each channel of a running job",
            Unit::Bytes,
            self.resent.clone(),
        );
        registry.register(
            "channel_cuts",
            "Streams of each channel of a running job that were cut off because the channel was dead",
            self.cuts.clone(),
        );
    }

    /// Forgets all channels.
    pub(super) fn clear(&self) {
        self.carried.clear();
        self.rates.clear();
        self.streams.clear();
        self.round_trips.clear();
        self.resent.clear();
        self.cuts.clear();
    }

    /// Takes the channels of a running job.
    pub(super) fn set(&self, job: &str, channels: &[ChannelView]) {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for view in channels.iter().take(CHANNELS_MAX) {
            let label = ChannelLabel {
                job_id: job.to_owned(),
                channel: view.number,
            };
            let rate = view.bytes_per_second.unwrap_or(0.0);
            self.carried.get_or_create(&label).set(whole(view.bytes));
            self.rates.get_or_create(&label).set(rate);
            let streams = i64::from(view.streams);
            self.streams.get_or_create(&label).set(streams);
            let round_trip = view.round_trip_seconds;
            self.round_trips.get_or_create(&label).set(round_trip);
            self.resent
                .get_or_create(&label)
                .set(whole(view.resent_bytes));
            self.cuts.get_or_create(&label).set(whole(view.cuts));
        }
    }
}
