//! The jobs of a node: their start and stop, and each request of a caller about them.
//! Decides nothing itself: the groups of this crate do.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use godwit_api::ask::{AskSites, Peer};
use godwit_api::grant::Grant;
use godwit_api::record::HearTransfers;
use godwit_api::rest::{
    AttemptView, ChangeJob, FailureGroup, JobList, JobProgress, JobView, LogPage, NewJob,
    SampleView,
};
use godwit_run::{Env, local::ExportedFiles};
use godwit_state::{
    Actor, Command, Cursor, JobChange, JobFilter, JobOp, Op, Replica, Role, Runner as RunnerName,
    Schedule, Site, Timestamp,
};

use crate::asking::{elsewhere, manifest, past, renewal};
use crate::attempt::live::Live;
use crate::basis::{clock, documents, spec, turns};
use crate::queue::{probe, reasons, rooms, schedule, scheduler, submit};
use crate::rights::access;
use crate::{Access, Clock, IsMember, JobsError, Manifest, asking, attempt, guests};

/// Makes the surroundings of one attempt, which connects to these sites only.
pub type MakeEnv = dyn Fn(&[Site]) -> Env + Send + Sync;
/// Reads the grants that the operator of this machine wrote into the node's home.
pub type FileGrants = dyn Fn() -> Result<Vec<Grant>, String> + Send + Sync;

/// How long the answer to a pause or a cancel waits for the attempt to end. A site that does not answer may hold that up for longer.
const STOPS_WITHIN: Duration = Duration::from_secs(2);

