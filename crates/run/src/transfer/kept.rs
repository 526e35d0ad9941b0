//! Metadata of entries that could not be kept: counts for programs, one note for each kind for
//! users. Does not count.

use godwit_api::event::NotKept;
use godwit_engine::Snapshot;

/// The sum of both ends' counts.
pub(super) fn not_kept_of(ends: [Option<&Snapshot>; 2]) -> NotKept {
    let sum = |field: fn(&Snapshot) -> u64| ends.into_iter().flatten().map(field).sum();
    NotKept {
        owner: sum(|end| end.owners_lost),
        group: sum(|end| end.groups_lost),
        set_id: sum(|end| end.set_ids_lost),
        xattrs: sum(|end| end.xattrs_lost),
        security_xattrs: sum(|end| end.privileged_xattrs_lost),
        acls: sum(|end| end.acls_lost),
        hard_link: sum(|end| end.links_split),
        time: sum(|end| end.times_lost),
        mode: sum(|end| end.modes_lost),
    }
}

/// One line for each kind of metadata that was lost, with a remedy.
pub(super) fn notes(not_kept: &NotKept) -> Vec<String> {
    let kinds = [
        (
            not_kept.owner,
            "owner",
            "only a superuser can change owners, and an export must grant `owner`",
        ),
        (
            not_kept.group,
            "group",
            "only a superuser can set groups that the user is not in, and an export must grant `owner`",
        ),
        (
            not_kept.set_id,
            "set-id bits",
            "an export must grant `set-id`, and these bits are dropped if the owner or group changes",
        ),
        (
            not_kept.xattrs,
            "user attributes, all or some",
            "the file system of one side does not support these attributes, or they are too long",
        ),
        (
            not_kept.security_xattrs,
            "security and trusted attributes, all or some",
            "these attributes need a superuser on both sides, and an export must grant `security-xattrs`",
        ),
        (
            not_kept.acls,
            "access list",
            "the file system at the destination does not support access lists",
        ),
        (
            not_kept.hard_link,
            "hard link between their names",
            "hard links are kept only within one source, so name a directory that has all names; some file systems cannot hard-link symbolic links, devices and FIFOs",
        ),
        (
            not_kept.time,
            "time",
            "the file system at the destination does not keep these times exactly, so later runs compare contents",
        ),
        (
            not_kept.mode,
            "mode",
            "the file system at the destination accepts modes but does not keep them",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_reported_once_with_its_count() {
        let source = Snapshot {
            xattrs_lost: 1,
            ..Snapshot::default()
        };
        let destination = Snapshot {
            owners_lost: 1,
            xattrs_lost: 2,
            ..Snapshot::default()
        };
        let lost = not_kept_of([Some(&source), Some(&destination)]);
        let notes = notes(&lost);
        assert_eq!(notes.len(), 2);
        assert!(notes[0].starts_with("1 entry arrived without the owner: "));
        assert!(notes[1].starts_with("3 entries arrived without the user attributes, all or some"));
        assert!(super::notes(&not_kept_of([None, None])).is_empty());
    }
}
