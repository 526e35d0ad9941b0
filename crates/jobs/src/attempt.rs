//! One attempt of a job: a thread that runs the transfer, and reports its end to the state.
//! Does not decide when the next one comes, except for the delay of the job's policy.

pub(crate) mod after_crash;
pub(crate) mod divided;
mod ending;
mod events;
mod fence;
mod foresight;
mod lack;
pub(crate) mod left;
pub(crate) mod live;
mod placed;
pub(crate) mod record;
pub(crate) mod site;
mod space;
mod veil;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use godwit_api::endpoint::Endpoint;
use godwit_api::event::{EventSink, Summary};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::{JobKind, Text};
use godwit_api::rest::is_request_id;
use godwit_run::{Control, Env, GivenList, Runner};
use godwit_state::{Command, Job, JobOp, Op, ProposeError, Reason};

use crate::asking::{manifest, reached};
use crate::attempt::live::Attempt;
use crate::attempt::record::Recording;
use crate::basis::spec::{self, Prepared};
use crate::basis::stored::Stored;
use crate::queue::scheduler::actor;
use crate::rights::access;
use crate::rights::access::Sight;
use crate::{Shared, guests};
use ending::{conclude, settle};
pub(crate) use events::AttemptEvents;
pub(crate) use fence::{Claim, ClaimFence};
pub(crate) use placed::Placing;
use site::Away;
pub(crate) use space::Shortage;
use space::SpaceWatch;

/// Longest text of one example: the state takes no longer one.
const TEXT_BYTES_MAX: usize = 4_096;

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
        // The limit holds from the first byte on; later changes of it go through the control.
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

/// The reason of a job that its owner may no longer run.
pub(crate) fn denied(why: &str) -> Reason {
    Reason::new(FailureCode::AccessDenied, clip(why))
}

/// The reason of a job whose records are full here.
pub(crate) fn no_room(why: &str) -> Reason {
    Reason::new(FailureCode::PeerBusy, clip(why))
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
