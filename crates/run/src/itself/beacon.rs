//! Looks for the beacon of a destination from the source, which may see the same file system by another mount or from another machine.
//! Lights none but by the destination that is prepared, and judges nothing that device and inode have decided.
//!
//! The random name has never been looked up before, so no cache of a mount says that it is not there.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;

use godwit_proto::{Beacon, Open};
use godwit_store::{Kind, RelPath, TempName};
use godwit_tree::{PreparedDestination, TreeRoot};

use super::above::above;
use super::ground::{Meeting, os, parent_of};
use super::{is_inside, said};

/// Said of ends that the beacon brought together.
const BY_BEACON: &str = "; both ends are in one file system, mounted twice or on two machines";

/// Directories above a destination that are tried below each source.
const ABOVE_MAX: usize = 64;

/// Lights the beacon of this destination, and says what its source is to look for. That of an export says nothing of where the export
/// lies.
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

/// A source, for the look.
pub struct Sought<'a> {
    /// The tree to read.
    pub root: &'a TreeRoot,
    /// Its real path.
    pub real: &'a [u8],
    /// Its real path; of one in an export, what messages call it.
    pub absolute: &'a [u8],
    /// Its name where it goes into a directory.
    pub name: &'a [u8],
}

/// Looks for a beacon at sources.
pub struct Look<'a> {
    /// The beacon to look for.
    pub beacon: &'a Beacon,
    /// The transfer deletes what only the destination has.
    pub deletes: bool,
    /// The transfer skips file systems mounted in a source.
    pub bounded: bool,
    /// The sources are in exports. Above these only the beacon is looked for, whose random name a peer cannot know unless it is there.
    pub is_exported: bool,
    /// The destination, for people.
    pub destination: &'a [u8],
}

impl<'a> Look<'a> {
    /// The look that the destination of a pull asks for.
    pub fn asked(open: &'a Open, is_exported: bool) -> Option<Self> {
        Some(Self {
            beacon: open.beacon.as_ref()?,
            deletes: open.deletes(),
            bounded: open.keeps_to_one_file_system(),
            is_exported,
            destination: &open.destination,
        })
    }

    /// Why these sources must not go to the destination, if there is a reason.
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

    /// How a source meets the destination. `without` has directories that have the beacon neither in them nor above.
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

    /// How a source meets the destination that lies at this path from the directory of the beacon.
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

/// The files that may be looked at.
#[derive(Clone, Copy)]
enum Files<'a> {
    /// All of this process; paths are absolute.
    Own,
    /// Those of an export; paths are relative to it.
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

/// The real path of a directory that is above `path`, where that has this real path.
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
