//! One attempt of a job: a thread that runs the transfer, and reports its end to the state.
//! Does not decide when the next one comes, except for the delay of the job's policy.

pub(crate) mod after_crash;
pub(crate) mod divided;
mod events;
mod fence;
mod foresight;
mod lack;
mod placed;
pub(crate) mod site;
mod space;
mod veil;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use godwit_api::endpoint::Endpoint;
use godwit_api::event::{EventSink, Status, Summary, Verdict};
use godwit_api::failure::{Failure, FailureCode, Retry};
use godwit_api::job::{JobKind, Text};
use godwit_api::rest::is_request_id;
use godwit_api::units::counted;
use godwit_run::{Control, Env, GivenList, Runner};
use godwit_state::{Command, CommandError, Finish, Job, JobOp, Op, Outcome, ProposeError, Reason};

use crate::access::Sight;
use crate::live::Attempt;
use crate::record::Recording;
use crate::scheduler::actor;
use crate::spec::{self, Prepared};
use crate::stored::Stored;
use crate::{Shared, access, guests, left, manifest, reached};
pub(crate) use events::AttemptEvents;
use events::Observed;
pub(crate) use fence::{Claim, ClaimFence};
pub(crate) use placed::Placing;
use site::Away;
pub(crate) use space::Shortage;
use space::SpaceWatch;
use veil::without_home;

/// Longest text of one example: the state takes no longer one.
const TEXT_BYTES_MAX: usize = 4_096;

/// While the state does not take how an attempt ended.
const PROPOSE_AGAIN: Duration = Duration::from_secs(1);

/// How long an attempt of a job without a maximum of retries stays with one node of several, unless its owner sets otherwise.
const IMPATIENT: [(&str, &str); 2] = [("stall-deadline", "20s"), ("retry-for", "20s")];

/// Starts the attempt of a claim.
pub(crate) fn start(shared: &Arc<Shared>, job: Job, claim: Claim, sites: Vec<String>, limit: u64) {
    let epoch = claim.epoch;
    let control = Control::default();
    let progress = Arc::new(Mutex::new(None));
    let sight = Sight::of(shared, &job);
    let fence = Arc::new(ClaimFence::new(shared, &job.id, claim, &control));
    let attempt = Attempt {
        sight,
        fence: Arc::clone(&fence),
        owner: job.owner.clone(),
        sites,
        epoch,
        control: control.clone(),
        limit,
        ahead: Arc::default(),
        progress: Arc::clone(&progress),
    };
    shared.live.insert(&job.id, attempt);
    let own = Arc::clone(shared);
    let id = job.id.clone();
    let body = move || {
        let told = AttemptEvents::new(&own, &job, epoch, control.clone(), progress);
        if let Some(request) = &job.request {
            told.note(&format!("submitted by request {request}"));
        }
        let mut recording = None;
        // A panic has been printed. Without an end the job would stay in its state for ever.
        let work = AssertUnwindSafe(|| {
            match site::carry_out(&own, &job, epoch, limit, &told, &control) {
                Away::Ended(op) => {
                    op.into_iter().for_each(|op| settle(&own, &job, &op, &told));
                    None
                }
                Away::Not => {
                    // Sites that run a transfer for this node record it themselves.
                    recording = Some(Recording::begin(&own, &job));
                    let begun = Instant::now();
                    let given = (limit, sight, &fence);
                    let ended = carry_out(&own, &job, epoch, given, &control, &told);
                    if let Err(failure) = &ended {
                        let stops =
                            || control.is_cancelled() || own.stopping.load(Ordering::SeqCst);
                        guests::even_out(&own, &job, failure, begun, &stops);
                    }
                    Some(ended)
                }
            }
        });
        let ended = catch_unwind(work).unwrap_or_else(|_panic| {
            let message = "a thread of the job panicked; see the node's log";
            Some(Err(Failure::new(FailureCode::Internal, message)))
        });
        left::tell(&own, &job, &told);
        if let Some(ended) = ended {
            if let Some(recording) = recording {
                recording.end(&own, &ended, told.did());
            }
            conclude(&own, &job, epoch, &told, ended);
        }
        own.live.remove(&job.id);
    };
    let name = "gw-job".to_owned();
    let spawned = std::thread::Builder::new().name(name).spawn(body);
    if let Err(error) = spawned.map(|thread| shared.live.keep(thread)) {
        (shared.config.log)(&format!("job {id}: no thread for it: {error}"));
        shared.live.remove(&id);
        let reason = Reason::new(
            FailureCode::NoThread,
            format!("No thread could be started: {error}."),
        );
        let backoff = JobOp::Backoff {
            epoch,
            reason,
            next_attempt: shared.now().after(5_000),
            bytes: 0,
            files: 0,
        };
        // If the state takes nothing now, the next start of the node returns the job to the queue.
        let _ = propose(shared, &id, backoff);
    }
}

