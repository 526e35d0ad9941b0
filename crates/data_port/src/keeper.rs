//! One thread for all transfers of a daemon: ends finished transfers, and suspends those whose client is absent. Does not move data or
//! begin transfers.
//!
//! When a client has been absent for ten seconds, its engine ends and the journal stays locked. A kept transfer costs one
//! descriptor, and no other transfer may write to its destination. A client that returns gets UNKNOWN_TRANSFER, opens a new
//! transfer and resumes from the
//! journal. A pull, or a transfer without a journal, ends instead. A pipe cannot be opened again, so its engine stays.
//!
//! If an agent finds the journal of its transfer locked by another process, it asks for it by a file beside the journal (`….wanted`). A
//! process that holds that transfer without a client then releases it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_api::job::Text;
use godwit_engine::End;

use crate::allow::Denial;
use crate::begin::HolderRights;
use crate::claims::By;
use crate::leave::Round;
use crate::session::{Claim, Session, locked};
use crate::table::Entry;
use crate::{Shared, news};

/// How often the keeper checks each transfer when nothing has changed.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often the keeper checks whether the client of a suspended transfer still has its grant; each check reads a file.
const GRANT_LOOK_EVERY: Duration = Duration::from_secs(10);

/// How long a finished transfer is kept for a client that missed the last message.
const LINGER: Duration = Duration::from_secs(10);

/// How long a daemon keeps the engine of a transfer whose client is absent. A reconnect within this time is free; afterwards the client
/// opens a new transfer and resumes from the journal.
pub(crate) const SUSPEND_AFTER: Duration = Duration::from_secs(10);

const CLAIM_ENDED: &str = "the claim of the job has ended at this node, or the node cannot read the right of the claim's holder; the job assigns the work to a member again";

const STOOD_STILL: &str =
    "this node, or the file system of the export, was blocked for a while: check the mount there";

const AWAY: &str = "the client is disconnected; the transfer resumes when the client reconnects";

/// State of a transfer between two checks of the keeper.
pub(crate) struct Watch {
    /// When the transfer last had a stream.
    alive: Instant,
    /// Time at which the engine of the transfer finished.
    finished: Option<Instant>,
    was_taken_back: bool,
    /// Whether a thread is ending the transfer.
    is_ending: bool,
}

impl Watch {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            alive: now,
            finished: None,
            was_taken_back: false,
            is_ending: false,
        }
    }
}

/// The next step of a transfer.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Wait,
    /// End the transfer: the engine has ended, and its threads must be joined.
    End,
    /// End the transfer, but keep its destination for the client.
    Suspend,
}

/// The keeper's view of grants and time.
struct Rules<'a> {
    /// The reason why the client may not continue, if its grant was revoked.
    taken_back: &'a dyn Fn(&Claim) -> Option<Denial>,
    suspend_after: Duration,
}

/// Main function of the keeper's thread. Ends when the daemon stops and no transfer is left.
pub(crate) fn run(shared: &Arc<Shared>) {
    let mut next_look = Instant::now();
    let mut next_grant_look = Instant::now();
    loop {
        let now = Instant::now();
        let (entries, seen) = shared.table.entries();
        if entries.is_empty() && shared.stopping() {
            return;
        }
        let due = now >= next_look;
        if due {
            next_look = now + LOOK_EVERY;
            let rights = HolderRights::new(shared);
            let may_hold = |by: &By, asked: &Text| rights.may_write(by, asked);
            shared.config.claims.look(now, &may_hold);
            remove_marks(shared);
        }
        let grants_due = now >= next_grant_look;
        if grants_due {
            next_grant_look = now + GRANT_LOOK_EVERY;
        }
        // All grants are read once for all transfers.
        let round = Round::default();
        let rules = Rules {
            taken_back: &|claim| shared.places.taken_back(&claim.leave, &round),
            suspend_after: shared.suspend_after,
        };
        for entry in entries {
            match entry {
                Entry::Running(session) => match step(&rules, &session, now, due) {
                    Step::Wait => {}
                    Step::End => end(shared, session, None),
                    Step::Suspend => {
                        let until = locked(&session.watch).alive + session.kept_for();
                        end(shared, session, Some(until));
                    }
                },
                Entry::Held { claim, until } if due => {
                    if let Some(why) = is_given_up(&rules, &claim, until, now, grants_due) {
                        shared
                            .operator
                            .log_peer(claim.owner, &format!("{}: {why}", claim.label));
                        shared.table.remove(&claim.transfer);
                    }
                }
                Entry::Held { .. } => {}
            }
        }
        // Claims are checked even while no transfer runs.
        shared
            .table
            .wait_for_change(seen, next_look, now + GRANT_LOOK_EVERY);
    }
}

