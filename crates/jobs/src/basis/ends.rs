//! Owns the meaning of the places of a job: its sites, the exports that it needs, and where it may run.
//! Reads no state.

use godwit_api::endpoint::is_memory;
use godwit_api::rest::HERE;
use godwit_state::Job;

/// The names of the sites that a job has to do with, this node left out.
pub(crate) fn sites_of(job: &Job) -> Vec<String> {
    let mut sites: Vec<String> = job
        .sources
        .iter()
        .chain([&job.destination])
        .filter(|place| place.site != HERE)
        .map(|place| place.site.clone())
        .collect();
    sites.sort();
    sites.dedup();
    sites
}

/// The exports of this cluster that a job names.
pub(crate) fn needs(job: &Job) -> impl Iterator<Item = &str> {
    job.sources
        .iter()
        .chain([&job.destination])
        // Each node has memory to measure with.
        .filter(|place| place.site == HERE && !is_memory(&place.path))
        .map(|place| {
            let path = place.path.trim_start_matches('/');
            path.split('/').next().unwrap_or(path)
        })
}

/// Whether a node with these exports reaches all places of a job in this cluster.
pub(crate) fn reaches(exports: &[String], job: &Job) -> bool {
    needs(job).all(|export| exports.iter().any(|own| own == export))
}

/// Whether neither end of the job is here.
pub(crate) fn is_third_party(job: &Job) -> bool {
    let elsewhere = |site: &str| site != HERE;
    job.sources.iter().all(|place| elsewhere(&place.site)) && elsewhere(&job.destination.site)
}

/// Whether another site may run the job, or have run it: its sources are elsewhere.
pub(crate) fn may_run_elsewhere(job: &Job) -> bool {
    job.sources.iter().all(|place| place.site != HERE)
}

/// A place of a job at a site, export first.
pub(crate) fn place_at(job: &Job, site: &str) -> Vec<u8> {
    let places = job.sources.iter().chain([&job.destination]);
    let mut at = places.filter(|place| place.site == site);
    let path = at.next().map_or("", |place| place.path.as_str());
    path.trim_start_matches('/').as_bytes().to_vec()
}
