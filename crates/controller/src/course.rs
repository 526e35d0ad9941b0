//! Decides what the controller of a divided job does next: claim, open the work, renew, wait, end.
//! Reads no clock and no state, and asks nobody.

use std::time::Duration;

use godwit_api::ask::{Refusal, code};
use godwit_state::Work;

/// How long a claim lasts without being renewed.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// How often a claim is renewed: often, so that a destination that was restarted is claimed again within seconds.
const RENEW_EVERY: Duration = Duration::from_secs(3);
/// After a claim that failed.
const CLAIM_AGAIN: Duration = Duration::from_millis(500);
/// How long a claim may fail before the attempt ends.
const CLAIM_WITHIN: Duration = Duration::from_secs(120);
/// How often the work is looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What is to be done next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// Sets the claim.
    Claim,
    /// Opens the work, or takes it over.
    Open,
    /// Says which node sends where, and how fast.
    Pair(u64),
    /// Renews the claim.
    Renew,
    /// Waits a moment.
    Rest,
    /// All is settled: the claim is released, and the job ends.
    Done,
    /// The job is not to be divided after all.
    Undivided(String),
    /// The attempt ends because of a refusal.
    Refused(Refusal),
    /// The attempt ends because a node could not do its work: code and words.
    Troubled(String, String),
}

/// Where the controller is on its way.
#[derive(Debug, Default)]
pub(crate) struct Course {
    is_open: bool,
    /// The claim was set once.
    was_claimed: bool,
    is_claimed: bool,
    /// The limit that the pairs have.
    paired: Option<u64>,
    claim_at: Duration,
    renew_at: Duration,
    failing_since: Option<Duration>,
    refused: Option<Refusal>,
}

impl Course {
    /// The next step at `now`, counted from the beginning of the attempt.
    pub(crate) fn next(&self, now: Duration, work: Option<&Work>, limit: u64) -> Step {
        if let Some(refusal) = &self.refused {
            if refusal.code == code::UNSUPPORTED && !self.was_claimed {
                return Step::Undivided(refusal.message.clone());
            }
            let is_late = self
                .failing_since
                .is_some_and(|since| now.saturating_sub(since) >= CLAIM_WITHIN);
            if !may_pass(refusal) || is_late {
                return Step::Refused(refusal.clone());
            }
        }
        if !self.is_claimed {
            return match now >= self.claim_at {
                true => Step::Claim,
                false => Step::Rest,
            };
        }
        if !self.is_open {
            return Step::Open;
        }
        match work {
            Some(work) if work.is_done() => Step::Done,
            Some(work) if work.trouble.is_some() => {
                let trouble = work.trouble.clone();
                trouble.map_or(Step::Rest, |why| Step::Troubled(why.code, why.text))
            }
            _ if self.paired != Some(limit) => Step::Pair(limit),
            _ if now >= self.renew_at => Step::Renew,
            _ => Step::Rest,
        }
    }

    /// The claim was set or renewed, or that was refused.
    pub(crate) fn claimed(&mut self, now: Duration, result: Result<(), Refusal>) {
        match result {
            Ok(()) => {
                (self.is_claimed, self.was_claimed) = (true, true);
                (self.failing_since, self.refused) = (None, None);
                self.renew_at = now + RENEW_EVERY;
            }
            Err(refusal) => {
                self.is_claimed = false;
                self.claim_at = now + CLAIM_AGAIN;
                self.failing_since = self.failing_since.or(Some(now));
                self.refused = Some(refusal);
            }
        }
    }

    /// The state has the work.
    pub(crate) fn opened(&mut self) {
        self.is_open = true;
        self.paired = None;
    }

    /// Other nodes may work on the job: they are to be members of the claim, and get pairs.
    pub(crate) fn crew_changed(&mut self, now: Duration) {
        if self.was_claimed && self.is_claimed {
            self.is_claimed = false;
            self.claim_at = now;
        }
        self.paired = None;
    }

