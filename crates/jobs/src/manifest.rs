//! Owns where the manifest of a job lies, and which jobs have one.
//! Writes none: `run` does.

use std::fs::File;

use godwit_api::event::Summary;
use godwit_api::job::{JobKind, Text};
use godwit_api::rest::NewJob;
use godwit_state::Job;

use crate::error::JobsError;
use crate::{Shared, files, spec, third};

/// The setting that names the file.
pub(crate) const SETTING: &str = "manifest";

/// Settings that are about the manifest and make no sense without one.
const ABOUT: [&str; 2] = ["sign", "manifest-sorted"];

/// Whether what a job says of its manifest makes sense.
pub(crate) fn check(new: &NewJob) -> Result<(), JobsError> {
    let invalid = |detail: String| Err(JobsError::invalid("invalid", detail));
    if new.manifest && new.kind == JobKind::Verify {
        return invalid("manifest: a verification reads a manifest and writes none".to_owned());
    }
    let about = ABOUT.iter().find(|name| new.settings.contains_key(**name));
    match about {
        Some(name) if !new.manifest => invalid(format!(
            "settings: {name} is about a manifest, and the job writes none; add manifest (godwit job submit --manifest)"
        )),
        _ => Ok(()),
    }
}

/// The value of the setting for a job of this node.
pub(crate) fn setting(shared: &Shared, job: &Job) -> Vec<Text> {
    use std::os::unix::ffi::OsStringExt as _;
    let path = files::manifest_path(&shared.config.directory, &job.id);
    vec![Text(path.into_os_string().into_vec())]
}

/// Opens the manifest of a job.
pub(crate) fn open(shared: &Shared, id: &str) -> Result<File, JobsError> {
    let reader = shared.replica.reader();
    let none = |detail: String| Err(JobsError::NoManifest(detail));
    let (Some(job), Some(text)) = (reader.job(id)?, reader.job_spec(id)?) else {
        return Err(JobsError::NoJob(id.to_owned()));
    };
    if !spec::parse(&text)?.manifest {
        return none(format!(
            "job {id} writes no manifest; submit one that does with: godwit job submit --manifest"
        ));
    }
    if third::is_third_party(&job) {
        return none(format!(
            "no end of job {id} is at this node, so the site that ran the job keeps its manifest; the job's log names the site, the report has the digest"
        ));
    }
    match files::open_manifest(&shared.config.directory, id)? {
        Some(file) => Ok(file),
        None => none(format!(
            "job {id} has no manifest yet: it is written when an attempt has seen all entries; the job is {}",
            job.state
        )),
    }
}

/// Takes the path of the file out of a summary that is kept: it is nobody's business but the node's.
pub(crate) fn hide_path(summary: &mut Summary) {
    if let Summary::Transfer(transfer) = summary
        && let Some(manifest) = &mut transfer.manifest
    {
        manifest.path = SETTING.as_bytes().to_vec();
    }
}
