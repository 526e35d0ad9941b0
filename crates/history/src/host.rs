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

use counts::Counts;
pub use counts::{Energy, is_host_figure};
pub use totals::{HostTotals, Interface, Tcp, host_totals};

/// Where RAPL counts energy (Linux powercap); one directory for each package.
const POWERCAP: &str = "/sys/class/powercap";

/// Returns figures between two looks.
pub struct Host {
    last: Option<(Instant, Counts)>,
}

impl Host {
    /// Starts the measurement. The first look returns only figures that need no earlier look.
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
    let (energy, energy_unread) = energy(Path::new(POWERCAP));
    Counts {
        stat: counts::stat(&read("/proc/stat")),
        memory_available: counts::memory_available(&read("/proc/meminfo")),
        disks: counts::disks(&read("/proc/diskstats"), &|name| is_disk(name)),
        network: totals::interfaces(&read("/proc/net/dev")),
        tcp: totals::tcp(&read("/proc/net/snmp"), &read("/proc/net/netstat")),
        energy,
        energy_unread,
    }
}

/// Whether the block device is hardware: neither a partition nor built on other devices.
fn is_disk(name: &str) -> bool {
    let block = Path::new("/sys/block").join(name);
    block.join("device").exists()
}

/// The counters of all packages, and the number of packages whose counter cannot be read: most machines let only root read them.
fn energy(base: &Path) -> (Vec<Energy>, u64) {
    let Ok(entries) = fs::read_dir(base) else {
        return (Vec::new(), 0);
    };
    let mut unread = 0;
    let number = |path: &Path| {
        fs::read_to_string(path)
            .ok()
            .and_then(|text| text.trim().parse().ok())
    };
    let read = entries
        .flatten()
        .filter(|entry| {
            // `intel-rapl:0` is a package, `intel-rapl:0:1` a part of one.
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("intel-rapl:") && name.matches(':').count() == 1
        })
        .filter_map(|entry| {
            let counter = entry.path().join("energy_uj");
            let microjoules = number(&counter);
            unread += u64::from(microjoules.is_none() && counter.exists());
            Some(Energy {
                package: entry.file_name().to_string_lossy().into_owned(),
                microjoules: microjoules?,
                range: number(&entry.path().join("max_energy_range_uj"))?,
            })
        })
        .collect();
    (read, unread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_cannot_be_read_is_counted_apart() {
        let base = tempfile::tempdir().expect("a directory");
        let package = |name: &str| {
            let package = base.path().join(name);
            fs::create_dir(&package).expect("made");
            fs::write(package.join("max_energy_range_uj"), "9").expect("written");
            package.join("energy_uj")
        };
        fs::write(package("intel-rapl:0"), "7\n").expect("written");
        // No user may read a directory as a file, not even root.
        fs::create_dir(package("intel-rapl:1")).expect("made");
        fs::write(package("intel-rapl:1:0"), "a part of a package").expect("written");
        let (read, unread) = energy(base.path());
        let read: Vec<u64> = read.iter().map(|one| one.microjoules).collect();
        assert_eq!((read.as_slice(), unread), (&[7][..], 1));
        assert_eq!(energy(&base.path().join("none")), (Vec::new(), 0));
    }
}
