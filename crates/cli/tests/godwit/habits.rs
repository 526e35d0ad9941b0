//! Owns the tests of hints for users who type flags of rsync, scp and rclone that this program lacks.
//! The tests of the list itself cover the whole list. The effect of the same words in those programs is in `coming_from`.

use super::process::Outcome;
use super::rig::Rig;

#[track_caller]
fn is_usage(outcome: &Outcome, words: &str) {
    assert_eq!(outcome.code, Some(2), "{}", outcome.said());
    outcome.says(words);
    assert!(outcome.out.is_empty(), "{}", outcome.said());
}

#[test]
fn help_among_other_words_is_a_mistake_and_alone_is_help() {
    let world = Rig::for_user(false);
    world.write("s/f", "f");
    for line in [
        &["sync", "-avh", "s", "d"][..],
        &["sync", "-h", "s", "d"],
        &["cp", "s", "d", "-h"],
        &["cp", "-hn", "s", "d"],
        &["cp", "-a", "-h"],
    ] {
        is_usage(&world.client(line), "-h");
        assert!(!world.path("d").exists(), "{line:?}");
    }
    is_usage(
        &world.client(&["sync", "-avh", "s", "d"]),
        "leave this option out",
    );
    for line in [
        &["-h"][..],
        &["--help"],
        &["cp", "-h"],
        &["sync", "-h"],
        &["cp", "--help"],
        &["doctor", "-h"],
        &["job", "submit", "-h"],
        &["cluster", "status", "-h"],
        &["help", "cp"],
    ] {
        let outcome = world.client(line);
        assert_eq!(outcome.code, Some(0), "{}", outcome.said());
        outcome.says("Usage: godwit");
    }
    // Behind two dashes it is a name.
    world.write("-h", "named");
    world.client(&["cp", "--json", "--", "-h", "d"]).complete();
    assert_eq!(world.read("d"), b"named");
}

#[test]
fn flags_of_others_are_answered_and_nothing_is_copied() {
    let world = Rig::for_user(false);
    world.write("s/f", "f");
    for (flag, words) in [
        ("--inplace", "complete"),
        ("--remove-source-files", "never removed"),
        ("--backup", "replaced"),
        ("--link-dest=../yesterday", "earlier"),
        ("--chmod=go-w", "chmod"),
        ("--chown=a:b", "chown"),
        ("--delete-excluded", "--exclude"),
        ("--delete-after", "--delete"),
        ("--info=progress2", "progress"),
        ("-avxW", "-W"),
        ("-3", "directly"),
        ("-W", "whole"),
    ] {
        for line in [["sync", flag, "s", "d"], ["sync", "s", "d", flag]] {
            is_usage(&world.client(&line), words);
            assert!(!world.path("d").exists(), "{line:?}");
        }
    }
}

#[test]
fn flags_of_rsync_for_what_is_always_so_change_nothing() {
    let world = Rig::for_user(false);
    world.write("s/f", "f");
    for (number, flags) in [
        &["-P"][..],
        &["--progress", "--partial"],
        &["-avP"],
        &["-P", "-P"],
    ]
    .iter()
    .enumerate()
    {
        let name = format!("d{number}");
        let line = [&["sync", "--json"], *flags, &["s", &name]].concat();
        world.client(&line).complete();
        assert_eq!(world.read(&format!("{name}/f")), b"f", "{flags:?}");
    }
    // With scp it has the port behind it, which is no source.
    is_usage(
        &world.client(&["cp", "-P", "2222", "s/f", "far:"]),
        "--rsh 'ssh -p 2222'",
    );
}
