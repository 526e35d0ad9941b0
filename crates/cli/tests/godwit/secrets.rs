//! Files with secrets: a file that others can read is refused with the command that closes it, and new ones are closed.
//! Token and password files are tested in `account` and `jobs`, invitations in `cluster`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use rustix::process::Signal;

use super::full::unshare;
use super::process::Outcome;
use super::rig::Rig;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
}

#[track_caller]
fn refused(outcome: &Outcome, words: &str) {
    assert!(matches!(outcome.code, Some(1 | 2)), "{outcome:?}");
    assert!(outcome.complaint.contains(words), "{outcome:?}");
}

#[test]
fn a_certificate_key_that_others_can_read_is_refused() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    rig.end_daemon(Signal::TERM);
    let made = rig.daemon_home.join("web");
    for name in ["certificate.pem", "key.pem"] {
        fs::copy(made.join(name), rig.path(name)).expect("made");
    }
    let key = rig.path("key.pem");
    let file = |name: &str| rig.path(name).display().to_string();
    let (certificate, private) = (file("certificate.pem"), file("key.pem"));
    let options = [
        "--certificate",
        &*certificate,
        "--certificate-key",
        &*private,
    ];
    let serve = [&["serve", "--listen", "127.0.0.1:0"], &options[..]].concat();
    set_mode(&rig.path("certificate.pem"), 0o644);
    for mode in [0o644, 0o604, 0o622] {
        set_mode(&key, mode);
        refused(&rig.admin(&serve), &format!("chmod 600 {private}"));
    }
    set_mode(&key, 0o400);
    rig.serve(&options);
    rig.end_daemon(Signal::TERM);
    // Others could put the key of another machine there.
    rig.make_dirs("shared");
    let shared = rig.path("shared/key.pem").display().to_string();
    fs::copy(&key, &shared).expect("made");
    set_mode(&rig.path("shared"), 0o777);
    let moved = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--certificate",
        &*certificate,
        "--certificate-key",
        &*shared,
    ];
    refused(&rig.admin(&moved), "could put another one in place of");
    // The node's own is no other.
    set_mode(&made.join("key.pem"), 0o640);
    let own = rig.admin(&["serve", "--listen", "127.0.0.1:0"]);
    refused(&own, "chmod 600");
}

#[test]
fn a_backup_that_others_can_read_is_not_restored() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    let backup = rig.path("backup");
    let at = backup.display().to_string();
    let made = rig.admin(&["backup", &at]);
    assert_eq!(made.code, Some(0), "{made:?}");
    rig.end_daemon(Signal::TERM);
    for name in ["identity.pem", "state.db"] {
        let file = backup.join(name);
        let before = fs::metadata(&file).expect("there").permissions().mode() & 0o777;
        assert_eq!(before, 0o600, "{name}");
        set_mode(&file, 0o644);
        let refusal = rig.admin(&["restore", &at]);
        refused(&refusal, &format!("chmod 600 {}", file.display()));
        set_mode(&file, 0o600);
    }
    let restored = rig.admin(&["restore", &at]);
    assert_eq!(restored.code, Some(0), "{restored:?}");
}

#[test]
fn a_socket_is_not_made_where_others_could_replace_it() {
    let mut rig = Rig::new();
    rig.make_dirs("run");
    let socket = rig.path("run/node.sock").display().to_string();
    set_mode(&rig.path("run"), 0o777);
    let outcome = rig.admin(&["serve", "--listen", "127.0.0.1:0", "--socket", &socket]);
    refused(&outcome, "chmod go-w");
    set_mode(&rig.path("run"), 0o1777);
    rig.serve(&["--socket", &socket]);
}

