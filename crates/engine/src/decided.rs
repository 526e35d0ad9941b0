//! Keeps this end's tuning decisions for the other end to show, and reports the other end's decisions here.
//! Decides nothing itself (`tuner`).

use std::collections::VecDeque;
use std::sync::Mutex;

use godwit_proto::Tuned;
use godwit_proto::limits::TUNED_MAX;

use crate::tuner::{Decision, Knob};
use crate::{Observer, lock};

/// The decisions of both ends of a transfer; each is reported once.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    own: Mutex<Own>,
    /// Number of the other end's latest decision that was reported.
    reported: Mutex<u64>,
}

#[derive(Debug, Default)]
struct Own {
    count: u64,
    /// The latest decisions, at most [`TUNED_MAX`].
    latest: VecDeque<Tuned>,
}

/// Highest accepted number. A correct end decides at most once a second, and less and less often.
const NUMBER_MAX: u64 = 10_000;

impl Decided {
    /// Reports a decision of this end here, and to the other end with the next STATUS.
    pub(crate) fn decide(&self, decision: &Decision, observer: &dyn Observer) {
        observer.tuned(decision, None);
        let what = match decision.knob {
            Knob::Readers => Tuned::READERS,
            Knob::Writers => Tuned::WRITERS,
            // The client decides the number of streams, and reports this decision itself.
            Knob::Streams => return,
        };
        let mut own = lock(&self.own);
        own.count += 1;
        if own.latest.len() == TUNED_MAX {
            own.latest.pop_front();
        }
        let number = own.count;
        own.latest.push_back(Tuned {
            number,
            what,
            from: decision.from,
            to: decision.to,
            reason: decision.reason.clone(),
        });
    }

    /// The decisions to send in a STATUS.
    pub(crate) fn latest(&self) -> Vec<Tuned> {
        lock(&self.own).latest.iter().cloned().collect()
    }

    /// Reports the other end's new decisions. Any stream may repeat any decision.
    pub(crate) fn take(&self, theirs: &[Tuned], observer: &dyn Observer) {
        let mut reported = lock(&self.reported);
        for tuned in theirs {
            if tuned.number <= *reported || tuned.number > NUMBER_MAX {
                continue;
            }
            *reported = tuned.number;
            let knob = match tuned.what {
                Tuned::READERS => Knob::Readers,
                Tuned::WRITERS => Knob::Writers,
                _ => continue,
            };
            observer.tuned_there(&Decision {
                knob,
                from: tuned.from,
                to: tuned.to,
                reason: tuned.reason.clone(),
            });
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    /// The reported decisions, each with the end that made it.
    #[derive(Default)]
    struct Seen(Mutex<Vec<String>>);

    impl Seen {
        fn take(&self) -> Vec<String> {
            std::mem::take(&mut lock(&self.0))
        }
    }

    impl Observer for Seen {
        fn entry_failed(&self, _failed: &crate::FailedEntry<'_>) {}

        fn tuned(&self, decision: &Decision, _channel: Option<u32>) {
            lock(&self.0).push(format!("own {decision}"));
        }

        fn tuned_there(&self, decision: &Decision) {
            lock(&self.0).push(format!("theirs {decision}"));
        }
    }

    fn decision(to: u32) -> Decision {
        Decision {
            knob: Knob::Writers,
            from: 0,
            to,
            reason: "so".to_owned(),
        }
    }

    fn theirs(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
        numbers
            .into_iter()
            .map(|to| format!("theirs writers 0 -> {to}: so"))
            .collect()
    }

    #[test]
    fn each_is_reported_once_at_either_end_in_its_order() {
        let (here, there) = (Decided::default(), Decided::default());
        let (near, far) = (Seen::default(), Seen::default());
        let mut said = vec![here.latest()];
        for to in 1..=5 {
            here.decide(&decision(to), &near);
            assert_eq!(near.take(), [format!("own writers 0 -> {to}: so")]);
            said.push(here.latest());
        }
        // One decision was lost with its stream; others arrive late or twice.
        let statement: [(usize, &[u32]); 5] =
            [(0, &[]), (2, &[1, 2]), (1, &[]), (5, &[3, 4, 5]), (4, &[])];
        for (at, statement) in statement {
            there.take(&said[at], &far);
            assert_eq!(far.take(), theirs(statement.iter().copied()), "{at}");
        }
    }

    #[test]
    fn of_many_the_latest_are_said() {
        let (here, there) = (Decided::default(), Decided::default());
        let (near, far) = (Seen::default(), Seen::default());
        for to in 1..=30 {
            here.decide(&decision(to), &near);
            assert!(here.latest().len() <= TUNED_MAX);
        }
        there.take(&here.latest(), &far);
        assert_eq!(far.take(), theirs(23..=30));
    }

    #[test]
    fn a_peer_that_does_not_keep_to_it_is_not_reminded_for_ever() {
        let there = Decided::default();
        let far = Seen::default();
        let said = |number, what, to| Tuned {
            number,
            what,
            from: 0,
            to,
            reason: "so".to_owned(),
        };
        // A number that would suppress all later ones, an invalid number, and an unknown kind.
        let wrong = [
            said(u64::MAX, Tuned::WRITERS, 1),
            said(0, Tuned::WRITERS, 1),
            said(1, 77, 1),
        ];
        there.take(&wrong, &far);
        assert_eq!(far.take(), theirs([]));
        let mut statement = 0;
        for number in 2..3 * NUMBER_MAX {
            there.take(&[said(number, Tuned::READERS, 1)], &far);
            statement += far.take().len() as u64;
        }
        assert_eq!(statement, NUMBER_MAX - 1);
    }
}
