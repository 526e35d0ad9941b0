//! Has the destinations of a job with `relay: first` pass the data on from the beginning: reads what each does now, and submits the relays.
//! Chooses no giver (`rounds`), and moves no data.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use godwit_api::failure::FailureCode;
use godwit_api::rest::Relay;
use godwit_state::{Families, Job, JobState, Reader};

use super::again::{goes_to_source, has_ended, may_try_again, waits_since};
use super::describe::waits_for;
use super::early::{self, Earlier};
use super::explanation::Explanation;
use super::rounds::{self, Next, One, Stand};
use super::{
    SUBMITS_WITHIN_MS, begin, describe, digests_are_elsewhere, gave_wrong_data, is_on_its_way,
};
use crate::basis::error::JobsError;
use crate::basis::relay;
use crate::basis::stored::Stored;
use crate::queue::Queue;
use crate::queue::nodes::Nodes;
use crate::rights::access;

/// No event says that a destination has another whole file.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The destinations of the jobs of one pass, by their parents.
pub(super) struct Boards {
    /// The jobs that could begin here.
    due: BTreeSet<String>,
    /// None for a parent whose destinations do not pass the data on.
    families: HashMap<String, Option<Vec<One>>>,
    /// Destinations wait for files to become whole.
    awaits: bool,
}

/// The step of a destination that can begin.
enum Step {
    /// The destination takes its data from the source.
    Source,
    /// A relay from this giver to the destination was submitted.
    Takes(String),
    /// A round to it was submitted, from this giver.
    Round(String),
    /// It waits until files are whole at another one.
    Awaits,
    /// It waits.
    Waits,
}

impl Boards {
    pub(super) fn new(due: &[Job]) -> Self {
        Self {
            due: due.iter().map(|job| job.id.clone()).collect(),
            families: HashMap::new(),
            awaits: false,
        }
    }

    /// How long the next pass may wait, if destinations wait for files.
    pub(super) fn looks_again(&self) -> Option<Duration> {
        self.awaits.then_some(LOOK_EVERY)
    }

    /// Whether a destination that could begin waits for its data, which a relay brings. The job says so. None for a job whose destinations do not
    /// pass the data on.
    pub(super) fn keeps_waiting(
        &mut self,
        queue: &Queue,
        reader: &Reader,
        nodes: &Nodes,
        job: &Job,
    ) -> Result<Option<bool>, JobsError> {
        let Some(parent) = Families(reader).parent(&job.id)? else {
            return Ok(None);
        };
        if !self.families.contains_key(&parent) {
            let board = match relay::wish(reader, job)? {
                Relay::First => Some(self.read(queue, reader, &parent)?),
                Relay::Never | Relay::Auto => None,
            };
            self.families.insert(parent.clone(), board);
        }
        let Some(Some(board)) = self.families.get_mut(&parent) else {
            return Ok(None);
        };
        let step = step(queue, reader, nodes, (job, board.as_slice()))?;
        self.awaits |= matches!(step, Step::Awaits);
        let own = board.iter_mut().find(|one| one.job == job.id);
        match (&step, own) {
            // Jobs without a place at their site may still wait after this.
            (Step::Source, Some(own)) if own.stand != Stand::Held => own.stand = Stand::Receives,
            (Step::Takes(giver), Some(own)) => own.stand = Stand::Takes(giver.clone()),
            (Step::Round(giver), Some(own)) => own.stand = Stand::Round(giver.clone()),
            _ => {}
        }
        Ok(Some(!matches!(step, Step::Source)))
    }

    /// The destinations of a parent, in their order.
    fn read(&self, queue: &Queue, reader: &Reader, parent: &str) -> Result<Vec<One>, JobsError> {
        let children = Families(reader).children(parent)?;
        let mut board = Vec::with_capacity(children.len());
        for job in &children {
            let earlier = Earlier::read(reader, job)?;
            board.push(One {
                job: job.id.clone(),
                stand: self.stand(queue, reader, (job, &children), &earlier)?,
                fed: earlier.fed,
            });
        }
        Ok(board)
    }

    /// The part of one of these destinations.
    fn stand(
        &self,
        queue: &Queue,
        reader: &Reader,
        (job, children): (&Job, &[Job]),
        earlier: &Earlier,
    ) -> Result<Stand, JobsError> {
        if job.state == JobState::Complete {
            return Ok(match gave_wrong_data(reader, job)? {
                true => Stand::Away,
                false => Stand::Has,
            });
        }
        let live = &queue.attempts.reports.live;
        let is_here = live.contains(&job.id);
        if is_here || job.state.moves() {
            // Another node knows whether its attempt has streams.
            let progress = live.progress(&job.id);
            let moves = !is_here || progress.is_some_and(|progress| progress.streams > 0);
            let is_still = queue.complaints.is_still(job, moves, queue.this.now().0);
            return Ok(match is_still {
                true => Stand::Away,
                false => Stand::Receives,
            });
        }
        if !job.state.waits() {
            return Ok(Stand::Away);
        }
        for giver in children.iter().filter(|giver| giver.id != job.id) {
            match relay::between(reader, job, giver)?.map(|relay| relay.state) {
                Some(JobState::Paused) => return Ok(Stand::Away),
                Some(state) if !state.ended() => return Ok(Stand::Takes(giver.id.clone())),
                _ => {}
            }
        }
        match &earlier.open {
            Some((_, JobState::Paused)) => return Ok(Stand::Away),
            Some((giver, _)) => return Ok(Stand::Round(giver.clone())),
            None => {}
        }
        let code = job.reason.as_ref().map(|reason| &reason.code);
        Ok(match self.due.contains(&job.id) {
            false => Stand::Away,
            true if code.is_some_and(|code| *code == FailureCode::JobsOfSite) => Stand::Held,
            true => Stand::Waits,
        })
    }
}

