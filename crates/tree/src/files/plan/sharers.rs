//! Finds entries that are separate at the source but one file with several names at the destination. Does not separate them; the caller
//! requests or makes the second one again.
//!
//! Names that this run does not announce do not count, so a tree may share files with an older copy.

use std::sync::Mutex;

use godwit_engine::lock;
use godwit_proto::Record;
use godwit_store::Meta;
use godwit_store::seen::SeenSet;
use godwit_store::spill::SpillRoom;

/// Files with several names that entries of this run keep.
pub(crate) struct Sharers(Mutex<SeenSet>);

impl Sharers {
    /// An empty set; keys that do not fit in memory go to a nameless file in `room`.
    pub(crate) fn new(room: &SpillRoom) -> Self {
        Self(Mutex::new(SeenSet::new(room)))
    }

    /// Whether another entry of this run already keeps the existing file. If not, this entry keeps it from now on. If that cannot be
    /// recorded, nothing is separated.
    pub(crate) fn is_anothers(&self, record: &Record, there: &Meta) -> bool {
        if there.links < 2 {
            return false;
        }
        let file = [there.device.to_le_bytes(), there.inode.to_le_bytes()].concat();
        let entry = [&file[..], &record.root.to_le_bytes(), &record.path].concat();
        let mut seen = lock(&self.0);
        // The same entry may be announced again, for example with its digest.
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
