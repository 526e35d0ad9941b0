//! Decides once which site runs the transfer of a job, and notes that in the state before any site begins it.
//! Starts nothing, and gives no access.
//!
//! A job that fetches from another site and is to be divided is moved by the nodes of that site. A later attempt with another decision
//! would write beside the job of the earlier one. So every attempt takes the route of the first one, and none guesses. While this node or
//! the other site lacks the answer, the attempt ends, and the next one asks again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use godwit_api::ask::{Peer, Question, ReachSite, Refusal, code};
use godwit_api::event::EventSink as _;
use godwit_api::grant::Right;
use godwit_api::job::JobKind;
use godwit_api::rest::{Divide, HERE, NewJob, Place};
use godwit_run::Control;
use godwit_run::local::{self, ExportedFiles};
use godwit_state::{Agreed, Job, JobOp, LEVEL_ROUTE, ProposeError, Reader, Route, Site};

use super::lone::site;
use super::{Context, Stop, below_exports, is_passing, is_third_party, may_run_elsewhere};
use crate::asking::reached;
use crate::attempt::AttemptEvents;
use crate::attempt::divided;
use crate::basis::error::JobsError;
use crate::basis::owners::asker_of;
use crate::basis::this_node::ThisNode;
use crate::basis::{sealing, spec};
use crate::rights::{Rights, access};

/// How long the other site may take to find out whether it reaches this node.
const WITHIN: Duration = Duration::from_secs(60);

/// How long an attempt waits for the data port of this node, which listens soon after the start, and for the state to take the route.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PROPOSE_AGAIN: Duration = Duration::from_millis(200);

/// The route of a job that was decided before, if any was.
pub(super) fn noted(reader: &Reader, job: &Job) -> Result<Option<Route>, JobsError> {
    Ok(Agreed(reader).route(&job.id)?)
}

/// Whether another site may have run the job, and may run it still.
pub(super) fn may_be_elsewhere(this: &ThisNode, job: &Job) -> bool {
    if job.attempts == 0 {
        return false;
    }
    if is_third_party(job) {
        return true;
    }
    match noted(&this.reader(), job) {
        Ok(Some(route)) => route != Route::Here,
        // Below the level that knows routes, an attempt recorded no route and used no job of the other site.
        _ => may_be_brought(this, job)
            .is_ok_and(|new| new.is_some_and(|new| new.divide == Divide::Always)),
    }
}

/// The description of a job whose data the site of its sources may send here. None for any other job.
pub(super) fn may_be_brought(this: &ThisNode, job: &Job) -> Result<Option<NewJob>, JobsError> {
    let fetches = job.destination.site == HERE && may_run_elsewhere(job);
    if !fetches || asker_of(job).is_some() {
        return Ok(None);
    }
    let Some(stored) = this.reader().job_spec(&job.id)? else {
        return Ok(None);
    };
    let new = spec::parse(&stored)?;
    let is_wanted = match new.divide {
        Divide::Always => true,
        // Below that level a later attempt could decide otherwise.
        Divide::Auto => Agreed(&this.reader()).level()? >= LEVEL_ROUTE,
        Divide::Never => false,
    };
    // A job that only reports on the destination is not sent to another site. Nor is one whose copies this node could not name then.
    let may = |new: &NewJob| {
        let stays = new.manifest
            || new.remove_source_after.is_some()
            || access::is_dry(new)
            || sealing::is_found_out(new);
        new.kind != JobKind::Verify && !stays
    };
    Ok(Some(new).filter(|new| is_wanted && may(new)))
}