/// The step of a destination that can begin. A giver that cannot give to it is replaced by another one, and the last one by the source.
fn step(
    queue: &Queue,
    reader: &Reader,
    nodes: &Nodes,
    (job, board): (&Job, &[One]),
) -> Result<Step, JobsError> {
    let pairs = super::pairs(reader, job)?;
    if is_on_its_way(queue, reader, job, &pairs)? {
        return Ok(Step::Waits);
    }
    let relays: Vec<&Job> = pairs
        .iter()
        .filter_map(|(_, relay)| relay.as_ref())
        .collect();
    if goes_to_source(job, &relays) {
        return Ok(Step::Source);
    }
    let is_useless = |relay: &Job| has_ended(job, relay) || !may_try_again(relay);
    let mut useless: BTreeSet<String> = pairs
        .iter()
        .filter(|(_, relay)| relay.as_ref().is_some_and(is_useless))
        .map(|(giver, _)| giver.id.clone())
        .collect();
    let shunned = Earlier::read(reader, job)?.shunned;
    loop {
        let next = rounds::next(board, &job.id, &useless, &shunned);
        let (Next::From(id) | Next::Whole(id) | Next::After(id)) = &next else {
            return Ok(Step::Source);
        };
        let Some((giver, relay)) = pairs.iter().find(|(giver, _)| giver.id == *id) else {
            return Ok(Step::Source);
        };
        if !matches!(next, Next::From(_)) {
            if !may_take(queue, reader, (job, giver))? {
                useless.insert(id.clone());
                continue;
            }
            return match next {
                Next::Whole(_) => take_whole(queue, reader, (job, giver), board),
                _ => {
                    explain_wait(&Explanation::of(queue, job), (job, giver), board);
                    Ok(Step::Waits)
                }
            };
        }
        match begin(queue, reader, (job, giver), relay.as_ref()) {
            Ok(Some(relay)) => {
                Explanation::of(queue, job).name_relay(reader, (giver, &relay), false)?;
                return Ok(Step::Takes(id.clone()));
            }
            Err(error) => Explanation::of(queue, job).complain(giver, &error),
            Ok(None) => {}
        }
        // A refusal may mean that another node was first.
        if is_on_its_way(queue, reader, job, &super::pairs(reader, job)?)? {
            return Ok(Step::Waits);
        }
        if is_new(queue, job, giver) && digests_are_elsewhere(queue, reader, nodes, giver)? {
            Explanation::of(queue, job).set(&waits_for(giver));
            return Ok(Step::Waits);
        }
        useless.insert(id.clone());
    }
}

/// Begins the next round, if files have become whole. A refusal leaves the data to the relay of the complete copy.
fn take_whole(
    queue: &Queue,
    reader: &Reader,
    (job, giver): (&Job, &Job),
    board: &[One],
) -> Result<Step, JobsError> {
    match early::begin(queue, reader, (job, giver)) {
        Ok(Some(round)) => {
            Explanation::of(queue, job).name_relay(reader, (giver, &round), true)?;
            return Ok(Step::Round(giver.id.clone()));
        }
        Err(error) => Explanation::of(queue, job).complain(giver, &error),
        Ok(None) => {}
    }
    explain_wait(&Explanation::of(queue, job), (job, giver), board);
    Ok(Step::Awaits)
}

/// Has a destination say for which one it waits.
fn explain_wait(explanation: &Explanation<'_>, (job, giver): (&Job, &Job), board: &[One]) {
    let stand_of = |id: &str| board.iter().find(|one| one.job == id).map(|one| &one.stand);
    // The reason of a job without a place at its site remains until another one has begun.
    let (own, first) = (stand_of(&job.id), stand_of(&giver.id));
    if own != Some(&Stand::Held) || first != Some(&Stand::Waits) {
        explanation.set(&waits_for(giver));
    }
}

/// Whether a giver became complete, or the job could begin, only a moment ago: the node with the digests may not have looked yet.
fn is_new(queue: &Queue, job: &Job, giver: &Job) -> bool {
    let now = queue.this.now().0;
    let complete = giver
        .ended
        .map_or(i64::MAX, |ended| now.saturating_sub(ended.0));
    complete.min(waits_since(job, now)) < SUBMITS_WITHIN_MS
}

/// Whether the owner's rights let a destination take the data of another one.
fn may_take(
    queue: &Queue,
    reader: &Reader,
    (taker, giver): (&Job, &Job),
) -> Result<bool, JobsError> {
    let (from, to) = (
        Stored::of(reader, &giver.id)?,
        Stored::of(reader, &taker.id)?,
    );
    let roots = [&from, &to].map(|stored| relay::root(&stored.new, None, false));
    let [Some(gives), Some(takes)] = roots else {
        return Ok(false);
    };
    let new = describe(taker, &to.new, (&gives.place, &takes.place));
    let may = access::check_owner(
        &queue.rights,
        (&taker.owner, to.role),
        access::There::of(&new),
        &[gives.place, takes.place.clone()],
        &takes.place,
    );
    if let Err(error) = &may {
        Explanation::of(queue, taker).complain(giver, error);
    }
    Ok(may.is_ok())
}
