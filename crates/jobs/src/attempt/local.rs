//! Runs the transfer of a job from this node, or hands the job to the nodes that divide it.
//! Reports no end: `ending` does.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use godwit_api::endpoint::Endpoint;
use godwit_api::event::{EventSink, Summary};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::JobKind;
use godwit_api::rest::{HERE, Relay, is_request_id};
use godwit_run::{Control, Env, NameList, Runner};
use godwit_state::Job;

use super::shared::{SharedSources, Sharing};
use super::space::SpaceWatch;
use super::veil::SiteNames;
use super::{AttemptEvents, ClaimFence, MakeEnv, Placing, divided, lack};
use crate::asking::reach::check_reach;
use crate::asking::{Asking, manifest, reached};
use crate::basis::ends::place_at;
use crate::basis::relay::{self, Left};
use crate::basis::removal;
use crate::basis::spec::{self, Prepared};
use crate::basis::stored::Stored;
use crate::rights::Rights;
use crate::rights::access::{self, RightsAtStart};
use crate::rights::asker::mandate_of;

/// The parts for attempts that this node runs.
pub(crate) struct Context {
    pub(crate) rights: Arc<Rights>,
    pub(crate) asking: Arc<Asking>,
    pub(crate) make_env: Arc<MakeEnv>,
    pub(crate) divided: Arc<divided::Context>,
    /// Reads that jobs of one parent share.
    pub(crate) shared: SharedSources,
}

/// How long an attempt of a job without a maximum of retries stays with one node of several, unless its owner sets otherwise.
const IMPATIENT: Duration = Duration::from_secs(20);

/// Runs the transfer to its end.
pub(super) fn carry_out(
    context: &Context,
    job: &Job,
    epoch: u64,
    (limit, at_start, fence): (u64, RightsAtStart, &Arc<ClaimFence>),
    control: &Control,
    events: &Arc<AttemptEvents>,
) -> Result<Summary, Failure> {
    let this = &context.asking.this;
    let moment = (&*this.name, this.now());
    let sharing = context.shared.share(&this.reader(), job, moment, false);
    let mut sharing = sharing.map_err(Failure::local)?;
    let mut ready = ready(context, job, control)?;
    events.lock().names = SiteNames::of(&ready.prepared.sites);
    let guest = ready.stored.guest.as_ref();
    let mandate = guest.and_then(|guest| mandate_of(job, guest));
    let known = (ready.serving, at_start);
    let relays = relay::left(&this.reader(), job).map_err(Failure::local)?;
    let passes_on = ready.stored.new.relay == Relay::First;
    if passes_on {
        // One destination reads at a time, and is not to wait for others.
        sharing = None;
    }
    let wish = match relays {
        // Other destinations, and a removal at the source, need digests of whole files. No divided job records them.
        Some(_) => Ok(None),
        None if ready.stored.new.remove_source_after.is_some() => Ok(None),
        None => divided::wish(
            &context.asking,
            job,
            &ready.stored.new,
            &ready.prepared,
            mandate.as_ref(),
            known,
        ),
    };
    match wish {
        Ok(None) => {}
        Ok(Some(wish)) => {
            let done = divided::carry_out(
                &context.divided,
                job,
                epoch,
                &wish,
                &ready.prepared,
                events,
                control,
            );
            if let Some(done) = done {
                return done;
            }
        }
        Err(why) => divided::whole(events, &why),
    }
    impose(context, job, limit, relays.as_ref(), &mut ready);
    let mut prepared = ready.prepared;
    let kind = prepared.spec.kind;
    let env = Env {
        label: Some(label(job)),
        mandate,
        list: prepared.list.take().map(NameList::in_memory),
        seat: sharing.as_ref().and_then(Sharing::seat),
        hides_names: !at_start.names,
        hides_contents: !at_start.contents,
        attempts: Some(Placing::of(
            &context.asking.this,
            &job.id,
            epoch,
            control,
            Some(fence),
            relays.as_ref().and_then(|left| left.into),
        )),
        ..(context.make_env)(&prepared.sites)
    };
    let reads_back = || {
        let settings = prepared.spec.copy_settings();
        settings.is_ok_and(|settings| settings.verify)
    };
    let verifies = kind != JobKind::Verify && reads_back();
    // Others wait for this destination, so a lack of room is to show early. Data of a relay looks new until it is compared.
    let is_brought = relays.as_ref().is_some_and(|left| left.has_begun);
    let free = (passes_on && !is_brought && job.destination.site != HERE)
        .then(|| lack::free_there(&context.asking, job))
        .flatten();
    let mut observed = events.lock();
    observed.begin(verifies, space_watch(job, &prepared, &env, free));
    observed.is_behind = sharing.as_ref().and_then(Sharing::is_behind);
    observed.without = relays.and_then(|left| left.from);
    drop(observed);
    events.begins(kind);
    if let [site] = prepared.sites.as_slice() {
        events.has_other_end(reached::peer(site));
    }
    let events: Arc<dyn EventSink> = Arc::clone(events) as Arc<dyn EventSink>;
    Runner::run(&prepared.spec, &env, &events, control)
}

