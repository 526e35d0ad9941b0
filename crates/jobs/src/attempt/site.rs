//! One attempt of a job of which neither end is here: another site runs the job, and this node admits, follows and steers that site.
//! Moves no data.
//!
//! The site of the sources runs the job as client of the destination's site; where it cannot connect there, the destination's site runs it
//! the other way round. Each question names the job by its id here, and a repeated question gets the same answer. So an attempt that
//! follows a crash finds the job where it runs. A running job continues while this node is away, until its grant ends.

mod apart;
mod direction;
mod ending;
mod ends;
mod follow;
mod let_in;
mod lone;
mod mates;
mod notify;
mod own_side;
mod past;
pub(crate) mod pending;
mod rights;
mod route;
mod stop;
pub(crate) mod unseen;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_api::ask::{
    Answer, JobSeen, Peer, Question, Refusal, RunJob, SteerJob, SteerVerb, code,
};
use godwit_api::event::EventSink as _;
use godwit_api::failure::FailureCode;
use godwit_api::grant::{Mandate, Right};
use godwit_api::job::Text;
use godwit_api::rest::{HERE, NewJob, Place};
use godwit_run::Control;
use godwit_run::local::ExportedFiles;
use godwit_state::{Job, JobOp, JobState, Timestamp, reason};

use crate::asking::{Asking, border};
use crate::attempt::AttemptEvents;
use crate::attempt::askers::{askers, noted};
use crate::attempt::live::Live;
use crate::basis::ends::{is_third_party, may_run_elsewhere};
use crate::basis::error::JobsError;
use crate::basis::owners::OWNER;
use crate::basis::this_node::ThisNode;
use crate::basis::words::denied;
use crate::basis::{sealing, spec};
use crate::rights::{Rights, access};
pub(crate) use apart::check_apart;
use direction::Direction;
use ends::Ends;
use follow::Followed;
use let_in::JobAccess;
use past::Copying;
pub(crate) use rights::check_rights;
use stop::Stop;

/// How long access for a job lasts unless it is renewed: the job continues for this long while this node is away.
const GRANT_FOR: Duration = Duration::from_hours(24);

/// How long a site may take to answer. It shows each second that it works, and could do that for ever.
const ANSWERS_WITHIN: Duration = Duration::from_mins(5);

/// Time for the answer once the job must stop: the other end should take its access back soon. A site waits ten seconds for the
/// end of its attempt.
const STOPS_WITHIN: Duration = Duration::from_secs(15);

/// The parts for attempts that another site runs.
pub(crate) struct Context {
    pub(crate) this: Arc<ThisNode>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) asking: Arc<Asking>,
    pub(crate) live: Arc<Live>,
    /// The exports of this node.
    pub(crate) exported: Arc<dyn ExportedFiles>,
    /// Jobs whose sites do not know yet that the jobs stop.
    pub(crate) notices: pending::PendingNotices,
    /// Jobs that this node leaves to other nodes of the cluster for a while.
    pub(crate) unseen: unseen::Unseen,
}

/// An attempt.
struct SiteAttempt<'a> {
    context: &'a Context,
    job: &'a Job,
    epoch: u64,
    new: NewJob,
    ends: Ends,
    /// The other nodes of this cluster.
    mates: RefCell<Vec<String>>,
    /// The job as started by another node of this cluster, which this node now continues.
    earlier: RefCell<Option<Mandate>>,
    events: &'a Arc<AttemptEvents>,
    control: &'a Control,
}

/// Outcome of an attempt that another site may run.
pub(crate) enum Away {
    /// The transfer runs here.
    Not,
    /// Another site ran it; the state is to hear this, if anything.
    Ended(Option<JobOp>),
}