/// Whether the site of the sources sends the data of the job here. Otherwise a node here fetches the data.
pub(super) fn is_brought(
    context: &Context,
    job: &Job,
    epoch: u64,
    new: &NewJob,
    events: &AttemptEvents,
    control: &Control,
) -> Result<bool, Stop> {
    let (this, asking) = (&context.this, &context.asking);
    if let Some(route) = noted(&this.reader(), job)? {
        return Ok(route != Route::Here);
    }
    let (Some(first), Ok((sources, destination))) = (job.sources.first(), spec::places(new)) else {
        return Ok(false);
    };
    // A site that is not known, or is another one by now, runs nothing; the attempt reports that.
    let goes_on = || !control.is_cancelled();
    let Ok((from, from_nodes)) = site(asking, job, &first.site, &goes_on) else {
        return Ok(false);
    };
    if new.divide == Divide::Auto {
        if !gains(this, job, new, &from_nodes)? {
            return Ok(false);
        }
        // A user that fetches gives the other site no access to what is here, unless the user asks for that. The job's own access to a new
        // name is to nothing but the job's own entries.
        let (access, now) = (access::Access(&context.rights), this.now());
        if !access.peer_may_at(&from.identity, &destination, Right::Write, now)?
            && !is_new(&*context.exported, &destination)
        {
            events.note(&format!(
                "one node here fetches, because {} has no right to write at {destination}, which is there already; --divide always grants this access for the job",
                first.site
            ));
            return Ok(false);
        }
    }
    let ask = |question: &Question| reached::ask(asking, &from, question, WITHIN, &goes_on);
    let is_there = || match ask(&Question::Job {
        job: job.id.clone(),
    }) {
        Ok(_) => Ok(true),
        Err(refusal) if is_passing(&refusal) => Err(refusal),
        Err(_) => Ok(false),
    };
    // An earlier attempt may have had no state that takes routes.
    if job.attempts > 0 && is_there()? {
        note(this, job, epoch, Route::Push, unasked(), control)?;
        return Ok(true);
    }
    let Some(own) = own(&context.rights, control)? else {
        return Ok(false);
    };
    let reached = ask(&Question::Reach(ReachSite {
        peer: own,
        paths: below_exports(&sources),
        write: false,
    }));
    let route = match reached {
        Ok(_) => Route::Push,
        Err(refusal) => {
            // The site itself may be out of reach. Then it has decided nothing.
            let is_answer = !refusal.retryable || refusal.code == code::UNREACHABLE;
            if !is_answer || control.is_cancelled() {
                return Err(refusal.into());
            }
            is_there()?;
            events.note(&format!(
                "one node here fetches, because the other site cannot send: {refusal}"
            ));
            Route::Here
        }
    };
    note(this, job, epoch, route, unasked(), control)?;
    Ok(route != Route::Here)
}

/// Whether nothing has the name of a place here yet. A file system that does not answer is not waited for.
fn is_new(files: &dyn ExportedFiles, place: &Place) -> bool {
    if files.silent_for(&place.export).is_some() {
        return false;
    }
    let path = Path::new("/")
        .join(&place.export)
        .join(OsStr::from_bytes(&place.path));
    let found = files.destination(&path, local::Access::default());
    found.is_ok_and(|found| matches!(found.storage.stat(&found.base), Ok(None)))
}

/// Whether a job gains from being divided: a site has several nodes, the description allows it, and no attempt began to write otherwise.
fn gains(this: &ThisNode, job: &Job, new: &NewJob, from_nodes: &[Peer]) -> Result<bool, JobsError> {
    let reader = this.reader();
    // An attempt that the other site runs has noted its route.
    let placed = Agreed(&reader).placed(&job.id)?;
    let has_begun = placed.into.is_some() || !placed.tags.is_empty();
    let is_lone_pair = from_nodes.len() < 2 && divided::mates(this, job).is_empty();
    if has_begun || is_lone_pair {
        return Ok(false);
    }
    let find = |name: &str| Ok(reader.object::<Site>(name)?);
    Ok(spec::prepare(new, &find).is_ok_and(|prepared| {
        divided::can_divide(&reader, new, &prepared) && !divided::is_lone_pair(&prepared)
    }))
}

/// No site is asked to run the job yet.
const fn unasked() -> (Option<String>, Vec<String>) {
    (None, Vec::new())
}

/// This node as other sites reach it, once its data port listens. None if this node has no data port.
pub(super) fn own(rights: &Rights, control: &Control) -> Result<Option<Peer>, Stop> {
    let until = Instant::now() + PATIENCE;
    loop {
        match rights.cluster.own() {
            Some(own) if own.addresses.is_empty() => {}
            own => return Ok(own),
        }
        if control.is_cancelled() || rights.this.is_stopping() {
            return Err(Stop::ClaimEnded);
        }
        if Instant::now() >= until {
            let message = "the data port of this node is not open yet";
            return Err(Refusal::later(code::UNREACHABLE, message).into());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Records the route in the state, with the asker by which the site knows the job, and the independent nodes that have it. No site begins
/// the job before that. A cluster of an older level cannot record them.
pub(super) fn note(
    this: &ThisNode,
    job: &Job,
    epoch: u64,
    route: Route,
    (asker, at): (Option<String>, Vec<String>),
    control: &Control,
) -> Result<(), Stop> {
    let level = Agreed(&this.reader()).level();
    if level.map_err(JobsError::from)? < LEVEL_ROUTE {
        return Ok(());
    }
    let op = JobOp::Route {
        epoch,
        route,
        asker,
        at,
    };
    let until = Instant::now() + PATIENCE;
    loop {
        match this.propose_for(&job.id, op.clone()) {
            Ok(()) => return Ok(()),
            // The claim of this attempt has ended.
            Err(ProposeError::Refused(_)) => return Err(Stop::ClaimEnded),
            Err(_) if control.is_cancelled() || this.is_stopping() => {
                return Err(Stop::ClaimEnded);
            }
            Err(error) if Instant::now() >= until => {
                let words = JobsError::from(error).words();
                return Err(Refusal::later(code::IO, words).into());
            }
            Err(_) => std::thread::sleep(PROPOSE_AGAIN),
        }
    }
}
