//! Searches the source for the beacon of a destination, because the source may see the same file system by another mount or from
//! another machine. Makes only the beacon of the prepared destination, and does not decide cases that device and inode have decided.
//!
//! The random name has never been looked up before, so no cache of a mount can report it as missing.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;

use godwit_proto::{Beacon, Open};
use godwit_store::{Kind, RelPath, TempName};
use godwit_tree::{PreparedDestination, TreeRoot};

use super::above::above;
use super::ground::{Meeting, os, parent_of};
use super::{is_inside, said};

/// Part of the message about ends that the beacon proved to overlap.
const BY_BEACON: &str = "; both ends are in one file system, mounted twice or on two machines";

/// Most parents of a destination that are tried below each source.
const ABOVE_MAX: usize = 64;

/// Makes the beacon of this destination, and returns it for the search at its source. The beacon of an export does not reveal the
/// location of the export.
pub fn light(prepared: &mut PreparedDestination, is_exported: bool) -> Option<Beacon> {
    let lit = prepared.light()?;
    let above = match is_exported {
        true => lit.directory.as_bytes().to_vec(),
        false => above_of(prepared, &lit.directory),
    };
    Some(Beacon {
        name: lit.name.as_bytes().to_vec(),
        above,
        rest: lit.rest,
        into: lit.into,
    })
}

/// The path of a directory of a destination, from its mount point.
fn above_of(prepared: &PreparedDestination, directory: &RelPath) -> Vec<u8> {
    let (Some(first), Some(mapped)) = (
        prepared.destinations.first(),
        prepared.config.mapping.first(),
    ) else {
        return Vec::new();
    };
    let storage = first.strip_suffix(mapped.as_bytes()).unwrap_or_default();
    let storage = storage.strip_suffix(b"/").unwrap_or(storage);
    let absolute = match directory.is_root() {
        true => storage.to_vec(),
        false => [storage, b"/", directory.as_bytes()].concat(),
    };
    let device_of = |path: &[u8]| std::fs::symlink_metadata(os(path)).ok().map(|it| it.dev());
    let device = device_of(&absolute);
    let levels = std::iter::successors(Some(absolute.as_slice()), |path| parent_of(path));
    let top = levels.take_while(|level| device_of(level) == device).last();
    let below = absolute.strip_prefix(top.unwrap_or_default());
    let below = below.unwrap_or_default();
    below.strip_prefix(b"/").unwrap_or(below).to_vec()
}

/// A source to search.
pub struct Sought<'a> {
    /// The tree to read.
    pub root: &'a TreeRoot,
    /// The real path of the tree.
    pub real: &'a [u8],
    /// The real path; for a source in an export, its name in messages.
    pub absolute: &'a [u8],
    /// Name of the source in a directory.
    pub name: &'a [u8],
}

/// Searches sources for a beacon.
pub struct Look<'a> {
    /// The beacon to search for.
    pub beacon: &'a Beacon,
    /// Whether the transfer deletes entries that only the destination has.
    pub deletes: bool,
    /// Whether the transfer skips file systems mounted in a source.
    pub bounded: bool,
    /// Whether the sources are in exports. If so, only the beacon is looked up above them, because a peer cannot guess its random
    /// name.
    pub is_exported: bool,
    /// The destination in messages.
    pub destination: &'a [u8],
}

impl<'a> Look<'a> {
    /// The search that the destination of a pull requests.
    pub fn asked(open: &'a Open, is_exported: bool) -> Option<Self> {
        Some(Self {
            beacon: open.beacon.as_ref()?,
            deletes: open.deletes(),
            bounded: open.keeps_to_one_file_system(),
            is_exported,
            destination: &open.destination,
        })
    }