/// If another site runs the job, follows the attempt to its end.
pub(crate) fn carry_out(
    context: &Context,
    job: &Job,
    epoch: u64,
    limit: u64,
    events: &Arc<AttemptEvents>,
    control: &Control,
) -> Away {
    let submission = match is_third_party(job) {
        true => Ok(None),
        false => route::may_be_brought(&context.this, job),
    };
    if matches!(submission, Ok(None)) && !is_third_party(job) {
        return Away::Not;
    }
    if let Some(why) = access::denied(&context.rights, job) {
        // It may run at its sites already.
        context.notices.add(&job.id);
        return Away::Ended(Some(ending::finish(epoch, events, denied(&why))));
    }
    let is_away = match submission {
        Ok(Some(new)) => route::is_brought(context, job, epoch, &new, events, control),
        Ok(None) => Ok(true),
        Err(error) => Err(error.into()),
    };
    let ended = match is_away {
        Ok(false) => return Away::Not,
        Ok(true) => {
            SiteAttempt::new(context, job, epoch, limit, events, control).and_then(|it| it.run())
        }
        Err(stop) => Err(stop),
    };
    Away::Ended(match ended {
        Ok(op) => Some(op),
        Err(Stop::ClaimEnded) => None,
        Err(Stop::Refused(refusal)) => Some(ending::refused(context, job, epoch, events, &refusal)),
        Err(Stop::Failed(error)) => {
            // It may run at its sites already.
            context.notices.add(&job.id);
            Some(ending::failed(epoch, events, &error))
        }
    })
}

impl<'a> SiteAttempt<'a> {
    fn new(
        context: &'a Context,
        job: &'a Job,
        epoch: u64,
        limit: u64,
        events: &'a Arc<AttemptEvents>,
        control: &'a Control,
    ) -> Result<Self, Stop> {
        let reader = context.this.reader();
        let stored = reader
            .job_spec(&job.id)
            .map_err(JobsError::from)?
            .ok_or_else(|| JobsError::NoJob(job.id.clone()))?;
        let mut new = spec::parse(&stored)?;
        spec::check_settings(&new)?;
        // This node has the copies sealed once they are complete.
        new.settings = sealing::without(&new.settings);
        new.limit = (limit > 0).then_some(limit);
        new.priority = job.priority;
        new.label.clone_from(&job.label);
        let ends = Ends::of(context, job, &new, control)?;
        Ok(Self {
            mates: RefCell::new(mates::mates(&context.this)?),
            earlier: RefCell::default(),
            context,
            job,
            epoch,
            new,
            ends,
            events,
            control,
        })
    }

    fn run(&self) -> Result<JobOp, Stop> {
        let (direction, seen) = match self.find()? {
            Some(found) => found,
            None => {
                let direction = match direction::noted(&self.context.this.reader(), self.job)? {
                    Some(direction) => direction,
                    None => self.choose()?,
                };
                self.note(&self.ends.route_text(direction));
                (direction, begin(self, direction)?)
            }
        };
        let followed = self.follow(direction, seen);
        if !matches!(followed, Err(Stop::ClaimEnded)) {
            self.access().revoke(direction);
            // An earlier attempt may have chosen other nodes, and ended before the state recorded them.
            if lone::chosen(&self.context.this.reader(), self.job, &self.ends)
                .is_ok_and(|chosen| !chosen.is_empty())
            {
                self.context.notices.add(&self.job.id);
            }
        }
        Ok(ending::ended(self, &followed?))
    }

    /// Finds the job at the site where an earlier attempt started it, and starts it again there if necessary.
    fn find(&self) -> Result<Option<(Direction, JobSeen)>, Stop> {
        let noted = direction::noted(&self.context.this.reader(), self.job)?;
        let ways = match &noted {
            Some(direction) => std::slice::from_ref(direction),
            None if self.ends.from == self.ends.to => &[Direction::Within],
            None if self.ends.own.is_some() => &[Direction::Push],
            None => &[Direction::Push, Direction::Pull],
        };
        for direction in ways {
            let Some(seen) = self.look(*direction)? else {
                continue;
            };
            self.note_route(*direction)?;
            self.note(&self.ends.route_text(*direction));
            // A job that ended while this node was away has its result; any other reason to run is one to run it again.
            let lost = [reason::NODE_RESTARTED, reason::NODE_LOST];
            let why = self.job.reason.as_ref();
            let fresh = why.is_some_and(|why| why.code.is_one_of(&lost));
            let again = !fresh || is_denied(&seen);
            if again || seen.view.ended.is_none() {
                self.access().give_to_present_nodes(*direction)?;
            }
            return Ok(Some((*direction, self.start(*direction, again)?)));
        }
        Ok(None)
    }