pub(crate) fn propose(shared: &Shared, id: &str, op: JobOp) -> Result<(), ProposeError> {
    let command = Command::new(shared.now(), actor(shared), Op::Job(id.to_owned(), op));
    shared.replica.propose_blocking(command).map(|_| ())
}

/// Runs the transfer to its end.
fn carry_out(
    shared: &Arc<Shared>,
    job: &Job,
    epoch: u64,
    (limit, sight, fence): (u64, Sight, &Arc<ClaimFence>),
    control: &Control,
    told: &Arc<AttemptEvents>,
) -> Result<Summary, Failure> {
    let reader = shared.replica.reader();
    let stored = reader
        .job_spec(&job.id)
        .map_err(Failure::local)?
        .ok_or_else(|| Failure::usage("the description of the job is missing"))?;
    let stored = Stored::parse(&stored).map_err(Failure::usage)?;
    let serving = Cell::new(None);
    let away = RefCell::new(None);
    let find = |name: &str| {
        let site = stored.site(&reader, name)?;
        Ok(site.map(|site| {
            if stored.other(name).is_some() {
                return site;
            }
            let goes_on = || !control.is_cancelled();
            match reached::living(shared, site.clone(), &place_at(job, name), &goes_on) {
                Ok(living) => {
                    serving.set(Some(living.nodes.len()));
                    living.site
                }
                Err(no) => {
                    away.replace(Some(no.message));
                    site
                }
            }
        }))
    };
    // A right that held at the submission may have been revoked.
    if let Some(why) = access::denied(shared, job) {
        return Err(Failure::new(FailureCode::AccessDenied, why));
    }
    let guest = stored.guest.as_ref();
    if let Some(guest) = guest {
        guests::check_reach(shared, guest)?;
    }
    let mandate = guest.and_then(|guest| guests::mandate_of(job, guest));
    let mut prepared = spec::prepare(&stored.new, &find).map_err(Failure::usage)?;
    if let Some(why) = away.take() {
        return Err(Failure::new(FailureCode::Unreachable, why));
    }
    let kind = prepared.spec.kind;
    let mandated = mandate.as_ref();
    let known = (serving.get(), sight);
    match divided::wish(shared, job, &stored.new, &prepared, mandated, known) {
        Ok(None) => {}
        Ok(Some(wish)) => {
            let done = divided::carry_out(shared, job, epoch, &wish, &prepared, told, control);
            if let Some(done) = done {
                return done;
            }
        }
        Err(why) => divided::whole(told, &why),
    }
    // Each ended attempt counts as a retry.
    if job.retry.retries_max.is_none() && serving.get().is_some_and(|nodes| nodes > 1) {
        for (setting, time) in IMPATIENT {
            let time = || vec![Text::from(time)];
            let settings = &mut prepared.spec.settings;
            settings.entry(setting.to_owned()).or_insert_with(time);
        }
    }
    if limit > 0 && kind != JobKind::Verify {
        // From the first byte on; later changes go through the control.
        let text = Text::from(limit.to_string().as_str());
        prepared
            .spec
            .settings
            .insert("limit".to_owned(), vec![text]);
    }
    if stored.new.manifest {
        let file = manifest::setting(shared, job);
        prepared
            .spec
            .settings
            .insert(manifest::SETTING.to_owned(), file);
    }
    let env = Env {
        label: Some(label(job)),
        mandate,
        list: prepared.list.take().map(GivenList::in_memory),
        hides_names: !sight.names,
        hides_contents: !sight.contents,
        attempts: Some(Placing::of(shared, &job.id, epoch, control, Some(fence))),
        ..(shared.config.make_env)(&prepared.sites)
    };
    let reads_back = || {
        let settings = prepared.spec.copy_settings();
        settings.is_ok_and(|settings| settings.verify)
    };
    let verifies = kind != JobKind::Verify && reads_back();
    told.lock()
        .begin(verifies, space_watch(job, &prepared, &env));
    told.begins(kind);
    let events: Arc<dyn EventSink> = Arc::clone(told) as Arc<dyn EventSink>;
    Runner::run(&prepared.spec, &env, &events, control)
}

