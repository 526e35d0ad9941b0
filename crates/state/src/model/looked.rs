//! Owns the reports of nodes about a divided job besides settlements: entries found, entries finished, and the use of the machines.
//! Does not add them to the counts (`apply::work`).

use serde::{Deserialize, Serialize};

/// Entries that a node found, and how many of them are finished.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Looked {
    /// Files that scans found.
    pub found_files: u64,
    /// Bytes of these files.
    pub found_bytes: u64,
    /// Files that were delivered, or existed before.
    pub done_files: u64,
    /// Bytes that were delivered, or existed before.
    pub done_bytes: u64,
    /// Bytes that were sent more than once.
    pub again: u64,
    /// Names of files with several names that scans found. The closing item handles these names.
    #[serde(skip_serializing_if = "is_zero")]
    pub names: u64,
    /// Processor time and memory of the transfers. Programs of a level below [`LEVEL_USAGE`](super::LEVEL_USAGE) do not know this field.
    #[serde(skip_serializing_if = "Usage::is_none")]
    pub usage: Usage,
}

/// Figures of the processes at both ends of transfers.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// The sending nodes.
    pub source: EndUsage,
    /// The receiving nodes.
    pub destination: EndUsage,
}

/// Figures of the processes at one end; 0 is unknown.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct EndUsage {
    /// Microseconds of processor time of all transfers.
    pub cpu_us: u64,
    /// The largest resident memory of a process that had no other transfer.
    pub rss_bytes: u64,
}

impl Usage {
    /// Whether no figure is known.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The figures of both: the processor times add up, and the larger memory counts.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            source: self.source.plus(other.source),
            destination: self.destination.plus(other.destination),
        }
    }
}

impl EndUsage {
    const fn plus(self, other: Self) -> Self {
        Self {
            cpu_us: self.cpu_us.saturating_add(other.cpu_us),
            rss_bytes: match self.rss_bytes < other.rss_bytes {
                true => other.rss_bytes,
                false => self.rss_bytes,
            },
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(super) const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Looked {
    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            found_files: self.found_files.saturating_add(other.found_files),
            found_bytes: self.found_bytes.saturating_add(other.found_bytes),
            done_files: self.done_files.saturating_add(other.done_files),
            done_bytes: self.done_bytes.saturating_add(other.done_bytes),
            again: self.again.saturating_add(other.again),
            names: self.names.saturating_add(other.names),
            usage: self.usage.plus(other.usage),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_times_add_up_and_the_largest_memory_counts() {
        let of = |cpu_us, rss_bytes| Usage {
            source: EndUsage {
                cpu_us,
                rss_bytes: 0,
            },
            destination: EndUsage {
                cpu_us: 1,
                rss_bytes,
            },
        };
        let sum = of(5, 70).plus(of(6, 40)).plus(Usage::default());
        assert_eq!((sum.source.cpu_us, sum.source.rss_bytes), (11, 0));
        assert_eq!((sum.destination.cpu_us, sum.destination.rss_bytes), (2, 70));
        let most = of(u64::MAX, 1).plus(of(1, 1));
        assert_eq!(most.source.cpu_us, u64::MAX);
    }

    #[test]
    fn a_report_without_figures_is_that_of_an_older_program() {
        let text = serde_json::to_string(&Looked::default()).expect("text");
        assert!(!text.contains("usage"), "{text}");
        let known = Looked {
            usage: Usage {
                source: EndUsage {
                    cpu_us: 7,
                    rss_bytes: 0,
                },
                ..Usage::default()
            },
            ..Looked::default()
        };
        let text = serde_json::to_string(&known).expect("text");
        assert_eq!(serde_json::from_str::<Looked>(&text).expect("read"), known);
    }
}
