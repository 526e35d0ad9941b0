//! The settings of a node: errors are reported before any port is bound, and correct settings apply.
//! The table of settings is tested in `api`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use super::process::{Outcome, Process, wait_until};
use super::rig::{NOBODY, Rig, is_root};

/// Runs `serve` and `config check` with these settings, which both refuse in the same words.
#[track_caller]
fn refused(rig: &Rig, settings: &str) -> Vec<String> {
    rig.write("node.toml", settings);
    let file = rig.path("node.toml").display().to_string();
    let check = rig.admin(&["config", "check", &file]);
    let serve = rig.admin(&["serve", "--config", &file]);
    assert_eq!(check.code, Some(2), "{check:?}");
    assert!(matches!(serve.code, Some(1 | 2)), "{serve:?}");
    assert_eq!(check.complaint, serve.complaint);
    assert!(!serve.out.contains("listening"), "{serve:?}");
    for made in ["state", "run", "web"] {
        assert!(!rig.daemon_home.join(made).exists(), "{made}");
    }
    let prefix = format!("{file}:");
    let lines = check.complaint.split('\n').filter_map(|line| {
        let (_, rest) = line.split_once(&prefix)?;
        Some(rest.to_owned())
    });
    lines.collect()
}

#[track_caller]
fn starts(found: &[String], expected: &[&str]) {
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found:#?}");
    }
}

