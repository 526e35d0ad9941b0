//! The commands that move no data, by the real binary: identities, grants, trust, wrong usage.
//! Each test has a separate home directory.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn godwit<S: AsRef<OsStr>>(home: &Path, line: &[S]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_godwit"))
        .args(line)
        .env_clear()
        .env("GODWIT_HOME", home)
        .output()
        .expect("the binary runs")
}

/// Expects success; returns the output.
fn output_of(home: &Path, line: &[&str]) -> String {
    let output = godwit(home, line);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line:?}: {complaint}");
    String::from_utf8(output.stdout).expect("text")
}

/// Expects failure; the exit code and the complaint.
fn refused<S: AsRef<OsStr>>(home: &Path, line: &[S]) -> (i32, String) {
    let output = godwit(home, line);
    let code = output.status.code().expect("an exit code");
    (code, String::from_utf8(output.stderr).expect("text"))
}

fn homes() -> (TempDir, TempDir) {
    let make = || tempfile::tempdir().expect("a temporary directory");
    (make(), make())
}

#[test]
fn an_identity_is_one_line_and_stays_the_same() {
    let (home, other) = homes();
    let inside = home.path().join("made/here");
    let first = output_of(&inside, &["id"]);
    assert!(first.starts_with("gw1-") && first.ends_with('\n') && first.lines().count() == 1);
    assert_eq!(output_of(&inside, &["id"]), first);
    assert_ne!(output_of(other.path(), &["id"]), first);
    let mode = fs::metadata(&inside).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn grants_are_given_and_taken_back() {
    let (home, other) = homes();
    let id = output_of(other.path(), &["id"]).trim().to_owned();
    let grants = || fs::read_to_string(home.path().join("grants")).expect("written");
    let allow = |more: &[&str]| output_of(home.path(), &[&["access", "allow", &id], more].concat());
    allow(&["--export", "data"]);
    assert!(
        grants().contains(&format!("{id} data read\n")),
        "{}",
        grants()
    );
    allow(&["--export", "data", "--write"]);
    assert!(
        grants().contains(&format!("{id} data read,write\n")),
        "{}",
        grants()
    );
    let before = grants();
    allow(&["--export", "data", "--read", "--write"]);
    assert_eq!(grants(), before, "repeating is harmless");
    allow(&["--all-exports", "--write"]);
    assert!(
        grants().contains(&format!("{id} * write\n")),
        "{}",
        grants()
    );

    let (code, complaint) = refused(home.path(), &["access", "deny", &id, "--export", "data"]);
    assert_eq!(code, 1);
    assert!(
        complaint.contains("may still write all exports, by a wider grant"),
        "{complaint}"
    );
    output_of(home.path(), &["access", "deny", &id]);
    assert!(!grants().contains(&id), "{}", grants());
    output_of(home.path(), &["access", "deny", &id]);
}

#[test]
fn a_node_is_trusted_by_its_address() {
    let (home, other) = homes();
    let first = output_of(home.path(), &["id"]).trim().to_owned();
    let second = output_of(other.path(), &["id"]).trim().to_owned();
    output_of(home.path(), &["trust", "DTN2.example.org", &first]);
    let text = output_of(home.path(), &["trust", "dtn2.example.org:7272", &second]);
    assert_eq!(
        text,
        format!("dtn2.example.org:7272 is trusted as {second}, no longer as {first}\n")
    );
    output_of(home.path(), &["trust", "[::1]:9", &first]);
    let known = fs::read_to_string(home.path().join("known_peers")).expect("written");
    assert!(
        known.contains(&format!("dtn2.example.org:7272 {second}\n")),
        "{known}"
    );
    assert!(known.contains(&format!("[::1]:9 {first}\n")), "{known}");
}

#[test]
fn wrong_usage_ends_with_2_and_names_the_mistake() {
    let (home, _) = homes();
    let cases: &[(&[&str], &str)] = &[
        (&[], "Usage: godwit"),
        (&["fly"], "fly"),
        (&["cp", "a"], "SOURCE... DESTINATION"),
        (&["cp", "--speed", "9", "a", "b"], "--speed"),
        (
            &["cp", "--streams", "129", "a", "b"],
            "godwit: --streams: `129` is out of range: N or N..N from 1 to 128, `auto`",
        ),
        (
            &["cp", "--verify=maybe", "a", "b"],
            "godwit: --verify: `maybe` is not one of true, false",
        ),
        (
            &["cp", "-avz", "a", "b"],
            "godwit: -z: godwit does not compress",
        ),
        (&["cp", "a", ":b"], "./:b"),
        (&["cp", "null:", "b"], "can only be a destination"),
        (&["manifest", ".", "-"], "must be a file"),
        (&["verify", "-", "."], "must be a file"),
        (&["cp", "--failed", "-", "a", "b"], "must be a file"),
        (
            &["cp", "a", "godwit://h/data/../x"],
            "`..` would lead out of the export",
        ),
        (
            &["cp", "godwit://a/x", "godwit://b/x"],
            "cannot copy between two nodes",
        ),
        (
            &["serve", "--export", "data"],
            "godwit: --export: `data`: write NAME=PATH",
        ),
        (&["access", "allow", "me", "--all-exports"], "godwit id"),
        (&["trust", "h:x", "me"], "`x` is no port"),
    ];
    for (line, message) in cases {
        let (code, complaint) = refused(home.path(), line);
        assert_eq!(code, 2, "{line:?}: {complaint}");
        assert!(complaint.contains(message), "{line:?}: {complaint}");
    }
}

#[test]
fn the_settings_file_and_the_environment_are_read() {
    let (home, _) = homes();
    fs::write(home.path().join("config.toml"), "[cp]\nstreams = 199\n").expect("written");
    let (code, complaint) = refused(home.path(), &["cp", "a", "b"]);
    assert_eq!(code, 2);
    assert!(
        complaint.contains("config.toml:2: cp.streams: `199` is out of range"),
        "{complaint}"
    );
    fs::write(home.path().join("config.toml"), "[cp]\nstream = 9\n").expect("written");
    let (code, complaint) = refused(home.path(), &["cp", "a", "b"]);
    assert_eq!(code, 2);
    assert!(
        complaint
            .contains("config.toml:2: cp.stream: no setting has this name; did you mean streams?"),
        "{complaint}"
    );
    fs::remove_file(home.path().join("config.toml")).expect("there");
    let output = Command::new(env!("CARGO_BIN_EXE_godwit"))
        .args(["cp", "a", "b"])
        .env_clear()
        .env("GODWIT_HOME", home.path())
        .env("GODWIT_CIPHER", "des")
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("GODWIT_CIPHER: `des` is not one of"));
}