/// Configuration of the jobs of a node.
pub struct JobsConfig {
    /// Name of this node in the state.
    pub node: String,
    /// Log and samples of each job are kept in a directory below this one.
    pub directory: PathBuf,
    /// Names of the exports of this node.
    pub exports: Vec<String>,
    /// Reads the grants in the node's home, which count for users beside the rules of the state.
    pub file_grants: Arc<FileGrants>,
    /// Accounts of this machine that are admins of the node without being users of its state.
    pub machine_admins: Vec<String>,
    /// How long ended jobs, and lines of the audit log, are kept.
    pub keep_history: Duration,
    /// Jobs that run at once.
    pub jobs_max: usize,
    /// Jobs of one owner that wait; usually [`crate::WAITING_OF_OWNER_MAX`].
    pub waiting_of_owner_max: u64,
    /// Tells the time.
    pub clock: Clock,
    /// Asks other sites, and this node, about places.
    pub sites: Arc<dyn AskSites>,
    /// How other sites reach this node: without addresses until it listens. None where it never does.
    pub own: Arc<dyn Fn() -> Option<Peer> + Send + Sync>,
    /// Whether an identity is that of a node of this cluster.
    pub is_member: Arc<IsMember>,
    /// The exports of this node.
    pub exported: Arc<dyn ExportedFiles>,
    /// Makes the surroundings of one attempt.
    pub make_env: Arc<MakeEnv>,
    /// Hears of each attempt.
    pub tells: Arc<HearTransfers>,
    /// Writes any other line to the log.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The jobs of a node. Clones are the same jobs.
#[derive(Clone)]
pub struct Jobs {
    pub(crate) shared: Arc<Shared>,
    scheduler: Arc<std::sync::Mutex<Option<JoinHandle<()>>>>,
}

/// Asks other sites for the node of these jobs, and the node itself.
#[must_use]
pub fn sites_of(jobs: &Jobs) -> &Arc<dyn AskSites> {
    &jobs.shared.config.sites
}

/// Where the node keeps the files of jobs beside the state.
#[must_use]
pub fn directory_of(jobs: &Jobs) -> &std::path::Path {
    &jobs.shared.config.directory
}

/// Progress of the attempts that run here. Reads only the attempts, because a watching client asks each second.
#[must_use]
pub fn progress_of(jobs: &Jobs) -> Vec<JobProgress> {
    jobs.shared.live.running()
}

/// The same, and how far the jobs are that other nodes of the cluster run.
#[must_use]
pub fn progress_of_all(jobs: &Jobs) -> Vec<JobProgress> {
    let mut all = jobs.shared.live.running();
    all.extend(jobs.shared.elsewhere.all());
    all
}

/// The manifest that the last whole attempt of a job wrote.
///
/// # Errors
/// There is no such job, or no manifest of it, or it cannot be read, or the node that keeps it does not answer.
pub fn manifest_of(jobs: &Jobs, id: &str) -> Result<Manifest, JobsError> {
    manifest::open(&jobs.shared, id)
}

pub(crate) struct Shared {
    pub(crate) config: JobsConfig,
    pub(crate) replica: Arc<Replica>,
    pub(crate) runner: RunnerName,
    pub(crate) live: Live,
    pub(crate) elsewhere: elsewhere::RemoteProgress,
    /// Records of jobs at other nodes.
    pub(crate) others: past::Others,
    pub(crate) rules: access::Rules,
    pub(crate) stopping: AtomicBool,
    /// Jobs whose sites do not know yet that the jobs stop.
    pub(crate) notices: attempt::site::pending::PendingNotices,
    /// Jobs that this node leaves to other nodes of the cluster for a while.
    pub(crate) unseen: attempt::site::unseen::Unseen,
    /// Jobs whose sites are back.
    pub(crate) woken: probe::Woken,
    /// The sites that other nodes had tried from here.
    pub(crate) reaching: guests::Reaching,
    /// Bounds how fast other sites may change the state here.
    pub(crate) pace: guests::Pace,
    /// How often schedules have ticked here.
    pub(crate) ticks: schedule::TickPace,
    /// How much is kept of their jobs on the disk.
    pub(crate) records: guests::Records,
    /// Turns of requests that add to a bounded number of things of one owner.
    pub(crate) turns: turns::Turns,
    /// Looks for room at exports.
    pub(crate) rooms: rooms::Rooms,
    /// Workers for items of divided jobs here.
    pub(crate) workers: attempt::divided::Workers,
}

impl Shared {
    pub(crate) fn now(&self) -> Timestamp {
        self.config.clock.now()
    }
}

impl Jobs {
    /// Returns the jobs that an earlier start of this node ran to the queue, as soon as the state takes changes. Then runs all due jobs.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(config: JobsConfig, replica: Arc<Replica>) -> Result<Self, JobsError> {
        let runner = RunnerName {
            node: config.node.clone(),
            instance: clock::random_text(),
        };
        let config = JobsConfig {
            sites: Arc::new(asking::border::Bordered::new(Arc::clone(&config.sites))),
            ..config
        };
        let shared = Arc::new(Shared {
            config,
            rules: access::Rules::new(&replica),
            replica,
            runner,
            live: Live::default(),
            elsewhere: elsewhere::RemoteProgress::default(),
            others: past::Others::default(),
            notices: attempt::site::pending::PendingNotices::default(),
            unseen: attempt::site::unseen::Unseen::default(),
            woken: probe::Woken::default(),
            reaching: guests::Reaching::default(),
            pace: guests::Pace::default(),
            ticks: schedule::TickPace::default(),
            records: guests::Records::default(),
            turns: turns::Turns::default(),
            rooms: rooms::Rooms::default(),
            workers: attempt::divided::Workers::default(),
            stopping: AtomicBool::new(false),
        });
        let thread = |name: &str, run: fn(&Arc<Shared>)| {
            let own = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(name.to_owned());
            let thread = thread.spawn(move || run(&own));
            thread.map_err(|source| JobsError::File {
                path: PathBuf::from(format!("thread {name}")),
                source,
            })
        };
        let scheduler = thread("gw-jobs", scheduler::run)?;
        shared
            .live
            .keep(thread("gw-notices", attempt::site::pending::run)?);
        shared.live.keep(thread("gw-elsewhere", elsewhere::run)?);
        shared.live.keep(thread("gw-probe", probe::run)?);
        shared.live.keep(thread("gw-renewal", renewal::run)?);
        shared
            .live
            .keep(thread("gw-records", guests::keep_records)?);
        Ok(Self {
            shared,
            scheduler: Arc::new(std::sync::Mutex::new(Some(scheduler))),
        })
    }

