//! Tests flows: a hop has one run at a time, its amounts add up, and little of its runs stays.
//! See `origin` for the nodes that may propose a run.

mod support;

use godwit_state::{
    Actor, Amount, Change, Command, CommandError, Effect, FEATURE_LEVEL, FailureCode, Finish, Flow,
    FlowRun, HOPS_MAX, Hop, Job, JobFilter, JobOp, JobState, NewJob, Node, Op, Outcome, Prune,
    Reason, Role, User,
};
use proptest::prelude::*;
use support::nodes::{actor, denied, done, node, two_nodes};
use support::state::State;
use support::{alice, at, claim, job_command, new_job};

/// Jobs of the last runs that stay for each hop.
const KEPT: usize = 16;

fn night() -> Flow {
    let hop = Hop {
        template: "{}".to_owned(),
        ..Hop::default()
    };
    Flow {
        id: "night".to_owned(),
        owner: "alice".to_owned(),
        role: Some(Role::Operator),
        hops: vec![hop.clone(), hop],
        every: 60,
        paused: false,
        comment: String::new(),
        created: None,
    }
}

/// A state with that flow.
fn state() -> State {
    let mut state = State::new();
    state.op(0, Op::Level(FEATURE_LEVEL)).expect("alone");
    let made = Op::Flow(Change::Create(night()));
    state.op(1, made).expect("made");
    state
}

fn flow(state: &State) -> Flow {
    let flow = state.reader.object("night").expect("read");
    flow.expect("a flow")
}

fn job(state: &State, id: &str) -> Option<Job> {
    state.reader.job(id).expect("read")
}

fn run_of(hop: u32, id: &str, files: u64) -> Op {
    Op::FlowRun(Box::new(FlowRun {
        flow: "night".to_owned(),
        hop,
        job: new_job(id),
        seen: Amount {
            files,
            bytes: 10 * files,
        },
    }))
}

fn run(state: &mut State, millis: i64, hop: u32, id: &str) -> Result<Effect, CommandError> {
    state.op(millis, run_of(hop, id, 0))
}

/// Claims the job of a run and ends it.
fn end(state: &mut State, id: &str, outcome: Outcome, files: u64) {
    let epoch = job(state, id).expect("there").epoch;
    state
        .apply(&job_command(50, id, claim(epoch)))
        .expect("claimed");
    let finish = JobOp::Finish(Box::new(Finish {
        epoch: epoch + 1,
        outcome,
        reason: (outcome != Outcome::Complete)
            .then(|| Reason::new(FailureCode::NoSpace, "A test.")),
        summary: "{}".to_owned(),
        bytes: 10 * files,
        files,
        failures: Vec::new(),
    }));
    state.apply(&job_command(60, id, finish)).expect("ended");
}

fn amount(files: u64) -> Amount {
    Amount {
        files,
        bytes: 10 * files,
    }
}

#[test]
fn a_hop_has_one_run_at_a_time_and_hops_run_beside_each_other() {
    let mut state = state();
    assert_eq!(flow(&state).created, Some(at(1)));
    run(&mut state, 10, 0, "a0").expect("runs");
    state.op(20, run_of(1, "b0", 3)).expect("the other hop");
    let twice = run(&mut state, 30, 0, "a1").expect_err("it runs");
    assert_eq!(twice.code().as_str(), "forbidden_transition");
    assert!(twice.to_string().contains("a0"), "{twice}");
    assert_eq!(job(&state, "a1"), None);
    end(&mut state, "a0", Outcome::Failed, 2);
    run(&mut state, 100, 0, "a1").expect("the next one");
    let [first, second] = <[Hop; 2]>::try_from(flow(&state).hops).expect("two hops");
    assert_eq!(first.runs, ["a0", "a1"]);
    assert_eq!(first.moved, amount(2));
    assert_eq!(
        (first.started, first.clear),
        (Some(at(100)), None),
        "a0 failed"
    );
    assert_eq!((second.started, second.seen), (Some(at(20)), amount(3)));
    end(&mut state, "a1", Outcome::Complete, 5);
    run(&mut state, 200, 0, "a2").expect("the next one");
    let hop = flow(&state).hops.swap_remove(0);
    assert_eq!((hop.moved, hop.clear), (amount(7), Some(at(100))));
}