    /// The state has the pairs, with this limit.
    pub(crate) fn paired(&mut self, limit: u64) {
        self.paired = Some(limit);
    }
}

/// Whether the same claim may be taken later. A claim that is not there any more can be set again.
fn may_pass(refusal: &Refusal) -> bool {
    let passing = [
        code::NO_SUCH_CLAIM,
        code::UNREACHABLE,
        code::BROKEN,
        code::BUSY,
    ];
    refusal.retryable || passing.contains(&refusal.code.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn work(open: u64, closes: u64) -> Work {
        Work {
            job: "job".to_owned(),
            epoch: 1,
            claim: String::new(),
            roots: Vec::new(),
            pairs: Vec::new(),
            trouble: None,
            closed: Vec::new(),
            open,
            closes,
            counts: godwit_state::WorkCounts::default(),
        }
    }

    /// A course whose work is open.
    fn under_way() -> Course {
        let mut course = Course::default();
        assert_eq!(course.next(SECOND, None, 0), Step::Claim);
        course.claimed(SECOND, Ok(()));
        assert_eq!(course.next(SECOND, None, 0), Step::Open);
        course.opened();
        assert_eq!(course.next(SECOND, Some(&work(1, 1)), 5), Step::Pair(5));
        course.paired(5);
        course
    }

    #[test]
    fn the_destination_is_claimed_before_anybody_works() {
        let mut course = under_way();
        assert_eq!(course.next(SECOND, Some(&work(1, 1)), 5), Step::Rest);
        assert_eq!(course.next(4 * SECOND, Some(&work(1, 1)), 5), Step::Renew);
        course.claimed(4 * SECOND, Ok(()));
        assert_eq!(course.next(5 * SECOND, Some(&work(1, 1)), 5), Step::Rest);
        assert_eq!(course.next(5 * SECOND, Some(&work(0, 1)), 7), Step::Pair(7));
        assert_eq!(course.next(5 * SECOND, Some(&work(0, 0)), 5), Step::Done);
    }

    #[test]
    fn a_destination_that_was_restarted_is_claimed_again() {
        let mut course = under_way();
        let gone = Refusal::new(code::NO_SUCH_CLAIM, "gone");
        course.claimed(4 * SECOND, Err(gone.clone()));
        assert_eq!(course.next(4 * SECOND, Some(&work(1, 1)), 5), Step::Rest);
        assert_eq!(course.next(5 * SECOND, Some(&work(1, 1)), 5), Step::Claim);
        course.claimed(5 * SECOND, Ok(()));
        assert_eq!(course.next(5 * SECOND, Some(&work(1, 1)), 5), Step::Rest);
        // It does not try for ever.
        course.claimed(6 * SECOND, Err(gone.clone()));
        course.claimed(100 * SECOND, Err(gone.clone()));
        let step = course.next(130 * SECOND, Some(&work(1, 1)), 5);
        assert_eq!(step, Step::Refused(gone));
    }

    #[test]
    fn an_older_destination_gets_an_undivided_transfer_and_a_refusal_ends_the_attempt() {
        let mut course = Course::default();
        course.claimed(SECOND, Err(Refusal::new(code::UNSUPPORTED, "old")));
        assert_eq!(
            course.next(SECOND, None, 0),
            Step::Undivided("old".to_owned())
        );
        let no = Refusal::new(code::NOT_GRANTED, "no");
        let mut course = under_way();
        course.claimed(SECOND, Err(no.clone()));
        assert_eq!(course.next(SECOND, None, 0), Step::Refused(no));
    }

    #[test]
    fn trouble_of_a_node_ends_the_attempt() {
        let mut troubled = work(1, 1);
        troubled.trouble = Some(godwit_state::Reason::new("no_space", "full"));
        let step = under_way().next(SECOND, Some(&troubled), 5);
        assert_eq!(
            step,
            Step::Troubled("no_space".to_owned(), "full".to_owned())
        );
    }
}