/// A place of a job at a site, export first.
pub(crate) fn place_at(job: &Job, site: &str) -> Vec<u8> {
    let places = job.sources.iter().chain([&job.destination]);
    let mut at = places.filter(|place| place.site == site);
    let path = at.next().map_or("", |place| place.path.as_str());
    path.trim_start_matches('/').as_bytes().to_vec()
}

/// The name by which an operator finds the job in the logs of both ends.
fn label(job: &Job) -> String {
    // A peer takes no longer label.
    match job.request.as_deref().filter(|id| is_request_id(id)) {
        Some(request) => format!("job {}, request {request}", job.id),
        None => format!("job {}", job.id),
    }
}

/// The watch over the space of a destination here. A comparison by contents takes long, and until then all data looks new.
fn space_watch(job: &Job, prepared: &Prepared, env: &Env) -> Option<SpaceWatch> {
    let is_here = job.destination.site == godwit_api::rest::HERE;
    let is_copy = prepared.spec.kind != JobKind::Verify;
    let compares = prepared.spec.settings.contains_key("checksum");
    let exports = env
        .exports
        .clone()
        .filter(|_| is_here && is_copy && !compares)?;
    let Endpoint::Local(destination) = &prepared.spec.destination else {
        return None;
    };
    let destination = destination.clone();
    Some(SpaceWatch::new(exports, destination, job.retries))
}

/// Reports the end of the attempt to the state. An attempt whose claim has ended reports nothing: a user paused or cancelled the job.
fn conclude(
    shared: &Shared,
    job: &Job,
    epoch: u64,
    told: &AttemptEvents,
    ended: Result<Summary, Failure>,
) {
    let ended = ended.map_err(|failure| Failure {
        message: without_home(&shared.config.directory, &failure.message),
        ..failure
    });
    let heard = told.lock();
    let lacks_space = match &ended {
        Ok(_) => heard.failed_with(FailureCode::NoSpace) > 0 && may_retry(shared, job),
        Err(failure) if failure.code == FailureCode::NoSpace => may_retry(shared, job),
        Err(failure) => failure.code.is_interruption() && heard.is_short(),
    };
    let op = match &ended {
        Err(failure)
            if failure.code.is_interruption() && shared.stopping.load(Ordering::SeqCst) =>
        {
            // The next start of the node returns the job to the queue.
            let moved = heard.moved;
            drop(heard);
            after_crash::tell(shared, &job.id, job.attempts + 1, moved);
            return;
        }
        _ if lacks_space => {
            let shortage = heard.shortage();
            let reason = lack::reason(shared, job, &heard, shortage.as_ref());
            if let Some(shortage) = shortage {
                shared.live.is_short(&job.id, shortage);
            }
            backoff(shared, job, epoch, reason, &heard)
        }
        Ok(summary) => finish(epoch, summary, &heard),
        Err(failure) if passes(failure.code) || is_hidden(job, failure.code) => {
            let reason = Reason::new(failure.code, clip(&failure.message));
            backoff(shared, job, epoch, reason, &heard)
        }
        Err(failure) => {
            let code = failure.code;
            JobOp::Finish(Box::new(Finish {
                epoch,
                outcome: Outcome::Failed,
                reason: Some(Reason::new(code, clip(&failure.message))),
                summary: heard.summary.clone().unwrap_or_else(|| "{}".to_owned()),
                bytes: heard.moved.bytes,
                files: heard.moved.files,
                failures: heard.groups(),
            }))
        }
    };
    drop(heard);
    settle(shared, job, &op, told);
}

/// Reports the end of an attempt to the state, until the state takes the report. Texts that the state refuses are left out. If the claim
/// has ended, the state learns the amounts of the attempt.
fn settle(shared: &Shared, job: &Job, op: &JobOp, told: &AttemptEvents) {
    let (id, attempt, moved) = (job.id.as_str(), job.attempts + 1, told.moved());
    if moved.again > 0 {
        after_crash::tell(shared, id, attempt, moved);
    }
    let mut plain = None;
    loop {
        let told = plain.as_ref().unwrap_or(op);
        match propose(shared, id, told.clone()) {
            Ok(()) => return,
            // The claim has ended: a user stopped the job, or another node has it.
            Err(ProposeError::Refused(
                CommandError::Stale { .. } | CommandError::NotFound { .. },
            )) => {
                after_crash::tell(shared, id, attempt, moved);
                return;
            }
            Err(ProposeError::Refused(error)) => {
                (shared.config.log)(&format!(
                    "job {id}: the end of the attempt could not be stored: {error}"
                ));
                if plain.is_some() {
                    return;
                }
                plain = Some(without_words(op, &error));
            }
            Err(error) => {
                (shared.config.log)(&format!("job {id}: {error}"));
                // The next start of the node finds the claim, and returns the job to the queue.
                if shared.stopping.load(Ordering::SeqCst) || matches!(error, ProposeError::Ended(_))
                {
                    return;
                }
                std::thread::sleep(PROPOSE_AGAIN);
            }
        }
    }
}

