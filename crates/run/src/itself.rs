//! Refuses to copy a tree into itself, and detects whether two ends see the same files. Resolves no paths: both ends supply real
//! ones.
//!
//! A client identifies in OPEN the files that it sees, and sends real paths. The other end compares the paths if it sees the same
//! files. The client also sends the location of each path (`ground`), because one directory may have several paths.

mod above;
mod beacon;
mod ground;
mod located;

use std::os::unix::fs::MetadataExt as _;

use godwit_proto::limits::VIEW_BYTES;
use godwit_proto::{Ground, Open};

pub use self::beacon::{Look, Sought, light};
use self::ground::{Meeting, likeness, meeting};
pub use self::located::{Located, Overlap};

/// The location of these paths of ours, for the other end. All paths are real.
pub fn ground(paths: &[Vec<u8>]) -> Ground {
    ground::ground(paths)
}

/// One end of a transfer: its real paths, and their location.
type End<'a> = (&'a [Vec<u8>], &'a Ground);

/// The relation between the two ends of a transfer.
#[derive(Debug, PartialEq, Eq)]
pub enum Judged {
    /// The ends overlap and must not form one transfer; contains the reason.
    Meet(String),
    /// The ends do not overlap according to this kernel. Another mount or machine may see one of them under other numbers.
    ApartHere {
        /// The reason why the two ends may be the same directory, if they may. This decides if no beacon can be made.
        alike: Option<String>,
    },
    /// The ends do not overlap.
    Apart,
}

impl Judged {
    fn of(reason: Option<String>, from: End<'_>, to: End<'_>, deletes: bool) -> Self {
        match reason {
            Some(reason) => Self::Meet(reason),
            // Each end is visible only to its own kernel.
            None if from.1.own && to.1.own => Self::Apart,
            None => Self::ApartHere {
                alike: likeness(from.1, to.1, deletes)
                    .map(|meeting| said(meeting, from.0, to.0, BY_LOOKS)),
            },
        }
    }
}

/// Decides whether the sources of this process may be copied to its destinations, each to its own. With `bounded`, file systems
/// mounted in a tree do not belong to the tree.
pub fn judge_here(
    sources: &[Vec<u8>],
    destinations: &[Vec<u8>],
    deletes: bool,
    bounded: bool,
) -> Judged {
    let (from, to) = (ground(sources), ground(destinations));
    let by_path = !(bounded && is_known(&from, &to));
    let by_path = by_path.then(|| reason(sources, destinations, deletes));
    let ends = ((sources, &from), (destinations, &to));
    let reason = by_path
        .flatten()
        .or_else(|| by_ground(ends, deletes, bounded));
    Judged::of(reason, ends.0, ends.1, deletes)
}

/// Decides whether the client's sources may be copied to these destinations.
pub fn judge_push(open: &Open, destinations: &[Vec<u8>]) -> Judged {
    let ours = ground(destinations);
    let theirs = open.ground.clone().unwrap_or_default();
    let (from, to) = ((open.sources.as_slice(), &theirs), (destinations, &ours));
    let reason = reason_of(open, from, to);
    match Judged::of(reason, from, to, open.deletes()) {
        // A client whose source has no location, such as standard input, searches for no beacon.
        Judged::ApartHere { .. } if open.ground.is_none() => Judged::Apart,
        judged => judged,
    }
}

/// Decides whether these sources may be copied to the client's destinations.
pub fn judge_pull(open: &Open, sources: &[Vec<u8>], destinations: &[Vec<u8>]) -> Judged {
    let ours = ground(sources);
    let theirs = open.ground.clone().unwrap_or_default();
    let (from, to) = ((sources, &ours), (destinations, &theirs));
    let reason = reason_of(open, from, to);
    Judged::of(reason, from, to, open.deletes())
}

/// Part of the message about ends that look like one directory, if no beacon could be made.
const BY_LOOKS: &str = "; a directory at each end has the same inode number and time of change, and no mark can be written at the destination to tell the two apart";

/// The note for a transfer that deletes although no beacon could be made at its destination.
pub fn unproved(destination: &[u8]) -> String {
    format!(
        "{}: no mark can be written here, so --delete cannot prove that the source is a different directory; very probably it is, since device, inode and time of change of its directories differ. If both ends may be one file system, stop and compare them first",
        shown(destination)
    )
}

/// The message to a client that must open the transfer again with a beacon.
pub const WANTS_BEACON: &str = "the source may see the destination's file system through another mount, and asks to check this";

fn reason_of(open: &Open, from: End<'_>, to: End<'_>) -> Option<String> {
    let deletes = open.deletes();
    let bounded = open.keeps_to_one_file_system();
    let by_path = is_ours(&open.view) && !(bounded && is_known(from.1, to.1));
    let by_path = by_path.then(|| reason(from.0, to.0, deletes));
    by_path
        .flatten()
        .or_else(|| by_ground((from, to), deletes, bounded))
}

