//! Tests the effects of single commands on jobs: their ends, lost claims, the audit log, retention.
//! See `properties` for sequences of commands, and `objects` for other objects.

mod support;

use godwit_state::{
    Actor, Agreed, AttemptOutcome, AuditEntry, AuditFilter, AuditOutcome, Change, Command, Effect,
    FEATURE_LEVEL, FailureCode, FailureGroup, Finish, GuestJobs, JobFilter, JobOp, JobQueue,
    JobState, Op, Outcome, Placed, Prune, Reason, Secret, Site, SiteAnswer, Webhook,
};
use support::state::State;
use support::{at, backoff, claim, finish, job_command, new_job, runner, submit};

#[test]
fn a_job_is_retried_until_its_policy_ends_it() {
    let mut state = State::new();
    let mut job = new_job("job");
    job.retry.retries_max = Some(2);
    state.op(0, Op::Submit(Box::new(job))).expect("submit");
    for retry in 0..2 {
        let epoch = retry * 2;
        state.job(1, claim(epoch)).expect("claim");
        state.job(2, backoff(epoch + 1, 100)).expect("backoff");
        assert_eq!(
            state.state(),
            (JobState::Queued, Some("unreachable".to_owned()))
        );
        let due = |now| JobQueue(&state.reader).due(at(now), 1, 1).expect("due");
        assert!(due(99).is_empty());
        assert_eq!(due(100).len(), 1);
    }
    state.job(3, claim(4)).expect("claim");
    state.job(4, backoff(5, 100)).expect("the last");
    assert_eq!(
        state.state(),
        (JobState::Failed, Some("retries_exhausted".to_owned()))
    );
    let attempts = state.reader.attempts("job").expect("read");
    assert_eq!(attempts.len(), 3);
    assert_eq!(
        (attempts[0].moved.bytes, attempts[0].outcome.clone()),
        (10, Some(AttemptOutcome::Backoff))
    );
    let failed = AttemptOutcome::State(JobState::Failed);
    assert_eq!(attempts[2].outcome, Some(failed));
}

#[test]
fn a_deadline_ends_a_job_that_waits_and_one_that_would_wait_beyond_it() {
    let mut state = State::new();
    let mut job = new_job("job");
    job.deadline = Some(at(50));
    state.op(0, Op::Submit(Box::new(job))).expect("submit");
    assert_eq!(
        JobQueue(&state.reader).next_deadline().expect("read"),
        Some(at(50))
    );
    state.job(1, claim(0)).expect("claim");
    state.job(2, backoff(1, 60)).expect("beyond the deadline");
    assert_eq!(
        state.state(),
        (JobState::Failed, Some("deadline_passed".to_owned()))
    );
    state.job(3, JobOp::Retry).expect("retry");
    let error = state.job(49, JobOp::Expire).expect_err("too early");
    assert_eq!(error.code().as_str(), "invalid");
    let expired = |state: &State| JobQueue(&state.reader).expired(at(50)).expect("read");
    assert_eq!(expired(&state).len(), 1);
    state.job(50, JobOp::Expire).expect("expire");
    assert_eq!(state.state().0, JobState::Failed);
    assert!(expired(&state).is_empty());
    // A user who retries the job after its deadline wants it to run.
    state.job(51, JobOp::Retry).expect("retry");
    assert_eq!(
        state
            .reader
            .job("job")
            .expect("read")
            .expect("there")
            .deadline,
        None
    );
}

#[test]
fn a_job_that_its_owner_may_not_run_ends_while_it_waits_and_not_once_it_moves() {
    let mut state = State::new();
    let denied = |seen| JobOp::Deny {
        seen,
        reason: Reason::new(FailureCode::AccessDenied, "The owner is gone."),
    };
    let failed = (JobState::Failed, Some("access_denied".to_owned()));
    state
        .op(0, Op::Submit(Box::new(new_job("job"))))
        .expect("submit");
    state.job(1, denied(0)).expect("queued");
    assert_eq!(state.state(), failed);
    state.job(2, JobOp::Retry).expect("retry");
    let epoch = state.epoch();
    state.job(3, claim(epoch)).expect("claim");
    let error = state.job(4, denied(epoch + 1)).expect_err("it moves");
    assert_eq!(error.code().as_str(), "forbidden_transition");
    state.job(5, JobOp::Pause).expect("pause");
    let error = state.job(6, denied(epoch + 1)).expect_err("paused since");
    assert_eq!(error.code().as_str(), "stale_epoch");
    state.job(7, denied(state.epoch())).expect("paused");
    assert_eq!(state.state(), failed);
}

