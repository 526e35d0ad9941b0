//! Starts an attempt: the thread that chooses how the job runs, runs it, and reports its end.
//! Runs nothing itself: `local`, `divided` and `site` do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use godwit_api::event::{EventSink as _, Summary};
use godwit_api::failure::{Failure, FailureCode};
use godwit_run::Control;
use godwit_state::{Finish, Job, JobOp, Reason};

use super::ending::{conclude, settle};
use super::live::Attempt;
use super::record::Recording;
use super::relay::Checks;
use super::removal::{self, Removal};
use super::reports::Reports;
use super::site::Away;
use super::{AttemptEvents, Claim, ClaimFence, left, local, site};
use crate::asking::reach::even_out;
use crate::rights::Rights;
use crate::rights::access::RightsAtStart;

/// The parts for all attempts.
pub(crate) struct Attempts {
    pub(crate) reports: Arc<Reports>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) local: local::Context,
    pub(crate) site: Arc<site::Context>,
}

/// Starts the attempt of a claim.
pub(crate) fn start(
    attempts: &Arc<Attempts>,
    job: Job,
    claim: Claim,
    sites: Vec<String>,
    limit: u64,
) {
    let this = &attempts.reports.this;
    let epoch = claim.epoch;
    let control = Control::default();
    let progress = Arc::new(Mutex::new(None));
    let at_start = RightsAtStart::of(&attempts.rights, &job);
    let fence = Arc::new(ClaimFence::new(this, &job.id, claim, &control));
    let attempt = Attempt {
        at_start,
        fence: Arc::clone(&fence),
        owner: job.owner.clone(),
        sites,
        epoch,
        control: control.clone(),
        limit,
        ahead: Arc::default(),
        progress: Arc::clone(&progress),
    };
    attempts.reports.live.insert(&job.id, attempt);
    let own = Arc::clone(attempts);
    let id = job.id.clone();
    let body = move || {
        let events = AttemptEvents::new(&own.reports, &job, epoch, control.clone(), progress);
        if let Some(request) = &job.request {
            events.note(&format!("submitted by request {request}"));
        }
        let mut recording = None;
        // A panic has been printed. Without an end the job would stay in its state for ever.
        let work = AssertUnwindSafe(|| {
            let claimed = (epoch, limit, at_start, &fence);
            run(&own, &job, claimed, &control, &events, &mut recording)
        });
        let ended = catch_unwind(work).unwrap_or_else(|_panic| {
            let message = "a thread of the job panicked; see the node's log";
            Some(Err(Failure::new(FailureCode::Internal, message)))
        });
        left::report(&own.local.asking, &job, &events);
        if let Some(ended) = ended {
            if let Some(recording) = recording {
                recording.end(&*own.reports.tells, &ended, events.totals());
            }
            let last = |finish: &mut Finish| {
                let removes = AssertUnwindSafe(|| {
                    let checks = checks(&own, &job, &control, &events);
                    Removal(&checks).remove(&*fence, finish);
                });
                if catch_unwind(removes).is_err() {
                    removal::broke(finish);
                }
            };
            conclude(&own.local.asking, &job, epoch, &events, ended, &last);
        }
        let live = &own.reports.live;
        live.remove(&job.id);
        live.relay_ended(&job, events.moved().bytes);
    };
    let name = "gw-job".to_owned();
    let spawned = std::thread::Builder::new().name(name).spawn(body);
    if let Err(error) = spawned.map(|thread| attempts.reports.live.keep(thread)) {
        this.log(&format!("job {id}: no thread for it: {error}"));
        attempts.reports.live.remove(&id);
        let reason = Reason::new(
            FailureCode::NoThread,
            format!("No thread could be started: {error}."),
        );
        let backoff = JobOp::Backoff {
            epoch,
            reason,
            next_attempt: this.now().after(5_000),
            bytes: 0,
            files: 0,
        };
        // If the state takes nothing now, the next start of the node returns the job to the queue.
        let _ = this.propose_for(&id, backoff);
    }
}

/// Runs the attempt. Returns its end, unless that is reported already or the claim has ended.
fn run(
    own: &Attempts,
    job: &Job,
    (epoch, limit, at_start, fence): (u64, u64, RightsAtStart, &Arc<ClaimFence>),
    control: &Control,
    events: &Arc<AttemptEvents>,
    recording: &mut Option<Recording>,
) -> Option<Result<Summary, Failure>> {
    let checks = checks(own, job, control, events);
    let ready = site::check_rights(&own.site, job)
        .and_then(|()| site::check_apart(&own.site, job, control))
        .and_then(|()| checks.before())
        .and_then(|()| checks.may_seal());
    if let Err(failure) = ready {
        return Some(Err(failure));
    }
    checks.note_new();
    match site::carry_out(&own.site, job, epoch, limit, events, control) {
        Away::Ended(op) => {
            if let Err(failure) = checks.after_site(op.as_ref()) {
                return Some(Err(failure));
            }
            op.into_iter().for_each(|op| settle(job, &op, events));
            None
        }
        Away::Not => {
            // Sites that run a transfer for this node record it themselves.
            *recording = Some(Recording::begin(&*own.reports.tells, job));
            let begun = Instant::now();
            let given = (limit, at_start, fence);
            let ended = local::carry_out(&own.local, job, epoch, given, control, events);
            if let Err(failure) = &ended {
                let stops = || control.is_cancelled() || own.reports.this.is_stopping();
                even_out(&own.local.asking, job, failure, begun, &stops);
            }
            let checked = |summary: Summary| -> Result<Summary, Failure> {
                checks.after(&summary)?;
                Removal(&checks).prove(&summary)?;
                Ok(summary)
            };
            Some(ended.and_then(checked))
        }
    }
}

fn checks<'a>(
    own: &'a Attempts,
    job: &'a Job,
    control: &'a Control,
    events: &'a Arc<AttemptEvents>,
) -> Checks<'a> {
    Checks {
        rights: &own.rights,
        asking: &own.local.asking,
        exported: &*own.site.exported,
        make_env: &*own.local.make_env,
        job,
        control,
        events,
    }
}
