//! Owns the choice of the operations of a hostile storage that fail, and their errors: by rules, counters and a seed. Performs no
//! operations itself.

use godwit_seeded::{STEP, mix};
use godwit_store::error::{StoreError, StoreErrorKind};
use godwit_store::path::RelPath;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// An operation of a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The start of a scan or survey, and each regular file found.
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
    /// `write_at` and `write_whole`; a part that depends on the seed is written before the failure.
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
    /// Only this time, counted from 1.
    Nth(u64),
    /// Every time from this one on, counted from 1.
    From(u64),
    /// This many times in a million, depending on the seed.
    Chance(u32),
}

/// A rule that makes an operation fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The operation that fails.
    pub operation: Operation,
    /// When the operation fails.
    pub when: When,
    /// The error of the operation.
    pub error: StoreErrorKind,
}

/// Called before each operation, on the calling thread: a test uses it for delays, gates and records.
pub type Hook = Arc<dyn Fn(Operation, &RelPath) + Send + Sync>;

/// All faults of a storage; `new` has none.
#[derive(Clone)]
pub struct Faults {
    /// All random choices depend on this seed.
    pub seed: u64,
    /// Rules; the first rule that applies decides.
    pub rules: Vec<Rule>,
    /// Number of bytes that can be written before no space is left.
    pub space_bytes: Option<u64>,
    /// After this many operations the storage crashes, as by [`super::HostileStorage::crash`].
    pub crash_after: Option<u64>,
    /// Writes stay in their writer's cache until they are synced, and renames until their directory is synced. A failed sync loses the data
    /// of its batch, a crash loses all of it.
    pub writer_cache: bool,
    /// With `writer_cache`: renames are not cached. This models storage shared by several machines: each machine has a separate page cache,
    /// and the server has the names.
    pub names_at_once: bool,
    /// Selects the paths whose small files are in memory only and get their names at once. Must not be combined with `writer_cache`.
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

/// The faults and their present counters.
#[derive(Debug)]
pub(super) struct Progress {
    faults: Faults,
    counts: HashMap<Operation, u64>,
    operations: u64,
    draws: u64,
    crashed: bool,
}

/// The result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Works,
    Fails(StoreErrorKind),
    /// The operation fails, and so do all later ones.
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

    /// Counts one `operation` and decides its result.
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

    /// Reserves space for up to `bytes`; returns the number of bytes that have space.
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

    /// A number below `limit`, which depends on the seed.
    pub(super) fn draw(&mut self, limit: u64) -> u64 {
        self.draws += 1;
        let drawn = self.draws.wrapping_mul(STEP);
        mix(self.faults.seed.wrapping_add(drawn)) % limit.max(1)
    }
}

/// The error of an operation that fails on purpose.
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