#[test]
fn a_runner_that_lost_its_claim_is_refused() {
    let mut state = State::new();
    state.apply(&submit(0, "job")).expect("submit");
    state.job(1, claim(0)).expect("claim");
    let again = state
        .op(2, Op::Restart(runner("node1", "first")))
        .expect("the same start");
    assert_eq!(again, Effect::Restarted { jobs: 0 });
    let other = state
        .op(2, Op::Restart(runner("node2", "second")))
        .expect("another node");
    assert_eq!(other, Effect::Restarted { jobs: 0 });
    let restarted = state
        .op(2, Op::Restart(runner("node1", "second")))
        .expect("restart");
    assert_eq!(restarted, Effect::Restarted { jobs: 1 });
    assert_eq!(
        state.state(),
        (JobState::Queued, Some("node_restarted".to_owned()))
    );
    for op in [finish(1, Outcome::Complete), backoff(1, 9), claim(1)] {
        assert_eq!(
            state.job(3, op).expect_err("stale").code().as_str(),
            "stale_epoch"
        );
    }
    state.job(4, claim(2)).expect("claim");
    state.job(5, JobOp::Pause).expect("pause");
    assert_eq!(
        state
            .job(6, finish(3, Outcome::Complete))
            .expect_err("stale")
            .code()
            .as_str(),
        "stale_epoch"
    );
    state.job(7, JobOp::Resume).expect("resume");
    state.job(8, claim(5)).expect("claim");
    state.job(9, finish(6, Outcome::Complete)).expect("finish");
    let error = state
        .job(10, JobOp::Cancel { comment: None })
        .expect_err("over");
    assert_eq!(error.code().as_str(), "forbidden_transition");
    assert_eq!(
        error.to_string(),
        "job job is complete: cancel is not possible"
    );
}

#[test]
fn failed_entries_are_kept_by_reason_and_bounded() {
    let mut state = State::new();
    state.apply(&submit(0, "job")).expect("submit");
    state.job(1, claim(0)).expect("claim");
    let group = FailureGroup {
        reason: Reason::new(FailureCode::Permission, "The file cannot be read."),
        count: 12_345,
        examples: vec!["a/b".to_owned()],
    };
    let end = |failures| {
        JobOp::Finish(Box::new(Finish {
            epoch: 1,
            outcome: Outcome::Partial,
            reason: Some(Reason::new(
                FailureCode::EntriesFailed,
                "12,345 entries failed.",
            )),
            summary: "{\"bytes\":1}".to_owned(),
            bytes: 1,
            files: 1,
            failures,
        }))
    };
    let error = state
        .job(2, end(vec![group.clone(); 65]))
        .expect_err("too many");
    assert_eq!(error.to_string(), "failures: has 65 entries; at most 64");
    assert_eq!(state.state().0, JobState::Scanning);
    state.job(3, end(vec![group.clone()])).expect("finish");
    assert_eq!(state.reader.failures("job").expect("read"), [group]);
}

#[test]
fn the_audit_log_has_what_users_wanted_and_what_became_of_it() {
    let mut state = State::new();
    state.apply(&submit(0, "job")).expect("submit");
    state.job(1, claim(0)).expect("claim");
    state.job(2, JobOp::Resume).expect_err("not paused");
    let refused = Op::Audit(AuditEntry {
        action: "login".to_owned(),
        object: "bob".to_owned(),
        outcome: AuditOutcome::of_word("wrong_password"),
    });
    state.op(3, refused).expect("append");
    let all = state
        .reader
        .audit(&AuditFilter::default(), 10)
        .expect("read");
    let lines: Vec<_> = all
        .iter()
        .map(|line| {
            (
                line.action.as_str(),
                line.object.as_str(),
                line.outcome.as_str(),
            )
        })
        .collect();
    let expected = [
        ("login", "bob", "wrong_password"),
        ("job.resume", "job", "forbidden_transition"),
        ("job.submit", "job", "ok"),
    ];
    assert_eq!(lines, expected);
    assert_eq!(all[0].remote.as_deref(), Some("192.0.2.1"));
    let filter = AuditFilter {
        actor: Some("alice".to_owned()),
        since: Some(at(1)),
        until: Some(at(3)),
        before: None,
    };
    assert_eq!(state.reader.audit(&filter, 10).expect("read").len(), 1);
    let prune = Prune {
        audit_before: Some(at(3)),
        ..Prune::default()
    };
    let by_node = Command::new(at(4), Actor::node("node1"), Op::Prune(prune));
    let pruned = state.apply(&by_node).expect("prune");
    assert!(
        matches!(
            pruned,
            Effect::Pruned {
                audit: 2,
                more: false,
                ..
            }
        ),
        "{pruned:?}"
    );
    assert_eq!(
        state
            .reader
            .audit(&AuditFilter::default(), 10)
            .expect("read")
            .len(),
        1
    );
}

