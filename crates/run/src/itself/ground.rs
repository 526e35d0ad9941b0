//! Finds the location of directories, independent of the path to them, and whether two ends overlap. Does not refuse transfers.
//! Opens no file that is mounted below an end, because a mount without its server would hang.
//!
//! A directory is identified in two ways: by device and inode, and by file system and path in that file system. The first finds two
//! spellings of one name; the second finds directories above the root of a bind mount.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use godwit_proto::Ground;
use godwit_proto::limits::GROUND_IDS_MAX;
use godwit_store::DirectoryId;
use rustix::fs::{Mode, OFlags, open};

use super::is_inside;

/// File systems without files of users. Two systems often have equal ones.
const PSEUDO: [&[u8]; 20] = [
    b"autofs",
    b"binfmt_misc",
    b"bpf",
    b"cgroup",
    b"cgroup2",
    b"configfs",
    b"debugfs",
    b"devpts",
    b"devtmpfs",
    b"efivarfs",
    b"fusectl",
    b"hugetlbfs",
    b"mqueue",
    b"nsfs",
    b"proc",
    b"pstore",
    b"rpc_pipefs",
    b"securityfs",
    b"sysfs",
    b"tracefs",
];

/// File systems that belong to one kernel. Another machine, or another mount with other numbers, cannot see them except through a
/// file system of another kind.
const OWN: [&[u8]; 17] = [
    b"bcachefs",
    b"btrfs",
    b"erofs",
    b"exfat",
    b"ext2",
    b"ext3",
    b"ext4",
    b"f2fs",
    b"iso9660",
    b"jfs",
    b"nilfs2",
    b"ntfs3",
    b"ramfs",
    b"squashfs",
    b"tmpfs",
    b"vfat",
    b"xfs",
];

/// How two ends overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meeting {
    /// The destination is the source, or is inside it.
    DestinationInside,
    /// The source, or a part of it, is inside the destination.
    SourceInside,
}

/// Whether and how one of these ends is inside the other. A source inside the destination matters only with `deletes`.
pub(super) fn meeting(source: &Ground, destination: &Ground, deletes: bool) -> Option<Meeting> {
    let meet = |tops: [&Vec<u64>; 2], others: &[&Vec<u64>]| {
        let tops: HashSet<&u64> = tops.into_iter().flatten().collect();
        others.iter().copied().flatten().any(|id| tops.contains(id))
    };
    let sources = [&source.tops, &source.mounts];
    let destinations = [&destination.tops, &destination.mounts];
    if meet(sources, &[&destination.tops, &destination.around]) {
        return Some(Meeting::DestinationInside);
    }
    let around = [&source.around, &source.mounts_around];
    let mounted = [&destination.mounts, &destination.mounts_around];
    let inside = deletes
        && (meet(destinations, &[&sources[..], &around].concat()) || meet(sources, &mounted));
    inside.then_some(Meeting::SourceInside)
}

/// Whether and how one end seems to be inside the other, judged by the attributes of their directories.
pub(super) fn likeness(source: &Ground, destination: &Ground, deletes: bool) -> Option<Meeting> {
    let meet = |tops: &[u64], others: [&[u64]; 2]| {
        let mut others = others.into_iter().flatten();
        others.any(|id| tops.contains(id))
    };
    if meet(
        &source.alike,
        [&destination.alike, &destination.alike_around],
    ) {
        return Some(Meeting::DestinationInside);
    }
    let inside = deletes && meet(&destination.alike, [&source.alike_around, &[]]);
    inside.then_some(Meeting::SourceInside)
}

/// The location of these absolute, real paths, which need not exist. If there are several paths, files are left out, because no
/// entry can be inside them. Empty if the system does not provide it.
pub(super) fn ground(paths: &[Vec<u8>]) -> Ground {
    let Some(finder) = Finder::new() else {
        return Ground::default();
    };
    let mut found = Found::default();
    let mut looks = Found::default();
    let mut parents: HashSet<&[u8]> = HashSet::new();
    let mut own = true;
    for path in paths {
        let meta = std::fs::symlink_metadata(os(path)).ok();
        let is_tree = meta.as_ref().is_some_and(std::fs::Metadata::is_dir);
        if is_tree || paths.len() == 1 {
            own &= finder.chain(path, &mut |is_top, id| found.add(is_top, id));
            finder.looks(path, true, &mut looks);
            own &= finder.mounts_below(path, &mut found);
        } else if let Some(parent) = parent_of(path)
            // The parent directory is above it, and often above many others.
            && parents.insert(parent)
        {
            own &= finder.chain(parent, &mut |_, id| found.around.add(id));
            finder.looks(parent, false, &mut looks);
        }
    }
    Ground {
        own,
        alike: looks.tops.list,
        alike_around: looks.around.list,
        ..found.into_ground()
    }
}

