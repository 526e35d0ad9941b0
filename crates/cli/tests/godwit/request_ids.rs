//! One id from the request that submits a job to the logs of all nodes that move its data, by the real binary.
//! See `record` for the other contents of a log.

use serde_json::{Value, json};

use super::rest::Caller;
use super::rig::Rig;
use super::sites::third::Three;
use super::sites::{fill, two_sites, wait_for};

const REQUEST: &str = "night-42.x_7";

/// Submits a job by a request with that id; the job once it has ended.
#[track_caller]
fn run(rig: &Rig, source: &str, destination: &str) -> Value {
    let caller = Caller::admin(rig).with_header("X-Request-Id", REQUEST);
    let new = json!({"sources": [source], "destination": destination});
    let answer = caller.post("jobs", &new);
    let head = answer.head.to_lowercase();
    assert!(head.contains(&format!("x-request-id: {REQUEST}")), "{head}");
    let made = answer.expect(201);
    assert_eq!(made["request"], REQUEST, "{made}");
    let id = made["id"].as_str().expect("an id");
    let job = wait_for(rig, id, |job| !job["ended"].is_null());
    assert_eq!(job["state"], "complete", "{job}");
    let log = rig.admin(&["job", "log", id, "--json"]).out;
    assert!(log.contains(REQUEST), "{log}");
    job
}

/// Waits for the lines at the beginning and the end of the transfer in a node's log.
#[track_caller]
fn assert_logged(rig: &Rig, words: &str) {
    for what in ["transfer started", "transfer ended"] {
        let line = rig.daemon().wait_for(what);
        assert!(line.contains(words), "{line}");
    }
}

#[test]
fn the_id_of_a_request_is_in_the_logs_of_both_ends() {
    let (here, there) = two_sites();
    fill(&here, 2, 1_000);
    let job = run(&here, "here:/data/run42", "siteB:/data/copy");
    let line = here.daemon().wait_for("submitted by");
    assert!(line.contains(&format!("request {REQUEST}")), "{line}");
    assert_logged(&here, REQUEST);
    let id = job["id"].as_str().expect("an id");
    assert_logged(&there, &format!("job {id}, request {REQUEST}"));
}

#[test]
fn the_id_of_a_request_goes_with_a_job_to_the_sites_that_run_it() {
    let three = Three::new();
    fill(&three.source, 2, 1_000);
    run(&three.asked, "siteS:/data/run42", "siteD:/data/copy");
    let line = three.source.daemon().wait_for("runs for job");
    assert!(line.contains(&format!("request {REQUEST}")), "{line}");
    assert_logged(&three.source, REQUEST);
    assert_logged(&three.destination, &format!("request {REQUEST}"));
    let list = three.source.admin(&["job", "list", "--all", "--json"]).out;
    assert!(list.contains(REQUEST), "{list}");
}