#[test]
fn files_that_a_run_left_behind_still_wait() {
    let mut state = state();
    let waited = |state: &State| flow(state).hops.swap_remove(1).waited;
    state.op(10, run_of(1, "b0", 5)).expect("runs");
    assert_eq!(waited(&state), amount(5));
    end(&mut state, "b0", Outcome::Failed, 2);
    state.op(100, run_of(1, "b1", 6)).expect("runs");
    assert_eq!(
        waited(&state),
        amount(4),
        "three of the five, and a new one"
    );
    end(&mut state, "b1", Outcome::Failed, 0);
    state.op(200, run_of(1, "b2", 6)).expect("runs");
    assert_eq!(waited(&state), amount(4));
    end(&mut state, "b2", Outcome::Complete, 1);
    state.op(300, run_of(1, "b3", 8)).expect("runs");
    assert_eq!(waited(&state), amount(2), "b2 left nothing behind");
}

#[test]
fn a_run_that_found_nothing_leaves_no_job_behind() {
    let mut state = state();
    for number in 0..5 {
        let id = format!("a{number}");
        run(&mut state, 100 * number, 0, &id).expect("runs");
        end(&mut state, &id, Outcome::Complete, 0);
    }
    let jobs = state.reader.jobs(&JobFilter::default(), None, 100);
    let jobs = jobs.expect("a page").jobs;
    let ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(ids, ["a4"]);
    assert_eq!(flow(&state).hops[0].runs, ["a4"]);
    assert_eq!(flow(&state).hops[0].clear, Some(at(300)));
}

#[test]
fn the_last_runs_that_moved_something_stay() {
    let mut state = state();
    for number in 0..40 {
        let id = format!("a{number:02}");
        run(&mut state, 100 * number, 0, &id).expect("runs");
        end(&mut state, &id, Outcome::Partial, 1);
    }
    let jobs = state.reader.jobs(&JobFilter::default(), None, 100);
    assert_eq!(jobs.expect("a page").jobs.len(), KEPT);
    let hop = flow(&state).hops.swap_remove(0);
    assert_eq!((hop.runs.len(), hop.moved), (KEPT, amount(39)));
    // A user lets an earlier run go on: it stays, and the flow forgets it.
    state
        .apply(&job_command(5_000, "a24", JobOp::Retry))
        .expect("again");
    run(&mut state, 6_000, 0, "a40").expect("runs");
    assert_eq!(job(&state, "a24").expect("there").state, JobState::Queued);
    assert!(!flow(&state).hops[0].runs.contains(&"a24".to_owned()));
}

#[test]
fn history_leaves_the_latest_run_of_a_hop() {
    let mut state = state();
    for (millis, id) in [(10, "a0"), (100, "a1")] {
        run(&mut state, millis, 0, id).expect("runs");
        end(&mut state, id, Outcome::Complete, 2);
    }
    let prune = || {
        Op::Prune(Prune {
            jobs_before: Some(at(9_000)),
            audit_before: None,
            deliveries_before: None,
            tokens_before: None,
            of_owners: vec![("alice".to_owned(), at(9_000))],
        })
    };
    state.op(9_000, prune()).expect("pruned");
    assert_eq!(job(&state, "a0"), None);
    run(&mut state, 9_100, 0, "a2").expect("runs");
    let hop = flow(&state).hops.swap_remove(0);
    assert_eq!((hop.moved, hop.clear), (amount(4), Some(at(100))));
    // Without its flow the job is like any other.
    let removed = Op::Flow(Change::Remove("night".to_owned()));
    state.op(9_200, removed).expect("removed");
    state.op(9_300, prune()).expect("pruned");
    assert_eq!(job(&state, "a1"), None);
}

#[test]
fn a_changed_flow_keeps_its_runs_whatever_the_change_names() {
    let mut state = state();
    run(&mut state, 10, 1, "b0").expect("runs");
    let before = flow(&state);
    let mut change = Flow {
        every: 5,
        created: Some(at(999)),
        ..night()
    };
    change.hops[0].runs = vec!["someone-elses".to_owned()];
    change.hops[1].moved = amount(9);
    state.op(30, Op::Flow(Change::Put(change))).expect("put");
    let after = flow(&state);
    assert_eq!(after, Flow { every: 5, ..before });
    run(&mut state, 40, 1, "b1").expect_err("b0 still runs");
    // A removed flow leaves its jobs behind.
    state
        .op(50, Op::Flow(Change::Remove("night".to_owned())))
        .expect("removed");
    assert_eq!(job(&state, "b0").expect("there").state, JobState::Queued);
    run(&mut state, 60, 0, "a0").expect_err("no flow");
}

