//! Reports entries that only the destination has: by name, or only their number if the peer may not list them. Removes nothing.

use godwit_engine::{Ending, entry};
use godwit_proto::{EntryKind, Notice, NoticeKind, Seq, Side};
use godwit_store::{StoreError, TempName};

use super::Deleter;
use crate::files::target::below;

/// Replaces the name of an entry that only the destination has, if the peer may not list it.
const HIDDEN: &str = "(a name that you may not list)";

impl Deleter<'_> {
    /// Counts and reports that an entry was removed, or would be. A directory with a temporary name belongs to a node, not to a user:
    /// each closer of a job makes one, and removes those of the others. It is not reported.
    pub(super) fn report_deleted(&self, entry: EntryKind, path: &[u8], ending: &mut Ending<'_>) {
        let name = path.rsplit(|byte| *byte == b'/').next();
        if entry == EntryKind::DIRECTORY && name.is_some_and(TempName::is_temp) {
            return;
        }
        self.target.counters.entries_deleted.add(1);
        let (entry, text) = match self.target.config.hides_names {
            true => (EntryKind::FILE, HIDDEN.as_bytes()),
            false => (entry, path),
        };
        ending.notify(Notice {
            kind: NoticeKind::DELETED,
            entry,
            root: 0,
            text: text.to_vec(),
        });
    }

    /// Returns `open`, a text that names extra entries of the destination, or `hidden` if the peer may not list them.
    pub(super) fn open_or<'a>(&self, open: &'a str, hidden: &'a str) -> &'a str {
        match self.target.config.hides_names {
            true => hidden,
            false => open,
        }
    }

    /// Reports a fault of an entry that only the destination has.
    pub(super) fn fault_there(&self, error: &StoreError) {
        let fault = entry::fault(self.nobody(), Side::DESTINATION, error);
        if self.target.config.hides_names {
            let message = "extra entries at the destination were kept; the right to list the destination is needed to see their names";
            self.refuse(fault.code, message.to_owned());
            return;
        }
        let base = self.target.base();
        let shown = self.target.shown(&error.path);
        self.target
            .acks
            .fault(Seq(0), fault, 0, below(&base, &error.path), &shown);
    }
}