fn by_ground((from, to): (End<'_>, End<'_>), deletes: bool, bounded: bool) -> Option<String> {
    let meeting = match bounded {
        true => meeting(&without_mounts(from.1), &without_mounts(to.1), deletes),
        false => meeting(from.1, to.1, deletes),
    };
    const BY_MOUNT: &str = "; the same directory is mounted in two places, or has two spellings";
    meeting.map(|meeting| said(meeting, from.0, to.0, BY_MOUNT))
}

fn without_mounts(ground: &Ground) -> Ground {
    Ground {
        mounts: Vec::new(),
        mounts_around: Vec::new(),
        ..ground.clone()
    }
}

/// Whether the location of both ends is known, so that their paths need no comparison.
fn is_known(one: &Ground, other: &Ground) -> bool {
    let is_known = |ground: &Ground| !ground.tops.is_empty() || !ground.around.is_empty();
    is_known(one) && is_known(other)
}

/// An id of the files that this process sees. A process with the same id sees the same file by any absolute path: kernel, boot,
/// mounts and root directory are the same. Empty if the system does not provide it.
pub fn view() -> Vec<u8> {
    let of = |path: &str| {
        let meta = std::fs::metadata(path).ok()?;
        Some([meta.dev().to_le_bytes(), meta.ino().to_le_bytes()].concat())
    };
    let parts = || {
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
        Some([boot, of("/proc/self/ns/mnt")?, of("/")?])
    };
    parts().map_or_else(Vec::new, |parts| {
        let mut hasher = blake3::Hasher::new_derive_key("godwit 2026 which files a process sees");
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(&part);
        }
        hasher.finalize().as_bytes()[..VIEW_BYTES].to_vec()
    })
}

/// Whether the owner of `view` sees the same files as this process. An empty view means that it does not.
fn is_ours(view: &[u8]) -> bool {
    !view.is_empty() && view == self::view()
}

/// The reason why these sources must not be copied to those destinations, each to its own, if there is one. A tree copied into
/// itself grows while it is read. With `deletes`, a source inside the destination would be deleted. All paths are real.
fn reason(sources: &[Vec<u8>], destinations: &[Vec<u8>], deletes: bool) -> Option<String> {
    let mut pairs = sources.iter().zip(destinations);
    pairs.find_map(|(source, goes_to)| {
        if goes_to == source || is_inside(source, goes_to) {
            Some(into_itself(&shown(source), &shown(goes_to), ""))
        } else if deletes && is_inside(goes_to, source) {
            Some(would_go(&shown(source), &shown(goes_to), ""))
        } else {
            None
        }
    })
}

/// The message about ends that overlap although their paths do not.
fn said(meeting: Meeting, sources: &[Vec<u8>], destinations: &[Vec<u8>], why: &str) -> String {
    let name = |paths: &[Vec<u8>], else_: &str| match paths {
        [only] => shown(only),
        _ => else_.to_owned(),
    };
    let (source, destination) = (name(sources, "a source"), name(destinations, "destination"));
    match meeting {
        Meeting::DestinationInside => into_itself(&source, &destination, why),
        Meeting::SourceInside => would_go(&source, &destination, why),
    }
}

fn into_itself(source: &str, destination: &str, why: &str) -> String {
    format!("{source} cannot be copied into itself ({destination}){why}")
}

fn would_go(source: &str, destination: &str, why: &str) -> String {
    format!("{source}{INSIDE}{destination}, so --delete would delete it{why}")
}

/// Words of a reason that stand between the names of two directories: the first is inside the second.
const INSIDE: &str = " is inside the destination ";

/// The same reason without paths of this machine, for users and peers.
pub fn without_paths(reason: &str) -> &'static str {
    match reason.contains(INSIDE) {
        true => {
            "a source is inside the destination, so --delete would delete it; name another destination"
        }
        false => "a source cannot be copied into itself; name another destination",
    }
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn is_inside(outer: &[u8], inner: &[u8]) -> bool {
    inner
        .strip_prefix(outer)
        .is_some_and(|rest| rest.starts_with(b"/") || outer == b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_recognised_by_whole_names() {
        for (source, goes_to, deletes, refused) in [
            ("/a/b", "/a/b", false, true),
            ("/a/b", "/a/b/c", false, true),
            ("/a/b", "/a/bc", false, false),
            ("/", "/a", false, true),
            ("/a/b/c", "/a/b", false, false),
            ("/a/b/c", "/a/b", true, true),
            ("/a/bc", "/a/b", true, false),
            ("/a", "/", true, true),
        ] {
            let paths = [source, goes_to].map(|path| vec![path.as_bytes().to_vec()]);
            let found = reason(&paths[0], &paths[1], deletes);
            assert_eq!(found.is_some(), refused, "{source} {goes_to} {deletes}");
        }
    }

    #[test]
    fn this_process_sees_what_it_sees() {
        assert_eq!(view().len(), VIEW_BYTES);
        assert!(is_ours(&view()));
        assert!(!is_ours(&[]) && !is_ours(&[0; VIEW_BYTES]));
    }
}