    /// The job at the site that may run it: submitted by this node, or by another node of this cluster in an earlier attempt.
    fn look(&self, direction: Direction) -> Result<Option<JobSeen>, Stop> {
        let runner = self.ends.runner(direction);
        let noted = noted(&self.context.rights, self.job)?;
        let earlier = askers(&self.context.rights, self.job)?;
        for mandate in std::iter::once(None).chain(earlier.into_iter().map(Some)) {
            let is_own = mandate.is_none();
            let is_noted = mandate.is_some() && mandate == noted;
            self.earlier.replace(mandate);
            let question = Question::Job {
                job: self.job.id.clone(),
            };
            match self.ask(runner, &question) {
                Ok(Answer::Job(seen)) => return Ok(Some(*seen)),
                Ok(_) => return Err(answered_another_question(runner).into()),
                Err(refusal) if refusal.code == code::NO_SUCH_JOB => {}
                // It may run there for that node.
                Err(refusal) if refusal.code == code::NOT_LET_IN && is_noted => {
                    return Err(refusal.into());
                }
                // A site of an older version knows the job by its asker alone.
                Err(refusal) if !is_own && !is_passing(&refusal) => {}
                // The job may run at a site that does not answer, so it is started nowhere else.
                Err(refusal) => return Err(refusal.into()),
            }
        }
        self.earlier.replace(None);
        Ok(None)
    }

    /// The access that sites give for the job.
    const fn access(&self) -> JobAccess<'_> {
        JobAccess::of(self)
    }

    fn note(&self, text: &str) {
        self.events.note(text);
    }

    /// Asks the site to run the job, or finds that the job runs there.
    fn start(&self, direction: Direction, again: bool) -> Result<JobSeen, Stop> {
        let runner = self.ends.runner(direction);
        let mut new = self.new.clone();
        let text = |place: &Place, here: bool| {
            let mut place = place.clone();
            if here {
                HERE.clone_into(&mut place.site);
            }
            place.to_string()
        };
        let sources = self.ends.sources.iter();
        new.sources = sources
            .map(|place| text(place, direction != Direction::Pull))
            .collect();
        new.destination = text(&self.ends.destination, direction != Direction::Push);
        let question = Question::Run(Box::new(RunJob {
            job: self.job.id.clone(),
            again,
            deadline_ms: deadline_ms(self.job, self.context.this.now()),
            request: self.job.request.clone(),
            new,
            other: self.ends.granter(direction).cloned(),
            may_list: Some(access::may_there(
                &self.context.rights,
                self.job,
                Right::List,
            )),
            may_read: Some(access::may_there(
                &self.context.rights,
                self.job,
                Right::Read,
            )),
        }));
        match self.ask(runner, &question)? {
            Answer::Job(seen) => Ok(*seen),
            _ => Err(answered_another_question(runner).into()),
        }
    }

    /// Follows the job to its end, or until this attempt loses it.
    fn follow(&self, direction: Direction, first: JobSeen) -> Result<JobSeen, Stop> {
        let mut followed = Followed::new(self, direction, &first);
        let mut copying = Copying::new();
        let mut seen = first;
        loop {
            copying.go_on(self, direction, &seen.view.id);
            followed.update(&seen);
            if followed.is_to_run_again(&seen) {
                if !followed.rest() {
                    self.leave(direction);
                    return Err(Stop::ClaimEnded);
                }
                // An attempt whose claim has ended starts nothing: the job may have been stopped meanwhile.
                if let Err(stop) = self.note_route(direction) {
                    if matches!(stop, Stop::ClaimEnded) {
                        self.leave(direction);
                    }
                    return Err(stop);
                }
                self.access().give_to_present_nodes(direction)?;
                seen = self.start(direction, true)?;
                continue;
            }
            if seen.view.ended.is_some() {
                copying.end(self, direction, &seen.view.id);
                return Ok(seen);
            }
            if !followed.wait() {
                self.leave(direction);
                return Err(Stop::ClaimEnded);
            }
            if let Some(next) = followed.ask_again()? {
                seen = next;
            }
        }
    }

    /// The attempt must stop. Asks the site that runs the job to follow the job's state here.
    fn leave(&self, direction: Direction) {
        if self.context.this.is_stopping() {
            // The job continues there, and the next start of this node finds it.
            return;
        }
        let job = self.context.this.reader().job(&self.job.id);
        let verb = match job {
            Ok(Some(job)) if job.state == JobState::Paused => SteerVerb::Pause,
            Ok(Some(job)) if !job.state.ended() => return,
            _ => SteerVerb::Cancel,
        };
        let question = Question::Steer(SteerJob {
            job: self.job.id.clone(),
            verb: Some(verb),
            ..SteerJob::default()
        });
        let steered = self.ask(self.ends.runner(direction), &question);
        if let Err(refusal) = &steered
            && is_passing(refusal)
        {
            let note =
                format!("the site that runs the job will be asked later to stop it: {refusal}");
            self.events.note(&note);
            self.context.notices.add(&self.job.id);
            // Without access the job stops anyway. A resumed job gets access again.
            self.access().revoke(direction);
        } else if verb == SteerVerb::Cancel {
            self.access().revoke(direction);
        } else {
            // A resumed job gets access again.
            self.access().take_back(direction);
        }
    }

    fn ask(&self, site: &Peer, question: &Question) -> Result<Answer, Refusal> {
        let earlier = self.earlier.borrow().clone();
        if let Some(own) = self.ends.own.as_ref().filter(|own| *own == site) {
            let asker = earlier.map_or_else(|| own.identity.clone(), |mandate| mandate.asker);
            return own_side::ask_here(&self.context.rights, &asker, question);
        }
        let sites = &self.context.asking.sites;
        let asked = Instant::now();
        let answer = sites.ask_for(earlier.as_ref(), Some(site), question, &mut |_| {
            let within = match self.control.is_cancelled() {
                true => STOPS_WITHIN,
                false => ANSWERS_WITHIN,
            };
            asked.elapsed() < within && !self.context.this.is_stopping()
        });
        border::of_site(&site.name, answer)
    }
}

