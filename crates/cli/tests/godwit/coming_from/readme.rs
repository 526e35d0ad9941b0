//! Owns the test of README.md: every command of it is run, but those that build and install, whose targets are looked up.
//! Does not judge rates. A test of the parser covers the form of each command.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::process::{Outcome, Process};
use super::super::rig::Rig;
use super::super::sites::allow;
use super::output_of;
use super::world::{Machines, Place, World};

/// All sections with commands, and the number of commands in each.
const SECTIONS: [(&str, usize); 4] = [
    ("Install", 7),
    ("First copy", 8),
    ("First site", 8),
    ("First cluster", 3),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands of each section that has some, without their comments.
fn sections() -> Vec<(String, Vec<String>)> {
    let page = fs::read_to_string(root().join("README.md")).expect("the page");
    let mut found = Vec::new();
    for part in page.split("\n## ") {
        let name = part.lines().next().unwrap_or_default().to_owned();
        let lines = part.lines().filter_map(|line| line.strip_prefix("    "));
        let commands: Vec<String> = lines
            .map(|line| line.split(" # ").next().unwrap_or_default())
            .map(|line| line.trim().to_owned())
            .collect();
        if !commands.is_empty() {
            found.push((name, commands));
        }
    }
    found
}

fn commands(section: &str) -> Vec<String> {
    let mut sections = sections().into_iter();
    let found = sections.find(|(name, _)| name == section);
    found.unwrap_or_else(|| panic!("no section {section}")).1
}

#[test]
fn each_section_with_commands_has_a_test() {
    let found = sections();
    let found: Vec<(&str, usize)> = found
        .iter()
        .map(|(name, commands)| (name.as_str(), commands.len()))
        .collect();
    assert_eq!(found, SECTIONS);
}

/// The demonstrations have tests, too; builds and packages take too long for one.
#[test]
fn the_commands_of_the_installation_name_targets_of_make() {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("the rules of make");
    for command in commands("Install") {
        let parsed = Command::new("bash").args(["-n", "-c", &command]).status();
        assert!(parsed.expect("bash runs").success(), "{command}");
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("make"), "{command}");
        let target = words.next().expect("a target");
        let is_rule = |line: &str| line.split_once(':').is_some_and(|(name, _)| name == target);
        assert!(makefile.lines().any(is_rule), "{command}");
    }
}

#[test]
fn the_first_copy_does_what_it_says() {
    let machines = Machines::start();
    let world = World::make(&machines, false);
    let [_, there, _] = world.parts(Place::Ours);
    // Files in it differ from ours at the same size and time.
    fs::remove_dir_all(there.join("run42")).expect("it was there");
    for command in commands("First copy") {
        let line = command.replace("alice@", &format!("{}@", machines.user()));
        let outcome = world.run(Place::Ours, &line);
        assert_eq!(outcome.code, Some(0), "{}", output_of(&line, &outcome));
    }
    let copied = fs::read(there.join("run42/sub/deep/x.h5")).expect("it arrived");
    assert_eq!(copied, b"x\n");
}

/// Runs a line of the page in the directory of a rig, with one of its homes.
fn run(rig: &Rig, home: &Path, line: &str) -> Outcome {
    let tools = rig.path("tools");
    if !tools.exists() {
        fs::create_dir(&tools).expect("made");
        symlink(env!("CARGO_BIN_EXE_godwit"), tools.join("godwit")).expect("made");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(tools).chain(std::env::split_paths(&path));
    let mut command = Command::new("bash");
    command
        .args(["-c", line])
        .current_dir(rig.path(""))
        .env("PATH", std::env::join_paths(paths).expect("paths"))
        .env("GODWIT_HOME", home);
    Process::start(&mut command).wait()
}

#[track_caller]
fn succeeds(rig: &Rig, home: &Path, line: &str) -> Outcome {
    let outcome = run(rig, home, line);
    assert_eq!(outcome.code, Some(0), "{}", output_of(line, &outcome));
    outcome
}

/// Each machine has a node and a client; our node has access to the other node.
#[test]
fn the_first_site_does_what_it_says() {
    let (mut here, mut there) = (Rig::new(), Rig::new());
    here.write("run42/raw/f", "content");
    here.write("export/run42/raw/f", "content");
    here.write("password", "a long password of alice\n");
    let password = here.path("password");
    fs::set_permissions(password, Permissions::from_mode(0o600)).expect("ours");
    here.serve(&[]);
    let ours = here.client(&["id"]).out.trim().to_owned();
    let mut outcomes = Vec::new();
    for command in commands("First site") {
        let line = command
            .replace("gw1-yours", &ours)
            .replace("gw1-theirs", &there.identity)
            .replace("dtn2.example.org", there.address());
        let words: Vec<&str> = line.split_whitespace().collect();
        let outcome = match words[1] {
            "serve" => {
                assert_eq!(words, ["godwit", "serve", "--export", "data=/data"]);
                there.serve(&[]);
                allow(&there, &here.identity, &["--read", "--write"]);
                continue;
            }
            "access" => succeeds(&there, &there.daemon_home, &line),
            "trust" | "cp" => succeeds(&here, &here.client_home(), &line),
            _ => succeeds(&here, &here.daemon_home, &line),
        };
        outcomes.push((command, outcome));
    }
    let arrived = fs::read(there.export.join("run42/raw/f")).expect("it arrived");
    assert_eq!(arrived, b"content");
    let (_, list) = outcomes
        .iter()
        .find(|(command, _)| command == "godwit job list")
        .expect("a list");
    assert!(list.out.contains("night-42"), "{list:?}");
    let users = here.admin(&["user", "list"]);
    assert!(users.out.contains("alice"), "{users:?}");
}

#[test]
fn the_first_cluster_does_what_it_says() {
    let mut first = Rig::new();
    first.serve(&[]);
    let own = tempfile::tempdir().expect("a directory");
    let mut second = Rig::with(own, Some(&first.export), None);
    let token = first.path("token");
    for command in commands("First cluster") {
        let words: Vec<&str> = command.split_whitespace().collect();
        if words[..2] != ["godwit", "serve"] {
            let outcome = succeeds(&first, &first.daemon_home, &command);
            if command == "godwit cluster status" {
                assert!(outcome.out.contains("dtn3"), "{outcome:?}");
            }
            continue;
        }
        let [
            _,
            _,
            "--export",
            "data=/data",
            "--join",
            "dtn1",
            "--token-file",
            "token",
        ] = words[..]
        else {
            panic!("{command}: another command");
        };
        let mode = fs::metadata(&token).expect("it is made").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        let token = token.to_str().expect("text");
        let by = first.address();
        // Both nodes are on one machine, whose name the first one has.
        second.serve(&["--join", by, "--token-file", token, "--name", "dtn3"]);
    }
}
