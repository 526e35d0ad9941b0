//! Tests which relays a node may submit in a user's name: from one destination of a job to another, and no others.
//! See `origin` for the rights of nodes and users in all other commands.

mod support;

use godwit_state::{
    Change, FEATURE_LEVEL, FailureCode, Families, JobOp, JobQueue, NewFamily, NewJob, Node, Op,
    Outcome, Reason, Role,
};
use support::nodes::{actor, denied, done, job, node, two_nodes};
use support::state::State;
use support::{at, finish, job_command, new_job, place, runner};

#[test]
fn a_node_submits_a_relay_between_destinations_of_one_job_and_no_other_job() {
    let mut state = two_nodes();
    for row in [node("a", 1), node("b", 2)] {
        let level = FEATURE_LEVEL;
        let row = Op::Node(Change::Put(Node { level, ..row }));
        state.op(0, row).expect("a node");
    }
    let level = Op::Level(FEATURE_LEVEL);
    state.op(0, level).expect("all know it");
    let to = |id: &str, path: &str| NewJob {
        destination: place("siteB", path),
        ..job(id, "otto")
    };
    let family = NewFamily {
        parent: to("f0", "/in/1"),
        children: vec![to("f1", "/in/1"), to("f2", "/in/2")],
    };
    let family = Op::SubmitFamily(Box::new(family));
    done(&mut state, actor("otto", Some(Role::Operator), 2), family);
    let relay = |key: &str, from: &str, to: &str| {
        Op::Submit(Box::new(NewJob {
            sources: vec![place("siteB", from)],
            destination: place("siteB", to),
            idempotency_key: Some(key.to_owned()),
            ..job("r", "otto")
        }))
    };
    let good = || relay("relay:f2:f1", "/in/1/run/.", "/in/2/run/");
    let by = || actor("b", None, 2);
    denied(&mut state, by(), good(), "job.submit");
    let claim = JobOp::Claim {
        runner: runner("a", "first"),
        seen: 0,
    };
    for op in [claim, finish(1, Outcome::Complete)] {
        done(
            &mut state,
            actor("a", None, 1),
            Op::Job("f1".to_owned(), op),
        );
    }
    for wrong in [
        relay("night", "/in/1", "/in/2"),
        relay("relay:f1:f2", "/in/2", "/in/1"),
        relay("relay:f2:f9", "/in/1", "/in/2"),
        relay("relay:f2:f1", "/in/10", "/in/2"),
        relay("relay:f2:f1", "/in/1", "/in/2/../3"),
        relay("relay:f2:f1", "/in/1", "/in"),
    ] {
        denied(&mut state, by(), wrong, "job.submit");
    }
    let Op::Submit(of_ada) = good() else {
        unreachable!("it is a submission");
    };
    let of_ada = Op::Submit(Box::new(NewJob {
        owner: "ada".to_owned(),
        ..*of_ada
    }));
    denied(&mut state, by(), of_ada, "job.submit");
    done(&mut state, by(), good());
    // The node changes the relay alone.
    let cancel = || JobOp::Cancel { comment: None };
    let of = |id: &str, op| Op::Job(id.to_owned(), op);
    denied(&mut state, by(), of("f2", cancel()), "job.cancel");
    denied(&mut state, by(), of("r", JobOp::Pause), "job.pause");
    done(&mut state, by(), of("r", cancel()));
    done(&mut state, by(), of("r", JobOp::Retry));
}

/// Otto's job with the destinations `f1`, `f2` and `f3`.
fn three() -> State {
    let mut state = two_nodes();
    for row in [node("a", 1), node("b", 2)] {
        let level = FEATURE_LEVEL;
        let row = Op::Node(Change::Put(Node { level, ..row }));
        state.op(0, row).expect("a node");
    }
    let level = Op::Level(FEATURE_LEVEL);
    state.op(0, level).expect("all know it");
    let to = |id: &str, path: &str| NewJob {
        destination: place("siteB", path),
        ..job(id, "otto")
    };
    let family = NewFamily {
        parent: to("f0", "/in/1"),
        children: vec![to("f1", "/in/1"), to("f2", "/in/2"), to("f3", "/in/3")],
    };
    let family = Op::SubmitFamily(Box::new(family));
    done(&mut state, actor("otto", Some(Role::Operator), 2), family);
    state
}