/// The request of each user saw no flow of the id.
#[test]
fn the_first_of_two_users_gets_the_id_of_a_flow() {
    let mut state = state();
    let by = |name: &str, role: Role, change: Change<Flow>| {
        let by = Actor {
            name: name.to_owned(),
            role: Some(role),
            ..Actor::default()
        };
        Command::new(at(5), by, Op::Flow(change))
    };
    let of = |owner: &str| {
        Change::Put(Flow {
            owner: owner.to_owned(),
            every: 9,
            ..night()
        })
    };
    let remove = Change::Remove("night".to_owned());
    for refused in [
        by("bob", Role::Operator, of("bob")),
        by("bob", Role::Operator, of("alice")),
        by("bob", Role::Operator, remove.clone()),
        by("ada", Role::Admin, of("ada")),
        by("alice", Role::Operator, of("bob")),
    ] {
        let refused = state.apply(&refused).expect_err("of another user");
        assert_eq!(refused.to_string(), "flow \"night\" belongs to alice");
    }
    assert_eq!(flow(&state).every, 60);
    let kept = by("ada", Role::Admin, of("alice"));
    state.apply(&kept).expect("an admin keeps the owner");
    let removed = by("alice", Role::Operator, remove);
    state.apply(&removed).expect("the owner");
}

#[test]
fn a_paused_flow_and_a_stranger_start_nothing() {
    let mut state = state();
    let of_bob = Op::FlowRun(Box::new(FlowRun {
        flow: "night".to_owned(),
        hop: 0,
        job: NewJob {
            owner: "bob".to_owned(),
            ..new_job("a0")
        },
        seen: Amount::default(),
    }));
    let refused = state.op(10, of_bob).expect_err("of another user");
    assert!(refused.to_string().contains("owner"), "{refused}");
    run(&mut state, 20, 2, "c0").expect_err("no such hop");
    let paused = Flow {
        paused: true,
        ..night()
    };
    state.op(30, Op::Flow(Change::Put(paused))).expect("paused");
    let refused = run(&mut state, 40, 0, "a0").expect_err("paused");
    assert!(refused.to_string().contains("paused"), "{refused}");
}

#[test]
fn a_removed_user_starts_nothing_and_its_name_stays_taken() {
    let mut state = state();
    let user = User {
        name: "alice".to_owned(),
        role: Role::Operator,
        password: None,
        disabled: false,
    };
    // An account may become the user of its name, so another one proposes.
    let by_vera = |state: &mut State, millis: i64, op: Op| {
        let vera = Actor {
            name: "vera".to_owned(),
            ..alice()
        };
        state.apply(&Command::new(at(millis), vera, op))
    };
    let create = Op::User(Change::Create(user));
    let refused = by_vera(&mut state, 10, create.clone());
    let refused = refused.expect_err("a flow is left").to_string();
    assert!(refused.contains("\"night\""), "{refused}");
    let remove = Op::Flow(Change::Remove("night".to_owned()));
    state.op(20, remove).expect("removed");
    by_vera(&mut state, 30, create).expect("made");
    let again = Op::Flow(Change::Create(night()));
    state.op(40, again).expect("made");
    let remove = Op::User(Change::Remove("alice".to_owned()));
    by_vera(&mut state, 50, remove).expect("removed");
    assert!(flow(&state).paused);
    run(&mut state, 60, 0, "a0").expect_err("paused");
}

#[test]
fn an_older_cluster_and_a_senseless_flow_are_refused() {
    let mut state = State::new();
    state.op(0, Op::Level(5)).expect("alone");
    let refused = state.op(1, Op::Flow(Change::Create(night())));
    let refused = refused.expect_err("level 5").to_string();
    assert!(refused.contains("level 6"), "{refused}");
    state.op(2, Op::Level(FEATURE_LEVEL)).expect("raised");
    let hop = night().hops.swap_remove(0);
    let long = Hop {
        template: format!("{:?}", "x".repeat(20_000)),
        ..Hop::default()
    };
    for (field, senseless) in [
        (
            "hops",
            Flow {
                hops: Vec::new(),
                ..night()
            },
        ),
        (
            "hops",
            Flow {
                hops: vec![hop; HOPS_MAX + 1],
                ..night()
            },
        ),
        (
            "hops",
            Flow {
                hops: vec![long.clone(), long],
                ..night()
            },
        ),
        (
            "every",
            Flow {
                every: 0,
                ..night()
            },
        ),
    ] {
        let refused = state.op(3, Op::Flow(Change::Put(senseless)));
        let refused = refused.expect_err(field).to_string();
        assert!(refused.starts_with(field), "{refused}");
    }
}

