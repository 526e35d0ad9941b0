//! Tests the stored route of a job, decided once, and the node under which the other site knows the job.
//! See `commands` for other commands of jobs.

mod support;

use godwit_state::{Agreed, FEATURE_LEVEL, JobOp, Op, Route};
use support::state::State;
use support::{backoff, claim, new_job};

#[test]
fn the_first_attempt_decides_for_all_which_site_runs_the_job() {
    let mut state = State::new();
    state
        .op(0, Op::Submit(Box::new(new_job("job"))))
        .expect("submit");
    let route = |epoch, route| JobOp::Route {
        epoch,
        route,
        asker: None,
        at: Vec::new(),
    };
    let read = |state: &State| Agreed(&state.reader).route("job").expect("read");
    state.job(1, claim(0)).expect("claim");
    state
        .job(1, route(1, Route::Push))
        .expect_err("a cluster of the first level");
    state.op(1, Op::Level(FEATURE_LEVEL)).expect("alone");
    state
        .job(2, route(0, Route::Push))
        .expect_err("an old epoch");
    assert_eq!(read(&state), None);
    state.job(3, route(1, Route::Push)).expect("decided");
    state.job(4, route(1, Route::Push)).expect("the same");
    state.job(5, backoff(1, 10)).expect("backoff");
    state.job(20, claim(2)).expect("claim");
    for other in [Route::Here, Route::Within, Route::Pull] {
        state.job(21, route(3, other)).expect_err("another one");
    }
    state.job(22, route(3, Route::Push)).expect("the same");
    assert_eq!(read(&state), Some(Route::Push));
}

#[test]
fn the_node_that_had_a_site_run_a_job_is_known_after_it_has_left() {
    let mut state = State::new();
    state
        .op(0, Op::Submit(Box::new(new_job("job"))))
        .expect("submit");
    state.op(1, Op::Level(FEATURE_LEVEL)).expect("alone");
    let note = |state: &mut State, at, epoch, asker: Option<&str>| {
        let op = JobOp::Route {
            epoch,
            route: Route::Push,
            asker: asker.map(str::to_owned),
            at: Vec::new(),
        };
        state.job(at, op).map(drop)
    };
    let read = |state: &State| {
        let reader = &state.reader;
        let agreed = Agreed(reader);
        let (route, asker) = (agreed.route("job"), agreed.asker("job"));
        (route.expect("read"), asker.expect("read"))
    };
    state.job(2, claim(0)).expect("claim");
    note(&mut state, 3, 1, None).expect("decided");
    assert_eq!(read(&state), (Some(Route::Push), None));
    note(&mut state, 4, 1, Some("gw1-a")).expect("asked");
    state.job(5, backoff(1, 10)).expect("backoff");
    state.job(20, claim(2)).expect("claim");
    note(&mut state, 21, 3, None).expect("nothing new");
    assert_eq!(read(&state), (Some(Route::Push), Some("gw1-a".to_owned())));
    note(&mut state, 22, 3, Some("gw1-b")).expect("another one asks");
    assert_eq!(read(&state), (Some(Route::Push), Some("gw1-b".to_owned())));
    note(&mut state, 23, 3, Some("")).expect_err("no name");
}

#[test]
fn the_independent_nodes_that_have_a_job_stay_the_same() {
    let mut state = State::new();
    state
        .op(0, Op::Submit(Box::new(new_job("job"))))
        .expect("submit");
    state.op(1, Op::Level(FEATURE_LEVEL)).expect("alone");
    let note = |state: &mut State, now, epoch, asker: Option<&str>, nodes: &[&str]| {
        let op = JobOp::Route {
            epoch,
            route: Route::Push,
            asker: asker.map(str::to_owned),
            at: nodes.iter().map(|node| (*node).to_owned()).collect(),
        };
        state.job(now, op).map(drop)
    };
    let read = |state: &State| {
        let reader = &state.reader;
        let agreed = Agreed(reader);
        let (asker, nodes) = (agreed.asker("job"), agreed.nodes_with("job"));
        (asker.expect("read"), nodes.expect("read"))
    };
    state.job(2, claim(0)).expect("claim");
    note(&mut state, 3, 1, None, &["gw1-x1"]).expect("decided");
    assert_eq!(read(&state), (None, vec!["gw1-x1".to_owned()]));
    note(&mut state, 4, 1, Some("gw1-a"), &["gw1-x1"]).expect("asked");
    state.job(5, backoff(1, 10)).expect("backoff");
    state.job(20, claim(2)).expect("claim");
    note(&mut state, 21, 3, Some("gw1-a"), &["gw1-x2"]).expect_err("another node");
    note(&mut state, 22, 3, Some("gw1-b"), &[]).expect("nothing new of nodes");
    let known = (Some("gw1-b".to_owned()), vec!["gw1-x1".to_owned()]);
    assert_eq!(read(&state), known);
    for wrong in [&["a b"][..], &[""], &["a", "b", "c"]] {
        note(&mut state, 23, 3, None, wrong).expect_err("no identities of nodes");
    }
}