    /// The state of the node.
    #[must_use]
    pub fn replica(&self) -> &Arc<Replica> {
        &self.shared.replica
    }

    /// Names of the exports of this node.
    #[must_use]
    pub fn exports(&self) -> &[String] {
        &self.shared.config.exports
    }

    /// The access rules and grants at this node.
    #[must_use]
    pub fn access(&self) -> Access<'_> {
        Access(&self.shared)
    }

    /// Submits a job of `owner`. The same key of the same owner submits once: a repetition returns the existing job. The result also says
    /// whether the job is new.
    ///
    /// # Errors
    /// The description makes no sense, or too many jobs of the owner wait, or the state takes no change.
    pub fn submit(
        &self,
        actor: Actor,
        owner: &str,
        new: &NewJob,
        idempotency_key: Option<String>,
    ) -> Result<(JobView, bool), JobsError> {
        let (id, created) = submit::submit(&self.shared, actor, owner, new, idempotency_key)?;
        Ok((self.job(&id)?, created))
    }

    /// The job of that id.
    ///
    /// # Errors
    /// There is none, or the state cannot be read.
    pub fn job(&self, id: &str) -> Result<JobView, JobsError> {
        let reader = self.shared.replica.reader();
        let job = reader
            .job(id)?
            .ok_or_else(|| JobsError::NoJob(id.to_owned()))?;
        reasons::Now::read(&self.shared)?.view(job)
    }

    /// The description that the job was submitted with.
    ///
    /// # Errors
    /// There is no such job, or the state cannot be read.
    pub fn description(&self, id: &str) -> Result<NewJob, JobsError> {
        let spec = self.shared.replica.reader().job_spec(id)?;
        let spec = spec.ok_or_else(|| JobsError::NoJob(id.to_owned()))?;
        spec::parse(&spec)
    }

    /// A page of jobs, the newest first.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn list(
        &self,
        filter: &JobFilter,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<JobList, JobsError> {
        let reader = self.shared.replica.reader();
        let page = reader.jobs(filter, cursor, limit)?;
        let now = reasons::Now::read(&self.shared)?;
        let jobs = page.jobs.into_iter().map(|job| now.view(job));
        let jobs = jobs.collect::<Result<_, _>>()?;
        Ok(JobList {
            jobs,
            next: page.next.map(|cursor| cursor.to_string()),
        })
    }

    /// Stops the job for a time. Arrived data stays, and a resumed job continues from there.
    ///
    /// # Errors
    /// The job has ended, or the state takes no change.
    pub fn pause(&self, actor: Actor, id: &str) -> Result<JobView, JobsError> {
        self.steer(actor, id, JobOp::Pause)
    }

    /// Resumes a paused job.
    ///
    /// # Errors
    /// The job is not paused, or the actor may not use its places, or the state takes no change.
    pub fn resume(&self, actor: Actor, id: &str) -> Result<JobView, JobsError> {
        access::check_run(&self.shared, &actor, id)?;
        self.steer(actor, id, JobOp::Resume)
    }

    /// Gives the job up.
    ///
    /// # Errors
    /// The job has ended, or the state takes no change.
    pub fn cancel(
        &self,
        actor: Actor,
        id: &str,
        comment: Option<String>,
    ) -> Result<JobView, JobsError> {
        self.steer(actor, id, JobOp::Cancel { comment })
    }

    /// Runs an ended job once more, or starts the next attempt of one that waits after a failure.
    ///
    /// # Errors
    /// The job is complete, or has not ended and waits for no attempt after a failure, or the actor may not use its places. Or too many jobs
    /// of the owner wait, or the state takes no change.
    pub fn retry(&self, actor: Actor, id: &str) -> Result<JobView, JobsError> {
        access::check_run(&self.shared, &actor, id)?;
        submit::check_room_again(&self.shared, &self.job(id)?)?;
        self.steer(actor, id, JobOp::Retry)
    }

    /// Changes limit, priority or label; a running job obeys at once.
    ///
    /// # Errors
    /// The job has ended, or the actor may not use its places and changes limit or priority, or the state takes no change.
    pub fn change(&self, actor: Actor, id: &str, wish: &ChangeJob) -> Result<JobView, JobsError> {
        let change = JobChange {
            limit: wish.limit,
            priority: wish.priority,
            label: wish.label.clone(),
        };
        if change == JobChange::default() {
            return self.job(id);
        }
        // The job may wait for either of them.
        if change.limit.is_some() || change.priority.is_some() {
            access::check_run(&self.shared, &actor, id)?;
        }
        self.steer(actor, id, JobOp::Change(change))
    }

    /// Whether a schedule makes sense: cron expression, time zone, and job. A user of this role must be allowed to submit the job.
    ///
    /// # Errors
    /// Describes the fault, and a valid form.
    pub fn check_schedule(
        &self,
        cron: &str,
        time_zone: &str,
        template: &NewJob,
        owner: &str,
        role: Role,
    ) -> Result<(), JobsError> {
        schedule::check(&self.shared, cron, time_zone, template, owner, role)
    }

    /// When a schedule submits its job next; None if it never does.
    #[must_use]
    pub fn next_tick(&self, schedule: &Schedule) -> Option<Timestamp> {
        schedule::next(schedule, self.shared.now())
    }

    /// The attempts of a job, the first one first.
    ///
    /// # Errors
    /// There is no such job, or the state cannot be read.
    pub fn attempts(&self, id: &str) -> Result<Vec<AttemptView>, JobsError> {
        let job = self.job(id)?;
        let attempts = self.shared.replica.reader().attempts(id)?;
        let mut attempts: Vec<AttemptView> = attempts.into_iter().map(documents::attempt).collect();
        documents::add_running(&mut attempts, job.progress.as_ref());
        Ok(attempts)
    }

    /// The failed entries of a job, grouped by reason.
    ///
    /// # Errors
    /// There is no such job, or the state cannot be read.
    pub fn failures(&self, id: &str) -> Result<Vec<FailureGroup>, JobsError> {
        self.job(id)?;
        Ok(self.shared.replica.reader().failures(id)?)
    }

    /// Lines of the job's log after number `after`, at most `limit`, from all nodes of the cluster that ran it.
    ///
    /// # Errors
    /// There is no such job, or its log cannot be read.
    pub fn log(&self, id: &str, after: u64, limit: usize) -> Result<LogPage, JobsError> {
        self.job(id)?;
        past::log(&self.shared, id, after, limit)
    }

    /// Samples of the job, the oldest first; older attempts are thinned out.
    ///
    /// # Errors
    /// There is no such job, or its samples cannot be read.
    pub fn samples(&self, id: &str) -> Result<Vec<SampleView>, JobsError> {
        self.job(id)?;
        Ok(past::samples(&self.shared, id)?.0)
    }

    /// Ends all attempts so that the next start of the node resumes them. Blocks until they have ended.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.elsewhere.stop();
        self.shared.live.stop_all();
        let scheduler = self
            .scheduler
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        let _panic_was_printed = scheduler.map(JoinHandle::join);
        self.shared.workers.end();
        // One that was begun at the last moment.
        self.shared.live.stop_all();
        self.shared.live.wait_until_empty();
    }

    fn steer(&self, actor: Actor, id: &str, op: JobOp) -> Result<JobView, JobsError> {
        let stops = matches!(op, JobOp::Pause | JobOp::Cancel { .. });
        self.propose(actor, id, op)?;
        if stops {
            // The caller relies on the end of all writes.
            self.shared.live.wait_for_end(id, STOPS_WITHIN);
        }
        self.job(id)
    }

    fn propose(&self, actor: Actor, id: &str, op: JobOp) -> Result<(), JobsError> {
        self.shared.replica.propose_blocking(Command::new(
            self.shared.now(),
            actor,
            Op::Job(id.to_owned(), op),
        ))?;
        Ok(())
    }
}
