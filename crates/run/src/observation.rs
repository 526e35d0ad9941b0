//! Describes a directory so that another node can find out whether both see the same one: see `godwit_api::observation`. Does not compare.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use godwit_api::observation::OBSERVED_ENTRIES_MAX;
use godwit_store::TempName;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, Dir, fstat, statat};

/// Most names of a directory that are examined.
const LISTED_MAX: usize = 100_000;

/// Inodes of the chosen entries of a directory, according to this node.
///
/// # Errors
/// The directory cannot be listed.
pub fn observe(directory: impl AsFd) -> io::Result<Vec<u64>> {
    let directory = directory.as_fd();
    let mut chosen = Chosen::like(None);
    for entry in Dir::read_from(directory)?.take(LISTED_MAX) {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if ![&b"."[..], b".."].contains(&name) {
            chosen.add(name);
        }
    }
    let inode_of = |name: &[u8]| {
        let there = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        there.ok().map(|there| there.st_ino)
    };
    Ok(chosen.observation(fstat(directory)?.st_ino, inode_of))
}

/// The chosen entries: those with the smallest hashes, so that all nodes choose the same ones, or those of an earlier observation.
pub(crate) struct Chosen {
    wanted: Option<BTreeSet<u64>>,
    names: BTreeMap<u64, Vec<u8>>,
}

impl Chosen {
    pub(crate) fn like(earlier: Option<&[u64]>) -> Self {
        let hashes = earlier.and_then(|observation| {
            let (_, entries) = observation.split_first()?;
            let entries = entries.as_chunks::<2>().0;
            (!entries.is_empty()).then(|| entries.iter().map(|[hash, _]| *hash).collect())
        });
        Self {
            wanted: hashes,
            names: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, name: &[u8]) {
        let hash = hash(name);
        let is_wanted = self
            .wanted
            .as_ref()
            .is_none_or(|wanted| wanted.contains(&hash));
        if is_wanted && !TempName::is_temp(name) {
            self.names.insert(hash, name.to_vec());
        }
        if self.names.len() > OBSERVED_ENTRIES_MAX {
            self.names.pop_last();
        }
    }

    pub(crate) fn observation(
        self,
        inode: u64,
        inode_of: impl Fn(&[u8]) -> Option<u64>,
    ) -> Vec<u64> {
        let mut observation = vec![inode];
        for (hash, name) in self.names {
            observation.extend(inode_of(&name).into_iter().flat_map(|inode| [hash, inode]));
        }
        observation
    }
}

fn hash(name: &[u8]) -> u64 {
    let mut hash = [0; 8];
    hash.copy_from_slice(&blake3::hash(name).as_bytes()[..8]);
    u64::from_le_bytes(hash)
}