/// The location of one path, by this mount of the path and by these ids of the path and of its parents.
pub(super) fn ground_by(
    finder: &Finder,
    path: &[u8],
    mount: Option<&Mount>,
    id_of: &IdOf<'_>,
) -> Ground {
    let mut found = Found::default();
    finder.levels(path, mount, id_of, &mut |is_top, id| found.add(is_top, id));
    finder.mounts_below(path, &mut found);
    found.into_ground()
}

/// The device and inode of a path, if it exists.
type IdOf<'a> = dyn Fn(&[u8]) -> Option<DirectoryId> + 'a;

/// Numbers without duplicates, at most [`GROUND_IDS_MAX`]. A peer chooses the number and depth of the paths.
#[derive(Debug, Default)]
struct Ids {
    list: Vec<u64>,
    seen: HashSet<u64>,
}

impl Ids {
    /// Adds a number; returns whether there is room for another.
    fn add(&mut self, id: u64) -> bool {
        if self.list.len() < GROUND_IDS_MAX && self.seen.insert(id) {
            self.list.push(id);
        }
        self.list.len() < GROUND_IDS_MAX
    }
}

/// The numbers of a [`Ground`] found so far.
#[derive(Debug, Default)]
struct Found {
    tops: Ids,
    around: Ids,
    mounts: Ids,
    mounts_around: Ids,
}

impl Found {
    /// Adds a number of the path itself or of a parent directory; returns whether there is room for another.
    fn add(&mut self, is_top: bool, id: u64) -> bool {
        match is_top {
            true => {
                self.tops.add(id);
                true
            }
            false => self.around.add(id),
        }
    }

    /// Without the attributes of the directories, and as if another kernel may see them.
    fn into_ground(self) -> Ground {
        Ground {
            tops: self.tops.list,
            around: self.around.list,
            mounts: self.mounts.list,
            mounts_around: self.mounts_around.list,
            ..Ground::default()
        }
    }
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug)]
pub(super) struct Mount {
    id: Vec<u8>,
    /// The device of the file system. The kernel has one such number for all its subvolumes and mounts.
    pub(super) device: Vec<u8>,
    /// The mounted part of the file system.
    pub(super) root: Vec<u8>,
    pub(super) point: Vec<u8>,
    is_pseudo: bool,
    is_own: bool,
}

impl Mount {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        let id = words.next()?.to_vec();
        let device = words.nth(1)?.to_vec();
        let root = unescaped(words.next()?);
        let point = unescaped(words.next()?);
        let kind = words.skip_while(|word| *word != b"-").nth(1)?;
        Some(Self {
            id,
            device,
            root,
            point,
            // The file system that an automounter would mount is unknown.
            is_own: OWN.contains(&kind) || kind != b"autofs" && PSEUDO.contains(&kind),
            is_pseudo: PSEUDO.contains(&kind),
        })
    }
}

pub(super) struct Finder {
    hasher: blake3::Hasher,
    pub(super) mounts: Vec<Mount>,
}

impl Finder {
    pub(super) fn new() -> Option<Self> {
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
        let table = std::fs::read("/proc/self/mountinfo").ok()?;
        let mut hasher = blake3::Hasher::new_derive_key("godwit 2026 where a directory lies");
        hasher.update(&boot);
        let lines = table.split(|byte| *byte == b'\n');
        Some(Self {
            hasher,
            mounts: lines.filter_map(Mount::parse).collect(),
        })
    }

    /// Passes numbers to `add` until `add` returns false. The flag is true for numbers of this path itself, false for numbers of
    /// its parent directories. Returns whether the file system belongs to this kernel.
    fn chain(&self, path: &[u8], add: &mut dyn FnMut(bool, u64) -> bool) -> bool {
        let mut levels = std::iter::successors(Some(path), |path| parent_of(path));
        let there = levels.find(|level| std::fs::symlink_metadata(os(level)).is_ok());
        let mount = there.and_then(|there| self.mount_of(there));
        let id_of = |level: &[u8]| {
            let meta = std::fs::symlink_metadata(os(level)).ok()?;
            Some((meta.dev(), meta.ino()))
        };
        self.levels(path, mount, &id_of, add)
    }

