//! Passes files on as they become whole. While the first copy runs, it decides when a waiting destination takes the files that are whole at
//! another one, and submits that round: an ordinary job, like a relay.
//! Chooses no giver (`rounds`), and checks no data: the relay of the complete copy is the last round.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use godwit_api::failure::FailureCode;
use godwit_api::rest::Amount;
use godwit_state::{
    DESTINATIONS_MAX, Families, Job, JobState, Moved, RELAYS_MAX, Reader, Timestamp,
};

use super::again::has_ended;
use super::{connect, send};
use crate::basis::error::JobsError;
use crate::basis::relay::{self, Pair};
use crate::queue::Queue;
use crate::queue::flow::{self, Facts, Latest, Next};
use crate::queue::reasons::Now;

/// The pause after a round that failed, in milliseconds.
const EVERY_MS: i64 = 60_000;

/// A destination pauses between two rounds for this fraction of the time that it has waited, so a long copy has few of them: below 100 in a
/// day.
const PAUSE_OF: i64 = 8;

/// Rounds to one destination. The relay of the complete copy brings the rest.
const ROUNDS_MAX: u32 = 200;

// Beside its rounds, a destination may get one relay of a complete copy from each of the others. All are read, so amounts include all of them.
const _: () = assert!(ROUNDS_MAX as usize + DESTINATIONS_MAX <= RELAYS_MAX);

/// Rounds from one giver that may fail.
const FAILURES_MAX: usize = 2;

/// Destinations whose last giver is remembered.
const SEEN_MAX: usize = 1_024;

/// The files that the givers of the latest rounds had when these began, by the jobs of their takers. Lost with the node, after which one round may find
/// nothing new.
#[derive(Default)]
pub(crate) struct Rounds(Mutex<HashMap<String, (String, Amount)>>);

impl Rounds {
    fn seen(&self, taker: &Job, giver: &Job) -> Amount {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, amount) = seen.get(&taker.id).cloned().unwrap_or_default();
        match from == giver.id {
            true => amount,
            false => Amount::default(),
        }
    }

    fn begin(&self, taker: &Job, giver: &Job, had: Amount) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= SEEN_MAX {
            seen.clear();
        }
        seen.insert(taker.id.clone(), (giver.id.clone(), had));
    }
}

/// The rounds to a destination, as far as they decide.
pub(super) struct Earlier {
    /// The giver of the latest round that brought files.
    pub(super) fed: Option<String>,
    /// The round that has not ended, with its giver.
    pub(super) open: Option<(String, JobState)>,
    /// Givers from which too many rounds failed.
    pub(super) shunned: BTreeSet<String>,
}

impl Earlier {
    pub(super) fn read(reader: &Reader, taker: &Job) -> Result<Self, JobsError> {
        Ok(Self::of(taker, &relay::rounds(reader, taker)?))
    }

    fn of(taker: &Job, rounds: &[(Pair, Job)]) -> Self {
        let brought = |round: &Job| matches!(round.state, JobState::Complete | JobState::Partial);
        let fed = rounds.iter().find(|(_, round)| brought(round));
        let open = rounds.iter().find(|(_, round)| !round.state.ended());
        // A pause of the destination cancels its round, and says nothing about the giver.
        let failed = |round: &Job| match round.state {
            JobState::Cancelled => has_ended(taker, round),
            state => state == JobState::Failed,
        };
        let failures = |giver: &str| {
            let of_giver = rounds.iter().filter(|(pair, _)| pair.giver == giver);
            of_giver.filter(|(_, round)| failed(round)).count()
        };
        let givers = rounds.iter().map(|(pair, _)| pair.giver.clone());
        Self {
            fed: fed.map(|(pair, _)| pair.giver.clone()),
            open: open.map(|(pair, round)| (pair.giver.clone(), round.state)),
            shunned: givers
                .filter(|giver| failures(giver) >= FAILURES_MAX)
                .collect(),
        }
    }
}

