//! Owns the examples of jobs for the tests of this crate: each has the usual values, and a test changes those that it is about.
//! Tests nothing itself.

use godwit_state::{Job, JobState, NewJob, RetryPolicy, StoredPlace, Timestamp};

fn place(site: &str, path: &str) -> StoredPlace {
    StoredPlace {
        site: site.to_owned(),
        path: path.to_owned(),
    }
}

/// A queued job from here to a site.
pub(crate) fn job(id: &str, owner: &str, site: &str) -> Job {
    Job {
        id: id.to_owned(),
        label: String::new(),
        owner: owner.to_owned(),
        sources: vec![place("here", "/data")],
        destination: place(site, "/data"),
        state: JobState::Queued,
        reason: None,
        since: Timestamp(0),
        next_attempt: None,
        priority: 0,
        limit: None,
        not_before: None,
        deadline: None,
        retry: RetryPolicy::default(),
        attempts: 0,
        retries: 0,
        epoch: 0,
        runner: None,
        idempotency_key: None,
        created: Timestamp(0),
        started: None,
        ended: None,
        summary: None,
        schedule: None,
        request: None,
    }
}

/// A job that alice submits, from the directory `raw` of a site to a place.
pub(crate) fn new_job(id: &str, from: &str, (site, path): (&str, &str)) -> NewJob {
    NewJob {
        id: id.to_owned(),
        label: String::new(),
        owner: "alice".to_owned(),
        spec: "{}".to_owned(),
        sources: vec![place(from, "/raw/.")],
        destination: place(site, path),
        priority: 0,
        limit: None,
        not_before: None,
        deadline: None,
        retry: RetryPolicy::default(),
        idempotency_key: None,
    }
}
