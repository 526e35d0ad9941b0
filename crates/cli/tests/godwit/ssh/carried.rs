//! Owns the tests of a machine without this program, to which the client carries its own.
//! Machines with another program are in `people`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use godwit_api::failure::FailureCode;

use super::super::terminal::Terminal;
use super::far::Far;

/// A machine with an sshd and the usual tools, and nothing of ours.
fn bare() -> Far {
    let far = Far::new();
    fs::remove_file(far.path("bin/godwit")).expect("ours");
    far.write("file", "content");
    far
}

fn carried(far: &Far) -> PathBuf {
    let directory = format!(".cache/godwit/{}", env!("CARGO_PKG_VERSION"));
    far.home().join(directory).join("godwit")
}

/// Nothing but the program is in its directory.
fn is_alone(far: &Far) {
    let directory = carried(far).parent().expect("below").to_owned();
    let names: Vec<_> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("an entry").file_name())
        .filter(|name| name != "godwit")
        .collect();
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn one_command_copies_to_a_machine_that_has_only_an_sshd() {
    let far = bare();
    let refused = far.cp(&["file", "far:"]);
    refused
        .expect(1, "failed")
        .expect_code(FailureCode::RemoteCommandMissing)
        .says("--install-remote");
    assert!(!far.home().join(".cache").exists());

    let outcome = far.cp(&["--install-remote", "file", "far:"]);
    outcome.complete().says("carrying this program");
    assert_eq!(
        fs::read(far.home().join("file")).expect("there"),
        b"content"
    );
    let program = carried(&far);
    let mode = fs::metadata(&program).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert!(
        fs::read(&program).expect("there") == fs::read(env!("CARGO_BIN_EXE_godwit")).expect("ours"),
        "the same program"
    );
    is_alone(&far);

    // Later runs find it, in each direction and through ssh alone.
    far.cp(&["far:file", "back"]).complete();
    let through = far.cp(&["--via-ssh", "--force", "file", "far:again"]);
    through.complete();
    assert!(!through.said().contains("carrying"), "{}", through.said());
}

#[test]
fn a_list_of_a_machine_that_has_only_an_sshd_brings_the_program_too() {
    let far = bare();
    let place = format!("{}@far:{}", far.user(), far.path("file").display());
    let refused = far.run(&["ls", &place]);
    assert_eq!(refused.says("--install-remote").code, Some(1));
    let listed = far.run(&["ls", "--install-remote", &place]);
    assert_eq!(listed.says("file").code, Some(0), "{}", listed.said());
    assert!(carried(&far).exists());
    // The flags that say where the program is are accepted, too.
    let command = carried(&far).display().to_string();
    let rsh = format!("ssh -F '{}'", far.path("etc/ssh_config").display());
    let listed = far.run(&["ls", "--rsh", &rsh, "--remote-command", &command, &place]);
    assert_eq!(listed.says("file").code, Some(0), "{}", listed.said());
}

#[test]
fn a_machine_of_another_kind_gets_nothing() {
    let far = bare();
    far.script("uname", "echo Welcome; echo Linux mips64");
    let outcome = far.cp(&["--install-remote", "file", "far:"]);
    outcome
        .expect(1, "failed")
        .says("far: the machine there is `Linux mips64`");
    assert!(!far.home().join(".cache").exists());
}

#[test]
fn a_program_that_came_in_part_or_does_not_run_is_removed() {
    let far = bare();
    far.script("cat", "exec head -c 100000");
    let outcome = far.cp(&["--install-remote", "file", "far:"]);
    outcome.expect(1, "failed").says("does not run there");
    assert!(!carried(&far).exists());
    is_alone(&far);
    // The whole size, and no program.
    far.script("cat", "/bin/cat | tr '\\000-\\377' ' '");
    let outcome = far.cp(&["--install-remote", "file", "far:"]);
    outcome.expect(1, "failed").says("does not run there");
    assert!(!carried(&far).exists());
    is_alone(&far);
}

#[test]
fn a_terminal_asks_and_no_is_an_answer() {
    let far = bare();
    for (answer, code) in [("n", 1), ("y", 0)] {
        let mut command = far.client(None, &["cp", "file", "far:"]);
        let mut terminal = Terminal::start_typing(&mut command, 300);
        terminal.wait_for("far has no godwit. Carry this one there");
        terminal.type_line(answer);
        let ended = terminal.wait();
        assert_eq!(ended, Some(code), "{:#?}", terminal.screen());
        assert_eq!(carried(&far).exists(), code == 0);
    }
}

#[test]
fn a_login_that_begins_elsewhere_starts_no_program_of_another_user() {
    let far = bare();
    // An ssh server makes bash read this file, although no terminal is there.
    let scratch = far.path("scratch");
    far.write(
        "home/.bashrc",
        format!("cd '{0}' && : >'{0}/began'\n", scratch.display()),
    );
    let place = format!("scratch/.cache/godwit/{}/godwit", env!("CARGO_PKG_VERSION"));
    let mark = scratch.join("foreign");
    far.write(
        &place,
        format!("#!/bin/sh\n: >'{}'\nexit 1\n", mark.display()),
    );
    fs::set_permissions(far.path(&place), fs::Permissions::from_mode(0o755)).expect("ours");
    let foreign = fs::read(far.path(&place)).expect("there");

    far.cp(&["file", "far:"])
        .expect(1, "failed")
        .expect_code(FailureCode::RemoteCommandMissing);
    assert!(
        scratch.join("began").exists(),
        "the login changes its directory"
    );
    let outcome = far.cp(&["--install-remote", "file", "far:"]);
    outcome.complete().says("carrying this program");
    far.cp(&["far:file", "back"]).complete();
    assert!(!mark.exists(), "the program of another user has run");
    assert!(carried(&far).exists());
    assert!(
        fs::read(far.path(&place)).expect("there") == foreign,
        "no file but ours is written"
    );
}

#[test]
fn a_damaged_program_is_removed_and_leftovers_of_killed_runs_too() {
    let far = bare();
    let directory = carried(&far).parent().expect("below").to_owned();
    fs::create_dir_all(&directory).expect("made");
    let (old, young) = (directory.join(".new-old"), directory.join(".new-young"));
    for (left, minutes) in [(&old, 90), (&young, 0)] {
        let file = fs::File::create(left).expect("made");
        let then = SystemTime::now() - Duration::from_secs(60 * minutes);
        file.set_modified(then).expect("ours");
    }
    // One byte behind the code differs, so the program would run.
    let last = fs::metadata(env!("CARGO_BIN_EXE_godwit"))
        .expect("ours")
        .len()
        - 1;
    far.script("cat", &format!("head -c {last}; printf '\\377'"));
    far.cp(&["--install-remote", "file", "far:"])
        .expect(1, "failed")
        .says("came damaged")
        .says("another digest");
    assert!(!carried(&far).exists());
    assert!(!old.exists() && young.exists());
    fs::remove_file(&young).expect("ours");
    is_alone(&far);

    // Without a tool for digests the size and the answer must do.
    fs::remove_file(far.path("bin/cat")).expect("ours");
    far.script("sha256sum", "exit 127");
    far.cp(&["--install-remote", "file", "far:"]).complete();
    is_alone(&far);
}
