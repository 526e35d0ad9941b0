//! Jobs that verify, and the phases that jobs report.
//! Takes no digest itself.

use std::fs;

use godwit_api::endpoint::Endpoint;
use godwit_api::job::{JobKind, JobSpec, Text};
use godwit_api::rest::JobState;
use godwit_jobs::Jobs;
use godwit_worlds::{begin, copy, surroundings};
use serde_json::Value;

use crate::world::{World, alice, new, submit, wait_for};

/// Copies `from` to `to`, with a manifest in `from`, as a user of this machine does.
fn copy_with_manifest(world: &World) {
    let text = |name: &str| Text::from(world.path(name).into_os_string());
    let spec = JobSpec {
        sources: vec![Endpoint::Local(world.path("from/run42"))],
        destination: Endpoint::Local(world.path("to/run42")),
        settings: [("manifest".to_owned(), vec![text("from/list")])].into(),
        ..copy("from", "to", &[])
    };
    let env = surroundings(&world.path("home"));
    begin(spec, env).end().result.expect("copied");
}

/// The states of the job, in their order.
fn states(jobs: &Jobs, id: &str) -> Vec<String> {
    let events = jobs.replica().reader().events(0, 1_000).expect("events");
    let mut states: Vec<String> = events
        .iter()
        .filter(|event| event.object == id)
        .filter_map(|event| {
            let body: Value = serde_json::from_str(&event.body).ok()?;
            Some(body["state"].as_str()?.to_owned())
        })
        .collect();
    states.dedup();
    states
}

#[test]
fn a_job_verifies_a_copy_and_names_what_differs() {
    let world = World::new();
    for name in ["a", "b", "c/d"] {
        world.write(&format!("from/run42/{name}"), name.as_bytes());
    }
    copy_with_manifest(&world);
    let jobs = world.start(2);
    let mut check = new("here:/from/list", "here:/to/run42");
    check.kind = JobKind::Verify;
    let id = submit(&jobs, &check);
    let same = wait_for(&jobs, &id, |job| job.ended.is_some());
    assert_eq!(same.state, JobState::Complete, "{same:?}");
    assert_eq!(
        states(&jobs, &id),
        ["queued", "scanning", "verifying", "complete"]
    );

    fs::write(world.path("to/run42/a"), "A").expect("changed");
    fs::remove_file(world.path("to/run42/c/d")).expect("removed");
    let id = submit(&jobs, &check);
    let other = wait_for(&jobs, &id, |job| job.ended.is_some());
    assert_eq!(other.state, JobState::Partial, "{other:?}");
    let reason = other.reason.expect("a reason").text;
    assert!(reason.contains(" entries are different from"), "{reason}");
    let mut found: Vec<(String, Vec<String>)> = jobs
        .records()
        .failures(&id)
        .expect("failures")
        .into_iter()
        .map(|group| (group.reason.code.to_string(), group.examples))
        .collect();
    found.sort();
    let pair = |code: &str, name: &str| (code.to_owned(), vec![name.to_owned()]);
    // The removal of an entry has changed the time of the directory.
    found.retain(|(code, _)| code != "metadata");
    assert_eq!(found, [pair("content", "a"), pair("missing", "c/d")]);
    jobs.stop();
}

#[test]
fn a_verification_reads_nothing_outside_the_exports() {
    let world = World::new();
    world.write("from/run42/a", b"alpha");
    copy_with_manifest(&world);
    fs::rename(world.path("from/list"), world.path("secret")).expect("moved");
    std::os::unix::fs::symlink("../secret", world.path("from/list")).expect("planted");
    let jobs = world.start(1);
    let mut check = new("here:/from/list", "here:/to/run42");
    check.kind = JobKind::Verify;
    let id = submit(&jobs, &check);
    let refused = wait_for(&jobs, &id, |job| job.ended.is_some());
    assert_eq!(refused.state, JobState::Failed, "{refused:?}");
    for (source, says) in [
        ("away:/x/list", "the manifest"),
        ("here:/none/list", "no export"),
    ] {
        let mut check = new(source, "here:/to/run42");
        check.kind = JobKind::Verify;
        let error = jobs
            .submit(alice(), "alice", &check, None)
            .expect_err("refused");
        assert!(error.to_string().contains(says), "{error}");
    }
    jobs.stop();
}

#[test]
fn a_copy_that_is_read_back_is_verified_at_the_end() {
    let world = World::new();
    world.write("from/a", b"alpha");
    let jobs = world.start(1);
    let mut copy = new("here:/from/a", "here:/to/a");
    let id = submit(&jobs, &copy);
    wait_for(&jobs, &id, |job| job.ended.is_some());
    assert!(!states(&jobs, &id).contains(&"verifying".to_owned()));
    let yes = vec![Text::from("true")];
    copy.settings.insert("verify".to_owned(), yes);
    copy.destination = "here:/to/b".to_owned();
    let id = submit(&jobs, &copy);
    wait_for(&jobs, &id, |job| job.ended.is_some());
    assert!(states(&jobs, &id).contains(&"verifying".to_owned()));
    jobs.stop();
}

#[test]
fn a_setting_that_names_a_file_is_refused() {
    let world = World::new();
    let jobs = world.start(1);
    for name in ["manifest", "failed"] {
        let mut copy = new("here:/from/a", "here:/to/a");
        copy.settings
            .insert(name.to_owned(), vec![Text::from("/tmp/x")]);
        let error = jobs
            .submit(alice(), "alice", &copy, None)
            .expect_err("refused");
        assert!(error.to_string().contains("names a file"), "{error}");
    }
    jobs.stop();
}
