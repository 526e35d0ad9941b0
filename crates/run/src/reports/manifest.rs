//! Writes the manifest of a transfer: lines of complete entries, digests of existing entries, sorted on request. The file
//! gets its final name only when it is complete. Memory does not grow with the number of entries.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IntoInnerError};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use godwit_api::event::{Event, EventSink, Failed, ManifestDone};
use godwit_engine::{Counters, entry};
use godwit_proto::{EntryKind, Record};
use godwit_store::digest::DigestKind;
use godwit_store::manifest::{
    ManifestEntry, ManifestReader, ManifestWriter, Sign, decode_entry, encode_entry,
};
use godwit_store::spill::{SpillSorter, SpillStack};
use godwit_tree::TreeRoot;
use godwit_tree::verification::{Checked, Finding, Verifier, VerifierConfig};

use super::names_room::NamesRoom;
use super::pending::{decode, encode, sorted_entry, sorted_item};
use super::target::Target;
use super::write_error::WriteError;
use super::{Signer, listing, locked, show};
use godwit_api::failure::{Failure, FailureCode};

/// Bytes of names in memory before they are sorted on disk.
const SORT_BYTES: usize = 16 << 20;
/// Bytes of entries in memory that wait for their digest.
const PENDING_BYTES: usize = 4 << 20;
/// Entries passed to the reading threads at a time.
const BATCH: usize = 256;
/// Interval between checks for an interrupt, while digests are computed at the end.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Destination of a manifest.
pub enum ManifestPlace {
    /// The manifest is written to this file.
    File {
        /// The file.
        path: PathBuf,
        /// Whether lines are sorted by name.
        sorted: bool,
        /// The key that signs the manifest.
        signer: Option<Signer>,
    },
    /// The lines are sent to another godwit process, which writes the manifest.
    Events(Arc<dyn EventSink>),
}

/// Options of a new keeper.
pub struct KeeperOptions {
    /// The destination of the manifest.
    pub place: ManifestPlace,
    /// Directory for data that exceeds memory.
    pub spill: PathBuf,
    /// The file mode bits that the file must not have.
    pub umask: u32,
    /// Threads that compute digests; 0 for one on each core.
    pub threads: usize,
}

impl KeeperOptions {
    fn trouble(&self, error: impl std::fmt::Display) -> Failure {
        let what = match &self.place {
            ManifestPlace::File { path, .. } => format!("{} cannot be written", show(path)),
            ManifestPlace::Events(_) => "cannot be told".to_owned(),
        };
        let message = format!("the manifest {what}: {error}");
        Failure::new(FailureCode::ReportUnusable, message)
    }
}

/// The result of a manifest.
#[derive(Debug, Default)]
pub struct Finished {
    /// The written file, if there is one.
    pub manifest: Option<ManifestDone>,
    /// Entries whose copies could not be read.
    pub unreadable: u64,
    /// Whether the user interrupted the manifest.
    pub interrupted: bool,
}

/// Writes one manifest.
pub struct Keeper {
    options: KeeperOptions,
    /// `None` without a file.
    target: Option<Target>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Counts restarts, so that late results of an earlier round can be dropped.
    round: u64,
    prefixes: Vec<Vec<u8>>,
    lines: Option<Lines>,
    pending: SpillStack,
    /// Entries in `pending`, or being processed by the reading threads.
    waiting: u64,
    failed: HashSet<Vec<u8>>,
    unreadable: Vec<(Vec<u8>, String)>,
    room: NamesRoom,
    unreadable_count: u64,
    error: Option<WriteError>,
    closing: bool,
    verifier: Option<Arc<Verifier>>,
}

enum Lines {
    AsTheyCome(Box<ManifestWriter<BufWriter<File>>>),
    Sorted(SpillSorter, DigestKind),
    Events(Arc<dyn EventSink>, DigestKind),
}

