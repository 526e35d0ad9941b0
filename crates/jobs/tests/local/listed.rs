//! Tests that a list of jobs is made without reading the descriptions of the jobs.
//! Runs no job.

use godwit_api::rest::Timestamp;
use godwit_jobs::Seen;
use godwit_state::{Actor, Command, JobFilter, NewJob, Op, Role, StoredPlace};

use crate::world::World;

/// As many as the largest page of the API.
const JOBS: usize = 1_000;

#[test]
fn a_list_of_a_thousand_jobs_parses_no_description() {
    let world = World::new();
    let jobs = world.start(1);
    let place = |site: &str, path: &str| StoredPlace {
        site: site.to_owned(),
        path: path.to_owned(),
    };
    for number in 0..JOBS {
        let new = NewJob {
            id: format!("j{number:04}"),
            label: "night".to_owned(),
            owner: "otto".to_owned(),
            // It cannot be read.
            spec: "[7]".to_owned(),
            sources: vec![place("here", "/from/a")],
            destination: place("here", "/to/b"),
            priority: 0,
            limit: None,
            not_before: Some(Timestamp(4_102_444_800_000)),
            deadline: None,
            retry: Default::default(),
            idempotency_key: None,
        };
        let op = Op::Submit(Box::new(new));
        let command = Command::new(godwit_jobs::now(), Actor::node("otto"), op);
        jobs.replica().propose_blocking(command).expect("submitted");
    }
    assert!(jobs.records().description("j0000").is_err());
    let seen = Seen::by(&jobs, "ada", Role::Admin).expect("an admin");
    let page = seen
        .list(&JobFilter::default(), None, JOBS)
        .expect("a list");
    assert_eq!(page.jobs.len(), JOBS);
    for job in &page.jobs {
        let shown = (&*job.label, &*job.sources[0], &*job.destination);
        assert_eq!(shown, ("night", "here:/from/a", "here:/to/b"));
    }
    jobs.stop();
}
