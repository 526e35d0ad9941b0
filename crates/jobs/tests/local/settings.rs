//! Settings that only a command takes, in jobs from each source: submitted, scheduled, asked for by another site, and kept by an older
//! version.
//! Does not know these settings: the table lists them.

use std::collections::BTreeMap;

use godwit_api::ask::{AnswerJobs as _, Question, RunJob, code};
use godwit_api::job::{JobKind, Text};
use godwit_api::rest::{JobState, NewJob};
use godwit_api::settings::{AppliesTo, Setting};
use godwit_jobs::{Guests, Jobs};
use godwit_state::{
    Command, JobFilter, NewJob as Submitted, Op, RetryPolicy, Role, StoredPlace, sortable_id,
};

use crate::world::{World, alice, new, site, wait_for};

/// A job for each kind and each setting that only a command takes, with that setting.
fn jobs_with_command_settings() -> impl Iterator<Item = (&'static Setting, NewJob)> {
    let kinds = [JobKind::Copy, JobKind::Sync, JobKind::Verify];
    kinds.into_iter().flat_map(|kind| {
        let of_a_command = |setting: &&Setting| matches!(setting.applies_to, AppliesTo::Command(_));
        Setting::all_of(kind.scope())
            .filter(of_a_command)
            .map(move |setting| (setting, with(kind, setting.name)))
    })
}

fn with(kind: JobKind, name: &str) -> NewJob {
    NewJob {
        kind,
        settings: BTreeMap::from([(name.to_owned(), vec![Text::from("1")])]),
        ..new("here:/from/a", "here:/to/a")
    }
}

/// The error names the setting, and a remedy.
#[track_caller]
fn names(error: &str, setting: &Setting) {
    let AppliesTo::Command(advice) = setting.applies_to else {
        panic!("{} is of jobs", setting.name);
    };
    let words = format!("settings: --{} {advice}", setting.name);
    assert!(error.contains(&words), "no {words:?} in {error:?}");
}

#[test]
fn a_job_is_refused_with_a_setting_that_only_a_command_takes() {
    let world = World::new();
    world.write("from/a", b"alpha");
    let jobs = world.start(1);
    let guests = Guests::new(jobs.clone());
    let mut seen = Vec::new();
    for (setting, job) in jobs_with_command_settings() {
        let submitted = jobs.submit(alice(), "alice", &job, None);
        names(&submitted.expect_err("refused").to_string(), setting);
        let scheduled = jobs
            .schedules()
            .check("* * * * *", "UTC", &job, "alice", Role::Admin);
        names(&scheduled.expect_err("refused").to_string(), setting);
        let question = Question::Run(Box::new(RunJob {
            job: "j1".to_owned(),
            again: false,
            new: job,
            request: None,
            deadline_ms: None,
            other: None,
            may_list: Some(true),
            may_read: Some(true),
        }));
        let asked = guests.answer("gw1-a", None, &question, &|_, _, _| Ok(()));
        let refusal = asked.expect_err("refused");
        assert_eq!(refusal.code, code::INVALID);
        names(&refusal.message, setting);
        seen.push(setting.name);
    }
    for name in ["rsh", "remote-command", "channel", "via-ssh", "data-ports"] {
        assert!(seen.contains(&name), "{name}");
    }
    let page = jobs.list(&JobFilter::default(), None, 10).expect("a list");
    assert!(page.jobs.is_empty(), "{page:?}");
    jobs.stop();
}

#[test]
fn an_old_job_with_such_a_setting_fails_with_its_name() {
    let world = World::new();
    world.write("from/a", b"alpha");
    let jobs = world.start(1);
    propose(&jobs, site("b", "192.0.2.1", "gw1-b"));
    let ends = [
        ["here:/from/a", "here:/to/a"],
        ["here:/from/a", "b:/to/a"],
        ["b:/from/a", "here:/to/a"],
        ["b:/from/a", "b:/to/a"],
    ];
    for [from, to] in ends {
        let job = NewJob {
            settings: with(JobKind::Copy, "rsh").settings,
            ..new(from, to)
        };
        let id = keep(&jobs, "alice", &job);
        let ended = wait_for(&jobs, &id, |job| job.ended.is_some());
        assert_eq!(ended.state, JobState::Failed, "{ended:?}");
        let setting = Setting::find(JobKind::Copy.scope(), "rsh").expect("in the table");
        names(&ended.reason.expect("a reason").text, setting);
    }
    assert!(!world.path("to/a").exists());
    jobs.stop();
}

/// Puts a job into the state as an older version did, without a check.
pub(crate) fn keep(jobs: &Jobs, owner: &str, new: &NewJob) -> String {
    let at = godwit_jobs::now();
    let place = |text: &str| {
        let (site, path) = text.split_once(':').expect("a place");
        StoredPlace {
            site: site.to_owned(),
            path: path.to_owned(),
        }
    };
    let mut random = [0; 4];
    getrandom::fill(&mut random).expect("random numbers");
    let job = Submitted {
        id: sortable_id(at, u32::from_le_bytes(random)),
        label: String::new(),
        owner: owner.to_owned(),
        spec: serde_json::to_string(new).expect("JSON"),
        sources: new.sources.iter().map(|text| place(text)).collect(),
        destination: place(&new.destination),
        priority: 0,
        limit: None,
        not_before: None,
        deadline: None,
        retry: RetryPolicy::default(),
        idempotency_key: None,
    };
    let id = job.id.clone();
    propose(jobs, Op::Submit(Box::new(job)));
    id
}

fn propose(jobs: &Jobs, op: Op) {
    let command = Command::new(godwit_jobs::now(), alice(), op);
    jobs.replica().propose_blocking(command).expect("kept");
}
