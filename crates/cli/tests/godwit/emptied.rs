//! Owns the tests of an empty source that would empty a destination.
//! Other deletion is in `delete`.

use std::fs;

use godwit_api::failure::FailureCode;

use super::rig::Rig;
use super::sites::{submit, wait_for};
use super::ssh::far::Far;
use super::terminal::Terminal;

/// A world with an empty source, and a destination with three entries here and at the node.
fn world() -> Rig {
    let mut world = Rig::new();
    world.make_dirs("empty");
    world.write("full/a", "a");
    world.write("full/d/b", "b");
    world.write("export/full/a", "a");
    world.write("export/full/d/b", "b");
    world.start(&[]);
    world
}

#[test]
fn an_empty_source_empties_no_destination_without_a_word() {
    let world = world();
    for (destination, at) in [
        ("full".to_owned(), world.path("full")),
        (world.url("full"), world.export.join("full")),
    ] {
        for flag in ["--delete", "--delete-before"] {
            let outcome = world.client(&["sync", "--json", flag, "empty", &destination]);
            outcome
                .expect(2, "failed")
                .expect_code(FailureCode::EmptySource)
                .says("3 entries")
                .says("--max-delete");
            assert!(at.join("a").exists() && at.join("d/b").exists());
        }
        let dry = world.client(&["sync", "--json", "-n", "--delete", "empty", &destination]);
        dry.complete().says("--max-delete");
        assert_eq!(dry.number("deleted"), 3, "{}", dry.said());
        let allowed = [
            "sync",
            "--json",
            "--delete",
            "--max-delete",
            "3",
            "empty",
            &destination,
        ];
        world.client(&allowed).complete();
        assert!(!at.join("a").exists() && !at.join("d").exists());
        // Nothing is there, so nothing is refused.
        let again = world.client(&["sync", "--json", "--delete", "empty", &destination]);
        again.complete();
    }
}

#[test]
fn an_empty_source_empties_nothing_by_ssh_either() {
    let far = Far::new();
    fs::create_dir(far.path("empty")).expect("made");
    far.write("home/full/a", "a");
    let outcome = far.run(&["sync", "--json", "--delete", "empty", "far:full"]);
    outcome
        .expect(2, "failed")
        .expect_code(FailureCode::EmptySource);
    assert!(far.home().join("full/a").exists());
}

#[test]
fn a_job_with_an_empty_source_fails_until_a_number_is_given() {
    let world = world();
    world.make_dirs("export/empty");
    let (source, destination) = ("here:/data/empty", "here:/data/full");
    let sync = ["--sync", "--setting", "delete"];
    let refused = submit(&world, source, destination, &sync);
    let job = wait_for(&world, &refused, |job| job["state"] == "failed");
    assert!(job.to_string().contains("empty_source"), "{job}");
    assert!(world.export.join("full/a").exists());
    let allowed = [&sync[..], &["--setting", "max-delete=3"]].concat();
    let allowed = submit(&world, source, destination, &allowed);
    wait_for(&world, &allowed, |job| job["state"] == "complete");
    assert!(!world.export.join("full/a").exists());
}

#[test]
fn a_terminal_asks_before_it_empties() {
    let world = world();
    for (answer, stays) in [("n", true), ("y", false)] {
        let mut command = world.client_command();
        command.args(["sync", "--delete", "empty", "full"]);
        let mut terminal = Terminal::start_typing(&mut command, 200);
        terminal.wait_for("Delete all of it?");
        terminal.type_line(answer);
        let code = terminal.wait();
        let expected = if stays { 2 } else { 0 };
        assert_eq!(code, Some(expected), "{:#?}", terminal.screen());
        assert_eq!(world.path("full/a").exists(), stays, "{answer}");
    }
}
