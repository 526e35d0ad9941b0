//! Identifies files that a run itself writes and that may lie in the trees that it reads: reports and their drafts. Does not
//! write them.
//!
//! A scan leaves out new reports and drafts. It announces them as skipped if the receiver deletes.

use std::sync::atomic::{AtomicBool, Ordering};

use godwit_store::Meta;

/// A few files, identified by device and inode, with any names.
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

    /// Whether a scan found the file with this number in the order of `new`, and whether the file had other names. The names of
    /// such files are left out, too.
    pub fn met(&self, number: usize) -> (bool, bool) {
        self.0.get(number).map_or((false, false), |file| {
            let of = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
            (of(&file.met), of(&file.has_other_names))
        })
    }

    /// Whether this is one of the files. If so, records that it was found.
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