/// Has the job run for the first time. The other nodes of this cluster get access before the state
/// says that the job runs, so that a node that takes over finds the job.
fn begin(attempt: &SiteAttempt<'_>, direction: Direction) -> Result<JobSeen, Stop> {
    let access = attempt.access();
    let granted = access.grant(direction).map_err(Stop::from).and_then(|()| {
        access.let_mates_in(direction);
        attempt.note_route(direction)
    });
    granted.inspect_err(|_| access.revoke(direction))?;
    attempt
        .start(direction, true)
        .inspect_err(|stop| match stop {
            // The job may run there anyway: the other nodes still find it.
            Stop::Refused(refusal) if is_passing(refusal) => access.take_back(direction),
            _ => access.revoke(direction),
        })
}

/// Milliseconds until the deadline of the job, if it has one.
fn deadline_ms(job: &Job, now: Timestamp) -> Option<u64> {
    let left = job.deadline?.0.saturating_sub(now.0);
    Some(u64::try_from(left).unwrap_or(0))
}

/// The paths of places, export first.
fn below_exports(places: &[Place]) -> Vec<Text> {
    let path = |place: &Place| Text(place.below_exports());
    places.iter().map(path).collect()
}

/// Whether the job is stopped by a command of its asker. A late command may stop a job that the next attempt has started.
fn is_stopped(seen: &JobSeen) -> bool {
    let is_of_asker = |text: &str| text.starts_with(OWNER);
    let reason = seen.view.reason.as_ref();
    [JobState::Paused, JobState::Cancelled].contains(&seen.view.state)
        && reason.is_some_and(|reason| is_of_asker(&reason.text))
}

/// Whether the job failed because its access had ended.
fn is_denied(seen: &JobSeen) -> bool {
    let reason = seen.view.reason.as_ref();
    let refused = [FailureCode::AccessDenied, FailureCode::Unauthorized];
    reason.is_some_and(|reason| reason.code.is_one_of(&refused))
}

/// Whether the same question may succeed later.
fn is_passing(refusal: &Refusal) -> bool {
    refusal.retryable || refusal.code == code::BROKEN
}

/// The refusal of an answer that belongs to another question.
fn answered_another_question(site: &Peer) -> Refusal {
    Refusal::new(
        code::BROKEN,
        format!("{} answered a different question", site.name),
    )
}

/// When access that is given now is to be renewed.
fn renew_at(given: Timestamp) -> Timestamp {
    given.after(millis(GRANT_FOR / 4))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
