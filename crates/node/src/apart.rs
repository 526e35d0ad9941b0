//! Decides whether the exports of a node lie apart from the files that decide its rights: its home, and the key of its API.
//! Exports none of them, and reads no content.
//!
//! The process of the node owns these files, so no mode keeps a peer out that may read or write an export above them. A place may be named
//! by links. A link can be replaced by anyone who may write where it lies. So each link and directory on the path counts like the place
//! itself. Exports may contain mounts: what a mount shows lies in the export.

mod mounts;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use mounts::Mounts;

/// Most links on the path to one place; the kernel follows 40.
const LINKS_MAX: usize = 40;

/// The fault of an export that contains one of the node's own places, or lies in one. A place that is not there yet is judged by the
/// directories above it. Directories are compared by path, and by device and inode, so that a second mount of a directory counts, too.
pub(crate) fn trouble(export: &Path, own: &[&Path]) -> Option<String> {
    trouble_by(export, own, &Mounts::read())
}

fn trouble_by(export: &Path, own: &[&Path], mounts: &Mounts) -> Option<String> {
    let meets = |place: &&&Path| {
        let way = Resolved::of(place);
        let is_in = |at: &PathBuf| is_above(export, at) || mounts.shows(export, at);
        way.passed.iter().any(is_in) || is_above(&way.end, export)
    };
    let place = own.iter().find(meets)?.display();
    Some(format!(
        "this directory and {place} overlap; {place} has the keys and access rules of this node. \
         Export a directory beside it, or keep the node's files elsewhere (GODWIT_HOME)"
    ))
}

/// A path with all its links resolved.
struct Resolved {
    /// The place, and the links and directories on its path, each below its real directory.
    passed: Vec<PathBuf>,
    /// The real path of the place. Parts that are not there yet stay as they are named.
    end: PathBuf,
}

impl Resolved {
    fn of(place: &Path) -> Self {
        let named = std::path::absolute(place).unwrap_or_else(|_error| place.to_owned());
        let mut way = Self {
            passed: Vec::new(),
            end: PathBuf::from("/"),
        };
        let mut links = 0;
        let mut left: VecDeque<OsString> = names(&named);
        while let Some(name) = left.pop_front() {
            if name == ".." {
                way.end.pop();
                continue;
            }
            let next = way.end.join(&name);
            way.passed.push(next.clone());
            match fs::read_link(&next) {
                Ok(target) if links < LINKS_MAX => {
                    links += 1;
                    if target.is_absolute() {
                        way.end = PathBuf::from("/");
                    }
                    for name in names(&target).into_iter().rev() {
                        left.push_front(name);
                    }
                }
                _ => way.end = next,
            }
        }
        way
    }
}

/// The names of a path; `..` is one of them.
fn names(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.collect()
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
    // The last part may be a link, which leads elsewhere.
    let own = fs::symlink_metadata(below).ok();
    let is_link = own.is_some_and(|meta| meta.is_symlink());
    below
        .ancestors()
        .skip(usize::from(is_link))
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

    #[test]
    fn a_link_to_the_nodes_own_files_does_not_lie_in_an_export() {
        let top = tempfile::tempdir().expect("a directory");
        let top = fs::canonicalize(top.path()).expect("its real path");
        let at = |path: &str| top.join(path);
        for directory in ["export/sub", "beside", "own/godwit"] {
            fs::create_dir_all(at(directory)).expect("made");
        }
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(to, at(name)).expect("made");
        };
        // A writer in the export replaces it by a directory with a file `grants`.
        link("../own/godwit", "export/link");
        link("../../own", "export/sub/up");
        link("../export/link", "beside/over");
        link("../export/sub", "beside/sub");
        link("../own/godwit", "beside/apart");
        link("/no/such/place", "beside/nowhere");
        link("beside/loop", "loop");
        link("../loop", "beside/loop");
        for (own, is_apart) in [
            ("export/link", false),
            ("export/link/key.pem", false),
            ("export/sub/up/godwit", false),
            ("beside/over", false),
            ("beside/sub/up/godwit", false),
            ("beside/sub/../../own/godwit", false),
            ("beside/apart", true),
            ("beside/nowhere", true),
            ("loop", true),
            ("own/godwit", true),
        ] {
            let found = trouble(&at("export"), &[at(own).as_path()]);
            assert_eq!(found.is_none(), is_apart, "{own}: {found:?}");
        }
    }

    #[test]
    fn a_mount_below_an_export_shows_what_it_mounts() {
        // The root file system is mounted below the export once more, and so is a part of it.
        let below = |line: &str| {
            let text = format!(
                "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 8:2 / /srv rw - ext4 /dev/sda2 rw\n{line}\n"
            );
            Mounts::of(text.as_bytes())
        };
        let home = Path::new("/var/lib/godwit");
        for (line, is_apart) in [
            ("", true),
            ("31 30 8:1 / /srv/data/root rw - ext4 /dev/sda1 rw", false),
            (
                "31 30 8:1 /var /srv/data/a\\040b rw - ext4 /dev/sda1 rw",
                false,
            ),
            (
                "31 30 8:1 /var/lib/godwit/state /srv/data/x rw - ext4 /dev/sda1 rw",
                true,
            ),
            ("31 30 8:1 /usr /srv/data/usr rw - ext4 /dev/sda1 rw", true),
            ("31 30 8:1 / /srv/database rw - ext4 /dev/sda1 rw", true),
            ("31 30 8:3 / /srv/data/other rw - ext4 /dev/sda3 rw", true),
            // The export itself is on a mount that shows a part of the root file system.
            ("31 30 8:1 /var /srv/data rw - ext4 /dev/sda1 rw", false),
        ] {
            let found = trouble_by(Path::new("/srv/data"), &[home], &below(line));
            assert_eq!(found.is_none(), is_apart, "{line}: {found:?}");
        }
    }
}
