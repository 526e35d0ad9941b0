//! Owns an existing data set: its place, its size, and the check of a copy. `make` makes it; no other code changes it.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use rustix::fs::{Advice, fadvise, fsync};

use super::Load;
use super::walk::{each_directory, remove};
use crate::bench::contender::Programs;
use crate::bench::world::World;

/// Number of bytes that are read at once to compare contents.
const COMPARE_BYTES: usize = 1 << 20;

/// A data set.
#[derive(Debug, Clone)]
pub(crate) struct Set {
    pub(crate) load: Load,
    /// The directory that was made for it.
    parent: PathBuf,
    /// `None` if the data is not in a file.
    pub(crate) path: Option<PathBuf>,
    /// Number of file names.
    pub(crate) names: u64,
    /// Bytes of content that are transferred.
    pub(crate) bytes: u64,
    /// Sum of the sizes of all names, as `stat` reports them.
    sizes: u64,
}

/// The method of checking a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Arrival {
    /// Compares each file with its source, by name and content; contents once, sizes each time.
    Contents,
    /// Compares the numbers of files and bytes.
    Sizes,
    /// There is no copy.
    Nothing,
}

impl Set {
    /// Makes `load` in the empty directory `parent`.
    ///
    /// # Errors
    /// The file system fails, or the user interrupts.
    pub(crate) fn make(
        load: Load,
        parent: &Path,
        programs: &Programs,
        world: &World,
    ) -> anyhow::Result<Self> {
        let path = load.make(parent, programs, world)?;
        let (names, sizes) = match path {
            Some(_) => count(parent)?,
            None => (0, 0),
        };
        let bytes = match load {
            Load::Spec { .. } => sizes,
            _ => load.bytes(),
        };
        Ok(Self {
            load,
            parent: parent.to_owned(),
            path,
            names,
            bytes,
            sizes,
        })
    }

    /// Removes the data set, and the directory that contains it.
    pub(crate) fn remove(&self) -> anyhow::Result<()> {
        remove(&self.parent)
    }

    /// Checks that the numbers of names and bytes below `into` equal those that were sent.
    ///
    /// # Errors
    /// The numbers differ, or cannot be counted.
    pub(crate) fn check(&self, into: &Path) -> anyhow::Result<()> {
        let (names, sizes) = count(into)?;
        ensure!(
            (names, sizes) == (self.names, self.sizes),
            "{names} files of {sizes} bytes arrived instead of {} of {}",
            self.names,
            self.sizes
        );
        Ok(())
    }

    /// Checks that every file below `into` has the contents of its source. Does not read holes.
    ///
    /// # Errors
    /// A file differs; the error names the first one.
    pub(crate) fn compare(&self, into: &Path) -> anyhow::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        if matches!(self.load, Load::Sparse { .. }) {
            return Ok(());
        }
        let name = path.file_name().context("a source without a name")?;
        compare(path, &into.join(name))
    }

    /// Makes the kernel write all files to disk and drop their contents from memory, so that the next read comes from disk. Names and
    /// their attributes stay in memory.
    ///
    /// # Errors
    /// A file cannot be opened or synced.
    pub(crate) fn cool(&self) -> anyhow::Result<()> {
        self.path.as_deref().map_or(Ok(()), cool)
    }
}

/// Number of file names below `root`, and the sum of their sizes.
fn count(root: &Path) -> anyhow::Result<(u64, u64)> {
    let counted = each_directory(root, |directory, (names, sizes): &mut (u64, u64)| {
        for file in files(directory)? {
            *names += 1;
            *sizes += file?.metadata()?.len();
        }
        Ok(())
    })?;
    let add = |one: (u64, u64), other: (u64, u64)| (one.0 + other.0, one.1 + other.1);
    Ok(counted.into_iter().fold((0, 0), add))
}

/// The entries of a directory that are not directories.
fn files(
    directory: &Path,
) -> anyhow::Result<impl Iterator<Item = std::io::Result<fs::DirEntry>> + use<>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot list {directory:?}"))?;
    let is_file = |entry: &std::io::Result<fs::DirEntry>| match entry {
        Ok(entry) => !entry.file_type().is_ok_and(|kind| kind.is_dir()),
        Err(_) => true,
    };
    Ok(entries.filter(is_file))
}

