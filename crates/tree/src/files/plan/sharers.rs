//! Finds entries that the source has apart and the destination as one file with several names.
//! Separates none: the caller has the second one sent or made again.
//!
//! Names that this run does not announce do not count: a tree that shares its files with an older copy keeps doing so.

use std::path::Path;
use std::sync::Mutex;

use godwit_engine::lock;
use godwit_proto::Record;
use godwit_store::Meta;
use godwit_store::seen::SeenSet;

/// Files of several names that entries of this run keep.
pub(crate) struct Sharers(Mutex<SeenSet>);

impl Sharers {
    /// No sharers yet; keys that do not fit in memory go to a nameless file in `directory`.
    pub(crate) fn new(directory: &Path) -> Self {
        Self(Mutex::new(SeenSet::new(directory)))
    }

    /// Whether another entry of this run keeps the existing file. If none does, this one does from now on. If that cannot be remembered,
    /// nothing is separated.
    pub(crate) fn is_anothers(&self, record: &Record, there: &Meta) -> bool {
        if there.links < 2 {
            return false;
        }
        let file = [there.device.to_le_bytes(), there.inode.to_le_bytes()].concat();
        let entry = [&file[..], &record.root.to_le_bytes(), &record.path].concat();
        let mut seen = lock(&self.0);
        // The entry may be announced again, with its digest for example.
        if !matches!(seen.contains(&entry), Ok(false)) {
            return false;
        }
        match seen.insert(&file) {
            Ok(true) => {
                let _ = seen.insert(&entry);
                false
            }
            Ok(false) => true,
            Err(_) => false,
        }
    }
}
