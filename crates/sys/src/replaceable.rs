//! Finds who else could put another file or directory in place of a path: by a directory above it, or by a link on the way.
//! Does not decide who may; looks at owners and permissions alone, not at access lists.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::accounts;

/// Most links on the way, as in the kernel.
const LINKS_MAX: u32 = 40;

const ROOT: u32 = 0;
const STICKY: u32 = 0o1000;

/// A directory or link through which another user could replace what stands below it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Weakness {
    /// The directory or link.
    pub path: PathBuf,
    /// The users that could use it.
    pub by: Others,
}

impl Weakness {
    /// The fault in words, and a remedy; `shown` names the entry that another user could replace.
    #[must_use]
    pub fn words(&self, shown: &str) -> String {
        let at = self.path.display();
        match self.by {
            Others::Owner(uid) => format!(
                "{at} belongs to another user (uid {uid}), who could put another one in place of {shown}; choose a place below your own directories"
            ),
            Others::Writers(mode) => format!(
                "other users may write in {at} (mode {mode:03o}), and could put another one in place of {shown}; forbid this with: chmod go-w {at}"
            ),
        }
    }
}

/// Users that could replace an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Others {
    /// The owner, with this id.
    Owner(u32),
    /// All users that these permissions let write.
    Writers(u32),
}

/// The first directory above `path`, or link on the way to it, by which another user than `user` and root could replace it.
/// The entry itself is left to the caller, unless it is a link.
///
/// # Errors
/// A directory or link on the way cannot be looked at.
pub fn weakness(path: &Path, user: u32) -> io::Result<Option<Weakness>> {
    let mut links = LINKS_MAX;
    walk(&std::path::absolute(path)?, user, &mut links)
}

/// Whether others than the owner and root may change a file or the entries of a directory, as far as its permissions say. A group
/// with the name of the owner counts as the owner's own: many systems let it write by default.
#[must_use]
pub fn is_open(meta: &Metadata) -> bool {
    let by_group = meta.mode() & 0o020 != 0 && !is_own_group(meta);
    meta.mode() & 0o002 != 0 || by_group
}

fn is_own_group(meta: &Metadata) -> bool {
    let owner = accounts::user_name(meta.uid());
    owner.is_some() && owner == accounts::group_name(meta.gid())
}

fn walk(path: &Path, user: u32, links: &mut u32) -> io::Result<Option<Weakness>> {
    let mut above: Vec<&Path> = path.ancestors().collect();
    above.reverse();
    for place in above {
        let meta = fs::symlink_metadata(place)?;
        let is_last = place == path;
        if meta.is_symlink() {
            if let Some(found) = of_owner(place, &meta, user) {
                return Ok(Some(found));
            }
            *links = links
                .checked_sub(1)
                .ok_or_else(|| io::Error::from(rustix::io::Errno::LOOP))?;
            let target = fs::read_link(place)?;
            let base = place.parent().unwrap_or_else(|| Path::new("/"));
            let found = walk(&base.join(target), user, links)?;
            let there = fs::metadata(place)?;
            let found = found.or_else(|| match is_last {
                true => None,
                false => of_directory(place, &there, user),
            });
            if found.is_some() {
                return Ok(found);
            }
        } else if !is_last && let Some(found) = of_directory(place, &meta, user) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn of_owner(path: &Path, meta: &Metadata, user: u32) -> Option<Weakness> {
    let is_other = meta.uid() != user && meta.uid() != ROOT && !is_unmapped(meta.uid());
    is_other.then(|| Weakness {
        path: path.to_owned(),
        by: Others::Owner(meta.uid()),
    })
}

/// Whether this is the id that a user namespace shows for all users that it does not have. No process of the namespace is such a user.
fn is_unmapped(uid: u32) -> bool {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let map = read("/proc/self/uid_map");
    let is_whole = map.split_whitespace().eq(["0", "0", "4294967295"]);
    !is_whole && read("/proc/sys/kernel/overflowuid").trim() == uid.to_string()
}

/// In a sticky directory others cannot replace entries of the user or of root; the owner of the next entry is looked at, too.
fn of_directory(path: &Path, meta: &Metadata, user: u32) -> Option<Weakness> {
    let open = || {
        let is_weak = is_open(meta) && meta.mode() & STICKY == 0;
        is_weak.then(|| Weakness {
            path: path.to_owned(),
            by: Others::Writers(meta.mode() & 0o777),
        })
    };
    of_owner(path, meta, user).or_else(open)
}
