//! Decides whether the exports of a node lie apart from the files that decide its rights: its home, and the key of its API.
//! Exports none of them, and reads no content.
//!
//! The process of the node owns these files, so no mode keeps a peer out that may read or write an export above them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The fault of an export that contains one of the node's own places, or lies in one. A place that is not there yet is judged by the
/// directories above it. Directories are compared by path, and by device and inode, so that a second mount of a directory counts, too.
pub(crate) fn trouble(export: &Path, own: &[&Path]) -> Option<String> {
    let meets = |place: &&&Path| {
        let place = absolute(place);
        is_above(export, &place) || is_above(&place, export)
    };
    let place = own.iter().find(meets)?.display();
    Some(format!(
        "this directory and {place} lie in each other; the files there decide who may do what at this node, and its keys are among them. \
         Export a directory beside it, or keep the node's files elsewhere (GODWIT_HOME)"
    ))
}

/// The real path of a place, or of the nearest directory above it that is there.
fn absolute(place: &Path) -> std::path::PathBuf {
    let real = place.ancestors().find_map(|above| {
        let real = fs::canonicalize(above).ok()?;
        let rest = place.strip_prefix(above).ok()?;
        Some(real.join(rest))
    });
    real.unwrap_or_else(|| place.to_owned())
}

/// Whether `above` is `below`, or a directory above it.
fn is_above(above: &Path, below: &Path) -> bool {
    if below.starts_with(above) {
        return true;
    }
    let identity = |path: &Path| {
        let meta = fs::metadata(path).ok()?;
        Some((meta.dev(), meta.ino()))
    };
    let Some(wanted) = identity(above) else {
        return false;
    };
    below
        .ancestors()
        .any(|ancestor| identity(ancestor) == Some(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_and_the_nodes_own_files_do_not_lie_in_each_other() {
        let top = tempfile::tempdir().expect("a directory");
        let at = |path: &str| top.path().join(path);
        for directory in ["home/state", "data", "homely"] {
            fs::create_dir_all(at(directory)).expect("made");
        }
        std::os::unix::fs::symlink(at("home"), at("link")).expect("made");
        let (home, key) = (at("home"), at("keys/not/there/yet.pem"));
        let own = [home.as_path(), key.as_path()];
        for (export, is_apart) in [
            ("data", true),
            ("homely", true),
            ("", false),
            ("home", false),
            ("home/state", false),
        ] {
            let found = trouble(&at(export), &own);
            assert_eq!(found.is_none(), is_apart, "{export}: {found:?}");
        }
        // The home is named by a link.
        let by_link = at("link");
        assert!(trouble(&at("home/state"), &[by_link.as_path()]).is_some());
        // The key alone is below.
        fs::create_dir_all(at("keys/not")).expect("made");
        assert!(trouble(&at("keys"), &own).is_some());
        let said = trouble(top.path(), &own).expect("refused");
        assert!(said.contains("GODWIT_HOME"), "{said}");
    }
}
