//! Finds out whether this node can connect to a site that another node names, for a question or before a job. Hides all other results of
//! the attempt from that node.
//! Opens no connection itself, and decides no right: the caller supplies the rights of the asker.
//!
//! The asker chooses the addresses. So the answer is yes or no. Every refusal comes after the same
//! time with the same text, whatever the state of the address: otherwise the asker could scan ports
//! through this node.
//!
//! The question comes before the job, whose direction depends on the answer. So it names no job, but
//! the paths of the job. Only an identity with the right to them gets a dial, and the one answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::ask::{AskSites, Peer, Refusal, code};
use godwit_api::failure::{Failure, FailureCode};
use godwit_state::Job;

use crate::asking::Asking;
use crate::basis::owners::asker_of;
use crate::basis::stored::{Guest, Stored};

/// Time after which a site counts as unreachable, and the asker gets this answer.
const REACH_WITHIN: Duration = Duration::from_secs(6);

/// Addresses of one site, and bytes of all texts about it.
const ADDRESSES_MAX: usize = 16;
const SITE_BYTES_MAX: usize = 8 << 10;

/// An attempt for another node that ends before the other end has proved its identity takes a multiple of this time. An address that does
/// not answer takes half of it.
const END_EVERY: Duration = Duration::from_secs(20);

/// Sites that one asker may have dialled at once, and the time after which it may have one more dialled.
const AT_ONCE: u32 = 16;
const ONE_MORE_AFTER: Duration = Duration::from_secs(5);

/// How long a yes and a no are good for the same site. So jobs with a dozen sites need no more dials than are allowed again.
const REACHED_FOR: Duration = Duration::from_secs(60);
const NOT_REACHED_FOR: Duration = Duration::from_secs(20);

/// How often a wait looks whether the node stops.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The one text of every no.
pub(crate) const NOT_REACHED: &str =
    "no node with this identity could be reached from here; see the log of this node";

/// Recent dials of sites for askers, and whether they reached the site.
pub(crate) struct RecentDials {
    within: Duration,
    askers: Mutex<HashMap<String, Asker>>,
    answered: Condvar,
}

struct Asker {
    /// Dials that are left, and the start of the wait for the next one.
    left: u32,
    since: Instant,
    sites: Vec<(Peer, Look)>,
}

#[derive(Clone, Copy)]
enum Look {
    /// Another thread dials.
    Dialling,
    Reached(Instant),
    NotReached(Instant),
}

impl Default for RecentDials {
    fn default() -> Self {
        Self {
            within: REACH_WITHIN,
            askers: Mutex::default(),
            answered: Condvar::new(),
        }
    }
}

impl RecentDials {
    /// Whether the site is reached, for an asker that may ask it. Blocks for at most [`REACH_WITHIN`]. The wait for an unreached site
    /// always takes that time.
    ///
    /// # Errors
    /// The site is not reached; it has too many addresses; or this asker had too many sites dialled.
    pub(crate) fn answer(
        &self,
        asker: &str,
        site: &Peer,
        sites: &dyn AskSites,
        stopping: &AtomicBool,
        log: &dyn Fn(&str),
    ) -> Result<(), Refusal> {
        let texts = site.addresses.iter().chain([&site.name, &site.identity]);
        if site.addresses.len() > ADDRESSES_MAX
            || texts.map(String::len).sum::<usize>() > SITE_BYTES_MAX
        {
            let what = format!(
                "peer: a site has {ADDRESSES_MAX} addresses at most, and no more than {SITE_BYTES_MAX} bytes with its name"
            );
            return Err(Refusal::new(code::INVALID, what));
        }
        let begun = Instant::now();
        if let Some(reached) = self.begin(asker, site)? {
            return reachable(reached);
        }
        let mut dial = Dial {
            reaching: self,
            asker,
            site,
            reached: false,
        };
        let reached = sites.reach(site, self.within);
        if let Err(refusal) = &reached {
            log(&format!("asked by {asker}: {refusal}"));
            let left = || self.within.saturating_sub(begun.elapsed());
            while !left().is_zero() && !stopping.load(Ordering::SeqCst) {
                std::thread::sleep(LOOK_EVERY.min(left()));
            }
        }
        dial.reached = reached.is_ok();
        reachable(dial.reached)
    }

