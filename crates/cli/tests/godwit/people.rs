//! Owns the tests of words for people: summaries, headlines, and many failures of one reason.
//! Events for programs are in `contract`.

use std::net::TcpListener;

use super::rig::Rig;

#[test]
fn a_small_copy_has_one_line_and_verbose_has_the_rest() {
    let world = Rig::for_user(false);
    world.write("f", "content");
    let first = world.client(&["cp", "f", "g"]);
    assert_eq!(first.code, Some(0), "{}", first.said());
    assert_eq!(first.out.lines().count(), 1, "{}", first.out);
    assert!(
        first.out.starts_with("copied f to g: 7 B in 1 file, "),
        "{}",
        first.out
    );
    let again = world.client(&["cp", "f", "g"]);
    assert!(
        again.out.starts_with("up to date: f to g, 1 skipped"),
        "{}",
        again.out
    );
    let verbose = world.client(&["cp", "-v", "--force", "f", "g"]);
    for words in ["copied      f to g", "processor   ", "memory      "] {
        assert!(verbose.out.contains(words), "{}", verbose.out);
    }
}

#[test]
fn a_headline_claims_no_copy_where_none_was_made() {
    let world = Rig::for_user(false);
    world.write("f", "content");
    world.make_dirs("taken/f/d");
    let outcome = world.client(&["cp", "f", "taken"]);
    assert_eq!(outcome.code, Some(3), "{}", outcome.said());
    assert!(
        outcome.out.starts_with("not copied  f to "),
        "{}",
        outcome.out
    );
    assert!(!outcome.out.contains("\ncopied"), "{}", outcome.out);
}

#[test]
fn many_failures_of_one_reason_are_counted() {
    const FILES: usize = 300;
    let world = Rig::for_user(false);
    for number in 0..FILES {
        world.write(&format!("s/f{number}"), "x");
        world.make_dirs(&format!("d/f{number}/x"));
    }
    let outcome = world.client(&["sync", "s", "d"]);
    assert_eq!(outcome.code, Some(3), "{}", outcome.said());
    let lines = outcome.complaint.lines().count();
    assert!(lines < 20, "{lines} lines: {}", outcome.complaint);
    outcome.says("290 more entries failed").says("--verbose");
    let all = world.client(&["sync", "-v", "s", "d"]);
    assert!(all.complaint.lines().count() >= FILES, "{}", all.complaint);

    // A directory too high: everything is missing, and everything is extra.
    assert_eq!(world.client(&["manifest", "s", "m"]).code, Some(0));
    world.make_dirs("high");
    let verified = world.client(&["verify", "m", "high"]);
    assert_eq!(verified.code, Some(3), "{}", verified.said());
    assert!(verified.said().lines().count() < 40, "{}", verified.said());
    verified.says("290 more entries differ");
    let all = world.client(&["verify", "-v", "m", "high"]);
    assert!(all.out.lines().count() > FILES, "{}", all.out);
}

#[test]
fn a_missing_source_is_noticed_before_the_node_is_asked() {
    let world = Rig::for_user(false);
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    listener.set_nonblocking(true).expect("ours");
    let address = listener.local_addr().expect("bound").to_string();
    let outcome = world.client(&["cp", "missing", &Rig::url_by(&address, "g")]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.said());
    outcome
        .says("missing: ")
        .says("Check the names of the sources");
    assert_eq!(outcome.said().matches("heck the").count(), 1);
    assert!(listener.accept().is_err(), "the node was asked");
}