#[test]
fn help_goes_to_standard_output() {
    let (home, _) = homes();
    for line in [
        &["help"][..],
        &["--help"],
        &["cp", "--help"],
        &["help", "serve"],
        &["--version"],
    ] {
        assert!(output_of(home.path(), line).contains("godwit"), "{line:?}");
    }
    assert!(output_of(home.path(), &["help", "cp"]).contains("GODWIT_RETRY_FOR"));
}

#[test]
fn the_short_help_fits_a_screen_and_the_long_one_has_all() {
    let (home, _) = homes();
    for command in ["cp", "sync"] {
        let short = output_of(home.path(), &[command, "-h"]);
        let (lines, columns) = (
            short.lines().count(),
            short.lines().map(|line| line.chars().count()).max(),
        );
        assert!(lines <= 50, "{lines} lines: {short}");
        assert!(columns <= Some(80), "{columns:?} columns: {short}");
        let long = output_of(home.path(), &[command, "--help"]);
        for text in [&short, &long] {
            for words in ["--exclude", "--limit", "Examples:", "[OPTIONS] SOURCE"] {
                assert!(text.contains(words), "{words}: {text}");
            }
            assert!(!text.contains("true|false"), "{text}");
        }
        for words in [
            "Choosing entries:",
            "Network:",
            "--block-size",
            "GODWIT_LIMIT",
        ] {
            assert!(long.contains(words), "{words}: {long}");
            assert!(!short.contains(words), "{words}: {short}");
        }
        assert!(
            short.contains(&format!("godwit {command} --help")),
            "{short}"
        );
    }
    // A switch may still have a value beside the help.
    assert!(output_of(home.path(), &["cp", "--verify=false", "--help"]).contains("Usage: godwit"));
    let usage = "Usage: godwit cp [OPTIONS] SOURCE... DESTINATION";
    assert!(output_of(home.path(), &["cp", "-h"]).contains(usage));
}

#[test]
fn without_a_home_the_message_says_what_to_set() {
    let output = Command::new(env!("CARGO_BIN_EXE_godwit"))
        .arg("id")
        .env_clear()
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("set GODWIT_HOME"));
}

#[test]
fn a_home_that_cannot_be_used_is_named_with_what_to_set() {
    let (home, _) = homes();
    fs::create_dir(home.path().join("config.toml")).expect("made");
    for (home, words) in [
        (home.path(), "config.toml: it cannot be read"),
        // Directories cannot be made there.
        (Path::new("/proc/self/fd/home"), "cannot be made"),
    ] {
        let (code, complaint) = refused(home, &["cp", "a", "b"]);
        assert_ne!(code, 0, "{complaint}");
        assert!(complaint.contains(words), "{complaint}");
        assert!(complaint.contains("GODWIT_HOME"), "{complaint}");
    }
}

