//! Owns which operation of a hostile storage fails, and how: by rules, counters and a seed.
//! Performs no operation itself.

use godwit_seeded::{STEP, mix};
use godwit_store::error::{StoreError, StoreErrorKind};
use godwit_store::path::RelPath;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// An operation of a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Beginning a scan or survey; also every regular file found.
    Scan,
    /// `stat`.
    Stat,
    /// `read_link`.
    ReadLink,
    /// `open` of a source file.
    Open,
    /// `read_at` and `read_whole`.
    Read,
    /// `make_directory`.
    MakeDirectory,
    /// `make_symlink`.
    MakeSymlink,
    /// `make_link`.
    MakeLink,
    /// `create`.
    Create,
    /// `preallocate`.
    Preallocate,
    /// `write_at` and `write_whole`; a seeded part is written before it fails.
    Write,
    /// `finish`.
    Finish,
    /// `sync_batch`.
    SyncBatch,
    /// `commit`.
    Commit,
    /// `sync_directories`, `sync_attributes`.
    SyncDirectories,
    /// `open_temp`.
    OpenTemp,
    /// `discard`.
    Discard,
    /// `set_directory_meta`, `open_directory`.
    SetDirectoryMeta,
    /// `sweep`.
    Sweep,
    /// `set_meta`.
    SetMeta,
    /// `remove_entry`.
    Remove,
}

/// When a rule makes its operation fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Only this time, the first being 1.
    Nth(u64),
    /// Every time from this one on, the first being 1.
    From(u64),
    /// This many times in a million, by the seed.
    Chance(u32),
}

/// An operation that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Which one.
    pub operation: Operation,
    /// When.
    pub when: When,
    /// With which error.
    pub error: StoreErrorKind,
}

/// Called before each operation, on the calling thread: delays, gates and records are the caller's.
pub type Hook = Arc<dyn Fn(Operation, &RelPath) + Send + Sync>;

/// Everything that goes wrong; `new` is a storage in which nothing does.
#[derive(Clone)]
pub struct Faults {
    /// From which all chance follows.
    pub seed: u64,
    /// The first rule that applies wins.
    pub rules: Vec<Rule>,
    /// How many bytes can be written before there is no space left.
    pub space_bytes: Option<u64>,
    /// After this many operations the storage crashes, as by [`super::HostileStorage::crash`].
    pub crash_after: Option<u64>,
    /// Writes stay in a cache of their writer until they are synced, and renames until their directory is: a failed sync
    /// loses those of its batch, a crash all of them.
    pub writer_cache: bool,
    /// With `writer_cache`: renames are not cached. This models a storage that several machines share: each has its own page cache, and the
    /// server has the names.
    pub names_at_once: bool,
    /// Chooses the paths that are in memory only, so that small files get their names at once. Not together with `writer_cache`.
    pub in_memory: Option<fn(&RelPath) -> bool>,
    /// Called before each operation.
    pub hook: Option<Hook>,
}

impl Faults {
    /// No faults.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            rules: Vec::new(),
            space_bytes: None,
            crash_after: None,
            writer_cache: false,
            names_at_once: false,
            in_memory: None,
            hook: None,
        }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults")
            .field("seed", &self.seed)
            .field("rules", &self.rules)
            .field("space_bytes", &self.space_bytes)
            .field("crash_after", &self.crash_after)
            .field("writer_cache", &self.writer_cache)
            .finish_non_exhaustive()
    }
}

/// The faults and how far they have come.
#[derive(Debug)]
pub(super) struct Progress {
    faults: Faults,
    counts: HashMap<Operation, u64>,
    operations: u64,
    draws: u64,
    crashed: bool,
}

/// The outcome of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Works,
    Fails(StoreErrorKind),
    /// The operation fails, and so does every later one.
    Crashes,
}

impl Progress {
    pub(super) fn new(faults: Faults) -> Self {
        Self {
            faults,
            counts: HashMap::new(),
            operations: 0,
            draws: 0,
            crashed: false,
        }
    }

    pub(super) fn faults(&self) -> &Faults {
        &self.faults
    }

    pub(super) fn faults_mut(&mut self) -> &mut Faults {
        &mut self.faults
    }

    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    pub(super) fn crashed(&self) -> bool {
        self.crashed
    }

    pub(super) fn crash(&mut self) {
        self.crashed = true;
    }

    /// Counts one more `operation` and decides its fate.
    pub(super) fn next(&mut self, operation: Operation) -> Fate {
        if self.crashed {
            return Fate::Fails(StoreErrorKind::Io);
        }
        self.operations += 1;
        if self
            .faults
            .crash_after
            .is_some_and(|after| self.operations > after)
        {
            return Fate::Crashes;
        }
        let count = self.counts.entry(operation).or_insert(0);
        *count += 1;
        let count = *count;
        for index in 0..self.faults.rules.len() {
            let rule = self.faults.rules[index];
            let applies = rule.operation == operation
                && match rule.when {
                    When::Nth(nth) => count == nth,
                    When::From(first) => count >= first,
                    When::Chance(millionths) => self.draw(1_000_000) < u64::from(millionths),
                };
            if applies {
                return Fate::Fails(rule.error);
            }
        }
        Fate::Works
    }

    /// How many of `bytes` still find room; they are taken.
    pub(super) fn take_space(&mut self, bytes: u64) -> u64 {
        match &mut self.faults.space_bytes {
            None => bytes,
            Some(left) => {
                let taken = bytes.min(*left);
                *left -= taken;
                taken
            }
        }
    }

    /// A number below `limit`, by the seed.
    pub(super) fn draw(&mut self, limit: u64) -> u64 {
        self.draws += 1;
        let drawn = self.draws.wrapping_mul(STEP);
        mix(self.faults.seed.wrapping_add(drawn)) % limit.max(1)
    }
}

/// The error that a storage which failed on purpose gives.
pub(super) fn failed(operation: Operation, path: &RelPath, kind: StoreErrorKind) -> StoreError {
    let verb = match operation {
        Operation::Scan => "scan",
        Operation::Stat => "look at",
        Operation::ReadLink => "read the link",
        Operation::Open | Operation::OpenTemp => "open",
        Operation::Read => "read",
        Operation::MakeDirectory => "make the directory",
        Operation::MakeSymlink => "make the link",
        Operation::MakeLink => "link",
        Operation::Create => "create",
        Operation::Preallocate => "take room for",
        Operation::Write => "write",
        Operation::Finish => "finish",
        Operation::SyncBatch => "sync",
        Operation::Commit => "rename",
        Operation::SyncDirectories => "sync the directory",
        Operation::Discard | Operation::Remove => "remove",
        Operation::SetDirectoryMeta | Operation::SetMeta => "set the attributes of",
        Operation::Sweep => "sweep",
    };
    StoreError::new(verb, path, kind)
}
