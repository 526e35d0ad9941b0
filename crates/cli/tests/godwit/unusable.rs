//! Owns the tests of unusable destinations: one error at once, and the same command works when they are mended.
//! Entries that fail below a destination that can be used are in `entries`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::judge::assert_identical;
use super::process::{Outcome, wait_until};
use super::rig::{Rig, is_root};

/// Permissions hold for its programs.
fn rig() -> Rig {
    let mut rig = Rig::for_user(is_root());
    for directory in ["run42", "run42/d", "run42/d/e", "export/far"] {
        for name in ["a", "b", "c"] {
            rig.write(
                &format!("{directory}/{name}"),
                format!("{directory} {name}"),
            );
        }
    }
    rig.start(&[]);
    rig
}

/// The transfer failed with one error and no failed entry.
fn refused<'a>(outcome: &'a Outcome, place: &str) -> &'a Outcome {
    outcome.expect(1, "failed");
    assert!(outcome.failed().is_empty(), "{outcome:?}");
    let errors = outcome
        .events()
        .iter()
        .filter(|event| event["event"] == "error")
        .count();
    assert_eq!(errors, 1, "{outcome:?}");
    outcome
        .says(&format!("the destination {place} cannot be used"))
        .says("give the same command again")
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
}

#[test]
fn a_closed_directory_is_reported_once_and_the_same_command_works_when_it_is_open() {
    let rig = rig();
    let [run42, far] = ["run42", "export/far"].map(|name| rig.path(name));
    for (number, place) in ["ro", "export/ro"].iter().enumerate() {
        let to = |rest: &str| match number {
            0 => format!("ro{rest}"),
            _ => rig.url(&format!("ro{rest}")),
        };
        let closed = rig.path(place);
        rig.make_dirs(place);
        rig.own();
        let called = ["ro", "data/ro"][number];
        for (rest, name) in [("", "/run42"), ("/name", "/name")] {
            set_mode(&closed, 0o555);
            let line = ["run42".to_owned(), to(rest)];
            refused(&rig.cp(&line), &format!("{called}{name}")).says("permission denied");
            set_mode(&closed, 0o755);
            assert_eq!(fs::read_dir(&closed).expect("there").count(), 0);
            // The daemon tidies up after it has answered.
            for home in [&rig.client_home(), &rig.daemon_home] {
                let gone = wait_until(|| Rig::journals(home).is_empty().then_some(()));
                assert!(gone.is_some(), "{line:?}: {:?}", Rig::journals(home));
            }
            rig.cp(&line).complete();
            assert_identical(&run42, &closed.join(&name[1..]));
            fs::remove_dir_all(closed.join(&name[1..])).expect("ours");
        }
    }
    let line = [rig.url("far"), "ro".to_owned()];
    set_mode(&rig.path("ro"), 0o555);
    refused(&rig.cp(&line), "ro/far").says("permission denied");
    set_mode(&rig.path("ro"), 0o755);
    rig.cp(&line).complete();
    assert_identical(&far, &rig.path("ro/far"));
}

#[test]
fn something_else_in_the_way_is_reported_once() {
    let rig = rig();
    for (place, to) in [
        ("taken", "taken".to_owned()),
        ("export/taken", rig.url("taken")),
    ] {
        rig.write(place, "mine");
        let line = ["run42", to.as_str()];
        refused(&rig.cp(&line), &place.replace("export", "data"))
            .says("an entry that is not a directory is there");
        assert_eq!(rig.read(place), b"mine");
        fs::remove_file(rig.path(place)).expect("ours");
        rig.make_dirs(place);
        rig.cp(&line).complete();
        assert_identical(&rig.path("run42"), &rig.path(place).join("run42"));
    }
}

#[test]
fn of_several_sources_one_whose_name_is_taken_keeps_no_other_from_arriving() {
    let rig = rig();
    rig.write("other/x", "x");
    rig.write("into/run42", "mine");
    let outcome = rig.cp(&["run42", "other", "into"]);
    outcome.expect(3, "partial");
    assert_identical(&rig.path("other"), &rig.path("into/other"));
    assert_eq!(rig.read("into/run42"), b"mine");
}