#[test]
fn a_failed_write_to_standard_output_is_a_failure() {
    let (home, _) = homes();
    let full = fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("there");
    let output = Command::new(env!("CARGO_BIN_EXE_godwit"))
        .arg("id")
        .env_clear()
        .env("GODWIT_HOME", home.path())
        .stdout(full)
        .output()
        .expect("the binary runs");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(
        complaint.contains("standard output cannot be written"),
        "{complaint}"
    );
}

#[test]
fn commands_for_a_node_say_that_none_runs_and_how_to_start_it() {
    let (home, _) = homes();
    let start = format!("GODWIT_HOME={} godwit serve", home.path().display());
    for line in [
        &["job", "list"][..],
        &["job", "submit", "here:/data/a", "siteB:/data/"],
        &["job", "watch", "2zq"],
        &["top"],
        &["site", "list"],
        &["token", "create", "--role", "admin"],
        &["node", "status", "--json"],
    ] {
        let (code, complaint) = refused(home.path(), line);
        assert_eq!(code, 1, "{line:?}: {complaint}");
        assert!(complaint.contains(&start), "{line:?}: {complaint}");
    }
    assert!(!home.path().join("run").exists(), "asking makes nothing");
}

#[test]
fn arguments_are_checked_before_the_node_is_asked() {
    let (home, _) = homes();
    let cases: &[(&[&str], &str)] = &[
        (
            &["job", "submit", "here:/data/a"],
            "at least one source and a destination",
        ),
        (
            &["job", "submit", "/data/a", "here:/data/b"],
            "write SITE:/EXPORT/PATH",
        ),
        (
            &["job", "submit", "here:/a", "here:/b", "--after", "noon"],
            "--after: \"noon\" is not a time; write 22:00",
        ),
        (
            &[
                "job",
                "submit",
                "here:/a",
                "here:/b",
                "--deadline",
                "2020-01-01",
            ],
            "is in the past",
        ),
        (
            &["job", "submit", "here:/a", "here:/b", "--limit", "fast"],
            "is not a rate",
        ),
        (
            &["job", "submit", "here:/a", "here:/b", "--retries", "few"],
            "retries: \"few\" is not an allowed whole number",
        ),
        (
            &["job", "list", "--state", "done"],
            "complete, partial, failed",
        ),
        (
            &["job", "list", "--node", "http://dtn1"],
            "write https://HOST",
        ),
        (&["job", "list", "--token-file", "token"], "add --node"),
        (
            &["job", "list", "--node", "https://dtn1"],
            "--token-file or GODWIT_TOKEN_FILE",
        ),
        (&["token", "create"], "--role"),
        (
            &["node", "trust", "https://dtn1", "abc"],
            "64 hexadecimal digits",
        ),
    ];
    for (line, words) in cases {
        let (code, complaint) = refused(home.path(), line);
        assert_eq!(code, 2, "{line:?}: {complaint}");
        assert!(complaint.contains(words), "{line:?}: {complaint}");
    }
}

#[test]
fn a_token_that_others_can_read_is_not_used_and_not_shown() {
    let (home, _) = homes();
    let file = home.path().join("token");
    fs::write(&file, "gwt_secret\n").expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("set");
    let file = file.to_str().expect("text");
    // No server listens there: the command looks at the file first.
    let line = [
        "job",
        "list",
        "--node",
        "https://127.0.0.1:1",
        "--token-file",
        file,
    ];
    let (code, complaint) = refused(home.path(), &line);
    assert_eq!(code, 2, "{complaint}");
    assert!(
        complaint.contains(&format!("chmod 600 {file}")),
        "{complaint}"
    );
    assert!(!complaint.contains("gwt_secret"), "{complaint}");

    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("set");
    let fingerprint = "ab".repeat(32);
    output_of(
        home.path(),
        &["node", "trust", "https://127.0.0.1:1", &fingerprint],
    );
    let (code, complaint) = refused(home.path(), &line);
    assert_eq!(code, 1, "{complaint}");
    assert!(
        complaint.contains("https://127.0.0.1:1 cannot be reached"),
        "{complaint}"
    );
    let known = fs::read_to_string(home.path().join("known_web")).expect("written");
    assert_eq!(known, format!("127.0.0.1:1 sha256:{fingerprint}\n"));
}