/// Whether a round was refused for a fact that remains: such as entries at the taker that are not of this job.
fn was_refused(rounds: &[(Pair, Job)]) -> bool {
    let is_refusal = |round: &Job| {
        let why = round.reason.as_ref();
        why.is_some_and(|why| why.code == FailureCode::RelayChanged)
    };
    rounds.iter().any(|(_, round)| is_refusal(round))
}

/// Whether all files at a giver are of its job. A place with other entries gives only the complete copy, which is checked for them.
fn has_own_files_alone(
    queue: &Queue,
    reader: &Reader,
    giver: &Job,
    rounds: &[(Pair, Job)],
) -> Result<bool, JobsError> {
    let live = &queue.attempts.reports.live;
    if live.was_new(&giver.id) || relay::rounds_began(reader, giver)? {
        return Ok(true);
    }
    // An earlier start of the node knew it, and let the giver give.
    for (_, round) in rounds.iter().filter(|(pair, _)| pair.giver == giver.id) {
        if relay::has_begun(reader, round)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Submits the next round between two destinations, if it is due: some files have become whole since the latest one. Returns its id.
pub(super) fn begin(
    queue: &Queue,
    reader: &Reader,
    (taker, giver): (&Job, &Job),
) -> Result<Option<String>, JobsError> {
    let rounds = relay::rounds(reader, taker)?;
    if was_refused(&rounds) || !has_own_files_alone(queue, reader, giver, &rounds)? {
        return Ok(None);
    }
    let latest = rounds.first();
    let number = latest.and_then(|(pair, _)| pair.round).unwrap_or(0);
    if number >= ROUNDS_MAX {
        return Ok(None);
    }
    let at = queue.this.now();
    let seen = queue.rounds.seen(taker, giver);
    let is_due = |had: Amount| {
        let facts = facts(taker, latest.map(|(_, round)| round), (had, seen), at);
        flow::next(&facts, at) == Next::Now
    };
    let more = Amount {
        files: seen.files.saturating_add(1),
        ..seen
    };
    // The amounts of a giver with many rounds take long to read.
    if !is_due(more) {
        return Ok(None);
    }
    let had = whole_at(queue, reader, giver)?;
    if had.files <= seen.files || !is_due(had) {
        return Ok(None);
    }
    let number = number.saturating_add(1);
    let Some(plan) = connect(queue, reader, (taker, giver), Some(number))? else {
        return Ok(None);
    };
    let id = send(
        queue,
        reader,
        taker,
        plan,
        Pair::key(taker, giver, Some(number)),
    )?;
    queue.rounds.begin(taker, giver, had);
    Ok(Some(id))
}

/// The facts that decide about the next run of a hop: a round is such a run.
fn facts(taker: &Job, latest: Option<&Job>, (had, seen): (Amount, Amount), at: Timestamp) -> Facts {
    let pause = at.0.saturating_sub(taker.since.0).max(0) / PAUSE_OF;
    let latest = latest.map_or(Latest::Never, |round| match round.ended {
        None => Latest::Open,
        Some(ended) => Latest::Ended {
            // A hop pauses for as long as its latest run took.
            started: Timestamp(round.created.0.min(ended.0.saturating_sub(pause))),
            at: ended,
            failed: matches!(round.state, JobState::Failed | JobState::Cancelled),
        },
    });
    Facts {
        latest,
        has_source: had.files > 0,
        arrived: Some(had),
        seen,
        every: EVERY_MS.max(pause),
    }
}

/// The files that have become whole at a destination: those that its own attempts have completed, and those that relays have brought.
fn whole_at(queue: &Queue, reader: &Reader, giver: &Job) -> Result<Amount, JobsError> {
    let reports = &queue.attempts.reports;
    let now = Now::read(&queue.this, &reports.live, &reports.asking.elsewhere)?;
    let (progress, ended) = now.amounts_of(giver)?;
    let running = progress.map_or_else(Moved::default, |progress| progress.moved);
    let mut moved = ended.plus(running);
    for relay in Families(reader).relays(giver)? {
        let (progress, ended) = now.amounts_of(&relay)?;
        let running = progress.map_or_else(Moved::default, |progress| progress.moved);
        moved = moved.plus(ended).plus(running);
    }
    Ok(Amount {
        files: moved.files,
        bytes: moved.bytes,
    })
}

#[cfg(test)]
mod tests {
    use godwit_state::Reason;

    use super::*;
    use crate::basis::examples::job;

    fn round(giver: &str, number: u32, state: JobState) -> (Pair, Job) {
        let mut round = job("9", "alice", "c");
        round.state = state;
        round.created = Timestamp(10_000);
        round.ended = state.ended().then_some(Timestamp(12_000));
        let pair = Pair {
            taker: "2".to_owned(),
            giver: giver.to_owned(),
            round: Some(number),
        };
        (pair, round)
    }

    #[test]
    fn rounds_name_their_givers_and_a_giver_may_fail_once() {
        use JobState::{Complete, Failed, Partial, Running};
        let taker = job("2", "alice", "c");
        let of = |rounds: &[(Pair, Job)]| Earlier::of(&taker, rounds);
        let none = of(&[]);
        assert_eq!((none.fed, none.open), (None, None));
        let rounds = [
            round("b", 4, Running),
            round("d", 3, Failed),
            round("a", 2, Partial),
            round("b", 1, Complete),
        ];
        let earlier = of(&rounds);
        assert_eq!(earlier.fed.as_deref(), Some("a"));
        assert_eq!(earlier.open, Some(("b".to_owned(), Running)));
        assert!(earlier.shunned.is_empty());
        let earlier = of(&[round("d", 2, Failed), round("d", 1, Failed)]);
        assert!(earlier.shunned.contains("d"));
        // Cancelled rounds count if they ended since the destination waits.
        let mut paused = taker.clone();
        paused.since = Timestamp(12_001);
        let rounds = [1, 2].map(|number| round("d", number, JobState::Cancelled));
        assert!(Earlier::of(&paused, &rounds).shunned.is_empty());
        paused.since = Timestamp(12_000);
        assert!(Earlier::of(&paused, &rounds).shunned.contains("d"));
    }

    #[test]
    fn rounds_end_with_a_refusal_and_not_with_a_failure() {
        let mut rounds = [round("d", 1, JobState::Failed)];
        assert!(!was_refused(&rounds));
        for (code, refused) in [
            (FailureCode::Unreachable, false),
            (FailureCode::RelayChanged, true),
        ] {
            for (_, round) in &mut rounds {
                round.reason = Some(Reason::new(code, "Why."));
            }
            assert_eq!(was_refused(&rounds), refused);
        }
    }

    #[test]
    fn pauses_between_rounds_grow_with_the_copy() {
        let taker = job("2", "alice", "c");
        let amount = |files: u64| Amount { files, bytes: 0 };
        let at = |latest: Option<&Job>, now: i64| {
            let facts = facts(&taker, latest, (amount(2), amount(1)), Timestamp(now));
            flow::next(&facts, Timestamp(now))
        };
        assert_eq!(at(None, 12_000), Next::Now);
        let (_, complete) = round("b", 1, JobState::Complete);
        // As long as the round took.
        assert_eq!(at(Some(&complete), 13_999), Next::At(Timestamp(14_000)));
        assert_eq!(at(Some(&complete), 14_000), Next::Now);
        let mut late = complete.clone();
        (late.created, late.ended) = (Timestamp(798_000), Some(Timestamp(800_000)));
        // An eighth of the time since the destination waits.
        assert!(matches!(at(Some(&late), 850_000), Next::At(_)));
        assert_eq!(at(Some(&late), 920_000), Next::Now);
        let (_, failed) = round("b", 1, JobState::Failed);
        assert_eq!(at(Some(&failed), 14_000), Next::At(Timestamp(72_000)));
        assert_eq!(
            at(Some(&round("b", 1, JobState::Running).1), 99_000),
            Next::AfterLatest
        );
    }
}
