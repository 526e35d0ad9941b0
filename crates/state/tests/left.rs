//! Tests that leftovers of others do not use up the state: access rules of admins have room, and jobs of removed users
//! disappear. See `objects` for rules and users themselves.

mod support;

use godwit_state::{
    AUDIT_OF_SITE_MAX, AccessRight, AccessRule, Actor, AuditFilter, Change, Command, CommandError,
    Effect, FailureCode, JobOp, JobState, Kept, LEVEL_LEFT, NewJob, Node, Op, Prune,
    RULES_OF_ASKER_MAX, RULES_OF_JOBS_MAX, Role, SPEC_BYTES_MAX, SPEC_BYTES_OF_SITE_MAX, Schedule,
    Secret, Timestamp, User,
};
use support::state::State;
use support::{at, claim, new_job};

fn rule(id: &str, job: Option<&str>) -> Op {
    Op::Access(Change::Put(AccessRule {
        id: id.to_owned(),
        subject: format!("gw1-{}", "a".repeat(52)),
        site: None,
        export: "data".to_owned(),
        path: "in".to_owned(),
        rights: vec![AccessRight::Read],
        expires: Some(Timestamp(1_000_000)),
        comment: String::new(),
        job: job.map(ToOwned::to_owned),
    }))
}

fn of_job(asker: u64, n: u64) -> Op {
    rule(&format!("job:gw1-{asker}:j:{n}"), Some("j"))
}

#[track_caller]
fn is_full(result: Result<Effect, CommandError>) {
    let error = result.expect_err("full");
    assert!(matches!(error, CommandError::TooMany { .. }), "{error}");
}

#[test]
fn rules_for_jobs_leave_room_for_those_of_admins() {
    let mut state = State::new();
    state.op(0, Op::Level(4)).expect("alone");
    let askers = RULES_OF_JOBS_MAX / RULES_OF_ASKER_MAX;
    for asker in 0..askers {
        for n in 0..RULES_OF_ASKER_MAX {
            state.op(1, of_job(asker, n)).expect("room");
        }
        is_full(state.op(1, of_job(asker, RULES_OF_ASKER_MAX)));
        // An existing rule can be renewed.
        state.op(1, of_job(asker, 0)).expect("renewed");
    }
    is_full(state.op(1, of_job(askers, 0)));
    state.op(1, rule("admin", None)).expect("room");
    let remove = Op::Access(Change::Remove("job:gw1-0:j:0".to_owned()));
    state.op(2, remove).expect("removed");
    state.op(2, of_job(askers, 0)).expect("room again");
}

#[test]
fn an_older_cluster_counts_no_rules_for_jobs() {
    let mut state = State::new();
    state.op(0, Op::Level(3)).expect("alone");
    for n in 0..=RULES_OF_ASKER_MAX {
        state.op(1, of_job(0, n)).expect("as before");
    }
}

fn bob(role: Role, password: Option<&str>) -> Op {
    Op::User(Change::Put(User {
        name: "bob".to_owned(),
        role,
        password: password.map(Secret::new),
        disabled: false,
    }))
}

fn submit(state: &mut State, id: &str) {
    let mut new = new_job(id);
    new.owner = "bob".to_owned();
    state.op(1, Op::Submit(Box::new(new))).expect("submitted");
}

fn job(state: &mut State, id: &str, op: JobOp) {
    state.op(2, Op::Job(id.to_owned(), op)).expect("done");
}

