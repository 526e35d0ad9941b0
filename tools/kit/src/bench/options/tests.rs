//! Owns the test of the commands in docs/performance.md: each must be valid, and its cases, rows and contenders must
//! exist. Measures nothing.

use std::fs;
use std::path::Path;

use clap::Command;

use super::super::peers;
use super::{Options, command};

#[test]
fn every_command_of_the_performance_page_is_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/performance.md")).expect("the page");
    let commands: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .collect();
    assert!(commands.len() >= 12, "{commands:?}");
    for line in commands {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["cargo", "xtask", ..] => check_chore(line, &words[1..]),
            [setting, "cargo", "test", "-p", "godwit", "--test", test] => {
                assert!(setting.starts_with("GODWIT_"), "{line}");
                let test = root.join(format!("crates/cli/tests/{test}.rs"));
                assert!(test.is_file(), "{line}: {}", test.display());
            }
            _ => panic!("{line}: no test knows this command"),
        }
    }
}

fn check_chore(line: &str, words: &[&str]) {
    let chores = Command::new("xtask")
        .subcommand_required(true)
        .subcommand(command())
        .subcommand(crate::cluster::command());
    let matches = chores
        .try_get_matches_from(words)
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    let Some(("bench", matches)) = matches.subcommand() else {
        return;
    };
    let mut options = Options::parse(matches).unwrap_or_else(|error| panic!("{line}: {error}"));
    if options.is_of_state() {
        return;
    }
    // The file of the reader's peer does not exist here.
    options.peers.clear();
    let known = peers::load(&options.peers).expect("the kit's peers");
    let cases = options.choose(&known);
    let cases = cases.unwrap_or_else(|error| panic!("{line}: {error}"));
    let rows = options.rows();
    let rows = rows.unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(!cases.is_empty() || !rows.is_empty(), "{line}");
}
