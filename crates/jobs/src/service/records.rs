//! Owns the requests about the records of a job: its description, attempts, failures, log, samples, report and manifest.
//! Changes nothing.

use godwit_api::rest::{
    AttemptView, FailureGroup, JobReport, JobView, LogPage, NewJob, SampleView,
};
use godwit_state::Families;

use super::Jobs;
use crate::asking::manifest::{self, Manifest};
use crate::asking::past;
use crate::basis::error::JobsError;
use crate::basis::{documents, spec};

/// The stored records of jobs.
#[derive(Clone, Copy)]
pub struct JobRecords<'a> {
    jobs: &'a Jobs,
}

impl<'a> JobRecords<'a> {
    pub(super) const fn of(jobs: &'a Jobs) -> Self {
        Self { jobs }
    }

    /// The description that the job was submitted with.
    ///
    /// # Errors
    /// There is no such job, or the state cannot be read.
    pub fn description(&self, id: &str) -> Result<NewJob, JobsError> {
        let spec = self.jobs.parts.this.reader().job_spec(id)?;
        let spec = spec.ok_or_else(|| JobsError::NoJob(id.to_owned()))?;
        spec::parse(&spec)
    }

    /// The attempts of a job, oldest first.
    ///
    /// # Errors
    /// There is no such job, or the state cannot be read.
    pub fn attempts(&self, id: &str) -> Result<Vec<AttemptView>, JobsError> {
        let job = self.jobs.job(id)?;
        let attempts = self.jobs.parts.this.reader().attempts(id)?;
        let mut attempts: Vec<AttemptView> = attempts.into_iter().map(documents::attempt).collect();
        documents::add_running(&mut attempts, job.progress.as_ref());
        Ok(attempts)
    }

    /// The failed entries of a job, grouped by reason.
    ///
    /// # Errors
    /// There is no such job, or the state cannot be read.
    pub fn failures(&self, id: &str) -> Result<Vec<FailureGroup>, JobsError> {
        self.jobs.job(id)?;
        Ok(self.jobs.parts.this.reader().failures(id)?)
    }

    /// A page of the job's log after number `after`, from all nodes of the cluster that ran it: at most `limit` lines, and fewer if they are
    /// long. The page behind the last line is empty.
    ///
    /// # Errors
    /// There is no such job, or its log cannot be read.
    pub fn log(&self, id: &str, after: u64, limit: usize) -> Result<LogPage, JobsError> {
        self.jobs.job(id)?;
        past::log(&self.jobs.parts.asking, id, after, limit)
    }

    /// Samples of the job, the oldest first; older attempts are thinned out.
    ///
    /// # Errors
    /// There is no such job, or its samples cannot be read.
    pub fn samples(&self, id: &str) -> Result<Vec<SampleView>, JobsError> {
        self.jobs.job(id)?;
        Ok(past::samples(&self.jobs.parts.asking, id)?.0)
    }

    /// The job of each destination, for a job with several.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn destinations(&self, id: &str) -> Result<Vec<JobView>, JobsError> {
        let children = Families(&self.jobs.parts.this.reader()).children(id)?;
        self.jobs.parts.moment()?.views(children)
    }

    /// All records of the job, in one document.
    ///
    /// # Errors
    /// There is no such job, or its records cannot be read.
    pub fn report(&self, id: &str) -> Result<JobReport, JobsError> {
        let mut time_line = godwit_history::TimeLine::default();
        let without = past::each_line(&self.jobs.parts.asking, id, 0, &mut |line| {
            time_line.add(line);
            true
        })?;
        let (samples, mut missing) = past::samples(&self.jobs.parts.asking, id)?;
        missing.extend(without);
        missing.sort_by(|one, other| one.node.cmp(&other.node));
        missing.dedup_by(|one, other| one.node == other.node);
        Ok(godwit_history::make(godwit_history::Known {
            job: self.jobs.job(id)?,
            description: self.description(id)?,
            destinations: self.destinations(id)?,
            attempts: self.attempts(id)?,
            failures: self.failures(id)?,
            time_line,
            samples,
            missing,
        }))
    }

    /// The manifest that the last whole attempt of a job wrote.
    ///
    /// # Errors
    /// There is no such job, or no manifest of it, or it cannot be read, or the node that keeps it does not answer.
    pub fn manifest(&self, id: &str) -> Result<Manifest, JobsError> {
        manifest::open(&self.jobs.parts.asking, id)
    }
}
