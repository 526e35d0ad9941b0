//! Owns the meaning of the words of the page after "The same:", and checks them. rsync is the judge of trees.
//! Runs no command of the page.

use std::collections::BTreeSet;
use std::process::Command;

use super::super::judge::files_below;
use super::super::process::Outcome;
use super::world::{Place, World};

/// The properties that must be the same.
#[derive(Default)]
pub(super) struct Sameness {
    /// Flags of rsync that make it look; empty if trees are not to be compared.
    flags: Vec<&'static str>,
    empty_directories: bool,
    output: bool,
    names: bool,
    nothing_changes: bool,
}

impl Sameness {
    /// Parses the words; the error is the first word without a meaning.
    pub(super) fn from_words(words: &[String]) -> Result<Self, &str> {
        let mut same = Self::default();
        for word in words {
            match word.as_str() {
                "names and contents" => same.flags.extend(["-r", "--checksum", "--delete"]),
                "empty directories" => same.empty_directories = true,
                "links" => same.flags.push("-l"),
                "hard links" => same.flags.push("-H"),
                "modes" => same.flags.push("-p"),
                "times" => same.flags.push("-t"),
                "times of files" => same.flags.extend(["-t", "--omit-dir-times"]),
                "owners" => same.flags.push("-og"),
                "attributes" => same.flags.push("-X"),
                "access lists" => same.flags.push("-A"),
                "special files" => same.flags.push("-D"),
                "standard output" => same.output = true,
                "printed names" => same.names = true,
                "nothing changes" => same.nothing_changes = true,
                other => return Err(other),
            }
        }
        Ok(same)
    }

    pub(super) fn keeps_specials(&self) -> bool {
        self.flags.contains(&"-D")
    }

    /// Returns the first difference.
    pub(super) fn check(
        &self,
        world: &World<'_>,
        theirs: &Outcome,
        ours: &Outcome,
    ) -> Result<(), String> {
        let everything = ["-aHAX", "--checksum", "--delete"];
        let changed = difference(world, &everything, Place::Theirs, Place::Before);
        if self.nothing_changes || self.output {
            let by_ours = difference(world, &everything, Place::Ours, Place::Before);
            if !(changed.is_empty() && by_ours.is_empty()) {
                return Err(format!("something changed: {changed}{by_ours}"));
            }
        } else {
            if changed.is_empty() {
                return Err("their command does nothing, so nothing is compared".to_owned());
            }
            for place in [Place::Theirs, Place::Ours] {
                self.level(world, place);
            }
            let differs = difference(world, &self.flags, Place::Ours, Place::Theirs);
            if !differs.is_empty() {
                return Err(format!("what ours made of it differs: {differs}"));
            }
        }
        if self.output && (theirs.out != ours.out || theirs.out.is_empty()) {
            return Err("what was printed differs".to_owned());
        }
        if self.names {
            let [by_theirs, by_ours] = [theirs, ours].map(|outcome| named(world, &outcome.said()));
            if by_theirs != by_ours || by_theirs.is_empty() {
                return Err(format!("named were {by_theirs:?}, and by ours {by_ours:?}"));
            }
        }
        Ok(())
    }

    /// Removes differences that the page does not mention: empty directories, and modification times of directories.
    fn level(&self, world: &World<'_>, place: Place) {
        for part in world.parts(place) {
            if !self.empty_directories {
                let removed = Command::new("find")
                    .arg(&part)
                    .args(["-mindepth", "1", "-type", "d", "-empty", "-delete"])
                    .status();
                assert!(removed.expect("find runs").success(), "ours to remove");
            }
            let touched = Command::new("find")
                .arg(&part)
                .args(["-type", "d", "-newermt", "30 minutes ago"])
                .args(["-exec", "touch", "-d", "@0", "{}", "+"])
                .status();
            assert!(touched.expect("find runs").success(), "ours to set");
        }
    }
}

/// The changes that rsync would make to turn one into the other.
fn difference(world: &World<'_>, flags: &[&str], from: Place, to: Place) -> String {
    let mut found = String::new();
    for (from, to) in world.parts(from).iter().zip(world.parts(to)) {
        let output = Command::new("rsync")
            .args(flags)
            .args(["--dry-run", "--itemize-changes", "--info=NONREG0"])
            .args([from.join(""), to.join("")])
            .output()
            .expect("rsync runs");
        assert!(output.status.success(), "{output:?}");
        found += &String::from_utf8_lossy(&output.stdout);
    }
    found
}

/// The files of both trees that a text names.
fn named(world: &World<'_>, text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for tree in world.trees() {
        for path in files_below(&tree) {
            let name = path.to_str().expect("text").to_owned();
            if text.lines().any(|line| names(line, &name)) {
                found.insert(name);
            }
        }
    }
    found
}

/// Whether a line has a name as a whole.
fn names(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + name.len()..].chars().next();
        matches!(before, None | Some(' ')) && matches!(after, None | Some(' ' | ':'))
    })
}

#[test]
fn names_are_found_as_a_whole_only() {
    assert!(names(">f+++ raw/a.h5", "raw/a.h5"));
    assert!(names("ERROR : raw/a.h5: sizes differ", "raw/a.h5"));
    assert!(!names("send  raw/a.h5", "a.h5"));
    assert!(!names("send  a.h5x", "a.h5"));
}
