//! Applies the selection of a transfer between a scan and the entries of one root, and counts the skipped entries. Does not
//! evaluate the rules; `select` does.

use std::sync::Arc;

use godwit_engine::Counters;
use godwit_store::{Choice, Meta, Pick, RelPath};

use crate::files::read::source::TreeRoot;
use crate::select::Select;

/// A selection, and the counters for skipped entries.
#[derive(Clone)]
pub struct Selecting {
    /// The selection rules.
    pub select: Arc<Select>,
    /// Counters of the sending end.
    pub counters: Arc<Counters>,
    /// Whether entries skipped by limits are announced as skipped, because the receiver deletes unknown entries.
    pub announces_passed: bool,
}

impl Selecting {
    /// A selection of all entries.
    pub fn all() -> Self {
        Self {
            select: Arc::default(),
            counters: Arc::default(),
            announces_passed: false,
        }
    }

    /// Whether the rules select an entry below a root, if all directories above it are selected.
    pub(crate) fn takes_name(&self, below: &[u8], is_directory: bool) -> bool {
        let taken = !self.select.leaves_out(below, is_directory);
        self.counters.entries_excluded.add(u64::from(!taken));
        taken
    }

    /// Whether the limits skip an entry with this metadata. Counts skipped entries.
    pub(crate) fn passes_over(&self, meta: &Meta) -> bool {
        let passed = self.select.passes_over(meta);
        self.counters.entries_excluded.add(u64::from(passed));
        passed
    }

    /// Whether a root that is not a directory is selected; its own name decides.
    pub(crate) fn takes_root(&self, start: &RelPath) -> bool {
        self.takes_name(start.file_name().unwrap_or_default(), false)
    }

    /// Whether another file system is mounted at this path below a root, so that its contents are skipped.
    pub(crate) fn ends_at(&self, root: &TreeRoot, path: &RelPath) -> bool {
        self.select.keeps_to_one_file_system() && *path != root.start && root.storage.is_mount(path)
    }

    /// The choice for a scan of `root`; `None` if the scan includes all entries.
    pub(crate) fn choice(&self, root: &TreeRoot) -> Option<Arc<dyn Choice>> {
        let asks = self.select.has_rules() || self.select.keeps_to_one_file_system();
        asks.then(|| self.choice_in(root, false))
    }

    /// The choice for a scan below `root`; with `flat` the scan does not enter directories.
    pub(crate) fn choice_in(&self, root: &TreeRoot, flat: bool) -> Arc<dyn Choice> {
        Arc::new(RootChoice {
            selecting: self.clone(),
            root: root.clone(),
            flat,
        })
    }
}

struct RootChoice {
    selecting: Selecting,
    root: TreeRoot,
    flat: bool,
}

impl Choice for RootChoice {
    fn pick(&self, path: &RelPath, is_directory: bool) -> Pick {
        if !self
            .selecting
            .takes_name(self.root.below(path), is_directory)
        {
            Pick::Leave
        } else if self.flat || is_directory && self.selecting.ends_at(&self.root, path) {
            Pick::TakeAlone
        } else {
            Pick::Take
        }
    }
}
