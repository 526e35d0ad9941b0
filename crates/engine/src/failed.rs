//! Remembers which entries have failed, so that each is counted once, however many reports arrive from either end.
//! Keeps no reasons.

use godwit_proto::EntryId;

use crate::limits;
use crate::seqs::SeqSet;

/// Entries that have failed. Consecutive numbers take almost no memory. Beyond the bound, entries are not remembered,
/// and count at each report.
#[derive(Debug, Default)]
pub(crate) struct Failed {
    ids: SeqSet,
}

impl Failed {
    /// Whether the entry is known to have failed.
    pub(crate) fn contains(&self, id: EntryId) -> bool {
        self.ids.contains(id.0)
    }

    /// Whether this is the first report of the entry's failure.
    pub(crate) fn is_first(&mut self, id: EntryId) -> bool {
        if self.ids.contains(id.0) {
            return false;
        }
        if self.ids.range_count() < limits::FAILED_RANGES_MAX {
            self.ids.insert(id.0);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_counts_once_and_beyond_the_bound_none_is_lost() {
        let mut failed = Failed::default();
        let neighbours = (1..=1_000_000).filter(|id| failed.is_first(EntryId(*id)));
        assert_eq!(neighbours.count(), 1_000_000);
        assert!(!failed.is_first(EntryId(500_000)));
        let most = limits::FAILED_RANGES_MAX as u64;
        let scattered = (0..2 * most).filter(|id| failed.is_first(EntryId(2_000_000 + 2 * id)));
        assert_eq!(scattered.count() as u64, 2 * most);
        assert_eq!(failed.ids.range_count(), limits::FAILED_RANGES_MAX);
    }
}
