//! The own account by command: a new password from files and at a terminal, sessions and tokens that end.
//! The node's answer is tested in `web`.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use super::process::{Outcome, wait_until};
use super::rest::Caller;
use super::rig::Rig;

const FIRST: &str = "correct horse";
const SECOND: &str = "battery staple";

/// A file that its owner alone may read.
fn secret(rig: &Rig, name: &str, content: &str) -> String {
    rig.write(name, content);
    let path = rig.path(name);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
    path.display().to_string()
}

/// A node with the operator otto, and the options by which a command of otto reaches it.
fn node() -> (Rig, Vec<String>) {
    let mut rig = Rig::new();
    rig.start(&[]);
    let password = secret(&rig, "first", FIRST);
    let made = |line: &[&str]| {
        let outcome = rig.admin(line);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.out
    };
    let otto = ["user", "add", "otto", "--role", "operator"];
    made(&[&otto[..], &["--password-file", &password]].concat());
    let token = made(&["token", "create", "--role", "operator", "--user", "otto"]);
    let token = secret(&rig, "token", &token);
    let certificate = rig.daemon().wait_for("its certificate: ");
    let fingerprint = certificate.trim().rsplit(' ').next().expect("a word");
    let node = format!("https://{}", rig.address());
    let options = [
        "--node",
        &node,
        "--token-file",
        &token,
        "--fingerprint",
        fingerprint,
    ];
    let options = options.map(str::to_owned).to_vec();
    (rig, options)
}

fn run(rig: &Rig, line: &[&str], options: &[String]) -> Outcome {
    let options = options.iter().map(String::as_str);
    rig.client(&line.iter().copied().chain(options).collect::<Vec<_>>())
}

/// The secret of a new log-in.
fn log_in(rig: &Rig, password: &str) -> Option<String> {
    let login = json!({"user": "otto", "password": password});
    let answer = Caller::admin(rig).post("login", &login);
    (answer.status == 200).then(|| {
        answer.expect(200)["secret"]
            .as_str()
            .expect("text")
            .to_owned()
    })
}

fn is_good(rig: &Rig, token: &str) -> bool {
    Caller::with_token(rig, token).get("jobs").status == 200
}

#[test]
fn a_password_is_changed_by_files_that_are_closed_to_others() {
    let (rig, options) = node();
    let login = log_in(&rig, FIRST).expect("the password");
    let current = secret(&rig, "current", FIRST);
    let new = secret(&rig, "new", SECOND);
    let line = [
        "user",
        "passwd",
        "--current-file",
        &current,
        "--password-file",
        &new,
    ];
    for file in [&current, &new] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o644)).expect("ours");
        let refused = run(&rig, &line, &options);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        refused.says(&format!("chmod 600 {file}"));
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("ours");
    }
    // Without a terminal both files must be named.
    let mut alone = Command::new("setsid");
    alone
        .arg("-w")
        .arg(env!("CARGO_BIN_EXE_godwit"))
        .args(["user", "passwd"]);
    let alone = alone.args(&options).output().expect("setsid runs");
    assert_eq!(alone.status.code(), Some(2), "{alone:?}");
    let complaint = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(complaint.contains("--current-file"), "{complaint}");
    assert!(is_good(&rig, &login));
    let changed = run(&rig, &line, &options);
    assert_eq!(changed.code, Some(0), "{changed:?}");
    assert!(!is_good(&rig, &login));
    assert_eq!(log_in(&rig, FIRST), None);
    let login = log_in(&rig, SECOND).expect("the new password");
    // The second time, the old password is wrong.
    let wrong = run(&rig, &line, &options);
    wrong.says("the password is wrong");
    // The other sessions end; the asking token remains.
    let ended = run(&rig, &["token", "revoke", "--others"], &options);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!is_good(&rig, &login));
    let listed = run(&rig, &["token", "list"], &options);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.out.contains("log-in"), "{listed:?}");
}

#[test]
fn a_terminal_is_asked_for_the_passwords_and_shows_none() {
    let (rig, options) = node();
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).expect("ours");
    unlockpt(&ours).expect("ours");
    let name = ptsname(&ours, Vec::new()).expect("it has a name");
    let theirs = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("open");
    let mut command = Command::new("setsid");
    command
        .args(["-c", "-w", env!("CARGO_BIN_EXE_godwit"), "user", "passwd"])
        .args(&options)
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("setsid runs");
    let said = Arc::<Mutex<Vec<u8>>>::default();
    let mut ours = File::from(ours);
    let (mut reading, kept) = (ours.try_clone().expect("ours"), Arc::clone(&said));
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        // The end of the other side is an error of this one.
        while let Ok(bytes @ 1..) = reading.read(&mut buffer) {
            kept.lock()
                .expect("no panic")
                .extend_from_slice(&buffer[..bytes]);
        }
    });
    let shown = || String::from_utf8_lossy(&said.lock().expect("no panic")).into_owned();
    for (prompt, typed) in [
        ("Current password: ", FIRST),
        ("New password: ", SECOND),
        ("New password again: ", SECOND),
    ] {
        let asked = wait_until(|| shown().ends_with(prompt).then_some(()));
        asked.unwrap_or_else(|| panic!("no {prompt:?} in {:?}", shown()));
        ours.write_all(format!("{typed}\r").as_bytes())
            .expect("typed");
    }
    drop(command);
    let ended = child.wait().expect("it ends");
    assert!(ended.success(), "{ended:?} {:?}", shown());
    for password in [FIRST, SECOND] {
        assert!(!shown().contains(password), "{:?}", shown());
    }
    assert!(log_in(&rig, SECOND).is_some());
}
