//! Owns the last word about ended jobs of which data waited in the transfer buffer of this node: their logs and the state learn that none
//! does any more. Drains nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use godwit_history::Recorder;
use godwit_state::{
    Agreed, Job, JobFilter, JobOp, JobState, LEVEL_DRAINED, PAGE_BYTES, ProposeError,
};

use crate::basis::buffered::buffered;
use crate::basis::error::JobsError;
use crate::basis::this_node::ThisNode;

/// How often the jobs are looked at.
const EVERY: Duration = Duration::from_secs(2);

/// The newest ended jobs among which those with waiting data are found: one page.
const JOBS_MAX: usize = 1_000;

/// The ended jobs of which data waits here.
#[derive(Default)]
pub(crate) struct Drained {
    waiting: BTreeSet<String>,
    looked: Option<Instant>,
}

impl Drained {
    /// Looks at the jobs, unless that was done just now. A state that cannot be read or changed is asked again.
    pub(crate) fn look(&mut self, this: &ThisNode, now: Instant) -> Result<(), JobsError> {
        let is_early = |at: Instant| now.saturating_duration_since(at) < EVERY;
        if self.looked.is_some_and(is_early) {
            return Ok(());
        }
        self.looked = Some(now);
        if any_waits(this) {
            self.find(this)?;
        }
        // Some ended since, and were shown already.
        self.waiting.extend(this.shown.take());
        for id in self.waiting.clone() {
            let job = this.reader().job(&id)?;
            let job = job.filter(|job| job.state.ended());
            let waits = job
                .as_ref()
                .is_some_and(|job| buffered(this, job).is_some());
            if !waits {
                if let Some(job) = &job {
                    tell(this, job)?;
                }
                self.waiting.remove(&id);
            }
        }
        Ok(())
    }

    /// Finds jobs that have ended since the last look.
    fn find(&mut self, this: &ThisNode) -> Result<(), JobsError> {
        let states = JobState::ALL.into_iter().filter(|state| state.ended());
        let filter = JobFilter {
            states: states.collect(),
            bytes_max: Some(PAGE_BYTES),
            ..JobFilter::default()
        };
        for job in this.reader().jobs(&filter, None, JOBS_MAX)?.jobs {
            if self.waiting.contains(&job.id) {
                continue;
            }
            if buffered(this, &job).is_some() {
                // The owner reads the log, and may not have the right to list the destination. So the amount is not in it.
                note(
                    this,
                    &job,
                    "data is durable in the transfer buffer, on the way to the export",
                );
                self.waiting.insert(job.id);
            }
        }
        Ok(())
    }
}

/// Whether any file waits at this node.
fn any_waits(this: &ThisNode) -> bool {
    let always = Duration::ZERO..=Duration::MAX;
    let waits = |export: &String| this.files.buffered(&Path::new("/").join(export), &always) > 0;
    this.exports.iter().any(waits)
}

/// Says that none of the job waits any more.
fn tell(this: &ThisNode, job: &Job) -> Result<(), JobsError> {
    if Agreed(&this.reader()).level()? >= LEVEL_DRAINED {
        match this.propose_for(&job.id, JobOp::Drained) {
            // A job with several destinations has an event for each of them.
            Ok(()) | Err(ProposeError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    note(this, job, "nothing waits in the transfer buffer any more");
    Ok(())
}

/// Adds a line to the log of a job, if this node keeps one.
fn note(this: &ThisNode, job: &Job, message: &str) {
    if godwit_history::bytes(&this.directory, &job.id) > 0 {
        let note = serde_json::json!({"event": "note", "message": message});
        Recorder::open(&this.directory, &job.id, job.attempts).log(note);
    }
}
