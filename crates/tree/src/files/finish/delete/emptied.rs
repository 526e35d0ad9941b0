//! Refuses a deletion that would empty the destination because the source is empty. Removes nothing.

use godwit_engine::Ending;
use godwit_proto::Notice;

use super::Deleter;
use crate::files::plan::announced::Extras;

impl Deleter<'_> {
    /// Whether an empty source would empty the destination, and the user has set no maximum number of deletions. Such a source is
    /// often a file system that is not mounted.
    pub(super) fn would_empty(&self, extras: &Extras, ending: &mut Ending<'_>) -> bool {
        let comparison = self.target.comparison();
        let would =
            extras.count > 0 && comparison.max_delete.is_none() && self.agenda.announced.is_bare();
        if would && comparison.dry_run {
            ending.notify(Notice::note(
                "the source is empty: without --max-delete all of this would be refused",
            ));
        }
        would && !comparison.dry_run
    }
}
