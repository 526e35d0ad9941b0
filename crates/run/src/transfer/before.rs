//! Deletes before anything is sent: a transfer that only deletes runs first. Deletes nothing; the destination does.

use godwit_api::endpoint::Endpoint;
use godwit_api::event::Status;
use godwit_api::failure::Failure;

use super::Job;
use super::report::Report;

/// Runs the transfer. With `--delete-before`, a pass that only deletes runs first; if that pass is incomplete, the
/// transfer stops.
pub(super) fn deleted_first(
    job: &mut Job<'_>,
    sources: &[Endpoint],
    destination: &Endpoint,
) -> Result<Report, Failure> {
    // Between two other machines, the sending agent does this.
    let is_elsewhere = matches!(
        (sources, destination),
        ([Endpoint::Ssh(_), ..], Endpoint::Ssh(_))
    );
    let wanted = job.settings.comparison;
    if !wanted.delete_before || wanted.dry_run || is_elsewhere {
        return job.attempts(sources, destination);
    }
    let verbose = std::mem::replace(&mut job.settings.verbose, false);
    job.settings.comparison.existing = true;
    job.settings.comparison.ignore_existing = true;
    let first = job.attempts(sources, destination)?;
    let deleted = first.summary.deleted;
    if first.failure.is_some() || first.summary.status != Status::Complete {
        return Ok(first);
    }
    job.settings.verbose = verbose;
    job.settings.comparison = wanted;
    let mut report = job.attempts(sources, destination)?;
    report.summary.deleted += deleted;
    Ok(report)
}
