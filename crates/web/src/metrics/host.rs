//! Owns the figures of the host for Prometheus: the counts of its kernel, core by core and interface by interface.
//! Makes no rates: Prometheus does.

use std::sync::atomic::{AtomicU64, Ordering};

use godwit_jobs::{HostTotals, host_totals};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::StaticText;

/// Cores and interfaces that have time series of their own.
const CORES_MAX: usize = 256;
const INTERFACES_MAX: usize = 64;

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct CoreLabel {
    core: u64,
    mode: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct InterfaceLabel {
    interface: String,
    direction: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct DiskLabel {
    direction: StaticText,
}

/// The figures.
#[derive(Default)]
pub(super) struct HostMetrics {
    cores: Family<CoreLabel, Counter<f64, AtomicU64>>,
    switches: Counter,
    interrupts: Counter,
    softirqs: Counter,
    memory: Gauge,
    disks: Family<DiskLabel, Counter>,
    bytes: Family<InterfaceLabel, Counter>,
    packets: Family<InterfaceLabel, Counter>,
}

impl HostMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "host_cpu",
            "Time of each core of the machine, by kind of work",
            Unit::Seconds,
            self.cores.clone(),
        );
        registry.register(
            "host_context_switches",
            "Context switches of the machine",
            self.switches.clone(),
        );
        registry.register(
            "host_interrupts",
            "Interrupts of the machine",
            self.interrupts.clone(),
        );
        registry.register(
            "host_softirqs",
            "Softirqs of the machine",
            self.softirqs.clone(),
        );
        registry.register_with_unit(
            "host_memory_available",
            "Memory available without swapping",
            Unit::Bytes,
            self.memory.clone(),
        );
        registry.register_with_unit(
            "host_disk",
            "Amounts that the disks of the machine have read and written",
            Unit::Bytes,
            self.disks.clone(),
        );
        registry.register_with_unit(
            "host_interface",
            "Amounts that each network interface has received and sent",
            Unit::Bytes,
            self.bytes.clone(),
        );
        registry.register(
            "host_interface_packets",
            "Packets that each network interface has received and sent",
            self.packets.clone(),
        );
    }

    /// Takes the counts as they are now.
    pub(super) fn look(&self) {
        self.set(host_totals());
    }

    fn set(&self, totals: HostTotals) {
        self.cores.clear();
        for (core, modes) in (0_u64..).zip(totals.cores.into_iter().take(CORES_MAX)) {
            for (mode, seconds) in modes {
                let mode = StaticText(mode);
                let counter = self.cores.get_or_create(&CoreLabel { core, mode });
                counter.inner().store(seconds.to_bits(), Ordering::Relaxed);
            }
        }
        let count = |counter: &Counter, counted: u64| {
            counter.inner().store(counted, Ordering::Relaxed);
        };
        count(&self.switches, totals.context_switches.unwrap_or(0));
        count(&self.interrupts, totals.interrupts.unwrap_or(0));
        count(&self.softirqs, totals.softirqs.unwrap_or(0));
        let memory = totals.memory_available.unwrap_or(0);
        self.memory.set(i64::try_from(memory).unwrap_or(i64::MAX));
        let (read, written) = (StaticText("read"), StaticText("written"));
        if let Some(bytes) = totals.disks {
            for (direction, bytes) in [(read, bytes.0), (written, bytes.1)] {
                count(&self.disks.get_or_create(&DiskLabel { direction }), bytes);
            }
        }
        self.bytes.clear();
        self.packets.clear();
        for found in totals.interfaces.into_iter().take(INTERFACES_MAX) {
            for (direction, bytes, packets) in [
                ("received", found.received_bytes, found.received_packets),
                ("sent", found.sent_bytes, found.sent_packets),
            ] {
                let label = InterfaceLabel {
                    interface: found.name.clone(),
                    direction: StaticText(direction),
                };
                count(&self.bytes.get_or_create(&label), bytes);
                count(&self.packets.get_or_create(&label), packets);
            }
        }
    }
}
