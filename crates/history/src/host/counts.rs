//! Reads the kernel's counters, and makes figures of two looks. Pure.
//! Opens no file.

use std::collections::BTreeMap;
use std::time::Duration;

use godwit_api::energy::UNREAD_FIGURE;

use super::totals::{Interface, Tcp};

/// A sector of `/proc/diskstats`, whatever the disk's own are.
const SECTOR_BYTES: u64 = 512;

/// Cores that have a figure of their own: a sample of a large machine stays below 2 KiB.
const CORES_MAX: usize = 32;

/// Interfaces that have figures of their own, so that a host has no more figures than another node takes.
const INTERFACES_MAX: usize = 4;

const LOOPBACK: &str = "lo";

/// One count of an interface.
type InterfaceCount = fn(&Interface) -> u64;

/// Figures of all interfaces together.
const NETWORK: [(&str, InterfaceCount); 4] = [
    ("network_received_bytes_per_second", |one| {
        one.received_bytes
    }),
    ("network_sent_bytes_per_second", |one| one.sent_bytes),
    ("network_received_packets_per_second", |one| {
        one.received_packets
    }),
    ("network_sent_packets_per_second", |one| one.sent_packets),
];

/// The other figures of a whole host.
const WHOLE: [&str; 16] = [
    "cpu_user",
    "cpu_system",
    "cpu_iowait",
    "cpu_interrupts",
    "cpu_steal",
    "cpu_busiest_core",
    "context_switches_per_second",
    "interrupts_per_second",
    "softirqs_per_second",
    "segments_resent_per_second",
    "sack_recoveries_per_second",
    "memory_available_bytes",
    "disk_read_bytes_per_second",
    "disk_written_bytes_per_second",
    "package_watts",
    UNREAD_FIGURE,
];

/// Whether a figure from another site belongs to a whole host or to a numbered interface. Other names are chosen by the site.
#[must_use]
pub fn is_host_figure(name: &str) -> bool {
    let is_of_interface = || {
        let rest = name.strip_prefix("interface_")?;
        let (number, way) = rest.split_once('_')?;
        let is_number = number.len() <= 3 && number.bytes().all(|digit| digit.is_ascii_digit());
        let ways = ["received_bytes_per_second", "sent_bytes_per_second"];
        Some(is_number && ways.contains(&way))
    };
    WHOLE.contains(&name)
        || NETWORK.iter().any(|(own, _)| *own == name)
        || is_of_interface().unwrap_or(false)
}

/// Everything that was counted up to one look.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) stat: Stat,
    pub(super) memory_available: Option<u64>,
    pub(super) disks: Option<(u64, u64)>,
    pub(super) network: Vec<Interface>,
    pub(super) tcp: Tcp,
    pub(super) energy: Vec<Energy>,
    /// Packages whose energy may not be read.
    pub(super) energy_unread: u64,
}

/// The contents of `/proc/stat`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stat {
    /// Ticks of all cores together.
    all: Ticks,
    /// Ticks of each core.
    pub(super) cores: Vec<Ticks>,
    pub(super) context_switches: Option<u64>,
    pub(super) interrupts: Option<u64>,
    pub(super) softirqs: Option<u64>,
}

/// Ticks of a processor by kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ticks {
    pub(super) user: u64,
    pub(super) system: u64,
    pub(super) idle: u64,
    pub(super) iowait: u64,
    pub(super) interrupts: u64,
    pub(super) steal: u64,
}

/// The energy of one processor package.
#[derive(Clone, Debug, PartialEq)]
pub struct Energy {
    /// Name of the package, as the kernel numbers it.
    pub package: String,
    /// The counter of the package.
    pub microjoules: u64,
    /// The value at which the counter wraps.
    pub range: u64,
}

impl Energy {
    /// Microjoules since an earlier value of the same counter, which has wrapped once at most.
    #[must_use]
    pub fn since(&self, before: u64) -> u64 {
        match self.microjoules.checked_sub(before) {
            Some(used) => used,
            None => self.range.saturating_sub(before) + self.microjoules,
        }
    }
}

impl Ticks {
    fn read(fields: &[u64]) -> Self {
        let field = |index: usize| fields.get(index).copied().unwrap_or(0);
        Self {
            user: field(0) + field(1),
            system: field(2),
            idle: field(3),
            iowait: field(4),
            interrupts: field(5) + field(6),
            steal: field(7),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            idle: self.idle.saturating_sub(before.idle),
            iowait: self.iowait.saturating_sub(before.iowait),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            steal: self.steal.saturating_sub(before.steal),
        }
    }

    fn sum(self) -> u64 {
        self.user + self.system + self.idle + self.iowait + self.interrupts + self.steal
    }

    /// The part of the time in which the processor worked; None if no tick passed.
    fn busy(self) -> Option<f64> {
        part(
            self.user + self.system + self.interrupts + self.steal,
            self.sum(),
        )
    }
}

fn part(of: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| float(of) / float(all))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "figures for people and plots need no more than 53 bits"
)]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}

