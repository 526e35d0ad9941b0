//! Handles the end that a sender announces in advance, so that its receiver finishes without FINISH; and the events
//! that cancel the announcement. Finishes nothing itself.
//!
//! A sender that has sent all items announces the end in STATUS. The receiver then commits without waiting for a full
//! batch, and finishes as soon as all items are DURABLE. Therefore FINISHED arrives one round trip after the last
//! block. Any loss cancels the announcement, and the sender asks with FINISH. FINISHED ends the sender only once the
//! sender knows that all items are DURABLE.

use godwit_proto::Seq;

use super::{Acks, Inner};
use crate::seqs::SeqSet;

/// The announced end: no item follows the items sent so far, unless one of them is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    /// Number of the last item.
    pub(crate) last: u64,
    pub(crate) entries_failed: u64,
    pub(crate) scan_faults: u64,
    /// Whether all items are written and the sink was asked to hurry.
    pub(crate) hurried: bool,
}

/// How near an announced end is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Nearness {
    /// No end is announced, or an item is missing.
    Far,
    /// All items are written, so waiting for more has no use. Returned once.
    Written,
    /// All items are durable. Returned once.
    Durable(Ending),
}

impl Acks {
    /// Records that the sender announced the end.
    pub(crate) fn foretell(&self, ending: Ending) {
        crate::lock(&self.inner).ending = Some(ending);
    }

    /// How near the announced end is. Once it is reached, the announcement is removed.
    pub(crate) fn nearness(&self) -> Nearness {
        let mut inner = crate::lock(&self.inner);
        let Some(ending) = &inner.ending else {
            return Nearness::Far;
        };
        // A durable item may still be with the thread that wrote it, which has not yet reported failures.
        if inner.in_process.range_count() > 0 {
            return Nearness::Far;
        }
        if inner.durable.reaches(ending.last, &SeqSet::default()) {
            return inner.ending.take().map_or(Nearness::Far, Nearness::Durable);
        }
        if !ending.hurried && inner.durable.reaches(ending.last, &inner.written) {
            if let Some(ending) = &mut inner.ending {
                ending.hurried = true;
            }
            return Nearness::Written;
        }
        Nearness::Far
    }
}

impl Inner {
    /// Cancels the announced end if this item follows it.
    pub(super) fn outdate(&mut self, seq: Seq) {
        if self
            .ending
            .as_ref()
            .is_some_and(|ending| seq.0 > ending.last)
        {
            self.ending = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Arrival;
    use super::super::tests::acks;
    use super::*;

    fn ending(last: u64) -> Ending {
        Ending {
            last,
            entries_failed: 0,
            scan_faults: 0,
            hurried: false,
        }
    }

    #[test]
    fn an_announced_end_comes_when_all_is_durable_and_not_before() {
        let acks = acks();
        acks.foretell(ending(3));
        assert_eq!(acks.arrive_manifest(Seq(1)), Arrival::Process);
        for seq in [3, 2] {
            assert_eq!(acks.nearness(), Nearness::Far);
            assert_eq!(acks.arrive(Seq(seq)), Arrival::Process);
            assert_eq!(acks.nearness(), Nearness::Far);
            acks.written(Seq(seq));
        }
        assert_eq!(acks.nearness(), Nearness::Written);
        assert_eq!(acks.nearness(), Nearness::Far, "returned once");
        acks.durable(&[Seq(2)]);
        assert_eq!(acks.nearness(), Nearness::Far);
        acks.durable(&[Seq(3)]);
        assert!(matches!(acks.nearness(), Nearness::Durable(_)));
        assert_eq!(acks.nearness(), Nearness::Far, "returned once");
    }

    #[test]
    fn an_announced_end_waits_for_the_thread_that_has_yet_to_report_failures() {
        let acks = acks();
        acks.foretell(ending(1));
        assert_eq!(acks.arrive(Seq(1)), Arrival::Process);
        acks.durable(&[Seq(1)]);
        assert_eq!(acks.nearness(), Nearness::Far);
        acks.written(Seq(1));
        assert!(matches!(acks.nearness(), Nearness::Durable(_)));
    }

    #[test]
    fn an_announced_end_is_void_when_items_are_lost_or_added() {
        let spoil: [fn(&Acks); 5] = [
            |acks| acks.resend(&[Seq(1)]),
            |acks| acks.rejected(Seq(1)),
            |acks| acks.detach(7),
            |acks| assert_eq!(acks.arrive(Seq(2)), Arrival::Process),
            |acks| assert_eq!(acks.arrive_manifest(Seq(2)), Arrival::Process),
        ];
        for spoil in spoil {
            let acks = acks();
            assert_eq!(acks.arrive(Seq(1)), Arrival::Process);
            acks.foretell(ending(1));
            spoil(&acks);
            acks.arrive(Seq(1));
            acks.written(Seq(1));
            acks.durable(&[Seq(1)]);
            assert_eq!(acks.nearness(), Nearness::Far);
        }
    }
}
