//! The jobs of a node: their start and stop, and each request of a caller about them.
//! Decides nothing itself: the groups of this crate do.

mod flows;
mod parts;
mod records;
mod schedules;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use godwit_api::ask::AskSites;
use godwit_api::record::NewsSink;
use godwit_api::rest::{ChangeJob, JobList, JobProgress, JobView, NewJob};
use godwit_run::local::ExportedFiles;
use godwit_state::{
    Actor, Command, Cursor, Families, Job, JobChange, JobFilter, JobOp, JobState, Op, Replica,
};

use crate::attempt::MakeEnv;
use crate::basis::clock::Clock;
use crate::basis::cluster::{IsMember, OwnPeer};
use crate::basis::error::JobsError;
use crate::basis::turns::Turn;
use crate::queue::submit;
use crate::rights::FileGrants;
use crate::rights::access::{self, Access};
pub use flows::Flows;
pub(crate) use parts::Parts;
pub use records::JobRecords;
pub use schedules::Schedules;

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
    pub own: Arc<OwnPeer>,
    /// Whether an identity is that of a node of this cluster.
    pub is_member: Arc<IsMember>,
    /// The exports of this node.
    pub exported: Arc<dyn ExportedFiles>,
    /// Makes the surroundings of one attempt.
    pub make_env: Arc<MakeEnv>,
    /// Hears of each attempt.
    pub tells: Arc<NewsSink>,
    /// Writes any other line to the log.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The jobs of a node. Clones are the same jobs.
#[derive(Clone)]
pub struct Jobs {
    pub(crate) parts: Arc<Parts>,
    scheduler: Arc<std::sync::Mutex<Option<JoinHandle<()>>>>,
}

