//! Walks a bounded part of a source for a job that is divided among nodes: finds small files for one transfer, and the remaining
//! parts. Does not send data or assign work. The closer of the tree sends the entries that the walk skips.
//!
//! A walk begins at a directory, or at one share of the names in it, and continues below until it reaches its limits. A directory with
//! too many names, or too many bytes in small files, is left for later walks, in shares. A share consists of the names whose hash is
//! its number, so every node finds the same names in it. Links, special files, and files with several names are skipped.

mod tally;

use std::path::Path;
use std::sync::Arc;

use godwit_api::endpoint::Endpoint;
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::fnv;
use godwit_api::job::JobSpec;
use godwit_api::settings::Judge;
use godwit_store::{Kind, RelPath, StoreError, StoreErrorKind, TempName};
use godwit_tree::TreeRoot;
use godwit_tree::select::Select;

use crate::Env;
use crate::observation::Chosen;
use crate::transfer::{access_of, select_of};
pub use tally::{Tally, Unread};

/// Minimum length of a part of a file, except for its last one.
pub const PART_BYTES: u64 = godwit_proto::parts::PART_BYTES_MIN;

/// Larger files are separate items, of one or more parts. Otherwise shares of a directory with a few large files could give one node
/// many of them and another node none.
const LARGE_BYTES: u64 = 64 << 20;

/// A scan with more bytes in small files is divided into shares. So a slow node is not busy with one scan for long, and the
/// last scans end together.
const SCAN_BYTES: u64 = 64 << 20;

/// Limits of one walk.
#[derive(Clone, Copy, Debug)]
pub struct WalkLimits {
    /// Number of small files after which the walk enters no more directories.
    pub files: usize,
    /// Bytes of small files after which the walk enters no more directories. It divides a directory with more bytes into shares.
    pub bytes: u64,
    /// Most names of a directory that is not divided into shares.
    pub names: usize,
    /// Bytes of paths after which the walk enters no more directories. It divides a directory with more bytes into shares.
    pub paths: usize,
    /// Files with more bytes are large.
    pub large: u64,
    /// Most shares of a directory.
    pub shares: u32,
}

impl Default for WalkLimits {
    fn default() -> Self {
        Self {
            files: 4_096,
            bytes: SCAN_BYTES,
            names: 10_000,
            paths: 16 << 20,
            large: LARGE_BYTES,
            shares: 1_024,
        }
    }
}

/// The result of a walk.
#[derive(Debug, Default)]
pub struct Walked {
    /// Small files below the source, each followed by a zero byte.
    pub names: Vec<u8>,
    /// Number of small files.
    pub files: usize,
    /// Bytes of the small files.
    pub bytes: u64,
    /// Large files.
    pub large: Vec<LargeFile>,
    /// Skipped names of files that have several names.
    pub several: usize,
    /// Directories that were not entered, each with its number of shares, and large files that stay whole.
    pub left: Vec<(Vec<u8>, u32)>,
}

impl Walked {
    /// Bytes of all paths, with those of the directories to enter.
    fn path_bytes(&self, deeper: &[Vec<u8>]) -> usize {
        let large: usize = self.large.iter().map(|file| file.path.len()).sum();
        let left: usize = self.left.iter().map(|(path, _)| path.len()).sum();
        let deeper: usize = deeper.iter().map(Vec::len).sum();
        self.names.len() + large + left + deeper
    }
}

/// A file that is sent in parts.
#[derive(Debug, Eq, PartialEq)]
pub struct LargeFile {
    /// Path below the source.
    pub path: Vec<u8>,
    /// Length of the contents.
    pub bytes: u64,
    /// Generation of the file.
    pub generation: u64,
}

/// The source of a job, for walks.
pub struct Walk {
    root: TreeRoot,
    select: Arc<Select>,
    limits: WalkLimits,
    /// Large files are not sent in parts: each is left to a walk that begins at the file.
    keeps_whole: bool,
}

impl Walk {
    /// Opens the one source of a job.
    ///
    /// # Errors
    /// The source is not on this machine, cannot be opened, or is not a directory.
    pub fn open(spec: &JobSpec, env: &Env, limits: WalkLimits) -> Result<Self, Failure> {
        let settings = spec.copy_settings().map_err(Failure::usage)?;
        let (Some(exports), [Endpoint::Local(path)]) = (&env.exports, spec.sources.as_slice())
        else {
            return Err(Failure::usage(
                "a walk has one source, in an export of this node",
            ));
        };
        let no_source = |error: String, path: &Path| {
            Failure::new(FailureCode::NoSource, error).about(path.display())
        };
        let source = exports
            .source(path, access_of(&settings))
            .map_err(|error| no_source(error.to_string(), path))?;
        let root = source.root;
        let there = root.storage.stat(&root.start);
        let there = there.map_err(|error| no_source(error.to_string(), path))?;
        let is_directory = there.is_some_and(|meta| meta.kind == Kind::Directory);
        if !is_directory {
            return Err(no_source("this is no directory".to_owned(), path));
        }
        Ok(Self {
            root,
            select: select_of(spec.selection.as_ref())?,
            limits,
            // The digest of a part does not prove that the whole file is the same.
            keeps_whole: settings.comparison.judge == Judge::Checksum,
        })
    }

