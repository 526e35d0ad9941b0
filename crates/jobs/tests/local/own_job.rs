//! Nodes that may act for a job of this site: those with access, but not the node that started the job and has left.
//! Moves a little, so that the job lasts.

use godwit_api::grant::Mandate;
use godwit_state::{Actor, Command, FEATURE_LEVEL, JobOp, Op, Route};

use crate::world::{World, alice, new, submit, wait_for};

#[test]
fn a_node_that_left_does_not_act_for_the_job_that_it_had_run() {
    let world = World::new();
    world.write("from/a", &[7; 8 << 20]);
    let jobs = world.start(1);
    let propose = |actor: Actor, op: Op| {
        let command = Command::new(godwit_jobs::now(), actor, op);
        jobs.replica().propose_blocking(command).expect("proposed");
    };
    propose(alice(), Op::Level(FEATURE_LEVEL));
    let mut slow = new("here:/from/a", "here:/to/a");
    slow.limit = Some(64 << 10);
    let id = submit(&jobs, &slow);
    wait_for(&jobs, &id, |job| job.started.is_some());
    let job = jobs.replica().reader().job(&id).expect("read");
    let route = JobOp::Route {
        epoch: job.expect("the job").epoch,
        route: Route::Push,
        asker: Some("gw1-left".to_owned()),
        at: Vec::new(),
    };
    propose(Actor::node("node1"), Op::Job(id.clone(), route));
    let mandate = Mandate {
        asker: "gw1-left".to_owned(),
        job: id.clone(),
    };
    let may = |peer: &str| jobs.access().own_job(peer, &mandate).expect("read");
    assert_eq!(may("gw1-runner"), Some(true));
    assert_eq!(may("gw1-left"), Some(false));
    jobs.stop();
}
