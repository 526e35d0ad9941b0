//! Host figures while a job runs: processors, interrupts, memory, disks, network, energy, from the kernel's counters.
//! Knows nothing of jobs; a figure that the machine does not have is left out.
//!
//! The figures are of the whole host, and not of one job alone: other load on the host helps to explain the speed of a job.

mod counts;
mod totals;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

pub use counts::is_host_figure;
use counts::{Counts, Energy};
pub use totals::{HostTotals, Interface, host_totals};

/// Where RAPL counts energy (Linux powercap); one directory for each package.
const POWERCAP: &str = "/sys/class/powercap";

/// Returns figures between two looks.
pub struct Host {
    last: Option<(Instant, Counts)>,
}

impl Host {
    /// The first look returns only figures that need no second look.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            last: Some((Instant::now(), look())),
        }
    }

    /// The figures since the look before.
    pub fn figures(&mut self) -> BTreeMap<String, f64> {
        let (now, counts) = (Instant::now(), look());
        let figures = match &self.last {
            Some((then, before)) => counts.since(before, now.duration_since(*then)),
            None => BTreeMap::new(),
        };
        self.last = Some((now, counts));
        figures
    }
}

fn look() -> Counts {
    // An unreadable file counts as empty.
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    Counts {
        stat: counts::stat(&read("/proc/stat")),
        memory_available: counts::memory_available(&read("/proc/meminfo")),
        disks: counts::disks(&read("/proc/diskstats"), &|name| is_disk(name)),
        network: totals::interfaces(&read("/proc/net/dev")),
        energy: energy(),
    }
}

/// Whether the block device is hardware: neither a partition nor built on other devices.
fn is_disk(name: &str) -> bool {
    let block = Path::new("/sys/block").join(name);
    block.join("device").exists()
}

/// The counters of all packages; they are readable by root only on most machines.
fn energy() -> Vec<Energy> {
    let Ok(entries) = fs::read_dir(POWERCAP) else {
        return Vec::new();
    };
    let number = |path: &Path| {
        fs::read_to_string(path)
            .ok()
            .and_then(|text| text.trim().parse().ok())
    };
    entries
        .flatten()
        .filter(|entry| {
            // `intel-rapl:0` is a package, `intel-rapl:0:1` a part of one.
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("intel-rapl:") && name.matches(':').count() == 1
        })
        .filter_map(|entry| {
            Some(Energy {
                package: entry.file_name().to_string_lossy().into_owned(),
                microjoules: number(&entry.path().join("energy_uj"))?,
                range: number(&entry.path().join("max_energy_range_uj"))?,
            })
        })
        .collect()
}