/// The machine of a joining node has an account with the name of a user. The account gets no jobs of that user.
#[test]
fn a_user_who_is_removed_leaves_no_job_to_an_account_of_that_name() {
    for (level, ends) in [(3, false), (4, true)] {
        let mut state = State::new();
        state.op(0, Op::Level(level)).expect("alone");
        state.op(0, bob(Role::Operator, Some("x"))).expect("made");
        for id in ["paused", "waits", "runs"] {
            submit(&mut state, id);
        }
        job(&mut state, "paused", JobOp::Pause);
        job(&mut state, "runs", claim(0));
        let node = Node {
            name: "dtn2".to_owned(),
            number: 7,
            identity: format!("gw1-{}", "b".repeat(52)),
            addresses: vec!["192.0.2.1:7600".to_owned()],
            exports: Vec::new(),
            version: "1".to_owned(),
            level: 4,
            draining: false,
            voter: false,
            joined: Timestamp(2),
            admins: vec!["bob".to_owned()],
        };
        state.op(3, Op::Node(Change::Put(node))).expect("joined");
        let remove = Op::User(Change::Remove("bob".to_owned()));
        state.op(4, remove).expect("removed");
        for id in ["paused", "waits", "runs"] {
            let job = state.reader.job(id).expect("read").expect("there");
            assert_eq!(job.state.ended(), ends, "{id} at level {level}");
            if ends {
                assert_eq!(job.state, JobState::Failed);
                assert_eq!(
                    job.reason.expect("a reason").code,
                    FailureCode::AccessDenied
                );
            }
        }
    }
}

#[test]
fn jobs_of_an_account_stay_when_the_user_that_stands_for_it_goes() {
    let mut state = State::new();
    state.op(0, Op::Level(4)).expect("alone");
    state.op(0, bob(Role::Admin, None)).expect("made");
    submit(&mut state, "job");
    let remove = Op::User(Change::Remove("bob".to_owned()));
    state.op(4, remove).expect("removed");
    assert_eq!(state.state().0, JobState::Queued);
}

/// A tick proposed before the removal of the owner may be applied after it.
#[test]
fn a_disabled_schedule_fires_no_job() {
    for (level, is_fired) in [(3, true), (4, false)] {
        let mut state = State::new();
        state.op(0, Op::Level(level)).expect("alone");
        state.op(0, bob(Role::Operator, Some("x"))).expect("made");
        let schedule = Schedule {
            id: "nightly".to_owned(),
            cron: "0 2 * * *".to_owned(),
            time_zone: "UTC".to_owned(),
            owner: "bob".to_owned(),
            role: None,
            template: "{}".to_owned(),
            disabled: false,
            fired: None,
            reason: None,
            comment: String::new(),
        };
        let schedule = Op::Schedule(Change::Create(schedule));
        state.op(1, schedule).expect("made");
        state
            .op(2, Op::User(Change::Remove("bob".to_owned())))
            .expect("removed");
        let mut new = new_job("late");
        new.owner = "bob".to_owned();
        let fired = state.op(
            100_001,
            Op::Fired {
                schedule: "nightly".to_owned(),
                tick: at(100_000),
                job: Some(Box::new(new)),
                children: Vec::new(),
                reason: None,
            },
        );
        assert_eq!(fired.is_ok(), is_fired, "{level}: {fired:?}");
    }
}

#[test]
fn long_descriptions_of_another_site_go_before_there_are_many_jobs() {
    let mut state = State::new();
    state.op(0, Op::Level(LEVEL_LEFT)).expect("alone");
    let spec = format!("{:?}", "x".repeat(SPEC_BYTES_MAX - 2));
    let submit = |id: String, owner: &str| {
        Op::Submit(Box::new(NewJob {
            owner: owner.to_owned(),
            spec: spec.clone(),
            ..new_job(&id)
        }))
    };
    let kept = i64::try_from(SPEC_BYTES_OF_SITE_MAX).expect("small") / (256 << 10);
    for number in 0..kept + 10 {
        let id = format!("g{number:04}");
        let cancel = JobOp::Cancel { comment: None };
        state
            .op(number, submit(id.clone(), "site:gw1-x"))
            .expect("a job");
        state.op(number, Op::Job(id, cancel)).expect("cancelled");
    }
    // Jobs of others do not count, and neither do unfinished jobs.
    for (id, owner) in [("other", "site:gw1-y"), ("own", "alice")] {
        state
            .op(5_000, submit(id.to_owned(), owner))
            .expect("a job");
    }
    let of_site = |state: &State| Kept(&state.reader).spec_bytes("site:gw1-x").expect("read");
    let all = u64::try_from(kept + 10).expect("small") * (256 << 10);
    assert_eq!(of_site(&state), all);
    let prune = Prune {
        jobs_before: Some(at(-1)),
        ..Prune::default()
    };
    let pruned = state.op(5_001, Op::Prune(prune)).expect("pruned");
    assert!(
        matches!(pruned, Effect::Pruned { jobs: 10, .. }),
        "{pruned:?}"
    );
    assert_eq!(of_site(&state), SPEC_BYTES_OF_SITE_MAX);
    for (id, there) in [
        ("g0009", false),
        ("g0010", true),
        ("other", true),
        ("own", true),
    ] {
        let job = state.reader.job(id).expect("read");
        assert_eq!(job.is_some(), there, "{id}");
    }
}