#[test]
fn a_home_that_others_could_change_serves_nothing() {
    let mut rig = Rig::new();
    let home = rig.daemon_home.clone();
    fs::create_dir_all(&home).expect("made");
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    for mode in [0o777, 0o1777, 0o770] {
        set_mode(&home, mode);
        let words = format!("chmod go-w {}", home.display());
        refused(&rig.admin(&serve), &words);
    }
    set_mode(&home, 0o755);
    // Only root can give directories away.
    if rustix::process::geteuid().is_root() {
        chown(&home, Some(12_345), None).expect("root");
        refused(&rig.admin(&serve), "belongs to another user (uid 12345)");
        chown(&home, Some(0), None).expect("root");
    }
    rig.serve(&[]);
}

#[test]
fn files_of_a_node_are_closed_to_other_users() {
    let mut rig = Rig::new();
    rig.make_dirs("elsewhere");
    let socket = rig.path("elsewhere/node.sock").display().to_string();
    rig.serve(&["--socket", &socket]);
    let added = rig.admin(&["user", "add", "otto", "--role", "operator"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    rig.end_daemon(Signal::TERM);
    let mut directories = vec![rig.daemon_home.clone()];
    let mut seen = 0;
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("listed") {
            let entry = entry.expect("listed");
            let kind = entry.file_type().expect("there");
            if kind.is_dir() {
                let mode = entry.metadata().expect("there").permissions().mode();
                assert_eq!(mode & 0o022, 0, "{:?}", entry.path());
                directories.push(entry.path());
            } else if kind.is_file() && entry.file_name() != "certificate.pem" {
                let mode = entry.metadata().expect("there").permissions().mode();
                assert_eq!(mode & 0o077, 0, "{:?}", entry.path());
                seen += 1;
            }
        }
    }
    assert!(seen >= 4, "{seen} files");
}

#[test]
fn no_export_reaches_the_files_that_decide_the_rights_of_its_node() {
    let rig = Rig::new();
    let home = rig.admin(&["id"]);
    assert_eq!(home.code, Some(0), "{home:?}");
    let above = rig.path("");
    let serve = |export: &Path| {
        let export = format!("data={}", export.display());
        rig.admin(&["serve", "--listen", "127.0.0.1:0", "--export", &export])
    };
    refused(&serve(&above), "GODWIT_HOME");
    let inside = rig.daemon_home.join("inside");
    fs::create_dir_all(&inside).expect("made");
    refused(&serve(&inside), "GODWIT_HOME");
    // A peer that may write to the settings decides the exports of the next start.
    let data = rig.path("shared");
    fs::create_dir_all(&data).expect("made");
    let settings = data.join("settings.toml");
    let text = format!("[serve]\nexport = [\"data={}\"]\n", data.display());
    fs::write(&settings, text).expect("written");
    let named = settings.to_str().expect("text");
    let serve = rig.admin(&["serve", "--listen", "127.0.0.1:0", "--config", named]);
    refused(&serve, "settings.toml overlap");
}

#[test]
fn a_home_below_a_directory_of_a_group_with_members_is_refused() {
    let Some(unshare) = unshare() else {
        return;
    };
    let mut rig = Rig::new();
    rig.make_dirs("up/home");
    set_mode(&rig.path("up/home"), 0o700);
    set_mode(&rig.path("up"), 0o775);
    rig.daemon_home = rig.path("up/home");
    let users = "root:x:0:0::/:\nmallory:x:54321:54321::/:\neve:x:54322:0::/:\n";
    for (members, users) in [
        ("mallory", &users[..users.find("eve").expect("there")]),
        ("", users),
        ("", "root:x:0:0::/:\n"),
    ] {
        rig.write("group", format!("root:x:0:{members}\n"));
        rig.write("passwd", users);
        let mounts = ["group", "passwd"]
            .map(|name| format!("mount --bind '{}' /etc/{name}", rig.path(name).display()));
        let script = format!("{} && exec \"$@\"", mounts.join(" && "));
        let line = unshare.iter().copied().chain(["sh", "-c", &script, "sh"]);
        rig.wrap_daemon(line);
        if users.contains("mallory") {
            let outcome = rig.refused_daemon();
            refused(&outcome, "chmod go-w");
        } else {
            rig.serve(&[]);
        }
    }
}
