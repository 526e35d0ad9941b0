//! Owns seeded trees of directories and files, which are only names and lengths.
//! Divides nothing.

use std::collections::BTreeMap;

/// Larger files are copied in parts.
pub(crate) const PART: u64 = 100;

pub(crate) use godwit_seeded::Seeded;

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

/// The share of its directory that contains the name, out of `shares`.
pub(crate) fn share_of(path: &str, shares: u32) -> u32 {
    let sum: u32 = path.bytes().map(u32::from).sum();
    sum % shares
}

/// Larger directories are divided.
pub(crate) const ENTRIES_MAX: usize = 4;
