//! Owns the tests of logins that ssh refuses.
//! Other machines that do not answer are in `people`.

use std::fs;

use godwit_api::failure::FailureCode;
use rustix::process::Signal;

use super::super::process::Process;
use super::far::Far;

#[test]
fn a_denied_key_is_said_in_one_line_that_names_the_host() {
    let far = Far::new();
    far.write("file", "content");
    fs::write(far.path("etc/authorized"), "").expect("ours");
    let reported = far.cp(&["file", "far:"]);
    reported
        .expect(4, "failed")
        .expect_code(FailureCode::SshDenied)
        .says("far: Permission denied: ");
    assert!(!reported.said().contains("\\r"), "{}", reported.said());
    let shown = far.run(&["cp", "file", "far:"]);
    assert_eq!(shown.code, Some(4), "{}", shown.said());
    shown
        .says("far: Permission denied: ")
        .says("Make `ssh far true` work first");
    assert!(!shown.said().contains("\\r"), "{}", shown.said());
}

#[test]
fn a_wrong_password_is_said_while_ssh_asks_again() {
    let far = Far::new();
    far.write("file", "content");
    far.script(
        "asking",
        "printf 'Permission denied, please try again.\\r\\n' >&2; exec sleep 1000",
    );
    let rsh = far.path("bin/asking").display().to_string();
    let mut process = Process::start(&mut far.command(None, &["--rsh", &rsh, "file", "far:"]));
    process.wait_for("far: Permission denied: the password is wrong");
    process.signal(Signal::INT);
    process.wait().expect(5, "interrupted");
}

#[test]
fn a_program_that_types_a_wrong_password_is_no_wrong_program_there() {
    let far = Far::new();
    far.write("file", "content");
    // sshpass ends so.
    far.script(
        "typing",
        "printf 'Permission denied, please try again.\\r\\n' >&2; exit 5",
    );
    let rsh = far.path("bin/typing").display().to_string();
    let outcome = far.cp(&["--rsh", &rsh, "file", "far:"]);
    outcome
        .expect(4, "failed")
        .expect_code(FailureCode::SshDenied)
        .says("far: Permission denied: ");
}
