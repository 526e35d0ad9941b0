//! The end that a sender foretells, so that its receiver can finish without being asked, and what makes that void.
//! Finishes nothing itself.
//!
//! A sender that has sent all foretells the end in STATUS. The receiver then waits for no batch to fill, and finishes by itself
//! as soon as all items are DURABLE, so the last block costs one round trip to its FINISHED. Any loss makes the foretelling void,
//! and the sender asks with FINISH. FINISHED ends a sender only if the sender knows that all items are DURABLE.

use godwit_proto::Seq;

use super::{Acks, Inner};
use crate::seqs::SeqSet;

/// What the sender said of the end, before it came: what it has sent is all, unless something of it is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    /// Number of the last item.
    pub(crate) last: u64,
    pub(crate) entries_failed: u64,
    pub(crate) scan_faults: u64,
    /// All of it is written, and the sink was told.
    pub(crate) hurried: bool,
}

/// How near a foretold end is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Nearness {
    /// None is foretold, or something is still to come.
    Far,
    /// All is written, which is told once: nothing is gained by waiting for more.
    Written,
    /// All is durable, which is told once.
    Durable(Ending),
}

impl Acks {
    /// The sender foretells the end.
    pub(crate) fn foretell(&self, ending: Ending) {
        crate::lock(&self.inner).ending = Some(ending);
    }

    /// How near the end is that was foretold. Once it is reached nothing is foretold any more.
    pub(crate) fn nearness(&self) -> Nearness {
        let mut inner = crate::lock(&self.inner);
        let Some(ending) = &inner.ending else {
            return Nearness::Far;
        };
        // What is durable may still be at the hands of the thread that wrote it, which has yet to tell of what failed.
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
    /// More comes than was foretold.
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
    fn a_foretold_end_comes_when_all_is_durable_and_not_before() {
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
        assert_eq!(acks.nearness(), Nearness::Far, "told once");
        acks.durable(&[Seq(2)]);
        assert_eq!(acks.nearness(), Nearness::Far);
        acks.durable(&[Seq(3)]);
        assert!(matches!(acks.nearness(), Nearness::Durable(_)));
        assert_eq!(acks.nearness(), Nearness::Far, "told once");
    }

    #[test]
    fn a_foretold_end_waits_for_the_thread_that_has_yet_to_tell_what_failed() {
        let acks = acks();
        acks.foretell(ending(1));
        assert_eq!(acks.arrive(Seq(1)), Arrival::Process);
        acks.durable(&[Seq(1)]);
        assert_eq!(acks.nearness(), Nearness::Far);
        acks.written(Seq(1));
        assert!(matches!(acks.nearness(), Nearness::Durable(_)));
    }

    #[test]
    fn what_is_lost_or_comes_after_all_makes_a_foretold_end_void() {
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
