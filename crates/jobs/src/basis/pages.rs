//! Reads many jobs page by page, so that jobs with long lists of places take no more memory than others.
//! Decides nothing about jobs.

use godwit_state::{Job, JobFilter, PAGE_BYTES, Reader};

use crate::basis::error::JobsError;

/// Calls `take` for the jobs of the filter, the newest first, until it has taken `most` of them or returns false.
///
/// # Errors
/// The state cannot be read, or `take` failed.
pub(crate) fn each_job(
    reader: &Reader,
    filter: JobFilter,
    most: usize,
    take: &mut dyn FnMut(Job) -> Result<bool, JobsError>,
) -> Result<(), JobsError> {
    let filter = JobFilter {
        bytes_max: Some(PAGE_BYTES),
        ..filter
    };
    let (mut left, mut cursor) = (most, None);
    while left > 0 {
        let page = reader.jobs(&filter, cursor.as_ref(), left)?;
        left = left.saturating_sub(page.jobs.len());
        for job in page.jobs {
            if !take(job)? {
                return Ok(());
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(())
}