impl Keeper {
    /// Makes a draft beside the manifest, so that an unwritable path fails before any data moves.
    pub fn open(options: KeeperOptions) -> Result<Arc<Self>, Failure> {
        let target = match &options.place {
            ManifestPlace::File { path, .. } => {
                let found = Target::find(path, &options.spill, options.umask, "manifest");
                Some(found.map_err(|error| options.trouble(error))?)
            }
            ManifestPlace::Events(_) => None,
        };
        let keeper = Self {
            target,
            state: Mutex::new(State {
                round: 0,
                prefixes: Vec::new(),
                lines: None,
                pending: SpillStack::new(&options.spill, PENDING_BYTES),
                waiting: 0,
                failed: HashSet::new(),
                unreadable: Vec::new(),
                room: NamesRoom::default(),
                unreadable_count: 0,
                error: None,
                closing: false,
                verifier: None,
            }),
            changed: Condvar::new(),
            options,
        };
        if keeper.target.is_some() {
            let created = keeper.create_draft();
            created.map_err(|error| keeper.options.trouble(error))?;
        }
        Ok(Arc::new(keeper))
    }

    /// The files that the manifest is written to, now or later.
    pub fn places(&self) -> Vec<PathBuf> {
        self.target.as_ref().map_or_else(Vec::new, Target::places)
    }