    /// The inodes of the source according to this node: see [`godwit_api::observation`]. With an `earlier` one, examines the same entries if
    /// they exist.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn observe(&self, earlier: Option<&[u64]>) -> Result<Vec<u64>, Failure> {
        let (storage, start) = (&self.root.storage, &self.root.start);
        let failed = |error: StoreError| Failure::new(FailureCode::LocalFailure, error);
        let mut chosen = Chosen::like(earlier);
        let mut each = |name: &[u8]| chosen.add(name);
        storage.names_in(start, &mut each).map_err(failed)?;
        let root = storage.stat(start).map_err(failed)?;
        let inode_of = |name: &[u8]| {
            let meta = storage.stat(&start.join(name).ok()?).ok()?;
            meta.map(|meta| meta.inode)
        };
        Ok(chosen.observation(root.map_or(0, |meta| meta.inode), inode_of))
    }

    /// Treats files that are not sent in parts like small ones, for nodes that cannot begin a walk at a file.
    #[must_use]
    pub fn without_files(mut self) -> Self {
        if self.keeps_whole {
            self.limits.large = u64::MAX;
        }
        self
    }

    /// The large file of this name in the source; `None` if a walk would not report it as large.
    #[must_use]
    pub fn large_file(&self, name: &[u8]) -> Option<LargeFile> {
        if self.keeps_whole {
            return None;
        }
        let path = self.path(name).ok()?;
        let meta = self.root.storage.stat(&path).ok()??;
        let is_large = meta.kind == Kind::File && meta.links == 1 && meta.bytes > self.limits.large;
        let is_meant = !self.select.leaves_out(name, false) && !self.select.passes_over(&meta);
        (is_large && is_meant).then(|| LargeFile {
            path: name.to_vec(),
            bytes: meta.bytes,
            generation: meta.generation(),
        })
    }

    /// Whether the source has a file of this name.
    #[must_use]
    pub fn has_file(&self, name: &[u8]) -> bool {
        self.kind_of(name)
            .is_ok_and(|kind| kind == Some(Kind::File))
    }

    /// Whether the source has a directory at this path.
    ///
    /// # Errors
    /// The source cannot be read, so it may have the directory.
    pub fn has_directory(&self, below: &[u8]) -> Result<bool, Unread> {
        match self.kind_of(below) {
            Ok(kind) => Ok(kind == Some(Kind::Directory)),
            // Another kind of entry has the name.
            Err(error) if is_gone(error.kind) => Ok(false),
            Err(error) => Err(Unread::of(below, &error)),
        }
    }

    fn kind_of(&self, below: &[u8]) -> Result<Option<Kind>, StoreError> {
        let meta = self.root.storage.stat(&self.path(below)?)?;
        Ok(meta.map(|meta| meta.kind))
    }

    /// The one file at which a walk begins; `None` at a directory. A file that was removed meanwhile is not sent.
    fn whole_file(&self, from: &[u8]) -> Option<Walked> {
        if !self.keeps_whole || from.is_empty() {
            return None;
        }
        match self.root.storage.stat(&self.path(from).ok()?) {
            Ok(Some(meta)) if meta.kind == Kind::Directory => None,
            Ok(Some(meta)) if meta.kind == Kind::File && meta.links == 1 => Some(Walked {
                names: [from, &[0]].concat(),
                files: 1,
                bytes: meta.bytes,
                ..Walked::default()
            }),
            Ok(meta) => Some(Walked {
                several: usize::from(meta.is_some_and(|meta| meta.links > 1)),
                ..Walked::default()
            }),
            // The listing fails with a reason.
            Err(_) => None,
        }
    }

    /// Walks from a directory below the source, or one share of the names in it, or takes one large file.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn walk(&self, from: &[u8], share: u32, shares: u32) -> Result<Walked, Failure> {
        if let Some(whole) = self.whole_file(from) {
            return Ok(whole);
        }
        let mut walked = Walked::default();
        let mut stack = Vec::new();
        self.level(from, (share, shares), &mut walked, &mut stack)
            .map_err(|error| Failure::new(FailureCode::LocalFailure, error))?;
        while walked.files < self.limits.files
            && walked.bytes < self.limits.bytes
            && walked.path_bytes(&stack) < self.limits.paths
        {
            let Some(directory) = stack.pop() else {
                break;
            };
            if self
                .level(&directory, (0, 1), &mut walked, &mut stack)
                .is_err()
            {
                // The walk that begins at this directory reports the failure.
                walked.left.push((directory, 1));
            }
        }
        walked.left.extend(stack.into_iter().map(|path| (path, 1)));
        Ok(walked)
    }

    /// Examines one directory.
    fn level(
        &self,
        below: &[u8],
        (share, shares): (u32, u32),
        walked: &mut Walked,
        stack: &mut Vec<Vec<u8>>,
    ) -> Result<(), StoreError> {
        let storage = &self.root.storage;
        let directory = self.path(below)?;
        let (mut names, mut count) = (Vec::new(), 0_usize);
        storage.names_in(&directory, &mut |name| {
            if TempName::is_temp(name) {
                return;
            }
            count += 1;
            let is_ours = shares == 1 || share_of(name, shares) == share;
            if is_ours && (shares > 1 || count <= self.limits.names) {
                names.push(name.to_vec());
            }
        })?;
        if shares == 1 && count > self.limits.names {
            let each = (self.limits.names / 2).max(1);
            walked
                .left
                .push((below.to_vec(), self.shares(count.div_ceil(each) as u64)));
            return Ok(());
        }
        names.sort_unstable();
        let (mut found, mut deeper) = (Walked::default(), Vec::new());
        let mut look = storage.look();
        for name in &names {
            let path = match below {
                b"" => name.clone(),
                _ => [below, b"/", name].concat(),
            };
            // The closer of the tree reports entries that cannot be examined.
            let Ok(place) = self.path(&path) else {
                continue;
            };
            let Ok(Some(meta)) = look.stat(&place) else {
                continue;
            };
            let is_directory = meta.kind == Kind::Directory;
            if self.select.leaves_out(&path, is_directory) || self.select.passes_over(&meta) {
                continue;
            }
            if is_directory {
                deeper.push(path);
            } else if meta.links > 1 {
                found.several += 1;
            } else if meta.kind != Kind::File {
                continue;
            } else if meta.bytes > self.limits.large && self.keeps_whole {
                found.left.push((path, 1));
            } else if meta.bytes > self.limits.large {
                found.large.push(LargeFile {
                    path,
                    bytes: meta.bytes,
                    generation: meta.generation(),
                });
            } else {
                found.names.extend_from_slice(&path);
                found.names.push(0);
                found.files += 1;
                found.bytes = found.bytes.saturating_add(meta.bytes);
            }
        }
        if shares == 1 && found.bytes > self.limits.bytes && found.files > 1 {
            let wanted = found
                .bytes
                .div_ceil(self.limits.bytes)
                .min(found.files as u64);
            walked.left.push((below.to_vec(), self.shares(wanted)));
            return Ok(());
        }
        let paths = found.path_bytes(&deeper);
        if shares == 1 && paths > self.limits.paths && names.len() > 1 {
            let wanted = self.shares(paths.div_ceil(self.limits.paths) as u64);
            walked.left.push((below.to_vec(), wanted));
            return Ok(());
        }
        walked.names.append(&mut found.names);
        walked.files += found.files;
        walked.several += found.several;
        walked.bytes = walked.bytes.saturating_add(found.bytes);
        walked.large.append(&mut found.large);
        walked.left.append(&mut found.left);
        stack.append(&mut deeper);
        Ok(())
    }

    fn shares(&self, wanted: u64) -> u32 {
        let most = u64::from(self.limits.shares);
        u32::try_from(wanted.clamp(2, most)).unwrap_or(self.limits.shares)
    }

    fn path(&self, below: &[u8]) -> Result<RelPath, StoreError> {
        let start = &self.root.start;
        if below.is_empty() {
            return Ok(start.clone());
        }
        start
            .join(below)
            .map_err(|_error| StoreError::new("look at", start, StoreErrorKind::NotFound))
    }
}

/// Whether an error proves that no directory has the path: there is no entry, or another kind of entry at it or above it.
const fn is_gone(kind: StoreErrorKind) -> bool {
    matches!(
        kind,
        StoreErrorKind::NotFound | StoreErrorKind::TypeConflict | StoreErrorKind::Escape
    )
}

/// The share of a name: the same on every node and in every release.
fn share_of(name: &[u8], shares: u32) -> u32 {
    let hash = fnv(name.iter().copied());
    let folded = hash ^ (hash >> 32);
    u32::try_from(folded % u64::from(shares.max(1))).unwrap_or(0)
}
