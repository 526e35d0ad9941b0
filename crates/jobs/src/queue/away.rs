//! Takes undivided jobs from this node whose exports here have not answered for a while: another node resumes them, or the job says why it
//! waits.
//! Looks at no file system; the node watches its exports.

use godwit_api::failure::FailureCode;
use godwit_api::watched::SILENT_MAX;
use godwit_run::local::ExportedFiles;
use godwit_state::{Job, JobOp, Reader, Reason, Works};

use crate::attempt::reports::Reports;
use crate::basis::ends::needs;
use crate::basis::error::JobsError;
use crate::basis::this_node::ThisNode;

/// Returns a job that runs here to the queue if an export of it hangs; returns whether it did. Hanging calls keep the thread of the
/// attempt, and the fence refuses its late writes.
pub(crate) fn leaves(
    reports: &Reports,
    files: &dyn ExportedFiles,
    reader: &Reader,
    job: &Job,
) -> Result<bool, JobsError> {
    let Reports { this, live, .. } = reports;
    let Some(text) = silence(this, files, job) else {
        return Ok(false);
    };
    // The other nodes of a divided job continue.
    if Works(reader).of(&job.id)?.is_some() {
        return Ok(false);
    }
    let progress = live.progress(&job.id);
    let backoff = JobOp::Backoff {
        epoch: job.epoch,
        reason: Reason::new(FailureCode::ExportAway, text.clone()),
        next_attempt: this.now(),
        bytes: progress.as_ref().map_or(0, |progress| progress.bytes),
        files: progress.as_ref().map_or(0, |progress| progress.files),
    };
    let left = this.propose_for(&job.id, backoff);
    if left.is_ok() {
        this.log(&format!("job {}: {text}", job.id));
        live.leave(&job.id);
    }
    // A refusal means that the job was changed meanwhile.
    Ok(left.is_ok())
}

/// Whether a job waits because an export that it needs does not answer here. A claim would only use up a retry. The job says why it waits.
pub(crate) fn keeps_waiting(this: &ThisNode, files: &dyn ExportedFiles, job: &Job) -> bool {
    let Some(text) = silence(this, files, job) else {
        return false;
    };
    if !is_reported(job) {
        let explain = JobOp::Explain {
            seen: job.epoch,
            reason: Reason::new(FailureCode::ExportAway, text),
        };
        // A refusal means that the job has changed meanwhile.
        drop(this.propose_for(&job.id, explain));
    }
    true
}

/// The words for an export of the job whose file system does not answer, if there is one.
fn silence(this: &ThisNode, files: &dyn ExportedFiles, job: &Job) -> Option<String> {
    let (name, lasts) = needs(job).find_map(|name| {
        let lasts = files.silent_for(name)?;
        (lasts > SILENT_MAX).then_some((name, lasts))
    })?;
    let node = &this.name;
    Some(format!(
        "The file system of the export {name} has not answered at the node {node} for {} s: check its mount. The job resumes at another node that has the export, or here once the mount answers.",
        lasts.as_secs()
    ))
}

/// Whether the job's reason for waiting is a named export that is away.
pub(crate) fn is_reported(job: &Job) -> bool {
    let reason = job.reason.as_ref();
    reason.is_some_and(|reason| reason.code == FailureCode::ExportAway)
}
