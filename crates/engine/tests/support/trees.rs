//! Owns the trees of the simulation: the state of the source, the destination's entries before, and the entries allowed
//! afterwards. Does not run transfers.

use std::collections::HashMap;

use godwit_store::{FinalMeta, RelPath, Replace, Storage, TempName, Timestamp};
use godwit_testkit::MemoryStorage;

use super::support::Random;

pub(super) fn path(name: &str) -> RelPath {
    RelPath::parse(name.as_bytes()).unwrap()
}

pub(super) fn meta(seconds: i64) -> FinalMeta {
    FinalMeta {
        mode: 0o644,
        mtime: Timestamp {
            seconds,
            nanoseconds: 5,
        },
        ..FinalMeta::default()
    }
}

pub(super) fn content(random: &mut Random, bytes: u64) -> Vec<u8> {
    (0..bytes)
        .map(|_| u8::try_from(random.below(256)).unwrap())
        .collect()
}

/// All states that each file ever had, by its name below the root; the destination's first state, if any, is first.
pub(super) type Versions = HashMap<String, Vec<Vec<u8>>>;

/// The final state of the source.
pub(super) struct Known {
    pub(super) versions: Versions,
    /// Additional names, each with the first name of its file.
    pub(super) links: Vec<(String, String)>,
}

impl Known {
    pub(super) fn name(&self, random: &mut Random) -> String {
        let mut names: Vec<&String> = self.versions.keys().collect();
        names.sort();
        names[usize::try_from(random.below(names.len() as u64)).unwrap()].clone()
    }

    /// All names of the file with this name.
    pub(super) fn names_of(&self, name: &str) -> Vec<String> {
        let first_of = |name: &str| {
            let mut first = name;
            while let Some((_, of)) = self.links.iter().find(|(link, _)| link == first) {
                first = of;
            }
            first.to_owned()
        };
        let first = first_of(name);
        let all = self.versions.keys().cloned();
        let mut names: Vec<String> = all.filter(|other| first_of(other) == first).collect();
        names.sort();
        names
    }
}

pub(super) fn put_link(storage: &MemoryStorage, name: &str, first: &str, replace: Replace) {
    let name = path(name);
    let parent = name.parent().unwrap();
    storage.make_directory(&parent, 0o755).unwrap();
    let temp = TempName::new(1, &name);
    let made = storage.make_link(&name, &path(first), &temp, replace);
    made.unwrap();
}

pub(super) fn make_source(random: &mut Random) -> (MemoryStorage, Known) {
    let storage = MemoryStorage::new();
    let mut versions = Versions::new();
    for index in 0..4 + random.below(20) {
        let bytes = match random.below(4) {
            0 => random.below(3),
            1 => random.below(2048),
            2 => random.below(6000),
            _ => random.below(60_000),
        };
        let name = format!("d{}/f{index}", random.below(3));
        let bytes = content(random, bytes);
        storage
            .put(&path(&format!("src/{name}")), &meta(1000), &bytes)
            .unwrap();
        versions.insert(name, vec![bytes]);
    }
    let mut known = Known {
        versions,
        links: Vec::new(),
    };
    // In half of the runs some files have additional names, which sort before or after the first name.
    if random.below(2) == 0 {
        for index in 0..1 + random.below(8) {
            let first = known.name(random);
            let name = format!(
                "d{}/{}{index}",
                random.below(4),
                ["e", "g"][usize::from(index % 2 == 0)]
            );
            put_link(
                &storage,
                &format!("src/{name}"),
                &format!("src/{first}"),
                Replace::Never,
            );
            let states = known.versions[&first].clone();
            known.versions.insert(name.clone(), states);
            known.links.push((name, first));
        }
    }
    (storage, known)
}

/// In half of the runs, makes an older state of the tree at the destination, with other contents or kinds under each name.
pub(super) fn make_older(random: &mut Random, target: &MemoryStorage, known: &mut Known) {
    if random.below(2) == 0 {
        return;
    }
    let mut names: Vec<String> = known.versions.keys().cloned().collect();
    names.sort();
    let mut last: Option<(String, Vec<u8>)> = None;
    for name in names {
        // Some of these entries were names of one file before.
        let old = match &last {
            Some((other, bytes)) if random.below(4) == 0 => {
                put_link(
                    target,
                    &format!("out/{name}"),
                    &format!("out/{other}"),
                    Replace::Never,
                );
                bytes.clone()
            }
            _ => {
                let bytes = 1 + random.below(9000);
                let bytes = content(random, bytes);
                target
                    .put(&path(&format!("out/{name}")), &meta(500), &bytes)
                    .unwrap();
                bytes
            }
        };
        known
            .versions
            .get_mut(&name)
            .unwrap()
            .insert(0, old.clone());
        last = Some((name, old));
    }
}

/// Checks that all contents under final names are complete states that the source once had, or that existed before.
pub(super) fn check_final_names(seed: u64, target: &MemoryStorage, versions: &Versions) {
    for found in target.paths() {
        let name = found.file_name().unwrap_or_default();
        if TempName::is_temp(name) {
            continue;
        }
        let Some(bytes) = target.content(&found) else {
            continue;
        };
        let name = String::from_utf8(found.as_bytes().to_vec()).unwrap();
        if name.contains("/stray/") {
            // The file existed before, and is removed only at the end.
            continue;
        }
        let states = &versions[name.strip_prefix("out/").unwrap()];
        assert!(
            states.contains(&bytes),
            "seed {seed}: {name} has contents that the source never had"
        );
    }
}

/// Checks that every entry exists in its final state.
pub(super) fn check_contents(seed: u64, target: &MemoryStorage, known: &Known) {
    for (name, states) in &known.versions {
        let there = target.content(&path(&format!("out/{name}")));
        assert!(
            there.as_ref() == states.last(),
            "seed {seed}: {name} is not what the source has, but number {:?} of {} states, of {:?} bytes",
            states
                .iter()
                .position(|state| Some(state) == there.as_ref()),
            states.len(),
            there.map(|bytes| bytes.len())
        );
    }
    let inode = |name: &String| {
        let there = target.stat(&path(&format!("out/{name}"))).unwrap();
        there.unwrap().inode
    };
    for (name, first) in &known.links {
        let (one, other) = (inode(name), inode(first));
        assert_eq!(one, other, "seed {seed}: {name} is no name of {first}");
    }
}

/// Like [`check_contents`], and checks that no other entry exists.
pub(super) fn check_complete(seed: u64, target: &MemoryStorage, known: &Known) {
    check_contents(seed, target, known);
    for found in target.paths() {
        let name = found.file_name().unwrap_or_default();
        assert!(
            !TempName::is_temp(name),
            "seed {seed}: {found} is left after success"
        );
    }
}
