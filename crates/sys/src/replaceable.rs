//! Finds the other users that could replace a path: through a directory above it, or a link on it.
//! Does not decide who may; looks at owners, permissions, groups and access lists.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::accounts;

/// Most links on a path, as in the kernel.
const LINKS_MAX: u32 = 40;

/// Largest access list that is read; file systems bound theirs to some kilobytes.
const ACL_BYTES_MAX: usize = 64 << 10;
const ACL_USER: u16 = 0x02;
const ACL_OWNING_GROUP: u16 = 0x04;
const ACL_GROUP: u16 = 0x08;
/// The permission to write in an entry of an access list.
const WRITE: u8 = 2;

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
    /// The owner of the entry, by user id.
    Owner(u32),
    /// All users that these permissions let write.
    Writers(u32),
}

/// The first directory above `path`, or link on the way to it, by which another user than `user` and root could replace it.
/// The entry itself is left to the caller, unless it is a link.
///
/// # Errors
/// A directory or link on the path cannot be examined.
pub fn weakness(path: &Path, user: u32) -> io::Result<Option<Weakness>> {
    let mut links = LINKS_MAX;
    walk(&std::path::absolute(path)?, user, &mut links)
}

/// Whether others than the owner and root may change a file or the entries of a directory, as far as its permissions and its access list
/// say. A group with the name of the owner and no other member counts as the owner's own: many systems let it write by default.
#[must_use]
pub fn is_open(path: &Path, meta: &Metadata) -> bool {
    if meta.mode() & 0o002 != 0 {
        return true;
    }
    // With an access list these bits bound all groups and all named users.
    meta.mode() & 0o020 != 0
        && match named_writers(path) {
            Ok(writers) => {
                let is_owner = |uid: u32| uid == meta.uid() || uid == ROOT;
                let by_user = writers.users.iter().any(|uid| !is_owner(*uid));
                let mut groups = writers.groups.iter().copied();
                let own_writes = writers.owning_group.then_some(meta.gid());
                by_user
                    || groups.any(is_other_group(meta))
                    || own_writes.is_some_and(is_other_group(meta))
            }
            Err(_unreadable) => true,
        }
}

/// Whether a group has members beside the owner.
fn is_other_group(meta: &Metadata) -> impl Fn(u32) -> bool {
    let uid = meta.uid();
    move |gid| {
        let owner = accounts::user_name(uid);
        let is_own = owner.is_some() && owner == accounts::group_name(gid);
        !is_own || !accounts::is_alone_in(uid, gid)
    }
}

/// The users and groups that the access list of an entry lets write, as far as its mask allows.
struct Writers {
    users: Vec<u32>,
    groups: Vec<u32>,
    owning_group: bool,
}

/// Reads the access list of an entry; without one, the permissions of the owning group count.
fn named_writers(path: &Path) -> io::Result<Writers> {
    let mut value = vec![0; ACL_BYTES_MAX];
    let length = match rustix::fs::getxattr(path, "system.posix_acl_access", &mut value[..]) {
        Ok(length) => length,
        Err(Errno::NODATA | Errno::OPNOTSUPP) => {
            return Ok(Writers {
                users: Vec::new(),
                groups: Vec::new(),
                owning_group: true,
            });
        }
        Err(error) => return Err(error.into()),
    };
    writers_in(&value[..length]).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The writers of an access list in the kernel's form: a version, then tag, permissions and id of each entry.
fn writers_in(value: &[u8]) -> Option<Writers> {
    let (version, rest) = value.split_first_chunk()?;
    let (entries, []) = rest.as_chunks::<8>() else {
        return None;
    };
    if u32::from_le_bytes(*version) != 2 {
        return None;
    }
    let mut writers = Writers {
        users: Vec::new(),
        groups: Vec::new(),
        owning_group: false,
    };
    for [tag, tag_high, permissions, _, id @ ..] in entries {
        if permissions & WRITE == 0 {
            continue;
        }
        let id = u32::from_le_bytes(*id);
        match u16::from_le_bytes([*tag, *tag_high]) {
            ACL_USER => writers.users.push(id),
            ACL_GROUP => writers.groups.push(id),
            ACL_OWNING_GROUP => writers.owning_group = true,
            _ => {}
        }
    }
    Some(writers)
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
                .ok_or_else(|| io::Error::from(Errno::LOOP))?;
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

/// Whether this is the id that a user namespace shows for unmapped users. No process of the namespace is such a user.
fn is_unmapped(uid: u32) -> bool {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let map = read("/proc/self/uid_map");
    let is_whole = map.split_whitespace().eq(["0", "0", "4294967295"]);
    !is_whole && read("/proc/sys/kernel/overflowuid").trim() == uid.to_string()
}

/// In a sticky directory others cannot replace entries of the user or of root; the owner of the next entry is looked at, too.
fn of_directory(path: &Path, meta: &Metadata, user: u32) -> Option<Weakness> {
    let open = || {
        let is_weak = is_open(path, meta) && meta.mode() & STICKY == 0;
        is_weak.then(|| Weakness {
            path: path.to_owned(),
            by: Others::Writers(meta.mode() & 0o777),
        })
    };
    of_owner(path, meta, user).or_else(open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_list_in_another_form_is_not_read() {
        assert!(writers_in(b"\x03\0\0\0").is_none());
        assert!(writers_in(b"\x02\0\0\0\0").is_none());
        assert!(
            writers_in(b"\x02\0\0\0\x08\0\x07\0\x01\0\0\0").is_some_and(|read| read.groups == [1])
        );
    }
}
