//! Under which heading a setting is shown in `--help` and in the man pages.
//! Knows names only; a name that is not listed is shown among the general options.

/// A heading and the settings below it.
struct Group {
    heading: &'static str,
    names: &'static [&'static str],
}

/// In the order in which a reader wants to see them, names below a heading as well.
const GROUPS: &[Group] = &[
    Group {
        heading: "What is done with entries that are there",
        names: &[
            "force",
            "checksum",
            "size-only",
            "update",
            "existing",
            "ignore-existing",
            "delete",
            "max-delete",
            "dry-run",
        ],
    },
    Group {
        heading: "Choosing entries",
        names: &[
            "exclude",
            "include",
            "exclude-from",
            "include-from",
            "min-size",
            "max-size",
            "newer",
            "older",
            "files-from",
            "from0",
            "recursive",
        ],
    },
    Group {
        heading: "Metadata",
        names: &[
            "owner",
            "group",
            "numeric-ids",
            "xattrs",
            "acls",
            "specials",
            "archive",
            "strict",
        ],
    },
    Group {
        heading: "Reports",
        names: &[
            "json",
            "verbose",
            "stats",
            "manifest",
            "manifest-sorted",
            "sign",
            "failed",
            "log-file",
        ],
    },
    Group {
        heading: "Safety",
        names: &["encryption", "cipher", "digest", "no-sync", "verify"],
    },
    Group {
        heading: "Network",
        names: &[
            "limit",
            "priority",
            "congestion",
            "streams",
            "retry-for",
            "handshake-deadline",
            "stall-deadline",
            "channel",
            "announce",
            "listen",
            "connections-per-peer",
            "connections-max",
            "transfers-per-peer",
            "transfers-max",
            "keep-for",
            "rsh",
            "remote-command",
            "data-ports",
            "via-ssh",
        ],
    },
    Group {
        heading: "Use of this machine",
        names: &[
            "threads",
            "pin",
            "readers",
            "writers",
            "direct",
            "block-size",
            "memory",
        ],
    },
];

/// The heading of the setting `name`; None for the general options.
#[must_use]
pub fn heading(name: &str) -> Option<&'static str> {
    GROUPS
        .iter()
        .find(|group| group.names.contains(&name))
        .map(|group| group.heading)
}

/// Where a setting stands in a list that is ordered by headings; general options come first.
#[must_use]
pub fn rank(name: &str) -> usize {
    let mut names = GROUPS.iter().flat_map(|group| group.names);
    names.position(|one| *one == name).map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_name_is_under_one_heading() {
        let names: Vec<_> = GROUPS.iter().flat_map(|group| group.names).collect();
        let different: HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        assert_eq!(heading("streams"), Some("Network"));
        assert_eq!(heading("no such"), None);
        assert!(rank("no such") < rank("delete") && rank("delete") < rank("streams"));
    }
}
