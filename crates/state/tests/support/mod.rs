//! Owns helpers for the tests of the state: commands with minimal content.
//! Tests nothing itself.
#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod air;
pub(crate) mod nodes;
pub(crate) mod state;

use godwit_state::{
    Actor, Code, Command, FailureCode, Finish, JobOp, NewJob, Op, Outcome, Reason, RetryPolicy,
    Role, Runner, Schedule, StoredPlace, Timestamp,
};

/// The base time of all tests.
pub(crate) const NOON: i64 = 1_800_000_000_000;

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp(NOON + millis)
}

pub(crate) fn alice() -> Actor {
    Actor {
        name: "alice".to_owned(),
        role: Some(Role::Operator),
        remote: Some("192.0.2.1".to_owned()),
        request: None,
        via: None,
    }
}

pub(crate) fn command(millis: i64, op: Op) -> Command {
    Command::new(at(millis), alice(), op)
}

pub(crate) fn job_command(millis: i64, id: &str, op: JobOp) -> Command {
    command(millis, Op::Job(id.to_owned(), op))
}

pub(crate) fn new_job(id: &str) -> NewJob {
    NewJob {
        id: id.to_owned(),
        label: format!("label of {id}"),
        owner: "alice".to_owned(),
        spec: format!("{{\"name\":\"{id}\"}}"),
        sources: vec![place("siteA", "/data/run42")],
        destination: place("siteB", "/archive/run42"),
        priority: 0,
        limit: None,
        not_before: None,
        deadline: None,
        retry: RetryPolicy::default(),
        idempotency_key: None,
    }
}

pub(crate) fn submit(millis: i64, id: &str) -> Command {
    command(millis, Op::Submit(Box::new(new_job(id))))
}

pub(crate) fn place(site: &str, path: &str) -> StoredPlace {
    StoredPlace {
        site: site.to_owned(),
        path: path.to_owned(),
    }
}

pub(crate) fn runner(node: &str, instance: &str) -> Runner {
    Runner {
        node: node.to_owned(),
        instance: instance.to_owned(),
    }
}

pub(crate) fn claim(seen: u64) -> JobOp {
    JobOp::Claim {
        runner: runner("node1", "first"),
        seen,
    }
}

pub(crate) fn finish(epoch: u64, outcome: Outcome) -> JobOp {
    JobOp::Finish(Box::new(Finish {
        epoch,
        outcome,
        reason: Some(Reason::new(Code::of_word("test"), "The test ends the job.")),
        summary: "{}".to_owned(),
        bytes: 1,
        files: 1,
        failures: Vec::new(),
    }))
}

/// The end of an attempt that is tried again.
pub(crate) fn backoff(epoch: u64, next: i64) -> JobOp {
    JobOp::Backoff {
        epoch,
        reason: Reason::new(FailureCode::Unreachable, "siteB does not answer."),
        next_attempt: at(next),
        bytes: 10,
        files: 1,
    }
}

/// A schedule that fires each night.
pub(crate) fn nightly() -> Schedule {
    Schedule {
        id: "nightly".to_owned(),
        cron: "0 2 * * *".to_owned(),
        time_zone: "Europe/Berlin".to_owned(),
        owner: "alice".to_owned(),
        role: None,
        template: "{}".to_owned(),
        disabled: false,
        fired: None,
        reason: None,
        comment: String::new(),
    }
}
