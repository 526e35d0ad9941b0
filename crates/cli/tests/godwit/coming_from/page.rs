//! Owns the reading of docs/coming-from.md.
//! Runs nothing.

use std::fs;
use std::path::Path;

/// A command of another program, ours beside it, and the page's statement about what is the same afterwards.
pub(super) struct Pair {
    pub(super) title: String,
    pub(super) theirs: String,
    pub(super) ours: String,
    pub(super) same: Vec<String>,
}

/// All of the page's part about a program, in order.
pub(super) fn pairs(program: &str) -> Vec<Pair> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coming-from.md");
    let page = fs::read_to_string(path).expect("the page");
    let part = page
        .split("\n## ")
        .find(|part| part.lines().next() == Some(program))
        .unwrap_or_else(|| panic!("no part about {program}"));
    part.split("\n### ").skip(1).map(pair).collect()
}

fn pair(section: &str) -> Pair {
    let title = section.lines().next().expect("a title").to_owned();
    let commands: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .collect();
    let [theirs, ours] = commands[..] else {
        panic!("{title}: two commands, not {commands:?}");
    };
    assert!(
        !theirs.contains("godwit ") && ours.contains("godwit "),
        "{title}: theirs first"
    );
    let text = section.replace('\n', " ");
    let same = text
        .split_once("*The same:* ")
        .and_then(|(_, rest)| rest.split_once('.'))
        .map(|(words, _)| words.split(", ").map(str::to_owned).collect())
        .unwrap_or_else(|| panic!("{title}: nothing is said to be the same"));
    Pair {
        title,
        theirs: theirs.to_owned(),
        ours: ours.to_owned(),
        same,
    }
}