#[test]
fn a_refused_command_of_any_length_leaves_a_short_line() {
    let mut state = State::new();
    let id = "ö".repeat(100_000);
    let error = state
        .apply(&job_command(0, &id, JobOp::Pause))
        .expect_err("nobody's");
    assert_eq!(error.code().as_str(), "not_found");
    let lines = state
        .reader
        .audit(&AuditFilter::default(), 10)
        .expect("read");
    assert_eq!((lines.len(), lines[0].object.len()), (1, 320));
    let mut stopped = new_job("job");
    stopped.limit = Some(0);
    let error = state
        .op(1, Op::Submit(Box::new(stopped)))
        .expect_err("nothing");
    assert_eq!(
        error.to_string(),
        "limit: must be at least 1; pause the job to stop it"
    );
}

#[test]
fn retention_deletes_jobs_in_parts() {
    let mut state = State::new();
    for number in 0..1_200 {
        let id = format!("job{number}");
        state.apply(&submit(number, &id)).expect("submit");
        state
            .apply(&job_command(number, &id, JobOp::Cancel { comment: None }))
            .expect("cancel");
    }
    state.apply(&submit(0, "open")).expect("submit");
    let prune = Op::Prune(Prune {
        jobs_before: Some(at(1_100)),
        ..Prune::default()
    });
    let first = state.op(2_000, prune.clone()).expect("prune");
    assert!(
        matches!(
            first,
            Effect::Pruned {
                jobs: 1_000,
                more: true,
                ..
            }
        ),
        "{first:?}"
    );
    let second = state.op(2_001, prune).expect("prune");
    assert!(
        matches!(
            second,
            Effect::Pruned {
                jobs: 100,
                more: false,
                ..
            }
        ),
        "{second:?}"
    );
    let counts = state.reader.job_counts(None).expect("counts");
    assert_eq!(counts, [(JobState::Cancelled, 100), (JobState::Queued, 1)]);
    let site = JobFilter {
        site: Some("siteA".to_owned()),
        ..Default::default()
    };
    assert_eq!(
        state
            .reader
            .jobs(&site, None, 1_000)
            .expect("page")
            .jobs
            .len(),
        101
    );
    assert!(state.reader.job_spec("job0").expect("read").is_none());
}

#[test]
fn webhooks_that_name_it_hear_of_sites_that_go_and_come() {
    let mut state = State::new();
    for (id, events, owner) in [
        ("both", &["site_away", "site_back"][..], None),
        ("jobs", &[], None),
        ("of_a_user", &["site_away"], Some("alice")),
    ] {
        let webhook = Webhook {
            id: id.to_owned(),
            url: "https://example.org".to_owned(),
            events: events.iter().map(ToString::to_string).collect(),
            owner: owner.map(ToOwned::to_owned),
            secret: Secret::new("key"),
            disabled: false,
        };
        let create = Op::Webhook(Change::Create(webhook));
        state.op(0, create).expect("create");
    }
    let site = Site {
        name: "siteB".to_owned(),
        addresses: vec!["b:1".to_owned()],
        identity: "gw1-b".to_owned(),
        comment: String::new(),
        nodes: Vec::new(),
    };
    state.op(1, Op::Site(Change::Create(site))).expect("create");
    let sighted = |identity: &str, answers| {
        Op::Sighted(SiteAnswer {
            site: "siteB".to_owned(),
            identity: identity.to_owned(),
            answers,
        })
    };
    let early = state.op(2, sighted("gw1-b", false)).expect_err("early");
    assert!(
        early.to_string().contains("needs cluster level 4"),
        "{early}"
    );
    state.op(2, Op::Level(FEATURE_LEVEL)).expect("alone");
    state.op(3, sighted("gw1-b", false)).expect("away");
    state.op(4, sighted("gw1-b", true)).expect("back");
    state
        .op(5, sighted("gw1-c", true))
        .expect_err("another one");
    let due = state.reader.deliveries().due(at(5), 10).expect("due");
    let due: Vec<_> = due
        .iter()
        .map(|delivery| (delivery.webhook.as_str(), delivery.event.as_str()))
        .collect();
    assert_eq!(due, [("both", "site_away"), ("both", "site_back")]);
}