    fn create_draft(&self) -> io::Result<File> {
        match &self.target {
            Some(target) => target.create(),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Begins or restarts the manifest.
    pub fn begin(
        self: &Arc<Self>,
        prefixes: Vec<Vec<u8>>,
        copies: Vec<TreeRoot>,
        digest: DigestKind,
    ) -> Result<(), Failure> {
        let lines = match &self.options.place {
            ManifestPlace::Events(output) => Lines::Events(Arc::clone(output), digest),
            ManifestPlace::File { sorted: true, .. } => {
                Lines::Sorted(SpillSorter::new(&self.options.spill, SORT_BYTES), digest)
            }
            ManifestPlace::File { .. } => {
                let writer = self
                    .create_draft()
                    .and_then(|draft| ManifestWriter::new(BufWriter::new(draft), digest))
                    .map_err(|error| self.options.trouble(error))?;
                Lines::AsTheyCome(Box::new(writer))
            }
        };
        let mut state = locked(&self.state);
        if let Some(verifier) = state.verifier.take() {
            verifier.stop();
        }
        state.round += 1;
        let round = state.round;
        state.prefixes = prefixes;
        state.lines = Some(lines);
        state.pending = SpillStack::new(&self.options.spill, PENDING_BYTES);
        state.waiting = 0;
        state.failed.clear();
        state.room = NamesRoom::default();
        drop(state);
        if copies.is_empty() {
            return Ok(());
        }
        let threads = match self.options.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            threads => threads,
        };
        let own = Arc::clone(self);
        let config = VerifierConfig {
            roots: copies,
            digest,
            contents_only: true,
            durable: false,
            touched: None,
            threads,
        };
        let reported = Box::new(move |checked| own.take_digests(round, checked));
        let verifier = Verifier::start(config, Arc::new(Counters::default()), reported)
            .map_err(|error| self.options.trouble(error))?;
        let verifier = Arc::new(verifier);
        locked(&self.state).verifier = Some(Arc::clone(&verifier));
        let own = Arc::clone(self);
        std::thread::Builder::new()
            .name("gw-manifest".to_owned())
            .spawn(move || own.feed(round, &verifier))
            .map_err(|error| self.options.trouble(error))?;
        Ok(())
    }

    /// Records a complete entry; a file without a digest is read to compute it.
    pub fn entry_done(&self, record: &Record) {
        let mut state = locked(&self.state);
        if record.kind == EntryKind::FILE && record.digest.is_none() {
            match state.pending.push(&encode(record)) {
                Ok(()) => {
                    state.waiting += 1;
                    self.changed.notify_all();
                }
                Err(error) => state.fail(error),
            }
        } else {
            state.add(record);
        }
    }

    /// Records an entry that another godwit process completed, by its line, which may be invalid.
    pub(super) fn add_line(&self, line: &[u8]) {
        let mut state = locked(&self.state);
        let kind = match &state.lines {
            Some(Lines::AsTheyCome(writer)) => writer.digest_kind(),
            Some(Lines::Sorted(_, kind) | Lines::Events(_, kind)) => *kind,
            None => return,
        };
        match decode_entry(line, kind) {
            Ok(entry) => state.add_entry(&entry),
            Err(error) => state.fail(error),
        }
    }

    /// Records a failed entry, by its name in the manifest; its line must be removed.
    pub(super) fn entry_failed(&self, name: &[u8]) {
        let mut state = locked(&self.state);
        if !state.failed.contains(name) && state.room.take(name.len()) {
            state.failed.insert(name.to_vec());
        }
    }

    /// Main function of the thread that passes work to the reading threads.
    fn feed(&self, round: u64, verifier: &Verifier) {
        loop {
            let mut batch = Vec::with_capacity(BATCH);
            let mut state = locked(&self.state);
            while state.round == round && batch.len() < BATCH {
                match state.pending.pop() {
                    Ok(Some(item)) => batch.extend(decode(&item)),
                    Ok(None) if !batch.is_empty() || state.closing => break,
                    Ok(None) => {
                        state = self
                            .changed
                            .wait(state)
                            .unwrap_or_else(PoisonError::into_inner);
                    }
                    Err(error) => {
                        state.fail(error);
                        return;
                    }
                }
            }
            let over = state.round != round || (state.closing && batch.is_empty());
            drop(state);
            if over {
                return;
            }
            verifier.submit(0, batch);
        }
    }

    fn take_digests(&self, round: u64, checked: Checked) {
        let mut state = locked(&self.state);
        if state.round != round {
            return;
        }
        for (mut record, finding) in checked.records.into_iter().zip(checked.findings) {
            state.waiting = state.waiting.saturating_sub(1);
            match finding {
                Finding::Same(digest) => {
                    record.digest = digest.as_ref().map(entry::digest_to_wire);
                    state.add(&record);
                }
                Finding::Different(fault) => {
                    state.unreadable_count += 1;
                    // More are only counted, because memory is bounded.
                    let name = state.name(&record);
                    if state.room.take(name.len() + fault.message.len()) {
                        state.unreadable.push((name, fault.message));
                    }
                }
            }
        }
        self.changed.notify_all();
    }

    /// Computes the missing digests, and renames the file to its final name.
    pub fn finish(
        &self,
        failed: u64,
        output: &dyn EventSink,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Finished, Failure> {
        let mut state = locked(&self.state);
        state.closing = true;
        self.changed.notify_all();
        while state.waiting > 0 && state.error.is_none() {
            state = self
                .changed
                .wait_timeout(state, LOOK_EVERY)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
            let mut verifiers = state.verifier.iter();
            if verifiers.any(|verifier| verifier.has_failed()) {
                state.fail(WriteError::Panicked);
            }
            if !goes_on() {
                drop(state);
                self.discard();
                output.note("interrupted while digests were taken: there is no manifest");
                return Ok(Finished {
                    interrupted: true,
                    ..Finished::default()
                });
            }
        }
        state.verifier = None;
        for (name, message) in state.unreadable.drain(..) {
            let why = format!("not in the manifest: {message}");
            output.emit(Event::Failed(Failed::named(name, why)));
        }
        let unreadable = state.unreadable_count;
        let lines = state.lines.take();
        let gone = std::mem::take(&mut state.failed);
        let error = state.error.take();
        drop(state);
        let written = match (error, lines) {
            (None, Some(lines)) => self.write(lines, &gone, failed + unreadable),
            (Some(error), _) => Err(error),
            (None, None) => Err(WriteError::NeverBegan),
        };
        match written {
            Ok(manifest) => Ok(Finished {
                manifest,
                unreadable,
                interrupted: false,
            }),
            Err(error) => {
                self.discard();
                Err(self.options.trouble(error))
            }
        }
    }

    /// Writes the manifest; `None` without a file.
    fn write(
        &self,
        lines: Lines,
        gone: &HashSet<Vec<u8>>,
        failed: u64,
    ) -> Result<Option<ManifestDone>, WriteError> {
        let (ManifestPlace::File { path, signer, .. }, Some(target)) =
            (&self.options.place, &self.target)
        else {
            return Ok(None);
        };
        let draft_path = target.draft();
        let signer = signer.as_ref();
        let sign_with = |digest: &[u8; 32]| signer.map_or_else(String::new, |key| key.sign(digest));
        let sign: Option<Sign<'_>> = match signer {
            Some(_) => Some(&sign_with),
            None => None,
        };
        let is_gone = |entry: &ManifestEntry| gone.contains(entry.path.as_bytes());
        let (out, trailer) = match lines {
            Lines::AsTheyCome(writer) if gone.is_empty() => writer.finish(failed, sign)?,
            Lines::AsTheyCome(writer) => {
                // An entry may have failed after its line was written. The second pass omits the line.
                writer.finish(failed, None)?;
                let old = File::open(draft_path)?;
                std::fs::remove_file(draft_path)?;
                let draft = BufWriter::new(self.create_draft()?);
                let mut reader = ManifestReader::new(BufReader::new(old))?;
                let mut writer = ManifestWriter::new(draft, reader.digest_kind())?;
                while let Some(entry) = reader.next_entry()? {
                    if !is_gone(&entry) {
                        writer.push(&entry)?;
                    }
                }
                writer.finish(failed, sign)?
            }
            Lines::Sorted(sorter, kind) => {
                let draft = BufWriter::new(self.create_draft()?);
                let mut writer = ManifestWriter::new(draft, kind)?;
                let mut merge = sorter.finish()?;
                while let Some(item) = merge.next_record()? {
                    let entry = sorted_entry(&item, kind).ok_or(WriteError::NotedLine)?;
                    if !is_gone(&entry) {
                        writer.push(&entry)?;
                    }
                }
                writer.finish(failed, sign)?
            }
            Lines::Events(..) => return Ok(None),
        };
        let file = out.into_inner().map_err(IntoInnerError::into_error)?;
        file.sync_all()?;
        let bytes = file.metadata()?.len();
        target.finish()?;
        Ok(Some(listing::done(path, bytes, &trailer)))
    }

    /// Drops the manifest.
    pub(super) fn discard(&self) {
        let mut state = locked(&self.state);
        state.closing = true;
        state.round += 1;
        state.lines = None;
        if let Some(verifier) = state.verifier.take() {
            verifier.stop();
        }
        self.changed.notify_all();
        drop(state);
        self.remove_draft();
    }

    fn remove_draft(&self) {
        if let Some(target) = &self.target {
            let _ = std::fs::remove_file(target.draft()); // The draft may be gone already.
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.remove_draft();
    }
}

impl State {
    fn name(&self, record: &Record) -> Vec<u8> {
        let prefix = self.prefixes.get(usize::from(record.root));
        listing::join(prefix.map_or(&[][..], Vec::as_slice), &record.path)
    }

    fn add(&mut self, record: &Record) {
        let prefix = self.prefixes.get(usize::from(record.root));
        let entry = listing::entry_of(record, prefix.map_or(&[][..], Vec::as_slice));
        if let Some(entry) = entry {
            self.add_entry(&entry);
        }
    }

    fn add_entry(&mut self, entry: &ManifestEntry) {
        let added = match &mut self.lines {
            Some(Lines::AsTheyCome(writer)) => writer.push(entry),
            Some(Lines::Sorted(sorter, kind)) => sorter.push(&sorted_item(entry, *kind)),
            Some(Lines::Events(output, kind)) => {
                let mut line = Vec::new();
                encode_entry(entry, *kind, &mut line);
                line.pop();
                output.emit(Event::Entry { line });
                Ok(())
            }
            None => Ok(()),
        };
        if let Err(error) = added {
            self.fail(error);
        }
    }

    /// Records a failure; only the first one is kept.
    fn fail(&mut self, error: impl Into<WriteError>) {
        self.error.get_or_insert_with(|| error.into());
    }
}
