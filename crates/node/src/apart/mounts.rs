//! Reads which file systems are mounted where, and says what an export shows by them.
//! Mounts nothing, and looks at no entry.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The mounts that this process sees, as of one moment.
pub(super) struct Mounts(Vec<Mount>);

struct Mount {
    /// Major and minor number of the file system.
    device: Vec<u8>,
    /// The directory of the file system that is mounted.
    root: PathBuf,
    at: PathBuf,
}

impl Mounts {
    /// As they are now; none where the system does not say.
    pub(super) fn read() -> Self {
        let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
        Self::of(&text)
    }

    /// Parses a text in the form of proc_pid_mountinfo(5).
    pub(super) fn of(text: &[u8]) -> Self {
        let lines = text.split(|byte| *byte == b'\n');
        Self(lines.filter_map(mount_of).collect())
    }

    /// Whether a place, by its real path, is to be seen in an export: in the mount of the export itself, or in one below it.
    pub(super) fn shows(&self, export: &Path, place: &Path) -> bool {
        let Some((of_place, inside)) = self.inside(place) else {
            return false;
        };
        let own = self.inside(export);
        let own = own.map(|(mount, inside)| (&mount.device, inside));
        let is_below = |mount: &&Mount| mount.at != export && mount.at.starts_with(export);
        let below = self.0.iter().filter(is_below);
        let below = below.map(|mount| (&mount.device, mount.root.clone()));
        own.into_iter()
            .chain(below)
            .any(|(device, shown)| *device == of_place.device && inside.starts_with(shown))
    }

    /// The mount that has a path, and the path within its file system. If several mounts are at one place, the last one hides the others.
    fn inside(&self, path: &Path) -> Option<(&Mount, PathBuf)> {
        let above = self.0.iter().filter(|mount| path.starts_with(&mount.at));
        let mount = above.max_by_key(|mount| mount.at.components().count())?;
        let rest = path.strip_prefix(&mount.at).ok()?;
        Some((mount, mount.root.join(rest)))
    }
}

/// A line: number, parent, device, directory of the file system, and where that is mounted.
fn mount_of(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ').skip(2);
    let device = words.next()?.to_vec();
    let root = path_of(words.next()?);
    let at = path_of(words.next()?);
    Some(Mount { device, root, at })
}

/// A path whose blanks and backslashes are written as three octal digits.
fn path_of(word: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::with_capacity(word.len()), word);
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[3..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}