#[test]
fn a_node_proposes_runs_as_the_leader_and_for_the_owner_alone() {
    let mut state = two_nodes();
    let otto = || actor("otto", Some(Role::Operator), 2);
    let of = |owner: &str| Flow {
        owner: owner.to_owned(),
        ..night()
    };
    for (name, number) in [("a", 1), ("b", 2)] {
        let row = Node {
            level: FEATURE_LEVEL,
            ..node(name, number)
        };
        state.op(1, Op::Node(Change::Put(row))).expect("a node");
    }
    state.op(1, Op::Level(FEATURE_LEVEL)).expect("raised");
    done(&mut state, otto(), Op::Flow(Change::Put(of("otto"))));
    denied(
        &mut state,
        otto(),
        Op::Flow(Change::Put(of("ada"))),
        "needs admin",
    );
    let larger = Flow {
        role: Some(Role::Admin),
        ..of("otto")
    };
    denied(
        &mut state,
        otto(),
        Op::Flow(Change::Put(larger)),
        "needs admin",
    );
    let run = |owner: &str| {
        Op::FlowRun(Box::new(FlowRun {
            flow: "night".to_owned(),
            hop: 0,
            job: NewJob {
                owner: owner.to_owned(),
                ..new_job("a0")
            },
            seen: Amount::default(),
        }))
    };
    denied(&mut state, actor("a", None, 1), run("ada"), "flow.run");
    denied(&mut state, otto(), run("otto"), "flow.run");
    done(&mut state, actor("a", None, 1), run("otto"));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Run(u32),
    End { hop: usize, files: u64, whole: bool },
    Retry { hop: usize, run: usize },
    Put,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2_u32).prop_map(Step::Run),
        4 => (0..2_usize, 0..3_u64, any::<bool>())
            .prop_map(|(hop, files, whole)| Step::End { hop, files, whole }),
        1 => (0..2_usize, 0..KEPT).prop_map(|(hop, run)| Step::Retry { hop, run }),
        1 => Just(Step::Put),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever happens: the latest run alone may be open, unless a user started an earlier one again, and the amounts are those of all
    /// runs that have ended.
    #[test]
    fn the_amounts_of_a_hop_are_those_of_its_runs(steps in proptest::collection::vec(step(), 1..120)) {
        let mut state = state();
        let (mut made, mut ended, mut again) = (0, [0_u64; 2], 0);
        let mut open: [Option<String>; 2] = [None, None];
        for step in steps {
            match step {
                Step::Run(hop) => {
                    let id = format!("job{made:03}");
                    made += 1;
                    let index = hop as usize;
                    let done = run(&mut state, 10 * made, hop, &id).is_ok();
                    prop_assert_eq!(done, open[index].is_none());
                    if done {
                        open[index] = Some(id);
                    }
                }
                Step::End { hop, files, whole } => {
                    if let Some(id) = open[hop].take() {
                        let outcome = if whole { Outcome::Complete } else { Outcome::Failed };
                        end(&mut state, &id, outcome, files);
                        ended[hop] += files;
                    }
                }
                Step::Retry { hop, run } => {
                    // Not the latest one, for that would be open again.
                    let runs = flow(&state).hops.swap_remove(hop).runs;
                    let earlier = runs.len().saturating_sub(1);
                    if let Some(id) = runs.get(..earlier).and_then(|runs| runs.get(run)) {
                        let done = state.apply(&job_command(5, id, JobOp::Retry));
                        again += usize::from(done.is_ok());
                    }
                }
                Step::Put => {
                    state.op(7, Op::Flow(Change::Put(night()))).expect("put");
                }
            }
            for (hop, ended) in flow(&state).hops.iter().zip(ended) {
                let latest = hop.runs.last().and_then(|id| job(&state, id));
                let is_counted = latest.is_some_and(|job| job.state.ended());
                prop_assert!(hop.moved.files <= ended);
                prop_assert!(is_counted || hop.moved.files == ended);
                prop_assert!(hop.runs.len() <= KEPT);
            }
        }
        let jobs = state.reader.jobs(&JobFilter::default(), None, 1_000).expect("a page").jobs;
        prop_assert!(jobs.len() <= 2 * KEPT + again, "{} jobs", jobs.len());
    }
}