#[test]
fn long_descriptions_of_a_user_go_before_they_are_old() {
    let mut state = State::new();
    let spec = format!("{:?}", "x".repeat(SPEC_BYTES_MAX - 2));
    for number in 0..30 {
        for (owner, spec) in [("alice", &*spec), ("bob", "{}"), ("site:gw1-x", &spec)] {
            let id = format!("{owner}{number:02}");
            let new = NewJob {
                owner: owner.to_owned(),
                spec: spec.to_owned(),
                ..new_job(&id)
            };
            state.op(number, Op::Submit(Box::new(new))).expect("a job");
            // The oldest job of all is waiting.
            if number > 0 {
                let cancel = JobOp::Cancel { comment: None };
                state.op(number, Op::Job(id, cancel)).expect("cancelled");
            }
        }
    }
    let kept = 20 * (256 << 10);
    let surplus = |state: &State| Kept(&state.reader).surplus(kept).expect("read");
    assert_eq!(surplus(&state), [], "an earlier level");
    state.op(100, Op::Level(LEVEL_LEFT)).expect("alone");
    let of_owners = surplus(&state);
    assert_eq!(of_owners, [("alice".to_owned(), at(9))]);
    let prune = Prune {
        of_owners,
        ..Prune::default()
    };
    let by_node = Command::new(at(101), Actor::node("node1"), Op::Prune(prune.clone()));
    assert_eq!(by_node.level(), LEVEL_LEFT);
    let pruned = state.apply(&by_node).expect("pruned");
    assert!(
        matches!(
            pruned,
            Effect::Pruned {
                jobs: 9,
                more: false,
                ..
            }
        ),
        "{pruned:?}"
    );
    for (id, there) in [
        ("alice00", true),
        ("alice09", false),
        ("alice10", true),
        ("bob01", true),
        ("site:gw1-x01", true),
    ] {
        let job = state.reader.job(id).expect("read");
        assert_eq!(job.is_some(), there, "{id}");
    }
    assert_eq!(surplus(&state), []);
}

/// Each change of a job or of its access adds a line. Another site can cause any number of them.
#[test]
fn another_site_fills_no_audit_log_and_pushes_out_no_line_of_others() {
    let mut state = State::new();
    state.op(0, Op::Level(4)).expect("alone");
    state.op(0, rule("admin", None)).expect("room");
    let count = |state: &State, actor: &str| {
        let (mut count, mut before) = (0_u64, None);
        loop {
            let filter = AuditFilter {
                actor: Some(actor.to_owned()),
                before,
                ..AuditFilter::default()
            };
            let lines = state.reader.audit(&filter, 1_000).expect("read");
            count += lines.len() as u64;
            before = lines.last().map(|line| line.seq);
            if before.is_none() {
                return count;
            }
        }
    };
    let others = count(&state, "alice");
    assert!(others > 0);
    for n in 0..AUDIT_OF_SITE_MAX + 1_000 {
        let actor = Actor::node("site:gw1-0");
        let renewed = Command::new(at(1), actor, of_job(0, n % 2));
        state.apply(&renewed).expect("renewed");
    }
    let own = count(&state, "site:gw1-0");
    assert!(
        (AUDIT_OF_SITE_MAX..AUDIT_OF_SITE_MAX + 500).contains(&own),
        "{own} lines of one site"
    );
    assert_eq!(count(&state, "alice"), others);
}
