//! Backups of a node's knowledge: made while the node runs, restored after a loss.
//! See the tests of the state for damaged backups.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::process::Command;

use godwit_testkit::needs_root;
use rustix::process::Signal;

use super::process::Outcome;
use super::rig::Rig;

#[track_caller]
fn output_of(rig: &Rig, line: &[&str]) -> String {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(0), "{line:?}: {outcome:?}");
    outcome.out
}

#[track_caller]
fn refused(outcome: &Outcome, code: i32, words: &str) {
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    assert!(outcome.complaint.contains(words), "{outcome:?}");
}

#[test]
fn a_restored_node_has_the_state_of_its_backup() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    rig.write("export/run42", "data");
    let identity = output_of(&rig, &["id"]);
    output_of(&rig, &["user", "add", "alice", "--role", "operator"]);
    let submit = |label: &str| {
        let line = ["job", "submit", "here:/data/run42", "here:/data/copy"];
        output_of(&rig, &[&line[..], &["--label", label, "--wait"]].concat())
    };
    submit("before");
    let backup = rig.path("backup");
    let backup = backup.to_str().expect("text");
    let said = output_of(&rig, &["backup", backup]);
    assert!(said.contains("the backup holds keys"), "{said}");
    let mode = fs::metadata(backup).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    for file in fs::read_dir(backup).expect("listed") {
        let mode = file
            .expect("listed")
            .metadata()
            .expect("there")
            .permissions();
        assert_eq!(mode.mode() & 0o077, 0);
    }
    let again = rig.admin(&["backup", backup]);
    refused(&again, 2, "already exists");
    submit("after");

    // Not while it runs.
    refused(
        &rig.admin(&["restore", backup]),
        1,
        "another process uses the state",
    );
    rig.end_daemon(Signal::TERM);
    fs::remove_dir_all(&rig.daemon_home).expect("lost");
    let said = output_of(&rig, &["restore", backup]);
    assert!(!said.contains("the earlier files are"), "{said}");
    assert_eq!(output_of(&rig, &["id"]), identity);
    rig.serve(&[]);
    let jobs = output_of(&rig, &["job", "list", "--all"]);
    assert!(jobs.contains("before") && !jobs.contains("after"), "{jobs}");
    assert!(output_of(&rig, &["user", "list"]).contains("alice"));

    // Existing files move aside and are kept.
    rig.end_daemon(Signal::TERM);
    rig.write("daemon/config.toml", "[serve]\njobs = 3\n");
    fs::write(format!("{backup}/config.toml"), "[serve]\njobs = 4\n").expect("written");
    let said = output_of(&rig, &["restore", backup]);
    let kept = said
        .trim()
        .rsplit(' ')
        .next()
        .expect("a directory")
        .to_owned();
    let earlier = fs::read_to_string(format!("{kept}/config.toml")).expect("kept");
    assert_eq!(earlier, "[serve]\njobs = 3\n");
    assert_eq!(rig.read("daemon/config.toml"), b"[serve]\njobs = 4\n");
    rig.serve(&[]);
    assert!(output_of(&rig, &["job", "list", "--all"]).contains("before"));
}

/// The owner of a home replaces names in it by links to files of root, and waits for a command of root.
#[test]
fn root_follows_no_link_in_the_home_of_another_user() {
    if !needs_root() {
        return;
    }
    let mut rig = Rig::new();
    rig.serve(&[]);
    let id = output_of(&rig, &["id"]);
    rig.end_daemon(Signal::TERM);
    let home = rig.daemon_home.clone();
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(home.parent().expect("above"), open).expect("ours");
    let own = Command::new("chown")
        .args(["-R", "12345:12345"])
        .arg(&home)
        .status()
        .expect("chown");
    assert!(own.success());
    let secret = rig.path("secret");
    fs::write(&secret, "root's\n").expect("written");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("ours");
    let intact = |after: &str| {
        let meta = fs::metadata(&secret).expect("there");
        assert_eq!((meta.uid(), meta.mode() & 0o777), (0, 0o600), "{after}");
        assert_eq!(fs::read(&secret).expect("ours"), b"root's\n", "{after}");
    };
    let linked = |name: &str| {
        let _ = fs::remove_file(home.join(name));
        symlink(&secret, home.join(name)).expect("linked");
        lchown(home.join(name), Some(12_345), Some(12_345)).expect("theirs");
    };
    let allow = ["access", "allow", id.trim(), "--export", "data", "--read"];
    let backup = rig.path("backup");
    let backup = backup.to_str().expect("text");

    linked(".lock");
    assert_ne!(rig.admin(&allow).code, Some(0));
    intact("access allow");
    fs::remove_file(home.join(".lock")).expect("gone");
    output_of(&rig, &allow);
    let grants = fs::metadata(home.join("grants")).expect("written");
    assert_eq!(grants.uid(), 12_345);

    // No command that needs root's own rights uses this home.
    let copy = rig.admin(&["cp", "null:", "null:"]);
    assert!(
        copy.complaint.contains("belongs to another user"),
        "{copy:?}"
    );

    linked("cluster.json.new");
    output_of(&rig, &["cluster", "recover", "--yes"]);
    intact("cluster recover");

    linked("known_peers");
    assert_ne!(rig.admin(&["backup", backup]).code, Some(0));
    intact("backup");
    fs::remove_file(home.join("known_peers")).expect("gone");
    output_of(&rig, &["backup", backup]);
    let saved = fs::metadata(rig.path("backup/state.db")).expect("saved");
    assert_eq!((saved.uid(), saved.mode() & 0o777), (0, 0o600));

    linked("state/state.lock");
    assert_ne!(rig.admin(&["restore", backup]).code, Some(0));
    intact("restore");
    fs::remove_file(home.join("state/state.lock")).expect("gone");
    output_of(&rig, &["restore", backup]);
    for name in ["state/state.db", "grants", "identity.pem"] {
        let meta = fs::metadata(home.join(name)).expect(name);
        assert_eq!(meta.uid(), 12_345, "{name}");
    }
    assert!(!home.join("restore.draft").exists() && !home.join("backup.draft").exists());
}

