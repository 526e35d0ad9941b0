//! Files that a run itself writes and that may lie in the trees that it reads: reports, and their drafts.
//! Writes none of them.
//!
//! A scan leaves new reports and drafts out, and announces them as passed over where the receiver deletes.

use std::sync::atomic::{AtomicBool, Ordering};

use godwit_store::Meta;

/// A few files, known by device and inode whatever name leads to them.
#[derive(Debug, Default)]
pub struct OwnFiles(Vec<OwnFile>);

#[derive(Debug)]
struct OwnFile {
    key: (u64, u64),
    met: AtomicBool,
    has_other_names: AtomicBool,
}

impl OwnFiles {
    /// The files with these devices and inodes.
    pub fn new(keys: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let files = keys.into_iter().map(|key| OwnFile {
            key,
            met: AtomicBool::new(false),
            has_other_names: AtomicBool::new(false),
        });
        Self(files.collect())
    }

    /// Whether a scan came across the file with this number in the order in which they were given, and whether that had other
    /// names, which are left out with it.
    pub fn met(&self, number: usize) -> (bool, bool) {
        self.0.get(number).map_or((false, false), |file| {
            let of = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
            (of(&file.met), of(&file.has_other_names))
        })
    }

    /// Whether this is one of them. Notes that it was met.
    pub(crate) fn has(&self, meta: &Meta) -> bool {
        let key = (meta.device, meta.inode);
        let Some(file) = self.0.iter().find(|file| file.key == key) else {
            return false;
        };
        file.met.store(true, Ordering::Relaxed);
        if meta.links > 1 {
            file.has_other_names.store(true, Ordering::Relaxed);
        }
        true
    }
}
