//! Owns seeded trees of directories and files that are names and lengths alone.
//! Divides nothing.

use std::collections::BTreeMap;

/// Files with more bytes are brought in parts.
pub(crate) const PART: u64 = 100;

/// Numbers from a seed (SplitMix64).
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// A directory: its directories, and its files with their lengths.
#[derive(Default)]
pub(crate) struct Directory {
    pub(crate) directories: Vec<String>,
    pub(crate) files: Vec<(String, u64)>,
}

pub(crate) struct Tree(pub(crate) BTreeMap<String, Directory>);

impl Tree {
    pub(crate) fn new(seeded: &mut Seeded) -> Self {
        let mut tree = BTreeMap::from([(String::new(), Directory::default())]);
        for number in 0..seeded.below(12) {
            let parents: Vec<String> = tree.keys().cloned().collect();
            let parent =
                &parents[usize::try_from(seeded.below(parents.len() as u64)).expect("small")];
            let path = join(parent, &format!("d{number}"));
            tree.get_mut(parent)
                .expect("there")
                .directories
                .push(path.clone());
            tree.insert(path, Directory::default());
        }
        for (path, directory) in &mut tree {
            for number in 0..seeded.below(6) {
                let bytes = match seeded.below(4) {
                    0 => PART + 1 + seeded.below(4 * PART),
                    _ => 1 + seeded.below(PART),
                };
                directory
                    .files
                    .push((join(path, &format!("f{number}")), bytes));
            }
        }
        Self(tree)
    }

    pub(crate) fn files(&self) -> BTreeMap<String, u64> {
        let files = self.0.values().flat_map(|directory| directory.files.iter());
        files.cloned().collect()
    }
}

fn join(parent: &str, name: &str) -> String {
    match parent {
        "" => name.to_owned(),
        _ => format!("{parent}/{name}"),
    }
}

/// In which of so many shares of its directory a name is.
pub(crate) fn share_of(path: &str, shares: u32) -> u32 {
    let sum: u32 = path.bytes().map(u32::from).sum();
    sum % shares
}

/// Directories with more entries than this are divided.
pub(crate) const ENTRIES_MAX: usize = 4;