/// Another user puts another backup, or parts of one, in place of root's: it would decide who may do what at the node.
#[test]
fn a_backup_that_another_user_could_have_changed_is_not_restored() {
    const OTHER: u32 = 12_345;
    if !needs_root() {
        return;
    }
    let mut rig = Rig::new();
    rig.serve(&[]);
    rig.write("daemon/config.toml", "[serve]\njobs = 3\n");
    let theirs = rig.path("theirs");
    fs::create_dir(&theirs).expect("made");
    lchown(&theirs, Some(OTHER), Some(OTHER)).expect("root");
    let (below, own) = (theirs.join("backup"), rig.path("backup"));
    output_of(&rig, &["backup", own.to_str().expect("text")]);
    fs::rename(&own, &below).expect("moved");
    rig.end_daemon(Signal::TERM);
    let restored = |place: &std::path::Path| rig.admin(&["restore", place.to_str().expect("text")]);
    let words = "uid 12345";
    refused(&restored(&below), 2, words);
    symlink(&below, rig.path("link")).expect("linked");
    refused(&restored(&rig.path("link")), 2, words);
    fs::rename(&below, &own).expect("moved");
    for name in ["state.db", "config.toml"] {
        lchown(own.join(name), Some(OTHER), None).expect("root");
        refused(&restored(&own), 2, words);
        lchown(own.join(name), Some(0), None).expect("root");
    }
    let config = own.join("config.toml");
    fs::rename(&config, theirs.join("config.toml")).expect("moved");
    symlink(theirs.join("config.toml"), &config).expect("linked");
    refused(&restored(&own), 2, words);
    fs::remove_file(&config).expect("ours");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).expect("ours");
    refused(&restored(&own), 2, "mode 777");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).expect("ours");
    output_of(&rig, &["restore", own.to_str().expect("text")]);
}

/// The owner of a directory could replace what root makes in it by a link, while root writes there.
#[test]
fn root_makes_no_backup_where_another_user_could_lead_it_elsewhere() {
    const OTHER: u32 = 12_345;
    if !needs_root() {
        return;
    }
    let mut rig = Rig::new();
    rig.serve(&[]);
    let theirs = rig.path("theirs");
    fs::create_dir(&theirs).expect("made");
    lchown(&theirs, Some(OTHER), Some(OTHER)).expect("root");
    symlink(&theirs, rig.path("link")).expect("linked");
    symlink(rig.path("."), theirs.join("back")).expect("linked");
    for place in ["theirs/backup", "link/backup", "theirs/back/backup"] {
        let place = rig.path(place);
        let outcome = rig.admin(&["backup", place.to_str().expect("text")]);
        refused(&outcome, 2, "belongs to another user (uid 12345)");
    }
    let names = fs::read_dir(&theirs).expect("listed").count();
    assert_eq!(names, 1, "the link alone");
    assert!(!rig.path("backup").exists() && !rig.path("backup.draft").exists());
    output_of(
        &rig,
        &["backup", rig.path("backup").to_str().expect("text")],
    );
}

#[test]
fn an_invalid_backup_is_refused_and_changes_nothing() {
    let mut rig = Rig::new();
    refused(
        &rig.admin(&["backup", "/tmp/none"]),
        1,
        "no node has run with this home",
    );
    rig.serve(&[]);
    let backup = rig.path("backup");
    output_of(&rig, &["backup", backup.to_str().expect("text")]);
    rig.end_daemon(Signal::TERM);
    let line = ["restore", backup.to_str().expect("text")];
    let label = backup.join("backup.json");
    let text = fs::read_to_string(&label).expect("there");
    fs::write(&label, text.replace("\"version\": 1", "\"version\": 2")).expect("written");
    refused(&rig.admin(&line), 2, "this program knows version 1");
    fs::remove_file(&label).expect("there");
    refused(&rig.admin(&line), 2, "made by godwit backup");
    fs::write(&label, text).expect("written");
    let state = backup.join("state.db");
    let whole = fs::read(&state).expect("there");
    fs::write(&state, &whole[..whole.len() / 2]).expect("cut");
    refused(&rig.admin(&line), 1, "the file is damaged");
    rig.serve(&[]);
    output_of(&rig, &["job", "list"]);
}
