//! Owns the words about energy counters of a machine that a node may not read.
//! Reads no counter: `history` does.

/// The figure of a host that counts the processor packages whose energy the node may not read.
pub const UNREAD_FIGURE: &str = "package_counters_unread";

/// The remedy, for root at each boot.
pub const REMEDY: &str = "chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj";

/// The reason why a host reports no energy, and the remedy. The page has these words by a generated table.
pub const UNREAD: &str = "no energy of {host}, because the node there may not read the counters; allow that as root, at each boot: {remedy}";

/// The reason for this host.
#[must_use]
pub fn unread(host: &str) -> String {
    UNREAD.replace("{remedy}", REMEDY).replace("{host}", host)
}