/// The same end with this node's own texts only.
fn without_words(op: &JobOp, error: &CommandError) -> JobOp {
    let text = format!("The attempt ended. This node refused the job's own report: {error}");
    let plain = Reason::new(FailureCode::LocalFailure, clip(&text));
    match op.clone() {
        JobOp::Finish(finish) => JobOp::Finish(Box::new(Finish {
            reason: (finish.outcome != Outcome::Complete).then_some(plain),
            summary: "{}".to_owned(),
            failures: Vec::new(),
            ..*finish
        })),
        JobOp::Backoff {
            epoch,
            next_attempt,
            bytes,
            files,
            ..
        } => JobOp::Backoff {
            epoch,
            reason: plain,
            next_attempt,
            bytes,
            files,
        },
        other => other,
    }
}

/// Whether the policy of the job allows another attempt.
fn may_retry(shared: &Shared, job: &Job) -> bool {
    let next = job.retry.next_attempt(job.retries, shared.now());
    job.retry.retries_max.is_none_or(|max| job.retries < max)
        && job.deadline.is_none_or(|deadline| next <= deadline)
}

/// Whether the same job may succeed later. The node's own disk may be full for a time, and a job shall outlive that.
fn passes(code: FailureCode) -> bool {
    let of_the_node = matches!(
        code,
        FailureCode::JournalUnusable | FailureCode::HomeUnusable | FailureCode::SpillUnusable
    );
    of_the_node || code.retry() == Retry::Transient
}

/// Whether the asker of the job must not learn from its state how the addresses of the other end answer.
fn is_hidden(job: &Job, code: FailureCode) -> bool {
    guests::asker_of(job).is_some() && guests::is_unproven(code)
}

fn backoff(shared: &Shared, job: &Job, epoch: u64, reason: Reason, heard: &Observed) -> JobOp {
    JobOp::Backoff {
        epoch,
        reason,
        next_attempt: job.retry.next_attempt(job.retries, shared.now()),
        bytes: heard.moved.bytes,
        files: heard.moved.files,
    }
}

/// The reason of a job that its owner may no longer run.
pub(crate) fn denied(why: &str) -> Reason {
    Reason::new(FailureCode::AccessDenied, clip(why))
}

/// The reason of a job whose records are full here.
pub(crate) fn no_room(why: &str) -> Reason {
    Reason::new(FailureCode::PeerBusy, clip(why))
}

/// The end of a job that was done.
fn finish(epoch: u64, summary: &Summary, heard: &Observed) -> JobOp {
    let (complete, text) = match summary {
        Summary::Transfer(summary) => (
            summary.status == Status::Complete,
            format!(
                "{} failed; all others arrived. See them with: godwit job report.",
                counted(summary.failed, "entry")
            ),
        ),
        Summary::Verify(summary) => (
            summary.status == Verdict::Same,
            format!(
                "{} different from the manifest; all others match. See them with: godwit job report.",
                match summary.different + summary.extra {
                    1 => "1 entry is".to_owned(),
                    wrong => format!("{wrong} entries are"),
                }
            ),
        ),
    };
    JobOp::Finish(Box::new(Finish {
        epoch,
        outcome: if complete {
            Outcome::Complete
        } else {
            Outcome::Partial
        },
        reason: match (&heard.late, complete) {
            (None, true) => None,
            (Some(late), true) => Some(Reason::new(FailureCode::LateCalls, clip(late))),
            (late, false) => {
                let late = late.iter().map(|late| format!(" {late}."));
                let text = late.fold(text, |text, late| text + &late);
                Some(Reason::new(FailureCode::EntriesFailed, clip(&text)))
            }
        },
        summary: heard.summary.clone().unwrap_or_else(|| "{}".to_owned()),
        bytes: heard.moved.bytes,
        files: heard.moved.files,
        failures: heard.groups(),
    }))
}

/// Cuts a text to the length that the state takes.
pub(crate) fn clip(text: &str) -> String {
    let mut text = text.to_owned();
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}