#[test]
fn the_first_attempt_that_has_its_destination_says_what_it_means() {
    let mut state = State::new();
    state
        .op(0, Op::Submit(Box::new(new_job("job"))))
        .expect("submit");
    let placed = |epoch, into, tag| JobOp::Placed { epoch, into, tag };
    state.op(0, Op::Level(2)).expect("alone");
    state
        .job(1, placed(0, false, 1))
        .expect_err("nobody runs it");
    state.job(2, claim(0)).expect("claim");
    state.job(3, placed(0, false, 1)).expect_err("an old epoch");
    assert_eq!(
        Agreed(&state.reader).placed("job").expect("read"),
        Placed::default()
    );
    state.job(4, placed(1, false, u64::MAX)).expect("placed");
    state.job(5, backoff(1, 10)).expect("backoff");
    state.job(20, claim(2)).expect("claim");
    state.job(21, placed(3, true, 7)).expect("placed");
    let read = Agreed(&state.reader).placed("job").expect("read");
    let expected = Placed {
        into: Some(false),
        tags: vec![7, u64::MAX],
    };
    assert_eq!(read, expected);
}

#[test]
fn only_so_many_ended_jobs_of_another_site_are_kept() {
    let mut state = State::new();
    let knows = Op::Level(3);
    state.op(0, knows).expect("level");
    let site = |number: i64, id: &str| {
        let mut command = submit(number, id);
        if let Op::Submit(job) = &mut command.op {
            "site:gw1-a".clone_into(&mut job.owner);
            job.idempotency_key = Some(format!("job:{id}"));
        }
        command
    };
    for number in 0..10_003 {
        let id = format!("job{number:05}");
        state.apply(&site(number, &id)).expect("submit");
        let cancel = JobOp::Cancel { comment: None };
        state
            .apply(&job_command(number, &id, cancel))
            .expect("cancel");
    }
    state.apply(&site(20_000, "open")).expect("submit");
    let prune = Op::Prune(Prune {
        jobs_before: Some(at(0)),
        ..Prune::default()
    });
    let pruned = state.op(20_001, prune).expect("prune");
    assert!(
        matches!(
            pruned,
            Effect::Pruned {
                jobs: 3,
                more: false,
                ..
            }
        ),
        "{pruned:?}"
    );
    let left = state.reader.job_counts(Some("site:gw1-a"));
    let left = left.expect("counts");
    assert_eq!(left, [(JobState::Cancelled, 10_000), (JobState::Queued, 1)]);
    let own = Op::Submit(Box::new(new_job("own")));
    state.op(20_002, own).expect("submit");
    let guests = GuestJobs(&state.reader).counts();
    assert_eq!(guests.expect("counts"), left);
    for (id, is_there) in [("job00002", false), ("job00003", true), ("open", true)] {
        let job = state.reader.job(id).expect("read");
        assert_eq!(job.is_some(), is_there, "{id}");
    }
}

#[test]
fn the_kind_of_a_job_is_read_without_its_description() {
    let mut state = State::new();
    for (number, (spec, kind)) in [
        (r#"{"kind":"verify"}"#, Some("verify")),
        (r#"{"new":{"kind":"sync"},"sites":{}}"#, Some("sync")),
        ("{}", None),
        ("[]", None),
    ]
    .into_iter()
    .enumerate()
    {
        let mut job = new_job(&format!("job{number}"));
        job.spec = spec.to_owned();
        let id = job.id.clone();
        state.op(0, Op::Submit(Box::new(job))).expect("submit");
        let details = godwit_state::JobDetails(&state.reader).of([id.as_str()]);
        let details = details.expect("read");
        assert_eq!(details[&id].kind.as_deref(), kind, "{spec}");
    }
}