/// Checks a running transfer. `due`: whether it is time for the checks that run only a few times a second.
fn step(rules: &Rules<'_>, session: &Session, now: Instant, due: bool) -> Step {
    let mut watch = locked(&session.watch);
    if watch.is_ending {
        return Step::Wait;
    }
    if let Some(end) = session.engine.end() {
        let since = *watch.finished.get_or_insert(now);
        let is_over = session.is_orphan()
            || !matches!(end, End::Finished(_))
            || now.saturating_duration_since(since) > LINGER;
        return if is_over { Step::End } else { Step::Wait };
    }
    let claim = &session.claim;
    // The writes of the transfer are already refused; ending it closes its files.
    if claim.has_lost_claim(now) {
        session.engine.cancel(CLAIM_ENDED);
    }
    // The job of the transfer may continue elsewhere; a write that hangs here would take effect late.
    if claim.fence.as_ref().is_some_and(|fence| !fence.holds()) {
        session.engine.cancel(STOOD_STILL);
    }
    let is_orphan = session.is_orphan();
    if !is_orphan {
        watch.alive = now;
    }
    if !due {
        return Step::Wait;
    }
    session.engine.tune();
    // Checked twice in a row, because a file that is being rewritten is empty for a moment.
    match (rules.taken_back)(claim) {
        Some(no) if watch.was_taken_back => session.engine.fail(no.code, &no.message),
        found => watch.was_taken_back = found.is_some(),
    }
    if !is_orphan {
        return Step::Wait;
    }
    let away = now.saturating_duration_since(watch.alive);
    if away >= session.kept_for() {
        session.engine.cancel("the client did not reconnect");
    } else if claim.wanted.as_ref().is_some_and(|wanted| wanted.exists()) {
        session.engine.cancel("the same transfer was started again");
    } else if away >= rules.suspend_after && !session.is_once() && session.close() {
        session.engine.cancel(AWAY);
        // Another cause may have ended it at this moment.
        if matches!(session.engine.end(), Some(End::Cancelled(reason)) if reason == AWAY) {
            return Step::Suspend;
        }
    }
    match session.engine.end() {
        Some(_) => Step::End,
        None => Step::Wait,
    }
}

/// Removes marks of ended claims on a separate thread, because a file system that hangs must not delay other claims.
fn remove_marks(shared: &Arc<Shared>) {
    if shared.config.claims.has_remains() {
        let own = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("gw-marks".to_owned());
        // Without a thread, the next check tries again.
        let _ = thread.spawn(move || own.here.remove_marks());
    }
}

/// Joins the engine's threads on a separate thread, because a slow disk must not delay other transfers.
fn end(shared: &Arc<Shared>, session: Arc<Session>, until: Option<Instant>) {
    locked(&session.watch).is_ending = true;
    let (own, ending) = (Arc::clone(shared), Arc::clone(&session));
    let spawned = std::thread::Builder::new()
        .name("gw-ending".to_owned())
        .spawn(move || conclude(&own, &ending, until));
    if spawned.is_err() {
        conclude(shared, &session, until);
    }
}

fn conclude(shared: &Shared, session: &Session, until: Option<Instant>) {
    session.engine.join();
    let claim = &session.claim;
    if let Some(end) = session.engine.end() {
        let reported = news::ended(&session.start, session.began, &session.engine, &end);
        shared.operator.report(&reported);
    }
    match until {
        Some(until) if claim.holds_journal() => shared.table.hold(&claim.transfer, until),
        _ => shared.table.remove(&claim.transfer),
    }
}

/// The reason why the destination of a suspended transfer is no longer kept, if so.
fn is_given_up(
    rules: &Rules<'_>,
    claim: &Claim,
    until: Instant,
    now: Instant,
    grants_due: bool,
) -> Option<String> {
    if claim.has_lost_claim(now) {
        return Some(CLAIM_ENDED.to_owned());
    }
    if now >= until {
        return Some("the client did not reconnect; its destination is free again".to_owned());
    }
    if claim.wanted.as_ref().is_some_and(|wanted| wanted.exists()) {
        return Some("the same transfer was started again".to_owned());
    }
    let no = grants_due.then(|| (rules.taken_back)(claim));
    no.flatten().map(|no| no.message)
}

#[cfg(test)]
mod tests;