#[test]
fn all_mistakes_are_named_with_line_key_and_values_before_anything_is_bound() {
    let rig = Rig::new();
    let found = refused(
        &rig,
        "[serve]\nlisten = ['127.0.0.1:0']\nexports = ['data=/']\njobs = 4096\n\nencryption = 'maybe'\nkeep-history = '1h'\n",
    );
    starts(
        &found,
        &[
            "3: serve.exports: no setting has this name; did you mean export?",
            "4: serve.jobs: `4096` is out of range: 1 to 1024",
            "6: serve.encryption: `maybe` is not one of ",
            "7: serve.keep-history: `1h` is out of range: ",
        ],
    );
    assert!(
        found[2].contains("tls") && found[2].contains("any"),
        "{found:#?}"
    );
    let found = refused(&rig, "[server]\nlisten = 'x'\n");
    starts(
        &found,
        &["1: server: no section has this name; the sections are [cp], [sync], [serve]"],
    );
    let found = refused(&rig, "[serve]\nlisten = \njobs = = 3\n");
    assert!(
        found.len() >= 2 && found[0].starts_with("2: ") && found[1].starts_with("3: "),
        "{found:#?}"
    );
    let missing = rig.path("nothing.toml").display().to_string();
    let outcome = rig.admin(&["serve", "--config", &missing]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    outcome.says("nothing.toml: it cannot be read");
}

#[test]
fn places_named_by_settings_are_checked_before_a_port_is_bound() {
    let rig = Rig::new();
    rig.write("file", "no directory");
    rig.write("key.pem", "no key");
    let at = |name: &str| rig.path(name).display().to_string();
    let settings = format!(
        "[serve]\nlisten = '127.0.0.1:7999'\nexport = ['a={}', 'b={}']\nmanage = '127.0.0.1:7999'\ncertificate = '{}'\n\
         certificate-key = '{}'\nsocket = '/{}'\nwebhook-network = ['ten']\npin = 'nowhere0'\n",
        at("missing"),
        at("file"),
        at("certificate.pem"),
        at("key.pem"),
        "x".repeat(120)
    );
    let mut found = refused(&rig, &settings);
    found.sort();
    starts(
        &found,
        &[
            "3: serve.export: a=",
            "3: serve.export: b=",
            "4: serve.manage: 127.0.0.1:7999 is also the data port",
            "5: serve.certificate: ",
            "7: serve.socket: /xxx",
            "8: serve.webhook-network: ten",
            "9: serve.pin: ",
        ],
    );
    assert!(
        found[0].contains("No such file") && found[1].contains("not a directory"),
        "{found:#?}"
    );
    let found = refused(
        &rig,
        "[serve]\ncertificate = 'x'\nannounce = ['all', 'eth0']\nlisten = []\n",
    );
    assert!(
        found.iter().any(|line| line.contains("certificate-key")),
        "{found:#?}"
    );
    assert!(
        found
            .iter()
            .any(|line| line.contains("must be the only value")),
        "{found:#?}"
    );
}

#[test]
fn a_node_obeys_the_file_that_it_is_given_and_flags_come_first() {
    let mut rig = Rig::new();
    rig.make_dirs("archive");
    let archive = rig.path("archive").display().to_string();
    rig.write(
        "node.toml",
        format!("[serve]\njobs = 3\nexport = ['archive={archive}']\n"),
    );
    let file = rig.path("node.toml").display().to_string();
    let checked = rig.admin(&["config", "check", &file]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    checked.says("exports archive = ").says("no errors found");
    let mut command = Command::new(env!("CARGO_BIN_EXE_godwit"));
    command.env("GODWIT_HOME", &rig.daemon_home).args([
        "serve",
        "--config",
        &file,
        "--listen",
        "127.0.0.1:0",
    ]);
    let mut node = Process::start(&mut command);
    node.wait_for("API at ");
    let status = rig.admin(&["node", "status"]);
    status.says("archive");
    node.signal(Signal::TERM);
    node.wait();
    // The flag for exports comes before the file.
    rig.serve(&["--config", &file]);
    let status = rig.admin(&["node", "status"]);
    assert!(!status.out.contains("archive"), "{status:?}");
}

/// The output of `node status` for the node at an address, with this fingerprint.
fn status_by_https(rig: &Rig, address: &str, fingerprint: &str) -> Outcome {
    let token = rig.path("token");
    if !token.exists() {
        let made = rig.admin(&["token", "create", "--role", "viewer"]);
        assert_eq!(made.code, Some(0), "{made:?}");
        fs::write(&token, made.out).expect("written");
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("ours");
    }
    let node = format!("https://{address}");
    let token = token.display().to_string();
    rig.client(&[
        "node",
        "status",
        "--node",
        &node,
        "--token-file",
        &token,
        "--fingerprint",
        fingerprint,
    ])
}

/// The management address and the fingerprint that a node printed.
fn managed(rig: &Rig) -> (String, String) {
    let line = rig.daemon().wait_for("with the page at https://");
    let (_, rest) = line.split_once("https://").expect("looked for");
    let (address, rest) = rest.split_once("/; ").expect("a fingerprint");
    let fingerprint = rest.trim().rsplit(' ').next().expect("a word");
    (address.to_owned(), fingerprint.to_owned())
}

/// Makes a user, because a token needs one. The account of root is an admin and no user of the node.
fn with_user(rig: &Rig) {
    let name = String::from_utf8(
        Command::new("id")
            .arg("-un")
            .output()
            .expect("id runs")
            .stdout,
    )
    .expect("text");
    let added = rig.admin(&["user", "add", name.trim(), "--role", "admin"]);
    assert_eq!(added.code, Some(0), "{added:?}");
}

#[test]
fn the_api_is_at_its_own_address_and_then_no_longer_on_the_data_port() {
    let mut rig = Rig::new();
    rig.start(&["--manage", "127.0.0.1:0"]);
    with_user(&rig);
    let (address, fingerprint) = managed(&rig);
    let outcome = status_by_https(&rig, &address, &fingerprint);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome.says(&rig.identity);
    let outcome = status_by_https(&rig, rig.address(), &fingerprint);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    // Data still goes by the data port.
    rig.write("f", "foxtrot");
    rig.cp(&["f", &rig.url("f")]).complete();
}

#[test]
fn the_page_of_all_interfaces_is_shown_at_an_address_of_the_machine() {
    let mut rig = Rig::new();
    rig.start(&["--manage", "0.0.0.0:0"]);
    with_user(&rig);
    let (address, fingerprint) = managed(&rig);
    assert!(!address.starts_with("0.0.0.0"), "{address}");
    let outcome = status_by_https(&rig, &address, &fingerprint);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn a_renewed_certificate_has_the_key_that_clients_know() {
    let mut rig = Rig::new();
    rig.start(&["--manage", "127.0.0.1:0"]);
    with_user(&rig);
    let key_of = |rig: &Rig| {
        let line = rig.daemon().wait_for("SHA-256 of its key: ");
        let (_, rest) = line.split_once("of its key: ").expect("looked for");
        rest.split(',').next().expect("a fingerprint").to_owned()
    };
    let (address, first) = managed(&rig);
    let key = key_of(&rig);
    for known in [&key, &first] {
        assert_eq!(status_by_https(&rig, &address, known).code, Some(0));
    }
    // A further name needs another certificate.
    rig.end_daemon(Signal::TERM);
    rig.serve(&[
        "--manage",
        "127.0.0.1:0",
        "--certificate-name",
        "other.example",
    ]);
    let (address, second) = managed(&rig);
    assert_ne!(first, second);
    assert_eq!(key_of(&rig), key);
    assert_eq!(status_by_https(&rig, &address, &key).code, Some(0));
    let refused = status_by_https(&rig, &address, &first);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    let unknown = "ab".repeat(32);
    let refused = status_by_https(&rig, &address, &unknown);
    let shown = key.replace(':', "").to_lowercase();
    refused.says(&shown);
}

#[test]
fn the_operators_certificate_is_shown_and_read_again_when_it_changes() {
    let mut rig = Rig::new();
    // Two certificates, as nodes make them.
    let mut made = Vec::new();
    for home in ["one", "two"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_godwit"));
        command.env("GODWIT_HOME", rig.path(home)).args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--certificate-name",
            "node.example",
        ]);
        let mut node = Process::start(&mut command);
        let line = node.wait_for("its certificate: ");
        made.push(line.trim().rsplit(' ').next().expect("a word").to_owned());
        node.signal(Signal::TERM);
        node.wait();
    }
    let install = |home: &str| {
        for name in ["key.pem", "certificate.pem"] {
            let new = rig.path(format!("{name}.new"));
            fs::copy(rig.path(home).join("web").join(name), &new).expect("copied");
            fs::rename(new, rig.path(name)).expect("in place");
        }
    };
    install("one");
    let at = |name: &str| rig.path(name).display().to_string();
    let (certificate, key) = (at("certificate.pem"), at("key.pem"));
    let line = [
        "--manage",
        "127.0.0.1:0",
        "--certificate",
        &certificate,
        "--certificate-key",
        &key,
    ];
    let line: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    rig.start(&line);
    with_user(&rig);
    let (address, fingerprint) = managed(&rig);
    assert_eq!(fingerprint, made[0]);
    assert_eq!(status_by_https(&rig, &address, &made[0]).code, Some(0));
    // Half of a change leaves the old one in force.
    fs::write(&certificate, "nothing").expect("written");
    assert_eq!(status_by_https(&rig, &address, &made[0]).code, Some(0));
    for name in ["key.pem", "certificate.pem"] {
        fs::copy(rig.path("two").join("web").join(name), rig.path(name)).expect("copied");
    }
    let shown =
        wait_until(|| (status_by_https(&rig, &address, &made[1]).code == Some(0)).then_some(()));
    assert!(shown.is_some(), "the new certificate is not shown");
    assert_ne!(status_by_https(&rig, &address, &made[0]).code, Some(0));
}

#[test]
fn the_socket_can_lie_where_other_users_reach_it() {
    let mut rig = Rig::for_user(false);
    // Open to others, as /run/godwit is, and not to be changed.
    let open =
        |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
    rig.make_dirs("run");
    open(&rig.path("run"));
    open(&rig.path(""));
    let socket = rig.path("run").join("node.sock");
    let shown = socket.display().to_string();
    rig.serve(&["--socket", &shown]);
    rig.daemon().wait_for(&format!("API at {shown}"));
    let mode = fs::metadata(rig.path("run"))
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
    // By the home, and by the socket alone.
    rig.admin(&["node", "status"]).says("you are");
    let mut command = rig.client_command();
    let outcome = Process::start(
        command
            .env("GODWIT_SOCKET", &socket)
            .args(["node", "status"]),
    )
    .wait();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    if is_root() {
        let copy = rig.path("godwit-copy");
        let copied = Command::new("cp")
            .args([Path::new(env!("CARGO_BIN_EXE_godwit")), &copy])
            .status();
        assert!(copied.expect("cp runs").success());
        let mut command = Command::new("setpriv");
        command
            .args([
                &format!("--reuid={NOBODY}"),
                &format!("--regid={NOBODY}"),
                "--clear-groups",
                "--",
            ])
            .arg(&copy)
            .args(["node", "status"])
            .env("GODWIT_SOCKET", &socket)
            .env("GODWIT_HOME", "")
            .env("HOME", "/nonexistent");
        let outcome = Process::start(&mut command).wait();
        outcome.says("this node has no user \"nobody\"");
    }
    // The next start uses the state of the last one.
    rig.end_daemon(Signal::KILL);
    rig.serve(&[]);
    rig.admin(&["node", "status"]).says("you are");
}
