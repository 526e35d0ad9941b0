//! Decides that a destination which failed or fell behind takes its data from a complete one, and submits the relay: an ordinary job of the same
//! owner, with the owner's rights at both places and no others. The destination waits for it, and then compares with the source as ever.
//! Checks no data (`attempt::relay`), and moves none.

mod again;
mod describe;
mod early;
mod explanation;
mod first;
mod rounds;

use std::time::Duration;

use godwit_api::failure::FailureCode;
use godwit_api::job::Text;
use godwit_api::rest::{Divide, NewJob, Place, ProgressView, Relay};
use godwit_state::{Actor, Agreed, Job, JobOp, JobState, Op, ProposeError, Reader, Reason, Role};

use super::family::invalid;
use super::nodes::Nodes;
use super::{Queue, submit};
use crate::basis::error::JobsError;
use crate::basis::relay::{self, EXCLUDED, Pair};
use crate::basis::stored::Stored;
use crate::basis::whole;
use crate::basis::words::clip;
use crate::rights::access;
pub(crate) use again::Complaints;
use again::{is_failure, is_spent, may_try_again, waits_since};
use describe::{describe, explanation_of};
pub(crate) use early::Rounds;
use explanation::Explanation;
use first::Boards;

/// How long a relay waits for the node that has the digests of its giver.
const PATIENCE_MS: i64 = 60_000;

/// How long a destination waits for the node that has the digests of a giver, and has not submitted the relay yet.
const SUBMITS_WITHIN_MS: i64 = 5_000;

/// How long a relay may wait for a node or for a place among the running jobs. Then the source is next.
const WAITS_MAX_MS: i64 = 600_000;

/// A relay that may be submitted.
struct Plan {
    new: NewJob,
    places: (Vec<Place>, Place),
    role: Option<Role>,
}

/// Whether a job of this form may relay.
pub(super) fn check_form(new: &NewJob) -> Result<(), JobsError> {
    if new.relay == Relay::Never {
        return Ok(());
    }
    let is_here = |text: &String| text.parse::<Place>().is_ok_and(|place| place.is_here());
    let excluded = EXCLUDED
        .iter()
        .find(|name| new.settings.contains_key(**name));
    let what = match excluded {
        _ if new.gather || new.more_destinations.is_empty() => {
            "only a job with several destinations relays; leave relay out".to_owned()
        }
        _ if !new.list.is_empty() => {
            "a list names single entries, and a relay brings a whole directory; leave one of them out"
                .to_owned()
        }
        _ if new.divide == Divide::Always => {
            "a divided job records no digests of whole files; leave divide or relay out".to_owned()
        }
        _ if !new.sources.iter().all(is_here) => {
            "the digests of sources at another site are there; leave relay out, or submit the job at that site"
                .to_owned()
        }
        Some(name) => format!(
            "with the setting {name} a copy need not become what the source has; leave relay or {name} out"
        ),
        None => return Ok(()),
    };
    Err(invalid(format!("relay: {what}")))
}

/// Has the job of a destination record digests that a giver cannot forge, unless its owner chose others. Files that destinations pass on from
/// the beginning are read back.
pub(super) fn harden(new: &mut NewJob) {
    if new.relay == Relay::First {
        let (name, value) = whole::READ_BACK;
        let read_back = new.settings.entry(name.to_owned());
        read_back.or_insert_with(|| vec![Text::from(value)]);
    }
    if new.relay != Relay::Never {
        let digest = new.settings.entry("digest".to_owned());
        digest.or_insert_with(|| vec![Text::from("blake3")]);
    }
}

/// The due jobs that may begin here, without destinations that wait for a relay, and relays that are not for this node. Also when to look
/// again, if files become whole meanwhile.
pub(crate) fn sift(
    queue: &Queue,
    reader: &Reader,
    nodes: &Nodes,
    due: Vec<Job>,
) -> Result<(Vec<Job>, Option<Duration>), JobsError> {
    let promises = &queue.attempts.reports.live.promises;
    for taker in promises.takers() {
        if !reader.job(&taker)?.is_some_and(|job| job.state.waits()) {
            promises.release(&taker);
        }
    }
    let mut kept = Vec::with_capacity(due.len());
    let mut boards = Boards::new(&due);
    for job in due {
        let waits = match Pair::of(&job) {
            Some(pair) => is_for_another(queue, reader, nodes, (&job, &pair))?,
            None => match boards.keeps_waiting(queue, reader, nodes, &job)? {
                Some(waits) => waits,
                None => keeps_waiting(queue, reader, nodes, &job)?,
            },
        };
        if !waits {
            kept.push(job);
        }
    }
    Ok((kept, boards.looks_again()))
}