    /// The reason why these sources must not be copied to the destination, if there is one.
    pub fn reason(&self, sources: &[Sought<'_>]) -> Option<String> {
        let mut without = HashSet::new();
        sources.iter().find_map(|source| {
            let meeting = self.meeting(source, &mut without)?;
            let destination = match self.destination {
                b"" => b"the destination",
                known => known,
            };
            let ends = ([source.absolute.to_vec()], [destination.to_vec()]);
            Some(said(meeting, &ends.0, &ends.1, BY_BEACON))
        })
    }

    /// Whether and how a source and the destination overlap. `without` collects directories that have no beacon in them or above.
    fn meeting(&self, source: &Sought<'_>, without: &mut HashSet<Vec<u8>>) -> Option<Meeting> {
        let files = match self.is_exported {
            true => Files::Exported(source.root),
            false => Files::Own,
        };
        let path = match self.is_exported {
            true => source.root.start.as_bytes(),
            false => source.absolute,
        };
        let there = files.look(path)?;
        let mut seen = Vec::new();
        let mut level = Some(path).filter(|_| there.is_directory);
        level = level.or_else(|| files.parent(path));
        let mut top = None;
        while let Some(directory) = level {
            let real = real_of(source.real, path, directory);
            if without.contains(real) {
                top = None;
                break;
            }
            if files.look(directory)?.device != there.device {
                break;
            }
            if files.has(directory, &self.beacon.name) {
                return self.related(source, below(directory, path));
            }
            seen.push(real.to_vec());
            top = Some(real);
            level = files.parent(directory);
        }
        for (directory, from_it) in top.map_or_else(Vec::new, above) {
            if without.contains(&directory) {
                break;
            }
            if Files::Own.has(&directory, &self.beacon.name) {
                let rest = below(top.unwrap_or_default(), source.real);
                return self.related(source, &joined(&from_it, rest));
            }
            seen.push(directory);
        }
        without.extend(seen);
        if !there.is_directory {
            return None;
        }
        let mut rest = Some(self.beacon.above.as_slice()).filter(|above| !above.is_empty());
        let rests = std::iter::from_fn(|| {
            let now = rest?;
            let slash = now.iter().position(|byte| *byte == b'/');
            rest = slash.map(|slash| &now[slash + 1..]);
            Some(now)
        });
        let mut rests: Vec<&[u8]> = rests.collect();
        rests.reverse();
        let mut inner = rests.iter().take(ABOVE_MAX).map(|rest| joined(path, rest));
        let is_inside = inner.any(|directory| {
            files.has(&directory, &self.beacon.name)
                && (!self.bounded
                    || files.look(&directory).map(|it| it.device) == Some(there.device))
        });
        is_inside.then_some(Meeting::DestinationInside)
    }

    /// Whether and how a source overlaps the destination, which is at `path` from the directory of the beacon.
    fn related(&self, source: &Sought<'_>, path: &[u8]) -> Option<Meeting> {
        let mut target = self.beacon.rest.clone();
        if self.beacon.into && !source.name.is_empty() {
            target = joined(&target, source.name);
        }
        if path == target || path.is_empty() || is_inside(path, &target) {
            return Some(Meeting::DestinationInside);
        }
        let is_within = target.is_empty() || is_inside(&target, path);
        (self.deletes && is_within).then_some(Meeting::SourceInside)
    }
}

/// The file or directory at a path.
struct There {
    device: u64,
    is_directory: bool,
}

/// The files that the search may use.
#[derive(Clone, Copy)]
enum Files<'a> {
    /// All files of this process; paths are absolute.
    Own,
    /// Files of an export; paths are relative to it.
    Exported(&'a TreeRoot),
}

impl Files<'_> {
    fn look(self, path: &[u8]) -> Option<There> {
        match self {
            Self::Own => {
                let meta = std::fs::symlink_metadata(os(path)).ok()?;
                Some(There {
                    device: meta.dev(),
                    is_directory: meta.is_dir(),
                })
            }
            Self::Exported(root) => {
                let meta = root.storage.stat(&RelPath::parse(path).ok()?).ok()??;
                Some(There {
                    device: meta.device,
                    is_directory: meta.kind == Kind::Directory,
                })
            }
        }
    }

    fn has(self, directory: &[u8], name: &[u8]) -> bool {
        TempName::is_temp(name) && self.look(&joined(directory, name)).is_some()
    }

    fn parent(self, path: &[u8]) -> Option<&[u8]> {
        match (self, path.iter().rposition(|byte| *byte == b'/')) {
            (Self::Own, _) => parent_of(path),
            (Self::Exported(_), Some(slash)) => Some(&path[..slash]),
            (Self::Exported(_), None) => Some(&path[..0]).filter(|_| !path.is_empty()),
        }
    }
}

/// The real path of `directory`, a parent of `path`, where `real` is the real path of `path`.
fn real_of<'a>(real: &'a [u8], path: &[u8], directory: &[u8]) -> &'a [u8] {
    match below(directory, path) {
        b"" => real,
        rest => {
            let above = real.strip_suffix(rest).unwrap_or(real);
            match above.strip_suffix(b"/") {
                Some(b"") | None => above,
                Some(above) => above,
            }
        }
    }
}

/// The part of `path` below `directory`.
fn below<'a>(directory: &[u8], path: &'a [u8]) -> &'a [u8] {
    let rest = path.strip_prefix(directory).unwrap_or(path);
    rest.strip_prefix(b"/").unwrap_or(rest)
}

fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        _ if name.is_empty() => directory.to_vec(),
        b"" => name.to_vec(),
        [.., b'/'] => [directory, name].concat(),
        _ => [directory, b"/", name].concat(),
    }
}
