//! Under which heading a setting is shown in `--help` and in the man pages.
//! Knows names only; a name that is not listed is shown among the general options.

/// A heading and the settings below it.
struct Group {
    heading: &'static str,
    names: &'static [&'static str],
}

/// In no order that matters: headings appear in the order of the settings table.
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
            "filter",
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
        heading: "Safety",
        names: &["encryption", "cipher", "digest", "no-sync", "verify"],
    },
    Group {
        heading: "Network",
        names: &[
            "limit",
            "streams",
            "retry-for",
            "handshake-deadline",
            "stall-deadline",
            "listen",
            "connections-per-peer",
            "connections-max",
            "rsh",
            "remote-command",
            "data-ports",
            "via-ssh",
        ],
    },
    Group {
        heading: "Use of this machine",
        names: &["threads", "readers", "writers", "block-size", "memory"],
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
];

/// The heading of the setting `name`; None for the general options.
#[must_use]
pub fn heading(name: &str) -> Option<&'static str> {
    GROUPS
        .iter()
        .find(|group| group.names.contains(&name))
        .map(|group| group.heading)
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
    }
}
