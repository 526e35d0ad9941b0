//! Owns the counts of the kernel since the machine started, core by core and interface by interface.
//! Makes no rates: the reader of the figures does.

use std::fs;
use std::path::Path;

use super::counts::{self, Energy, Ticks};

/// Ticks of `/proc/stat` in a second: fixed in the interface of the kernel to programs (`USER_HZ`).
const TICKS_A_SECOND: f64 = 100.0;

/// Modes of a core, as the figures name them.
const MODES: [&str; 6] = ["user", "system", "idle", "iowait", "interrupts", "steal"];

/// Counts of one network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's name of the interface.
    pub name: String,
    /// Counted since the interface came up.
    pub received_bytes: u64,
    /// Counted since the interface came up.
    pub received_packets: u64,
    /// Counted since the interface came up.
    pub sent_bytes: u64,
    /// Counted since the interface came up.
    pub sent_packets: u64,
}

/// Counts of TCP in the network namespace of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Segments that were sent again.
    pub segments_resent: Option<u64>,
    /// Times that selective acknowledgements showed a loss and began its repair.
    pub sack_recoveries: Option<u64>,
}

/// Counts of the kernel. A figure that the machine does not have is left out.
#[derive(Clone, Debug, Default)]
pub struct HostTotals {
    /// Seconds of each core by kind of work.
    pub cores: Vec<[(&'static str, f64); 6]>,
    /// Context switches of all cores.
    pub context_switches: Option<u64>,
    /// Interrupts of all cores.
    pub interrupts: Option<u64>,
    /// Softirqs of all cores.
    pub softirqs: Option<u64>,
    /// Bytes that can be had without swapping.
    pub memory_available: Option<u64>,
    /// Bytes that all disks have read and written.
    pub disks: Option<(u64, u64)>,
    /// The loopback is one of them.
    pub interfaces: Vec<Interface>,
    /// Troubles of TCP on all interfaces.
    pub tcp: Tcp,
    /// The processor packages whose energy the process may read.
    pub energy: Vec<Energy>,
}

/// Reads the counts.
#[must_use]
pub fn host_totals() -> HostTotals {
    // An unreadable file counts as empty.
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let stat = counts::stat(&read("/proc/stat"));
    HostTotals {
        cores: stat.cores.iter().map(seconds).collect(),
        context_switches: stat.context_switches,
        interrupts: stat.interrupts,
        softirqs: stat.softirqs,
        memory_available: counts::memory_available(&read("/proc/meminfo")),
        disks: counts::disks(&read("/proc/diskstats"), &|name| super::is_disk(name)),
        interfaces: interfaces(&read("/proc/net/dev")),
        tcp: tcp(&read("/proc/net/snmp"), &read("/proc/net/netstat")),
        energy: super::energy(Path::new(super::POWERCAP)).0,
    }
}

fn seconds(ticks: &Ticks) -> [(&'static str, f64); 6] {
    let counted = [
        ticks.user,
        ticks.system,
        ticks.idle,
        ticks.iowait,
        ticks.interrupts,
        ticks.steal,
    ];
    let mut all = MODES.map(|mode| (mode, 0.0));
    for ((_, seconds), counted) in all.iter_mut().zip(counted) {
        *seconds = counts::float(counted) / TICKS_A_SECOND;
    }
    all
}

/// Reads `/proc/net/dev` (proc(5)).
pub(super) fn interfaces(text: &str) -> Vec<Interface> {
    let read = |line: &str| {
        let (name, counted) = line.split_once(':')?;
        let fields: Vec<u64> = counted
            .split_ascii_whitespace()
            .map_while(|word| word.parse().ok())
            .collect();
        let [
            received_bytes,
            received_packets,
            _,
            _,
            _,
            _,
            _,
            _,
            sent_bytes,
            sent_packets,
            ..,
        ] = fields[..]
        else {
            return None;
        };
        Some(Interface {
            name: name.trim().to_owned(),
            received_bytes,
            received_packets,
            sent_bytes,
            sent_packets,
        })
    };
    text.lines().filter_map(read).collect()
}

/// Reads `/proc/net/snmp` and `/proc/net/netstat` (proc(5)): for each group a line of names, and a line of counts.
pub(super) fn tcp(snmp: &str, netstat: &str) -> Tcp {
    let find = |text: &str, group: &str, wanted: &str| -> Option<u64> {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(group));
        let mut names = lines.next()?.split_ascii_whitespace();
        let place = names.position(|name| name == wanted)?;
        let mut counts = lines.next()?.split_ascii_whitespace();
        counts.nth(place)?.parse().ok()
    };
    Tcp {
        segments_resent: find(snmp, "Tcp:", "RetransSegs"),
        sack_recoveries: find(netstat, "TcpExt:", "TCPSackRecovery"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interface_counts() {
        let text = "Inter-| Receive\n face |bytes\n    lo: 9 1 0 0 0 0 0 0 18 2 0 0\n  eth0: 1000 10 0 0 0 0 0 0 2000 20 0 0\n";
        let interface = |name: &str, bytes: u64, packets: u64| Interface {
            name: name.to_owned(),
            received_bytes: bytes,
            received_packets: packets,
            sent_bytes: 2 * bytes,
            sent_packets: 2 * packets,
        };
        let expected = [interface("lo", 9, 1), interface("eth0", 1_000, 10)];
        assert_eq!(interfaces(text), expected);
        assert_eq!(interfaces("nothing: here"), []);
    }

    #[test]
    fn troubles_of_tcp_are_found_by_their_names() {
        let snmp =
            "Ip: Forwarding InHdrErrors\nIp: 1 9\nTcp: MaxConn RetransSegs InErrs\nTcp: -1 12 3\n";
        let netstat =
            "TcpExt: SyncookiesSent TCPSackRecovery\nTcpExt: 4 5\nIpExt: InNoRoutes\nIpExt: 6\n";
        let expected = Tcp {
            segments_resent: Some(12),
            sack_recoveries: Some(5),
        };
        assert_eq!(tcp(snmp, netstat), expected);
        assert_eq!(
            tcp("Tcp: RetransSegs\n", "TcpExt: Other\nTcpExt: 1\n"),
            Tcp::default()
        );
    }

    #[test]
    fn a_core_says_what_it_did() {
        let stat = counts::stat("cpu0 100 50 50 800 50 3 4 7 0 0\n");
        let found: Vec<_> = stat.cores.iter().map(seconds).collect();
        let expected = [
            ("user", 1.5),
            ("system", 0.5),
            ("idle", 8.0),
            ("iowait", 0.5),
            ("interrupts", 0.07),
            ("steal", 0.07),
        ];
        assert_eq!(found, [expected]);
    }
}