/// Buffers of a comparing thread.
#[derive(Default)]
struct Buffers {
    one: Vec<u8>,
    other: Vec<u8>,
}

fn compare(source: &Path, copy: &Path) -> anyhow::Result<()> {
    each_directory(source, |place, buffers: &mut Buffers| {
        if !place.is_dir() {
            return compare_file(place, copy, buffers);
        }
        let below = place.strip_prefix(source)?;
        for file in files(place)? {
            let file = file?;
            let copy = copy.join(below).join(file.file_name());
            compare_file(&file.path(), &copy, buffers)?;
        }
        Ok(())
    })?;
    Ok(())
}

fn compare_file(source: &Path, copy: &Path, buffers: &mut Buffers) -> anyhow::Result<()> {
    let open = |path: &Path| File::open(path).with_context(|| format!("cannot open {path:?}"));
    let (mut source, mut arrived) = (open(source)?, open(copy)?);
    let Buffers { one, other } = buffers;
    one.resize(COMPARE_BYTES, 0);
    other.resize(COMPARE_BYTES, 0);
    loop {
        let read = source.read(one)?;
        let same = arrived.read_exact(&mut other[..read]).is_ok() && one[..read] == other[..read];
        ensure!(same, "{copy:?} has other contents than its source");
        if read == 0 {
            ensure!(arrived.read(other)? == 0, "{copy:?} is too long");
            return Ok(());
        }
    }
}

fn cool(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            cool(&entry?.path())?;
        }
        return Ok(());
    }
    let file = File::open(path).with_context(|| format!("cannot open {path:?}"))?;
    fsync(&file)?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody() -> Programs {
        Programs {
            godwit: "/nowhere/godwit".into(),
            xtask: "/nowhere/xtask".into(),
            wanlink: "/nowhere/wanlink".into(),
        }
    }

    #[test]
    fn every_load_is_as_large_as_it_says() {
        let outside = tempfile::tempdir().expect("make a directory");
        let world = World::make(&outside.path().join("world"), None).expect("make a world");
        let some = |files, bytes, directories| Load::Files {
            files,
            bytes,
            directories,
        };
        let loads = [
            some(1, 9 << 20, 0),
            some(3, 100_000, 0),
            some(70, 8192, 7),
            some(5, 0, 2),
            Load::HardLinks { files: 1003 },
            Load::Sparse { bytes: 40 << 30 },
        ];
        for (index, load) in loads.into_iter().enumerate() {
            let parent = world.scratch(&index.to_string()).expect("a directory");
            let set = Set::make(load, &parent, &nobody(), &world).expect("make a data set");
            assert_eq!((set.names, set.bytes), (load.names(), load.bytes()));
            assert_eq!(set.sizes, load.sizes());
            set.check(&parent).expect("all of it");
            set.compare(&parent).expect("the same");
            set.cool().expect("cold contents");
            fs::write(parent.join("one more"), b"").expect("write");
            assert!(set.check(&parent).is_err(), "{load:?} with one more");
        }
    }

    #[test]
    fn other_contents_are_found() {
        let outside = tempfile::tempdir().expect("make a directory");
        let world = World::make(&outside.path().join("world"), None).expect("make a world");
        let load = Load::Files {
            files: 3,
            bytes: 5000,
            directories: 1,
        };
        let parent = world.scratch("here").expect("a directory");
        let set = Set::make(load, &parent, &nobody(), &world).expect("make a data set");
        for (change, good) in [
            ("true", true),
            (
                "printf x | dd of=set/d00000/f0000001 bs=1 seek=4999 conv=notrunc status=none",
                false,
            ),
            ("truncate -s 4999 set/d00000/f0000001", false),
            ("truncate -s 5001 set/d00000/f0000001", false),
            ("mv set/d00000/f0000001 set/d00000/other", false),
        ] {
            let copy = world.scratch("copy").expect("a directory");
            let line = format!(
                "rm -rf {0}/* && cp -r {1}/set {0} && cd {0} && {change}",
                copy.display(),
                parent.display()
            );
            let status = std::process::Command::new("sh")
                .args(["-c", &line])
                .status();
            assert!(status.expect("run a shell").success());
            assert_eq!(set.compare(&copy).is_ok(), good, "{change}");
        }
    }
}
