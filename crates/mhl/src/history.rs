//! Owns one history: its folder, its chain, and the digests that its generations record for each file.
//! Looks at no file of the data set.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::chain::{self, Link};
use crate::digest::{Digest, Format};
use crate::generation::Generation;
use crate::place::{each_name, open_file};
use crate::{Error, FOLDER, Reading, Watch, read};

/// The patterns of a history without generations.
const IGNORED: [&str; 3] = [".DS_Store", "ascmhl", "ascmhl/"];

/// Bytes that a history takes in memory beside its files, links and patterns.
const HISTORY_BYTES: u64 = 2048;

/// The record of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) size: Option<u64>,
    /// The first digest of each kind. The first one in the list is the original.
    pub(crate) digests: Vec<(Format, Digest)>,
}

impl Record {
    /// The kind of the first digest.
    pub(crate) fn original(&self) -> Option<Format> {
        self.digests.first().map(|(format, _)| *format)
    }

    pub(crate) fn digest(&self, format: Format) -> Option<&Digest> {
        let found = self.digests.iter().find(|(known, _)| *known == format);
        found.map(|(_, digest)| digest)
    }
}

/// A history.
#[derive(Debug)]
pub(crate) struct History {
    /// The directory with the data and the folder.
    pub(crate) root: PathBuf,
    pub(crate) links: Vec<Link>,
    /// The files, by their paths below the root.
    pub(crate) files: BTreeMap<String, Record>,
    /// The patterns of the last generation.
    pub(crate) patterns: Vec<String>,
    /// Bytes of all this, as [`Watch::room`] counts them.
    pub(crate) bytes: u64,
    /// The part of the patterns.
    pattern_bytes: u64,
}

impl History {
    /// A history without a generation.
    pub(crate) fn empty(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            links: Vec::new(),
            files: BTreeMap::new(),
            patterns: IGNORED.map(str::to_owned).to_vec(),
            bytes: 0,
            pattern_bytes: 0,
        }
    }

    /// Reads the history of a directory, or makes an empty one if the directory has none.
    ///
    /// # Errors
    /// A generation is missing, changed, malformed or not in the chain, or the caller stops the work.
    pub(crate) fn load(root: &Path, watch: &Watch<'_>) -> Result<Self, Error> {
        let folder = root.join(FOLDER);
        let mut made = Self::empty(root);
        match fs::symlink_metadata(&folder) {
            Ok(about) if about.is_dir() => {}
            Ok(_) => return Err(Error::malformed(&folder, "is no directory")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(made),
            Err(error) => return Err(Error::io(&folder)(error)),
        }
        made.links = chain::load(&folder, watch)?;
        refuse_strangers(&folder, &made.links)?;
        let link = |link: &Link| link.file.len() as u64 + read::ENTRY_BYTES + read::DIGEST_BYTES;
        made.bytes = HISTORY_BYTES + made.links.iter().map(link).sum::<u64>();
        for link in made.links.clone() {
            let path = folder.join(&link.file);
            if chain::digest_of(&path, watch)? != link.digest {
                return Err(Error::malformed(
                    &path,
                    "was changed after it was written: the chain has another digest for it",
                ));
            }
            made.add(parse(&path, watch)?);
            // Each generation is bounded, and may have other files than those before it.
            if made.files.len() > read::FILES_MAX || made.bytes > watch.room {
                return Err(Error::malformed(
                    &path,
                    format!(
                        "and the generations before it have more than {} files, or more than {} bytes of them, the room for a history here",
                        read::FILES_MAX,
                        watch.room
                    ),
                ));
            }
        }
        Ok(made)
    }

    /// Reads one generation without its chain. Its paths are below the directory of its folder.
    pub(crate) fn of_generation(path: &Path, watch: &Watch<'_>) -> Result<Self, Error> {
        let folder = path.parent().unwrap_or(path);
        let mut made = Self::empty(folder.parent().unwrap_or(folder));
        made.add(parse(path, watch)?);
        Ok(made)
    }

    fn add(&mut self, generation: Generation) {
        for entry in generation.files {
            if let Some(previous) = &entry.previous
                && let Some(record) = self.files.remove(previous)
            {
                self.bytes += entry.path.len() as u64;
                self.files.insert(entry.path.clone(), record);
            }
            if entry.has_failed {
                // The contents were wrong: the earlier digests stay the right ones.
                continue;
            }
            if !self.files.contains_key(&entry.path) {
                self.bytes += entry.path.len() as u64 + read::ENTRY_BYTES;
            }
            let record = self.files.entry(entry.path).or_default();
            record.size = record.size.or(entry.size);
            for (format, digest) in entry.digests {
                if record.digest(format).is_none() {
                    record.digests.push((format, digest));
                    self.bytes += read::DIGEST_BYTES;
                }
            }
        }
        if !generation.ignored.is_empty() {
            let patterns = generation.ignored.iter();
            let bytes = patterns.map(|one| read::pattern_bytes(one)).sum::<u64>();
            self.bytes = self.bytes - self.pattern_bytes + bytes;
            self.pattern_bytes = bytes;
            self.patterns = generation.ignored;
        }
    }

    /// The number of the next generation.
    pub(crate) fn next(&self) -> u32 {
        self.links
            .last()
            .map_or(1, |link| link.number.saturating_add(1))
    }

    /// The matcher of the ignored names.
    ///
    /// # Errors
    /// A pattern is malformed.
    pub(crate) fn ignored(&self) -> Result<Gitignore, Error> {
        let mut builder = GitignoreBuilder::new(&self.root);
        for pattern in &self.patterns {
            builder
                .add_line(None, pattern)
                .map_err(|error| Error::malformed(&self.root.join(FOLDER), error.to_string()))?;
        }
        let built = builder.build();
        built.map_err(|error| Error::malformed(&self.root.join(FOLDER), error.to_string()))
    }
}

fn parse(path: &Path, watch: &Watch<'_>) -> Result<Generation, Error> {
    let file = open_file(path).map_err(Error::io(path))?;
    let file = Reading { file, watch };
    match read::generation(BufReader::with_capacity(1 << 16, file), watch.room) {
        Ok(generation) => Ok(generation),
        Err(_) if watch.is_stopped() => Err(Error::Stopped),
        Err(reason) => Err(Error::malformed(path, reason)),
    }
}

/// Refuses generations that the chain does not list. A run that was killed at its last step leaves one.
fn refuse_strangers(folder: &Path, links: &[Link]) -> Result<(), Error> {
    let known: HashSet<&str> = links.iter().map(|link| link.file.as_str()).collect();
    let mut stranger = None;
    let mut take = |name: &OsStr, _: bool| {
        let name = name.to_string_lossy();
        let is_generation = name.ends_with(".mhl") && !name.starts_with('.');
        if is_generation && !known.contains(&*name) {
            stranger = Some(folder.join(name.as_ref()));
        }
        stranger.is_none()
    };
    each_name(folder, &mut take).map_err(Error::io(folder))?;
    if let Some(stranger) = stranger {
        return Err(Error::malformed(
            &stranger,
            "is not in the chain: a program ended while it wrote this generation; remove the file, and try again",
        ));
    }
    Ok(())
}