/// A job whose sites were found.
struct Ready {
    stored: Stored,
    prepared: Prepared,
    /// Nodes that serve the last named site; None if no site had to be asked.
    serving: Option<usize>,
}

/// Reads the description of a job, and finds nodes of its sites that answer now.
fn ready(context: &Context, job: &Job, control: &Control) -> Result<Ready, Failure> {
    let reader = context.asking.this.reader();
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
            match reached::living(
                &context.asking,
                site.clone(),
                &place_at(job, name),
                &goes_on,
            ) {
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
    if let Some(why) = access::denied(&context.rights, job) {
        return Err(Failure::new(FailureCode::AccessDenied, why));
    }
    if let Some(guest) = &stored.guest {
        check_reach(&context.asking, guest)?;
    }
    let prepared = spec::prepare(&stored.new, &find).map_err(Failure::usage)?;
    if let Some(why) = away.take() {
        return Err(Failure::new(FailureCode::Unreachable, why));
    }
    Ok(Ready {
        stored,
        prepared,
        serving: serving.get(),
    })
}

/// Sets the values of this node over the settings of a job that one node runs.
fn impose(context: &Context, job: &Job, limit: u64, relays: Option<&Left>, ready: &mut Ready) {
    let spec = &mut ready.prepared.spec;
    // Each ended attempt counts as a retry.
    if job.retry.retries_max.is_none() && ready.serving.is_some_and(|nodes| nodes > 1) {
        let unless_typed = |name| (!spec.settings.contains_key(name)).then_some(IMPATIENT);
        spec.imposed.stall_deadline = unless_typed("stall-deadline");
        spec.imposed.retry_for = unless_typed("retry-for");
    }
    if limit > 0 && spec.kind != JobKind::Verify {
        // From the first byte on; later changes go through the control.
        spec.imposed.limit = Some(limit);
    }
    // Files that a relay brought would be read at the source for their digests. Files in doubt are read there in any case.
    let is_to_give = relays.is_some_and(|left| !left.has_begun || left.doubt);
    spec.imposed.checksum = relays.is_some_and(|left| left.doubt);
    let removes = ready.stored.new.remove_source_after.is_some();
    if removes {
        for (name, value) in removal::SETTINGS {
            spec.settings.insert(name.to_owned(), vec![value.into()]);
        }
    }
    if ready.stored.new.manifest || is_to_give || removes {
        let file = manifest::file(&context.asking.this.directory, job);
        spec.imposed.manifest = Some(file);
    }
}

/// The name by which an operator finds the job in the logs of both ends.
fn label(job: &Job) -> String {
    // A peer takes no longer label.
    match job.request.as_deref().filter(|id| is_request_id(id)) {
        Some(request) => format!("job {}, request {request}", job.id),
        None => format!("job {}", job.id),
    }
}

/// The watch over the space of a destination here, or of one there with `free` bytes of room. A comparison by contents takes long, and until
/// then all data looks new.
fn space_watch(job: &Job, prepared: &Prepared, env: &Env, free: Option<u64>) -> Option<SpaceWatch> {
    let is_here = job.destination.site == HERE;
    let spec = &prepared.spec;
    if spec.kind == JobKind::Verify
        || spec.settings.contains_key("checksum")
        || spec.imposed.checksum
    {
        return None;
    }
    if let Some(free) = free {
        return Some(SpaceWatch::there(free, job.retries));
    }
    let exports = env.exports.clone().filter(|_| is_here)?;
    let Endpoint::Local(destination) = &prepared.spec.destination else {
        return None;
    };
    let destination = destination.clone();
    Some(SpaceWatch::new(exports, destination, job.retries))
}
