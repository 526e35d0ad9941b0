//! Owns the figures of the host for Prometheus: the counts of its kernel, core by core and interface by interface.
//! Makes no rates: Prometheus does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use godwit_jobs::{Energy, HostTotals, host_totals};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::StaticText;

/// Cores and interfaces that have time series of their own.
const CORES_MAX: usize = 256;
const INTERFACES_MAX: usize = 64;

/// Processor packages that have time series of their own.
const PACKAGES_MAX: usize = 32;

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

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct PackageLabel {
    package: String,
}

/// A counter of energy as it was last read, and what it counted with all its wraps. Both are in microjoules.
#[derive(Clone, Copy, Debug)]
struct Counted {
    last: u64,
    sum: u64,
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
    segments_resent: Counter,
    sack_recoveries: Counter,
    energy: Family<PackageLabel, Counter<f64, AtomicU64>>,
    counted_energy: Mutex<BTreeMap<String, Counted>>,
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
        registry.register(
            "host_tcp_segments_resent",
            "TCP segments that the machine has sent again",
            self.segments_resent.clone(),
        );
        registry.register(
            "host_tcp_sack_recoveries",
            "Losses that selective acknowledgements showed, and that TCP repaired",
            self.sack_recoveries.clone(),
        );
        registry.register_with_unit(
            "host_energy",
            "Energy of each processor package of the machine; absent if the node may not read its counter",
            Unit::Joules,
            self.energy.clone(),
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
        count(
            &self.segments_resent,
            totals.tcp.segments_resent.unwrap_or(0),
        );
        count(
            &self.sack_recoveries,
            totals.tcp.sack_recoveries.unwrap_or(0),
        );
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
        self.set_energy(totals.energy);
    }

    /// Takes the energy of each package. A counter of the kernel wraps within an hour of full load. The figures do not.
    fn set_energy(&self, packages: Vec<Energy>) {
        let known = self.counted_energy.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        self.energy.clear();
        for found in packages.into_iter().take(PACKAGES_MAX) {
            let now = found.microjoules;
            let before = known.get(&found.package);
            let sum = before.map_or(now, |before| before.sum + found.since(before.last));
            known.insert(found.package.clone(), Counted { last: now, sum });
            let package = found.package;
            let counter = self.energy.get_or_create(&PackageLabel { package });
            counter
                .inner()
                .store(joules(sum).to_bits(), Ordering::Relaxed);
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "285 years at a kilowatt are exact to a microjoule"
)]
fn joules(microjoules: u64) -> f64 {
    microjoules as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn package(name: &str, microjoules: u64) -> Energy {
        Energy {
            package: name.to_owned(),
            microjoules,
            range: 10_000_000,
        }
    }

    fn shown(metrics: &HostMetrics, energy: Vec<Energy>) -> Vec<String> {
        metrics.set(HostTotals {
            energy,
            ..HostTotals::default()
        });
        let mut registry = Registry::with_prefix("godwit");
        metrics.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        let lines = text.lines().filter(|line| line.contains("_energy_"));
        let mut lines: Vec<String> = lines
            .filter(|line| !line.starts_with('#'))
            .map(ToOwned::to_owned)
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn the_energy_of_a_package_rises_also_where_its_counter_wraps() {
        let metrics = HostMetrics::default();
        let line = |name: &str, joules: &str| {
            format!("godwit_host_energy_joules_total{{package=\"{name}\"}} {joules}")
        };
        let both = vec![
            package("intel-rapl:0", 9_000_000),
            package("intel-rapl:1", 500_000),
        ];
        assert_eq!(
            shown(&metrics, both),
            [line("intel-rapl:0", "9.0"), line("intel-rapl:1", "0.5")]
        );
        let wrapped = vec![package("intel-rapl:0", 1_500_000)];
        assert_eq!(shown(&metrics, wrapped), [line("intel-rapl:0", "11.5")]);
        let later = vec![package("intel-rapl:0", 2_000_000)];
        assert_eq!(shown(&metrics, later), [line("intel-rapl:0", "12.0")]);
    }

    #[test]
    fn a_machine_whose_counters_may_not_be_read_has_no_energy() {
        assert!(shown(&HostMetrics::default(), Vec::new()).is_empty());
    }
}