impl Jobs {
    /// Returns the jobs that an earlier start of this node ran to the queue, as soon as the state takes changes. Then runs all due jobs.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(config: JobsConfig, replica: Arc<Replica>) -> Result<Self, JobsError> {
        let (parts, queue) = Parts::of(config, replica);
        let scheduler = parts.start(queue)?;
        Ok(Self {
            parts: Arc::new(parts),
            scheduler: Arc::new(std::sync::Mutex::new(Some(scheduler))),
        })
    }

    /// The state of the node.
    #[must_use]
    pub fn replica(&self) -> &Arc<Replica> {
        &self.parts.this.replica
    }

    /// Names of the exports of this node.
    #[must_use]
    pub fn exports(&self) -> &[String] {
        &self.parts.this.exports
    }

    /// Asks other sites for the node of these jobs, and the node itself.
    #[must_use]
    pub fn sites(&self) -> &Arc<dyn AskSites> {
        &self.parts.asking.sites
    }

    /// Where the node keeps the files of jobs beside the state.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.parts.this.directory
    }

    /// Progress of the attempts that run here. Reads only the attempts, because a watching client asks each second.
    #[must_use]
    pub fn progress(&self) -> Vec<JobProgress> {
        self.parts.live().running()
    }

    /// Progress of the attempts that run here, of the jobs that other nodes of the cluster run, and of the parents of all these jobs.
    /// Parents are left out while the state cannot be read. Blocks.
    #[must_use]
    pub fn progress_everywhere(&self) -> Vec<JobProgress> {
        let mut all = self.progress();
        all.extend(self.parts.asking.elsewhere.all());
        if !all.is_empty() {
            let now = self.parts.moment();
            let parents = now.and_then(|now| now.parents(&all));
            all.extend(parents.unwrap_or_default());
        }
        all
    }

    /// The stored records of jobs.
    #[must_use]
    pub const fn records(&self) -> JobRecords<'_> {
        JobRecords::of(self)
    }

    /// The questions of schedules to this node.
    #[must_use]
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules::of(&self.parts)
    }

    /// The questions of flows to this node.
    #[must_use]
    pub fn flows(&self) -> Flows<'_> {
        Flows::of(&self.parts)
    }

    /// The access rules and grants at this node.
    #[must_use]
    pub fn access(&self) -> Access<'_> {
        Access(&self.parts.rights)
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
        let (id, created) =
            submit::submit(&self.parts.admission, actor, owner, new, idempotency_key)?;
        Ok((self.job(&id)?, created))
    }

    /// The job of that id.
    ///
    /// # Errors
    /// There is none, or the state cannot be read.
    pub fn job(&self, id: &str) -> Result<JobView, JobsError> {
        let reader = self.parts.this.reader();
        let job = reader
            .job(id)?
            .ok_or_else(|| JobsError::NoJob(id.to_owned()))?;
        self.parts.moment()?.view(job)
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
        let reader = self.parts.this.reader();
        let page = reader.jobs(filter, cursor, limit)?;
        Ok(JobList {
            jobs: self.parts.moment()?.views(page.jobs)?,
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
        check_run(&self.parts, &actor, id)?;
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
        check_run(&self.parts, &actor, id)?;
        let job = self.job(id)?;
        // Simultaneous requests get no further than successive ones.
        let _turn = self.turn("jobs", &job.owner);
        match runs_child_again(&self.parts, id)? {
            true => submit::check_room(&self.parts.admission, &job.owner)?,
            false => submit::check_room_again(&self.parts.admission, &job)?,
        }
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
            check_run(&self.parts, &actor, id)?;
        }
        self.steer(actor, id, JobOp::Change(change))
    }

    /// Waits until no other request counts `what` of the owner and adds one.
    #[must_use]
    pub fn turn(&self, what: &str, owner: &str) -> Turn<'_> {
        let turns = &self.parts.admission.turns;
        turns.take(format!("{what} of {owner}"))
    }

    /// Ends all attempts so that the next start of the node resumes them. Blocks until they have ended.
    pub fn stop(&self) {
        self.parts.this.stopping.store(true, Ordering::SeqCst);
        self.parts.asking.elsewhere.stop();
        self.parts.live().stop_all();
        let scheduler = self
            .scheduler
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        let _panic_was_printed = scheduler.map(JoinHandle::join);
        self.parts.workers().end();
        // Stops an attempt that was begun at the last moment.
        self.parts.live().stop_all();
        self.parts.live().wait_until_empty();
    }

    /// The cluster continues without this node: its attempts write nothing more, and end. Its part in divided jobs ends, too.
    pub fn leave_all(&self) {
        let live = self.parts.live();
        live.all().iter().for_each(|(id, _)| live.leave(id));
        self.parts.workers().leave();
    }

    fn steer(&self, actor: Actor, id: &str, op: JobOp) -> Result<JobView, JobsError> {
        let stops = matches!(op, JobOp::Pause | JobOp::Cancel { .. });
        self.propose(actor, id, op)?;
        if stops {
            // The caller relies on the end of all writes.
            let until = Instant::now() + STOPS_WITHIN;
            for id in with_children(&self.parts, id)? {
                let left = until.saturating_duration_since(Instant::now());
                self.parts.live().wait_for_end(&id, left);
            }
        }
        self.job(id)
    }

    fn propose(&self, actor: Actor, id: &str, op: JobOp) -> Result<(), JobsError> {
        self.parts.this.replica.propose_blocking(Command::new(
            self.parts.this.now(),
            actor,
            Op::Job(id.to_owned(), op),
        ))?;
        Ok(())
    }
}

/// Whether a retry of this job lets children that have ended wait again. The parent itself may still wait.
fn runs_child_again(parts: &Parts, id: &str) -> Result<bool, JobsError> {
    let children = Families(&parts.this.reader()).children(id)?;
    let runs = |child: &Job| child.state.ended() && child.state != JobState::Complete;
    Ok(children.iter().any(runs))
}

/// The ids of a job and of its children.
fn with_children(parts: &Parts, id: &str) -> Result<Vec<String>, JobsError> {
    let children = Families(&parts.this.reader()).children(id)?;
    let children = children.into_iter().map(|child| child.id);
    Ok([id.to_owned()].into_iter().chain(children).collect())
}

/// Whether the actor may let a job run on to all its destinations.
fn check_run(parts: &Parts, actor: &Actor, id: &str) -> Result<(), JobsError> {
    let ids = with_children(parts, id)?;
    ids.iter()
        .try_for_each(|id| access::check_run(&parts.rights, actor, id))
}

#[cfg(test)]
mod leading;