    /// The last answer for the site; `None` means that the caller dials it, and reports the outcome by [`Self::end`].
    fn begin(&self, asker: &str, site: &Peer) -> Result<Option<bool>, Refusal> {
        let mut askers = self.lock();
        loop {
            let now = Instant::now();
            askers.retain(|_, one| one.is_of_interest(now));
            let own = askers
                .entry(asker.to_owned())
                .or_insert_with(|| Asker::new(now));
            let known = own.sites.iter().find(|(known, _)| known == site);
            match known.map(|(_, look)| *look) {
                None => {
                    own.take(now)?;
                    own.sites.push((site.clone(), Look::Dialling));
                    return Ok(None);
                }
                Some(Look::Reached(_)) => return Ok(Some(true)),
                Some(Look::NotReached(_)) => return Ok(Some(false)),
                Some(Look::Dialling) => {
                    let waited = self.answered.wait(askers);
                    askers = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// A site that was reached is gone from its address: the next attempt finds it again, or waits as long as for any other.
    pub(crate) fn lose(&self, asker: &str, site: &Peer) {
        self.end(asker, site, false);
    }

    /// The asker has heard that the site may be back: a no is good no longer. The next dial counts like any other.
    fn doubt(&self, asker: &str, site: &Peer) {
        if let Some(own) = self.lock().get_mut(asker) {
            let is_no = |look: &Look| matches!(look, Look::NotReached(_));
            own.sites
                .retain(|(known, look)| known != site || !is_no(look));
        }
    }

    /// Notes how a dial went.
    fn end(&self, asker: &str, site: &Peer, reached: bool) {
        let now = Instant::now();
        if let Some(own) = self.lock().get_mut(asker)
            && let Some((_, known)) = own.sites.iter_mut().find(|(known, _)| known == site)
        {
            *known = match reached {
                true => Look::Reached(now),
                false => Look::NotReached(now),
            };
        }
        self.answered.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Asker>> {
        self.askers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A dial under way. Its end is noted even if it panics, so that no other question waits for it.
struct Dial<'a> {
    reaching: &'a RecentDials,
    asker: &'a str,
    site: &'a Peer,
    reached: bool,
}

impl Drop for Dial<'_> {
    fn drop(&mut self) {
        self.reaching.end(self.asker, self.site, self.reached);
    }
}

impl Asker {
    const fn new(now: Instant) -> Self {
        Self {
            left: AT_ONCE,
            since: now,
            sites: Vec::new(),
        }
    }

    /// Takes one of the dials that are left.
    fn take(&mut self, now: Instant) -> Result<(), Refusal> {
        while self.left < AT_ONCE && now.duration_since(self.since) >= ONE_MORE_AFTER {
            self.left += 1;
            self.since += ONE_MORE_AFTER;
        }
        if self.left == AT_ONCE {
            self.since = now;
        }
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            let seconds = ONE_MORE_AFTER.as_secs();
            Refusal::later(
                code::BUSY,
                format!(
                    "this identity has had {AT_ONCE} sites tested from here, and may have one more tested every {seconds} s; try again later"
                ),
            )
        })?;
        Ok(())
    }

    /// Forgets answers that are too old; whether anything is left to know.
    fn is_of_interest(&mut self, now: Instant) -> bool {
        self.sites.retain(|(_, look)| match look {
            Look::Dialling => true,
            Look::Reached(at) => now.duration_since(*at) < REACHED_FOR,
            Look::NotReached(at) => now.duration_since(*at) < NOT_REACHED_FOR,
        });
        let full_again = ONE_MORE_AFTER * (AT_ONCE - self.left);
        !self.sites.is_empty() || now.duration_since(self.since) < full_again
    }
}

/// The whole answer to the asker.
fn reachable(reached: bool) -> Result<(), Refusal> {
    if reached { Ok(()) } else { Err(not_reached()) }
}

fn not_reached() -> Refusal {
    Refusal::later(code::UNREACHABLE, NOT_REACHED)
}

/// Failures of a connection to the other end of a job before that end has proved its identity.
const BEFORE_PROOF: [FailureCode; 6] = [
    FailureCode::Unreachable,
    FailureCode::PeerSilent,
    FailureCode::NotGodwit,
    FailureCode::TlsFailed,
    FailureCode::IdentityChanged,
    FailureCode::UnknownPeer,
];

/// Whether an attempt failed before the other end had proved its identity. For the asker of a job all such ends are the same.
pub(crate) fn is_unproven(code: FailureCode) -> bool {
    BEFORE_PROOF.contains(&code)
}

impl Asking {
    /// Finds out whether a site that an asker names is reached from here.
    ///
    /// # Errors
    /// The site is not reached, or the asker had too many sites tried lately.
    pub(crate) fn reached_for(&self, asker: &str, site: &Peer) -> Result<(), Refusal> {
        let Self { this, sites, .. } = self;
        self.reaching
            .answer(asker, site, &**sites, &this.stopping, &*this.log)
    }
}

/// Checks, before an attempt of a guest job connects, whether the other end can be reached. The bound on tries and the answers are those
/// of a question.
///
/// # Errors
/// The site is not reached, or the asker had too many sites tried lately.
pub(crate) fn check_reach(asking: &Asking, guest: &Guest) -> Result<(), Failure> {
    let Some(site) = &guest.other else {
        return Ok(());
    };
    let reached = asking.reached_for(&guest.asker, site);
    reached.map_err(|no| match no.code.known() {
        Some(code::BUSY) => Failure::new(FailureCode::PeerBusy, no.message),
        _ => Failure::new(FailureCode::Unreachable, no.message),
    })
}

/// The asker of a job retries it now: the next attempt dials the other end, even if a dial failed a moment ago.
pub(crate) fn dial_again(asking: &Asking, id: &str) {
    if let Some((asker, site)) = other_end(asking, id) {
        asking.reaching.doubt(&asker, &site);
    }
}

/// The asker of a job, and the site at its other end.
fn other_end(asking: &Asking, id: &str) -> Option<(String, Peer)> {
    let spec = asking.this.reader().job_spec(id).ok().flatten()?;
    let guest = Stored::parse(&spec).ok()?.guest?;
    Some((guest.asker, guest.other?))
}

/// Hides from the asker how long an attempt tried the addresses of the other end: it may have moved since it was reached.
pub(crate) fn even_out(
    asking: &Asking,
    job: &Job,
    failure: &Failure,
    begun: Instant,
    stops: &dyn Fn() -> bool,
) {
    if asker_of(job).is_none() || !is_unproven(failure.code) || failure.message == NOT_REACHED {
        return;
    }
    if let Some((asker, site)) = other_end(asking, &job.id) {
        asking.reaching.lose(&asker, &site);
    }
    while !is_even(begun.elapsed()) && !stops() {
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Whether an attempt may end after this time.
fn is_even(took: Duration) -> bool {
    let past = took.as_millis() % END_EVERY.as_millis();
    took >= END_EVERY && past < 5 * LOOK_EVERY.as_millis()
}

#[cfg(test)]
#[path = "reach/tests.rs"]
mod tests;
