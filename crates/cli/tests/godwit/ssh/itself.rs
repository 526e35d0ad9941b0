//! Owns the tests that nothing is copied into itself where both ends see the same files: two names of one machine, or this one by ssh.
//! Ends that are both local, or a daemon's, are tested in `delete`.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use godwit_testkit::needs_root;

use super::super::process::{Outcome, Process};
use super::super::sync::state;
use super::far::Far;
use super::third::nobody_is_left;

/// A tree at the other machine, with a source and a destination inside each other.
fn world() -> Far {
    let far = Far::new();
    for name in ["w/a", "w/s/x", "w/s/deep/y", "w/other/z"] {
        far.write(&format!("home/{name}"), name);
    }
    symlink("w/s", far.home().join("link")).expect("made");
    far.know("again", &far);
    far
}

/// Forbidden transfers, as words of a line, and the message.
const NEVER: [(&[&str], &str, &str, &str); 5] = [
    (&["sync", "--delete"], "w", "w/s", "copied into itself"),
    (&["sync", "--delete"], "w/s", "w", "inside the destination"),
    (
        &["sync", "--delete"],
        "link/",
        "w",
        "inside the destination",
    ),
    (&["cp"], "w/s", "w/s/zz", "copied into itself"),
    (&["cp"], "w", "link/", "copied into itself"),
];

#[track_caller]
fn refuses(far: &Far, run: impl Fn(&[&str]) -> Outcome, from: &str, to: &str) {
    let before = state(&far.path("home/w"));
    for (command, source, destination, words) in NEVER {
        for dry in [&["--dry-run"][..], &[]] {
            if command[0] == "cp" && !dry.is_empty() {
                continue;
            }
            let (source, destination) = (format!("{from}{source}"), format!("{to}{destination}"));
            let line = [command, dry, &["--json", &source, &destination]].concat();
            run(&line).expect(1, "failed").says(words);
            assert_eq!(state(&far.path("home/w")), before, "{line:?}");
        }
    }
}

#[test]
fn between_two_places_of_one_machine() {
    let far = world();
    refuses(&far, |line| far.run(line), "far:", "far:");
    refuses(&far, |line| far.run(line), "far:", "again:~/");
    // Neighbouring trees may be copied, and a link is no tree.
    far.cp(&["far:w/s", "again:w/other"]).complete();
    assert!(far.home().join("w/other/s/deep/y").exists());
    far.cp(&["far:link", "far:w/s/"]).complete();
    assert!(far.home().join("w/s/link").is_symlink());
    let line = ["sync", "--json", "far:w/s", "far:w"];
    far.run(&line).complete();
    assert!(far.home().join("w/x").exists() && far.home().join("w/a").exists());
    nobody_is_left([&far, &far]);
}

#[test]
fn between_this_machine_and_itself() {
    let far = world();
    let home = far.home();
    // Where that ssh leads, so that both ends see the same.
    let run_in = |around: &str, line: &[&str]| {
        let words: Vec<String> = line.iter().map(|word| format!("'{word}'")).collect();
        let script = format!(
            "cd '{}' && GODWIT_HOME='{}' GODWIT_RSH=\"{}\" {around} godwit {}",
            home.display(),
            far.path("client").display(),
            far.rsh(),
            words.join(" ")
        );
        let mut command = Command::new("ssh");
        command.arg("-F").arg(far.path("etc/ssh_config"));
        Process::start(command.args(["far", &script])).wait()
    };
    let run = |line: &[&str]| run_in("", line);
    refuses(&far, run, "far:", "./");
    refuses(&far, run, "./", "far:");
    if needs_root() {
        let before = state(&far.path("home/w"));
        // Only this end has the mount. The other end has other paths for the same directories.
        let around = "unshare --mount sh -c 'mount --bind w/s w/other && exec \"$@\"' sh";
        for (line, words) in [
            (
                ["sync", "--delete", "w/other", "far:w"],
                "inside the destination",
            ),
            (["sync", "--delete", "far:w/s", "w/other"], "into itself"),
            (["sync", "--update", "far:w", "w/other/x"], "into itself"),
        ] {
            let line = [&line[..], &["--json"]].concat();
            run_in(around, &line).expect(1, "failed").says(words);
            assert_eq!(state(&far.path("home/w")), before, "{line:?}");
        }
    }
    let several = ["cp", "--json", "far:w/a", "far:w/s", "w/s"];
    run(&several).expect(1, "failed").says("copied into itself");
    assert!(!home.join("w/s/s").exists() && !home.join("w/s/a").exists());
    run(&["cp", "--json", "far:w/s", "w/other"]).complete();
    run(&["cp", "--json", "w/s", "far:w/new"]).complete();
    for name in ["w/other/s/deep/y", "w/new/deep/y"] {
        assert_eq!(fs::read(home.join(name)).expect("there"), b"w/s/deep/y");
    }
}
