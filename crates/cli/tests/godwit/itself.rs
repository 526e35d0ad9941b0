//! Owns the tests that no tree is copied into itself, and no source is deleted as part of its destination. They run on this machine and with a daemon on this machine.
//! Machines that ssh reaches have theirs beside them (`ssh/itself`).

use std::os::unix::fs::symlink;

use super::rig::Rig;
use super::sync::state;

#[test]
fn a_source_inside_the_destination_is_not_deleted_from_under_itself() {
    let world = Rig::for_user(false);
    world.write("dst/src/f", "f");
    world.write("dst/other", "other");
    let before = state(&world.path("dst"));
    let line = ["sync", "--json", "--delete", "dst/src", "dst"];
    let outcome = world.client(&line);
    outcome.expect(1, "failed").says("inside the destination");
    assert_eq!(state(&world.path("dst")), before);
}

/// Also where a link leads there, or a daemon of this machine.
#[test]
fn a_source_inside_the_destination_is_found_by_any_name() {
    let mut world = Rig::for_user(false);
    world.write("export/dst/src/f", "f");
    world.write("export/dst/other", "other");
    symlink("export/dst/src", world.path("link")).expect("made");
    world.start(&[]);
    let before = state(&world.path("export"));
    let inside = "inside the destination";
    for (from, to, words) in [
        ("link/", "export/dst", inside),
        ("link/", &world.url("dst"), inside),
        (&world.url("dst/src"), "export/dst", inside),
        ("export/dst", &world.url("dst/src"), "into itself"),
        (&world.url("dst"), "link", "into itself"),
        (&world.url(""), "link/new", "into itself"),
    ] {
        let outcome = world.client(&["sync", "--json", "--delete", from, to]);
        outcome.expect(1, "failed").says(words);
        assert_eq!(state(&world.path("export")), before, "{from} {to}");
        // There is nothing to resume, at either end.
        for home in [&world.client_home(), &world.daemon_home] {
            let journals = Rig::journals(home);
            assert!(journals.is_empty(), "{from} {to}: {journals:?}");
        }
    }
}