    /// The same for a path on this mount, whose levels have these ids.
    fn levels(
        &self,
        path: &[u8],
        mount: Option<&Mount>,
        id_of: &IdOf<'_>,
        add: &mut dyn FnMut(bool, u64) -> bool,
    ) -> bool {
        let is_own = mount.is_some_and(|mount| mount.is_own);
        let mut first = None;
        for level in std::iter::successors(Some(path), |path| parent_of(path)) {
            let is_top = level == path;
            let mut goes_on = true;
            if let Some((device, inode)) = id_of(level) {
                if *first.get_or_insert(device) != device && mount.is_none() {
                    return is_own;
                }
                let inode = [device.to_le_bytes(), inode.to_le_bytes()].concat();
                goes_on = add(is_top, self.id(b"inode", &[&inode]));
            }
            if let Some(mount) = mount.filter(|_| goes_on) {
                let place = place_in(mount, level);
                goes_on = add(is_top, self.id(b"path", &[&mount.device, &place]));
                if level == mount.point {
                    if goes_on {
                        self.around(mount, &mut |id| add(false, id));
                    }
                    return is_own;
                }
            }
            if !goes_on {
                return is_own;
            }
        }
        is_own
    }

    /// Adds the attributes of this path and of its parents, up to the mount point.
    fn looks(&self, path: &[u8], is_top: bool, found: &mut Found) {
        let mut device = None;
        for level in std::iter::successors(Some(path), |path| parent_of(path)) {
            let Ok(meta) = std::fs::symlink_metadata(os(level)) else {
                continue;
            };
            if *device.get_or_insert_with(|| meta.dev()) != meta.dev() {
                return;
            }
            let mut hasher = blake3::Hasher::new_derive_key("godwit 2026 how a directory looks");
            hasher.update(&meta.ino().to_le_bytes());
            hasher.update(&meta.ctime().to_le_bytes());
            hasher.update(&meta.ctime_nsec().to_le_bytes());
            let id = first_of(&hasher);
            let goes_on = match is_top && level == path {
                true => found.tops.add(id),
                false => found.around.add(id),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Adds the mounts below this path. Returns whether all of them belong to this kernel.
    fn mounts_below(&self, path: &[u8], found: &mut Found) -> bool {
        let below = |mount: &&Mount| is_inside(path, &mount.point);
        let is_own = self.mounts.iter().filter(below).all(|mount| mount.is_own);
        let mounts = self.mounts.iter().filter(below);
        for mount in mounts.filter(|mount| !mount.is_pseudo) {
            let id = self.id(b"path", &[&mount.device, &mount.root]);
            found.mounts.add(id);
            self.around(mount, &mut |id| found.mounts_around.add(id));
        }
        is_own
    }

    /// Passes the parent directories of the mounted part in its file system to `add`, until `add` returns false.
    fn around(&self, mount: &Mount, add: &mut dyn FnMut(u64) -> bool) {
        let mut levels = std::iter::successors(parent_of(&mount.root), |path| parent_of(path));
        levels.find(|level| !add(self.id(b"path", &[&mount.device, level])));
    }

    pub(super) fn mount_of(&self, path: &[u8]) -> Option<&Mount> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = open(os(path), flags, Mode::empty()).ok()?;
        self.mount_at(file.as_fd(), path)
    }

    /// The mount of an open file with this path.
    pub(super) fn mount_at(&self, file: BorrowedFd<'_>, path: &[u8]) -> Option<&Mount> {
        let info = std::fs::read(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
        let mut lines = info.split(|byte| *byte == b'\n');
        let id = lines.find_map(|line| line.strip_prefix(b"mnt_id:"))?;
        let mount = self.mounts.iter().find(|m| m.id == id.trim_ascii())?;
        (mount.point == path || is_inside(&mount.point, path)).then_some(mount)
    }

    fn id(&self, kind: &[u8], parts: &[&[u8]]) -> u64 {
        let mut hasher = self.hasher.clone();
        for part in [kind].iter().chain(parts) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        first_of(&hasher)
    }
}

fn first_of(hasher: &blake3::Hasher) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}

/// The path of `path` in the file system of this mount.
pub(super) fn place_in(mount: &Mount, path: &[u8]) -> Vec<u8> {
    let rest = path.strip_prefix(mount.point.as_slice()).unwrap_or(path);
    let rest = rest.strip_prefix(b"/").unwrap_or(rest);
    match (mount.root.as_slice(), rest) {
        (root, b"") => root.to_vec(),
        (b"/", rest) => [b"/", rest].concat(),
        (root, rest) => [root, b"/", rest].concat(),
    }
}

pub(super) fn parent_of(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().rposition(|byte| *byte == b'/')?;
    match slash {
        0 if path.len() == 1 => None,
        0 => Some(b"/"),
        _ => Some(&path[..slash]),
    }
}

pub(super) fn os(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// The kernel writes space, tab, newline and backslash as a backslash and three octal digits.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, after @ ..] = rest {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests;