/// Reads `/proc/stat` (proc(5)).
pub(super) fn stat(text: &str) -> Stat {
    let mut stat = Stat::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(name) = words.next() else {
            continue;
        };
        let fields: Vec<u64> = words.take(10).map_while(|word| word.parse().ok()).collect();
        let first = fields.first().copied();
        match name {
            "cpu" => stat.all = Ticks::read(&fields),
            "ctxt" => stat.context_switches = first,
            "intr" => stat.interrupts = first,
            "softirq" => stat.softirqs = first,
            core if core.starts_with("cpu") => stat.cores.push(Ticks::read(&fields)),
            _ => {}
        }
    }
    stat
}

/// Reads the memory that can be had without swapping from `/proc/meminfo`, in bytes.
pub(super) fn memory_available(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1_024)
}

/// Sums the bytes read and written over the disks of `/proc/diskstats`.
pub(super) fn disks(text: &str, is_disk: &dyn Fn(&str) -> bool) -> Option<(u64, u64)> {
    let mut sums = None;
    for line in text.lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, _, name, _, _, read, _, _, _, written, ..] = fields[..] else {
            continue;
        };
        let (Ok(read), Ok(written)) = (read.parse::<u64>(), written.parse::<u64>()) else {
            continue;
        };
        if is_disk(name) {
            let (reads, writes) = sums.unwrap_or((0, 0));
            sums = Some((
                reads + read.saturating_mul(SECTOR_BYTES),
                writes + written.saturating_mul(SECTOR_BYTES),
            ));
        }
    }
    sums
}

/// The sum over all interfaces but the loopback; None without any.
fn network(interfaces: &[Interface], of: InterfaceCount) -> Option<u64> {
    let own = interfaces.iter().filter(|one| one.name != LOOPBACK);
    own.map(of).reduce(u64::saturating_add)
}

/// The interfaces that carried most since they came up, and their names in figures.
fn carrying_most(interfaces: &[Interface]) -> impl Iterator<Item = (String, &Interface)> {
    let own = interfaces.iter().filter(|one| one.name != LOOPBACK);
    let mut own: Vec<&Interface> = own.collect();
    own.sort_by_key(|one| std::cmp::Reverse(one.received_bytes.saturating_add(one.sent_bytes)));
    own.into_iter().take(INTERFACES_MAX).map(|one| {
        let fits = |sign: char| {
            if sign.is_ascii_alphanumeric() {
                sign
            } else {
                '-'
            }
        };
        (one.name.chars().map(fits).collect(), one)
    })
}

impl Counts {
    /// The figures of the time since an earlier look.
    pub(super) fn since(&self, before: &Self, time: Duration) -> BTreeMap<String, f64> {
        let mut figures = BTreeMap::new();
        let mut put = |name: &str, figure: Option<f64>| {
            if let Some(figure) = figure.filter(|figure| figure.is_finite()) {
                figures.insert(name.to_owned(), figure);
            }
        };
        let seconds = time.as_secs_f64();
        let rate = |now: Option<u64>, then: Option<u64>| {
            let counted = now?.checked_sub(then?)?;
            (seconds > 0.0).then(|| float(counted) / seconds)
        };
        let all = self.stat.all.since(before.stat.all);
        let sum = all.sum();
        put("cpu_user", part(all.user, sum));
        put("cpu_system", part(all.system, sum));
        put("cpu_iowait", part(all.iowait, sum));
        put("cpu_interrupts", part(all.interrupts, sum));
        put("cpu_steal", part(all.steal, sum));
        let cores = self.stat.cores.iter().zip(&before.stat.cores);
        let busiest = cores
            .filter_map(|(now, then)| now.since(*then).busy())
            .max_by(f64::total_cmp);
        put("cpu_busiest_core", busiest);
        let cores = self.stat.cores.iter().zip(&before.stat.cores);
        for (core, (now, then)) in cores.enumerate().take(CORES_MAX) {
            put(&format!("cpu_core_{core}"), now.since(*then).busy());
        }
        let (now, then) = (&self.stat, &before.stat);
        put(
            "context_switches_per_second",
            rate(now.context_switches, then.context_switches),
        );
        put(
            "interrupts_per_second",
            rate(now.interrupts, then.interrupts),
        );
        put("softirqs_per_second", rate(now.softirqs, then.softirqs));
        put("memory_available_bytes", self.memory_available.map(float));
        let (now, then) = (self.disks.unzip(), before.disks.unzip());
        put("disk_read_bytes_per_second", rate(now.0, then.0));
        put("disk_written_bytes_per_second", rate(now.1, then.1));
        let (now, then) = (self.tcp, before.tcp);
        put(
            "segments_resent_per_second",
            rate(now.segments_resent, then.segments_resent),
        );
        put(
            "sack_recoveries_per_second",
            rate(now.sack_recoveries, then.sack_recoveries),
        );
        for (name, of) in NETWORK {
            let (now, then) = (network(&self.network, of), network(&before.network, of));
            put(name, rate(now, then));
        }
        for (name, now) in carrying_most(&self.network) {
            let Some(then) = before.network.iter().find(|then| then.name == now.name) else {
                continue;
            };
            for (way, now, then) in [
                ("received", now.received_bytes, then.received_bytes),
                ("sent", now.sent_bytes, then.sent_bytes),
            ] {
                let name = format!("interface_{name}_{way}_bytes_per_second");
                put(&name, rate(Some(now), Some(then)));
            }
        }
        let joules = joules(&before.energy, &self.energy);
        put(
            "package_watts",
            joules
                .filter(|_| seconds > 0.0)
                .map(|joules| joules / seconds),
        );
        let unread = Some(self.energy_unread).filter(|unread| *unread > 0);
        put(UNREAD_FIGURE, unread.map(float));
        figures
    }
}