/// The due jobs without relays whose takers do not wait for them any more. Such relays end even if no node can run them.
pub(crate) fn without_strays(
    queue: &Queue,
    reader: &Reader,
    due: Vec<Job>,
) -> Result<Vec<Job>, JobsError> {
    let mut kept = Vec::with_capacity(due.len());
    for job in due {
        if !ends_stray(queue, reader, &job)? {
            kept.push(job);
        }
    }
    Ok(kept)
}

/// Cancels a relay whose taker does not wait for it any more; returns whether it is one.
pub(crate) fn ends_stray(queue: &Queue, reader: &Reader, job: &Job) -> Result<bool, JobsError> {
    let Some(pair) = Pair::of(job) else {
        return Ok(false);
    };
    let taker = reader.job(&pair.taker)?;
    if taker.is_some_and(|taker| taker.state.waits()) {
        return Ok(false);
    }
    let why = format!("job {} does not wait for its data any more", pair.taker);
    cancel(queue, job, why);
    Ok(true)
}

fn cancel(queue: &Queue, relay: &Job, why: String) {
    let cancel = JobOp::Cancel { comment: Some(why) };
    // A refusal means that the job was changed meanwhile.
    drop(queue.this.propose_for(&relay.id, cancel));
}

/// Whether another node has the digests for a relay, and may take it soon.
fn is_for_another(
    queue: &Queue,
    reader: &Reader,
    nodes: &Nodes,
    (job, pair): (&Job, &Pair),
) -> Result<bool, JobsError> {
    let waited = queue.this.now().0.saturating_sub(job.since.0);
    // A round needs no digests.
    if waited >= PATIENCE_MS || pair.round.is_some() {
        return Ok(false);
    }
    let giver = reader.job(&pair.giver)?;
    giver.map_or(Ok(false), |giver| {
        digests_are_elsewhere(queue, reader, nodes, &giver)
    })
}

/// Whether another node, which takes jobs, has the digests of a giver: it ran the last attempt from the source, or the relay to the giver.
fn digests_are_elsewhere(
    queue: &Queue,
    reader: &Reader,
    nodes: &Nodes,
    giver: &Job,
) -> Result<bool, JobsError> {
    let why = giver.reason.as_ref().map(|why| &why.code);
    let relay = match why.is_some_and(|code| *code == FailureCode::Relayed) {
        true => pairs(reader, giver)?
            .into_iter()
            .find_map(|(_, relay)| relay.filter(|relay| relay.state == JobState::Complete)),
        false => None,
    };
    let attempts = reader.attempts(&relay.as_ref().unwrap_or(giver).id)?;
    let last = attempts.last().map(|last| last.node.as_str());
    Ok(last.is_some_and(|node| node != queue.this.name && nodes.takes(node)))
}