#[test]
fn a_destination_waits_for_one_relay_at_a_time() {
    let mut state = three();
    let of = |id: &str, op| Op::Job(id.to_owned(), op);
    let claim = || JobOp::Claim {
        runner: runner("a", "first"),
        seen: 0,
    };
    for id in ["f1", "f2"] {
        for op in [claim(), finish(1, Outcome::Complete)] {
            done(&mut state, actor("a", None, 1), of(id, op));
        }
    }
    let by = || actor("b", None, 2);
    let relay = |id: &str, giver: &str| {
        Op::Submit(Box::new(NewJob {
            sources: vec![place("siteB", &format!("/in/{giver}"))],
            destination: place("siteB", "/in/3"),
            idempotency_key: Some(format!("relay:f3:f{giver}")),
            ..job(id, "otto")
        }))
    };
    done(&mut state, by(), relay("r1", "1"));
    // Two would write to the same place.
    denied(&mut state, by(), relay("r2", "2"), "job.submit");
    let cancel = || JobOp::Cancel { comment: None };
    done(&mut state, by(), of("r1", cancel()));
    done(&mut state, by(), relay("r2", "2"));
    denied(&mut state, by(), of("r1", JobOp::Retry), "job.retry");
    done(&mut state, by(), of("r2", cancel()));
    done(&mut state, by(), of("r1", JobOp::Retry));
    done(&mut state, by(), of("r1", cancel()));
    // The source is sending to the destination.
    done(&mut state, actor("a", None, 1), of("f3", claim()));
    denied(&mut state, by(), of("r1", JobOp::Retry), "job.retry");
}

#[test]
fn a_round_takes_whole_files_from_a_destination_that_has_not_all() {
    let mut state = three();
    let of = |id: &str, op| Op::Job(id.to_owned(), op);
    let by = || actor("b", None, 2);
    let relay = |id: &str, key: &str| {
        Op::Submit(Box::new(NewJob {
            sources: vec![place("siteB", "/in/1/.")],
            destination: place("siteB", "/in/3/"),
            idempotency_key: Some(key.to_owned()),
            ..job(id, "otto")
        }))
    };
    let claim = JobOp::Claim {
        runner: runner("a", "first"),
        seen: 0,
    };
    done(&mut state, actor("a", None, 1), of("f1", claim));
    // A relay of a complete copy waits for that copy.
    denied(&mut state, by(), relay("r", "relay:f3:f1"), "job.submit");
    for wrong in ["relay:f3:f1:", "relay:f3:f1:one", "relay:f3:f2:1"] {
        denied(&mut state, by(), relay("r", wrong), "job.submit");
    }
    done(&mut state, by(), relay("r1", "relay:f3:f1:1"));
    // Two would write to the same place.
    denied(&mut state, by(), relay("r2", "relay:f3:f1:2"), "job.submit");
    let taker = state.reader.job("f3").expect("read").expect("there");
    let relays = Families(&state.reader).relays(&taker).expect("read");
    assert_eq!(relays.len(), 1, "{relays:?}");
    let cancel = JobOp::Cancel { comment: None };
    done(&mut state, by(), of("r1", cancel));
    done(&mut state, by(), relay("r2", "relay:f3:f1:2"));
    let relays = Families(&state.reader).relays(&taker).expect("read");
    let ids: Vec<&str> = relays.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(ids, ["r2", "r1"]);
    // A destination that failed gets nothing more to give.
    let cancel = || JobOp::Cancel { comment: None };
    done(&mut state, by(), of("r2", cancel()));
    let failed = finish(1, Outcome::Failed);
    done(&mut state, actor("a", None, 1), of("f1", failed));
    denied(&mut state, by(), relay("r3", "relay:f3:f1:3"), "job.submit");
}

/// A scheduler reads a bounded number of jobs of each owner, and a relay is younger than the jobs that wait for it.
#[test]
fn jobs_that_wait_for_a_relay_keep_no_later_job_of_their_owner_out() {
    let mut state = State::new();
    for id in ["a", "b", "relay"] {
        let submit = Op::Submit(Box::new(new_job(id)));
        state.op(1, submit).expect("submitted");
    }
    let due = |state: &State, each: u32, limit: usize| -> Vec<String> {
        let due = JobQueue(&state.reader).due(at(20), each, limit);
        due.expect("read").into_iter().map(|job| job.id).collect()
    };
    assert_eq!(due(&state, 2, 10), ["a", "b"]);
    for id in ["a", "b"] {
        let reason = Reason::new(FailureCode::Relaying, "It waits.");
        let explain = JobOp::Explain { seen: 0, reason };
        state.apply(&job_command(2, id, explain)).expect("said");
    }
    assert_eq!(due(&state, 1, 1), ["relay"]);
    assert_eq!(due(&state, 1, 10), ["relay", "a"]);
    assert_eq!(due(&state, 2, 10), ["relay", "a", "b"]);
}
