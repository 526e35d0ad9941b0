//! What could not be kept of entries' metadata: counts for programs, one note for each kind for people.
//! Counts nothing itself.

use godwit_engine::Snapshot;
use serde::Serialize;

/// Entries that arrived without something that was to be kept, by its kind.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(crate) struct NotKept {
    /// The user that they belong to.
    pub(crate) owner: u64,
    /// The group that they belong to.
    pub(crate) group: u64,
    /// Set-user-id and set-group-id bits.
    pub(crate) set_id: u64,
    /// One or more `user.*` attributes.
    pub(crate) xattrs: u64,
    /// One or more `security.*` or `trusted.*` attributes.
    pub(crate) security_xattrs: u64,
    /// An access list.
    pub(crate) acls: u64,
    /// The link to a name of theirs in another source.
    pub(crate) hard_link: u64,
}

impl NotKept {
    /// What both ends counted.
    pub(crate) fn of(ends: [Option<&Snapshot>; 2]) -> Self {
        let sum = |field: fn(&Snapshot) -> u64| ends.into_iter().flatten().map(field).sum();
        Self {
            owner: sum(|end| end.owners_lost),
            group: sum(|end| end.groups_lost),
            set_id: sum(|end| end.set_ids_lost),
            xattrs: sum(|end| end.xattrs_lost),
            security_xattrs: sum(|end| end.privileged_xattrs_lost),
            acls: sum(|end| end.acls_lost),
            hard_link: sum(|end| end.links_split),
        }
    }

    /// One line for each kind, with what would help.
    pub(crate) fn notes(&self) -> Vec<String> {
        let kinds = [
            (
                self.owner,
                "owner",
                "only a superuser gives files away, and an export must grant owner",
            ),
            (
                self.group,
                "group",
                "only a superuser gives files to groups of others, and an export must grant owner",
            ),
            (
                self.set_id,
                "set-id bits",
                "an export must grant set-id, and they go where the owner or group is another",
            ),
            (
                self.xattrs,
                "user attributes, or some of them",
                "the file system of one side does not hold them, or they are too long",
            ),
            (
                self.security_xattrs,
                "security and trusted attributes, or some of them",
                "they take a superuser on both sides, and an export must grant security-xattrs",
            ),
            (
                self.acls,
                "access list",
                "the file system at the destination does not hold it",
            ),
            (
                self.hard_link,
                "hard link to a name in another source",
                "the names of a file stay one file within one source: name a directory that has them all",
            ),
        ];
        kinds
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, what, why)| {
                let entries = if count == 1 { "entry" } else { "entries" };
                format!("{count} {entries} arrived without the {what}: {why}")
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_once_with_its_count() {
        let source = Snapshot {
            xattrs_lost: 1,
            ..Snapshot::default()
        };
        let destination = Snapshot {
            owners_lost: 1,
            xattrs_lost: 2,
            ..Snapshot::default()
        };
        let lost = NotKept::of([Some(&source), Some(&destination)]);
        let notes = lost.notes();
        assert_eq!(notes.len(), 2);
        assert!(notes[0].starts_with("1 entry arrived without the owner: "));
        assert!(notes[1].starts_with("3 entries arrived without the user attributes, or some"));
        assert!(NotKept::of([None, None]).notes().is_empty());
    }
}