/// Whether a destination waits for a relay, which is submitted if necessary. The job says so. After each failed attempt there is one relay at
/// most; then the source is next.
fn keeps_waiting(
    queue: &Queue,
    reader: &Reader,
    nodes: &Nodes,
    job: &Job,
) -> Result<bool, JobsError> {
    if job.attempts == 0 {
        return Ok(false);
    }
    let pairs = pairs(reader, job)?;
    if is_on_its_way(queue, reader, job, &pairs)? {
        return Ok(true);
    }
    let mut relays = pairs.iter().filter_map(|(_, relay)| relay.as_ref());
    if relays.any(|relay| is_spent(job, relay)) || !has_failed(reader, job)? {
        return Ok(false);
    }
    let givers = pairs
        .iter()
        .filter(|(_, relay)| relay.as_ref().is_none_or(may_try_again));
    for (giver, relay) in givers.clone() {
        match begin(queue, reader, (job, giver), relay.as_ref()) {
            Ok(Some(id)) => {
                Explanation::of(queue, job).name_relay(reader, (giver, &id), false)?;
                return Ok(true);
            }
            Err(error) => Explanation::of(queue, job).complain(giver, &error),
            Ok(None) => {}
        }
    }
    // A refusal may mean that another node was first.
    if is_on_its_way(queue, reader, job, &self::pairs(reader, job)?)? {
        return Ok(true);
    }
    if waits_since(job, queue.this.now().0) >= SUBMITS_WITHIN_MS {
        return Ok(false);
    }
    for (giver, _) in givers {
        if giver.state == JobState::Complete && digests_are_elsewhere(queue, reader, nodes, giver)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The other destinations of a job, each with its relay to the job if there was any. Those that were tried least are first.
fn pairs(reader: &Reader, job: &Job) -> Result<Vec<(Job, Option<Job>)>, JobsError> {
    let mut pairs = Vec::new();
    for giver in relay::siblings(reader, job)?.unwrap_or_default() {
        let relay = relay::between(reader, job, &giver)?;
        pairs.push((giver, relay));
    }
    pairs.sort_by_key(|(_, relay)| relay.as_ref().map_or(0, |relay| relay.attempts));
    Ok(pairs)
}

/// Whether a relay or a round to a destination has not ended; the job says so. One that waits for too long is cancelled.
fn is_on_its_way(
    queue: &Queue,
    reader: &Reader,
    job: &Job,
    pairs: &[(Job, Option<Job>)],
) -> Result<bool, JobsError> {
    let relays = pairs
        .iter()
        .filter_map(|(giver, relay)| Some((giver, relay.as_ref()?, false)));
    let rounds = relay::rounds(reader, job)?;
    let giver_of = |id: &str| {
        pairs
            .iter()
            .map(|(giver, _)| giver)
            .find(|one| one.id == id)
    };
    let rounds = rounds
        .iter()
        .filter_map(|(pair, round)| Some((giver_of(&pair.giver)?, round, true)));
    let mut all = relays.chain(rounds);
    let Some((giver, relay, is_round)) = all.find(|(_, relay, _)| !relay.state.ended()) else {
        return Ok(false);
    };
    let waited = queue.this.now().0.saturating_sub(relay.since.0);
    if relay.state.waits() && waited >= WAITS_MAX_MS {
        let why = format!("it did not begin in time, and job {} goes on", job.id);
        cancel(queue, relay, why);
    } else {
        Explanation::of(queue, job).set(&explanation_of(giver, relay, is_round));
    }
    Ok(true)
}

/// Whether the last attempt of a job failed.
fn has_failed(reader: &Reader, job: &Job) -> Result<bool, JobsError> {
    let attempts = reader.attempts(&job.id)?;
    let outcome = attempts.last().and_then(|last| last.outcome.as_ref());
    Ok(outcome.is_some_and(is_failure))
}

/// Returns a running job to the queue that is far behind the others, if one of those can give it the data. It does so once, because that
/// uses up a retry.
pub(crate) fn leaves(queue: &Queue, reader: &Reader, job: &Job) -> Result<bool, JobsError> {
    let is_far_behind = |progress: &ProgressView| {
        let total = progress.bytes_total;
        // One node of a divided job says little about its other nodes.
        let is_divided = !progress.nodes.is_empty();
        progress.behind && !is_divided && total.is_some_and(|total| progress.bytes < total / 2)
    };
    let progress = queue.attempts.reports.live.progress(&job.id);
    let Some(progress) = progress.filter(is_far_behind) else {
        return Ok(false);
    };
    if job.retries > 0 || job.retry.retries_max == Some(0) {
        return Ok(false);
    }
    let pairs = pairs(reader, job)?;
    let mut relays = pairs.iter().filter_map(|(_, relay)| relay.as_ref());
    if relays.any(|relay| relay.state == JobState::Complete) {
        return Ok(false);
    }
    let givers = pairs
        .iter()
        .filter(|(_, relay)| relay.as_ref().is_none_or(may_try_again));
    for (giver, _) in givers {
        if plan(queue, reader, (job, giver)).is_ok_and(|plan| plan.is_some()) {
            let text = format!(
                "The destination is behind the others, and takes its data from {}.",
                relay::words(giver)
            );
            let backoff = JobOp::Backoff {
                epoch: job.epoch,
                reason: Reason::new(FailureCode::Relaying, clip(&text)),
                next_attempt: queue.this.now(),
                bytes: progress.moved.bytes,
                files: progress.moved.files,
            };
            // A refusal means that the job was changed meanwhile. The next pass stops the attempt, because its claim has ended.
            return Ok(queue.this.propose_for(&job.id, backoff).is_ok());
        }
    }
    Ok(false)
}

/// Submits the relay between two destinations, or lets it run again. Returns its id; None if this giver cannot give.
fn begin(
    queue: &Queue,
    reader: &Reader,
    (taker, giver): (&Job, &Job),
    relay: Option<&Job>,
) -> Result<Option<String>, JobsError> {
    let Some(plan) = plan(queue, reader, (taker, giver))? else {
        return Ok(None);
    };
    if let Some(relay) = relay {
        return match queue.this.propose_for(&relay.id, JobOp::Retry) {
            Ok(()) => Ok(Some(relay.id.clone())),
            Err(ProposeError::Refused(_)) => Ok(None),
            Err(error) => Err(error.into()),
        };
    }
    let key = Pair::key(taker, giver, None);
    send(queue, reader, taker, plan, key).map(Some)
}

/// Submits a relay with this key. Returns its id.
fn send(
    queue: &Queue,
    reader: &Reader,
    taker: &Job,
    plan: Plan,
    key: String,
) -> Result<String, JobsError> {
    let Plan { new, places, role } = plan;
    submit::check_room(&queue.admission, &taker.owner)?;
    let text = Stored::text_of(reader, &new, role, &places)?;
    let actor = Actor::node(queue.this.name.clone());
    let (id, _) = submit::propose(&queue.this, actor, &|at| {
        let (text, key) = (text.clone(), Some(key.clone()));
        let job = submit::build(at, &taker.owner, &new, text, &places, key);
        Ok((job.id.clone(), Op::Submit(Box::new(job))))
    })?;
    Ok(id)
}

/// The relay between two destinations. None if the giver is not complete, gave wrong data before, or has no digests here, and where a root is
/// not certain.
fn plan(
    queue: &Queue,
    reader: &Reader,
    (taker, giver): (&Job, &Job),
) -> Result<Option<Plan>, JobsError> {
    let kept = || godwit_history::open_manifest(&queue.this.directory, &giver.id);
    if giver.state != JobState::Complete || kept()?.is_none() || gave_wrong_data(reader, giver)? {
        return Ok(None);
    }
    connect(queue, reader, (taker, giver), None)
}

/// The relay between two destinations, or the round with this number. None where a root is not certain.
fn connect(
    queue: &Queue,
    reader: &Reader,
    (taker, giver): (&Job, &Job),
    round: Option<u32>,
) -> Result<Option<Plan>, JobsError> {
    let (from, to) = (
        Stored::of(reader, &giver.id)?,
        Stored::of(reader, &taker.id)?,
    );
    let into =
        |job: &Job| -> Result<Option<bool>, JobsError> { Ok(Agreed(reader).placed(&job.id)?.into) };
    // Of a giver that no attempt from the source has filled, its own rounds know the place.
    let found = match (into(giver)?, round) {
        (None, Some(_)) => relay::left(reader, giver)?.and_then(|left| left.into),
        (found, _) => found,
    };
    let gives = relay::root(&from.new, found, false).filter(|root| root.is_known);
    let Some(gives) = gives else {
        return Ok(None);
    };
    let Some(takes) = relay::root(&to.new, into(taker)?, gives.into) else {
        return Ok(None);
    };
    // Since the two jobs were submitted, the name of a site may have got another identity.
    for (stored, place) in [(&from, &gives.place), (&to, &takes.place)] {
        if !place.is_here() {
            stored.site(reader, &place.site)?;
        }
    }
    let new = describe(taker, &to.new, (&gives.place, &takes.place));
    let new = match round {
        Some(number) => describe::of_round(new, taker, number),
        None => new,
    };
    let places = submit::check(&queue.this, &new)?;
    // The copy at either end is checked, and therefore read.
    access::check_owner(
        &queue.rights,
        (&taker.owner, to.role),
        access::There::of(&new),
        &[gives.place, takes.place.clone()],
        &takes.place,
    )?;
    Ok(Some(Plan {
        new,
        places,
        role: to.role,
    }))
}

/// Whether a relay from this giver delivered other data than the source had sent to the giver.
fn gave_wrong_data(reader: &Reader, giver: &Job) -> Result<bool, JobsError> {
    for taker in relay::siblings(reader, giver)?.unwrap_or_default() {
        let relay = relay::between(reader, &taker, giver)?;
        let why = relay.and_then(|relay| relay.reason);
        if why.is_some_and(|why| why.code == FailureCode::RelayWrong) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