/// The energy that all packages used; `None` if no package counts.
fn joules(before: &[Energy], now: &[Energy]) -> Option<f64> {
    let mut sum = None;
    for now in now {
        let Some(then) = before.iter().find(|then| then.package == now.package) else {
            continue;
        };
        let used = float(now.since(then.microjoules));
        sum = Some(sum.unwrap_or(0.0) + used / 1e6);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::totals::interfaces;
    use super::*;

    const STAT: &str = "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 100 0 50 0 50 0 0 0 0 0\ncpu1 0 0 0 800 0 0 0 0 0 0\n\
                        intr 1000 3 4\nctxt 5000\nbtime 1\nsoftirq 700 1 2\n";
    const LATER: &str = "cpu  160 0 70 900 70 0 0 0 0 0\ncpu0 160 0 70 0 70 0 0 0 0 0\ncpu1 0 0 0 900 0 0 0 0 0 0\n\
                         intr 3000 3 4\nctxt 5500\nbtime 1\nsoftirq 900 1 2\n";

    #[test]
    fn figures_are_those_of_the_time_between_two_looks() {
        let energy = |microjoules| {
            vec![Energy {
                package: "intel-rapl:0".to_owned(),
                microjoules,
                range: 10_000_000,
            }]
        };
        let troubles = |resent, recoveries| Tcp {
            segments_resent: Some(resent),
            sack_recoveries: Some(recoveries),
        };
        let before = Counts {
            stat: stat(STAT),
            network: interfaces(
                "Inter-|\n face |\n lo: 9 0 0 0 0 0 0 0 9 0\n eth0.5: 1000 1 0 0 0 0 0 0 2000 1\n",
            ),
            energy: energy(9_000_000),
            tcp: troubles(5, 1),
            ..Counts::default()
        };
        let after = Counts {
            stat: stat(LATER),
            network: interfaces("eth0.5: 5000 7 0 0 0 0 0 0 2000 1\n"),
            memory_available: memory_available("MemTotal: 9 kB\nMemAvailable:  2 kB\n"),
            energy: energy(3_000_000),
            energy_unread: 1,
            tcp: troubles(25, 2),
            ..Counts::default()
        };
        let figures = after.since(&before, Duration::from_secs(2));
        for name in figures.keys().filter(|name| !name.starts_with("cpu_core_")) {
            assert!(is_host_figure(&name.replace("eth0-5", "1")), "{name}");
        }
        for chosen in [
            "secret",
            "interface_dtn1_sent_bytes_per_second",
            "cpu_core_1",
        ] {
            assert!(!is_host_figure(chosen), "{chosen}");
        }
        let expected = [
            ("context_switches_per_second", 250.0),
            ("cpu_busiest_core", 0.8),
            ("cpu_core_0", 0.8),
            ("cpu_core_1", 0.0),
            ("cpu_interrupts", 0.0),
            ("cpu_iowait", 0.1),
            ("cpu_steal", 0.0),
            ("cpu_system", 0.1),
            ("cpu_user", 0.3),
            ("interface_eth0-5_received_bytes_per_second", 2_000.0),
            ("interface_eth0-5_sent_bytes_per_second", 0.0),
            ("interrupts_per_second", 1_000.0),
            ("memory_available_bytes", 2_048.0),
            ("network_received_bytes_per_second", 2_000.0),
            ("network_received_packets_per_second", 3.0),
            ("network_sent_bytes_per_second", 0.0),
            ("network_sent_packets_per_second", 0.0),
            ("package_counters_unread", 1.0),
            ("package_watts", 2.0),
            ("sack_recoveries_per_second", 0.5),
            ("segments_resent_per_second", 10.0),
            ("softirqs_per_second", 100.0),
        ];
        let found: Vec<(&str, f64)> = figures
            .iter()
            .map(|(name, figure)| (name.as_str(), *figure))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn disks_count_and_their_partitions_do_not() {
        let text = "   8  0 sda 10 0 100 0 5 0 40 0 0 0 0\n   8  1 sda1 10 0 100 0 5 0 40 0 0 0 0\n garbage\n";
        let sums = disks(text, &|name| name == "sda");
        assert_eq!(sums, Some((51_200, 20_480)));
        assert_eq!(disks("", &|_| true), None);
    }

    #[test]
    fn nothing_counted_is_no_figure() {
        let figures = Counts::default().since(&Counts::default(), Duration::ZERO);
        assert!(figures.is_empty(), "{figures:?}");
    }
}
