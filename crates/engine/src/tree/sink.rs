//! Writes what arrives under temporary names, and remembers what each file still lacks.
//! Does not compare (`plan`) and does not make anything durable or final (`commit`).

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use godwit_proto::limits::MESSAGE_BYTES_MAX;
use godwit_proto::{
    Comparison, EntryId, Fault, FaultCode, Notice, NoticeKind, Record, RecordFlags, Seq, Side,
    Verdict,
};
use godwit_store::digest;
use godwit_store::journal::{DoneSet, Journal, Partial, PathKey, Recovered};
use godwit_store::{Kind, RelPath, Storage, StoreError};

use super::announced::Announced;
use super::commit::Committer;
use super::deferred::Deferred;
use super::floors::Floors;
use super::keeper::Keeper;
use super::later::Later;
use super::leftovers::Leftovers;
use super::open::OpenFiles;
use super::plan::unreadable;
use super::ranges::RangeBudget;
use super::spared::Spared;
use super::spelling::{LastDirectory, Spelling};
use super::undelivered::{Undelivered, UndeliveredSet};
use super::unusable::Unusable;
use crate::select::Select;
use crate::sink::{Ending, FinishReport, Sink, Slice};
use crate::{Acks, Counters, entry, limits, lock};

/// What a tree sink is told at its beginning.
pub struct TreeSinkConfig {
    /// Where the files go.
    pub storage: Arc<dyn Storage>,
    /// For each root of the source, its name in the storage.
    pub mapping: Vec<RelPath>,
    /// Marks the temporary names of this transfer.
    pub tag: u64,
    /// Digest of blocks and files.
    pub digest: digest::DigestKind,
    /// Send entries even if size and time match.
    pub force: bool,
    /// Read every file back before it gets its name.
    pub verify: bool,
    /// Do not wait for storage: what was delivered may not survive a power cut.
    pub no_sync: bool,
    /// Where what does not fit in memory is kept.
    pub spill_directory: PathBuf,
    /// How the destination is called in messages.
    pub display: Vec<u8>,
    /// What is kept of metadata.
    pub keeper: Arc<Keeper>,
    /// What becomes of entries that are there; `None` if the sender did not ask for anything.
    pub comparison: Option<Comparison>,
    /// A place in the storage that is this program's own, and is never deleted.
    pub protected: Option<RelPath>,
    /// The destination was named as a directory, and must not become anything else.
    pub must_be_directory: bool,
    /// What is meant of the sources: what it excludes is not the transfer's to touch.
    pub select: Arc<Select>,
}

/// A tree of files as a destination.
pub struct TreeSink {
    pub(super) config: TreeSinkConfig,
    pub(super) acks: Arc<Acks>,
    pub(super) counters: Arc<Counters>,
    /// Of a forced run, what the forced ones before it have sent.
    pub(super) done: DoneSet,
    pub(super) partial: Mutex<HashMap<PathKey, Partial>>,
    pub(super) resumed: bool,
    /// What was wrong with the journal of an earlier run, if the other end's user is to be told.
    damage: Option<String>,
    /// What a sweep leaves alone.
    pub(super) leftovers: Leftovers,
    /// Something was kept of a file that has failed.
    pub(super) has_kept: AtomicBool,
    /// Directories that this transfer made: nothing in them needs to be looked at.
    pub(super) fresh: Mutex<HashSet<Box<[u8]>>>,
    /// Whether there were any: most runs over what is there make none.
    pub(super) made_any: AtomicBool,
    /// Wanted entries whose name is taken already.
    pub(super) replace: Arc<Mutex<HashSet<EntryId>>>,
    /// What may still come of entries that failed or were begun anew.
    pub(super) floors: Mutex<Floors>,
    pub(super) files: Arc<OpenFiles>,
    pub(super) ranges: Arc<RangeBudget>,
    pub(super) committer: Arc<Committer>,
    pub(super) links: Mutex<Later>,
    pub(super) directories: Mutex<Later>,
    /// What was announced, if anything is to be deleted in the end.
    pub(super) announced: Announced,
    /// What a deletion leaves alone with all that is in it.
    pub(super) spared: Spared,
    /// Which names at the destination are those that were announced.
    pub(super) spelling: Spelling,
    /// Why nothing can go to the destination at all.
    pub(super) unusable: Unusable,
    /// What has made way for directories: kind and path of each.
    pub(super) replaced: Mutex<Later>,
    /// The kind of what has the name of the whole destination, if another kind of entry is to have it.
    pub(super) way_at_root: Mutex<Option<Kind>>,
    /// Held while something makes way for a directory.
    pub(super) replacing: Mutex<()>,
    /// Names that a directory still has; theirs is the end of the transfer.
    pub(super) deferred: Arc<Deferred>,
    /// Files that nothing is made a further name of.
    pub(super) undelivered: Arc<UndeliveredSet>,
    /// Attributes of files were set that are not part of any batch.
    pub(super) adjusted: AtomicBool,
    /// Faults of entries that only the destination has.
    pub(super) unknown: AtomicU64,
    /// A file was announced whose size nobody knows: its bytes come from a pipe, and nobody can go on with it later.
    pub(super) comes_once: AtomicBool,
}

/// What the sink and its committer both change.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) files: Arc<OpenFiles>,
    pub(super) replace: Arc<Mutex<HashSet<EntryId>>>,
    pub(super) deferred: Arc<Deferred>,
    pub(super) undelivered: Arc<UndeliveredSet>,
}

impl TreeSink {
    /// Starts the thread that makes things durable.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        config: TreeSinkConfig,
        journal: Option<Journal>,
        recovered: Recovered,
        acks: Arc<Acks>,
        counters: Arc<Counters>,
    ) -> std::io::Result<Arc<Self>> {
        let ranges = RangeBudget::new(limits::FILE_RANGES_MAX);
        Self::start_within(ranges, config, journal, recovered, acks, counters)
    }

    pub(super) fn start_within(
        ranges: Arc<RangeBudget>,
        config: TreeSinkConfig,
        journal: Option<Journal>,
        recovered: Recovered,
        acks: Arc<Acks>,
        counters: Arc<Counters>,
    ) -> std::io::Result<Arc<Self>> {
        let forced_before = recovered.forced;
        if let Some(journal) = &journal
            && config.force != forced_before
        {
            journal
                .append_run(config.force)
                .map_err(std::io::Error::other)?;
        }
        // What another run found or brought is sent again where that is asked for.
        let done = match config.force && forced_before {
            true => recovered.done,
            false => DoneSet::default(),
        };
        let shared = Shared {
            files: Arc::default(),
            replace: Arc::default(),
            deferred: Arc::new(Deferred::new(&config.spill_directory)),
            undelivered: Arc::new(UndeliveredSet::new(&config.spill_directory)),
        };
        let committer = Committer::start(
            &config,
            journal,
            recovered.vouched_bytes,
            &acks,
            &counters,
            &shared,
        )?;
        let Shared {
            files,
            replace,
            deferred,
            undelivered,
        } = shared;
        Ok(Arc::new(Self {
            links: Mutex::new(Later::new(&config.spill_directory)),
            directories: Mutex::new(Later::new(&config.spill_directory)),
            announced: Announced::new(&config.spill_directory),
            spared: Spared::default(),
            spelling: Spelling::new(&config.storage, &config.mapping, &config.spill_directory),
            unusable: Unusable::default(),
            replaced: Mutex::new(Later::new(&config.spill_directory)),
            way_at_root: Mutex::default(),
            replacing: Mutex::default(),
            deferred,
            undelivered,
            adjusted: AtomicBool::new(false),
            unknown: AtomicU64::new(0),
            comes_once: AtomicBool::new(false),
            config,
            acks,
            counters,
            done,
            partial: Mutex::new(recovered.partial),
            resumed: recovered.resumed,
            damage: recovered.damage,
            leftovers: Leftovers::default(),
            has_kept: AtomicBool::new(false),
            fresh: Mutex::default(),
            made_any: AtomicBool::new(false),
            replace,
            floors: Mutex::default(),
            files,
            ranges,
            committer,
        }))
    }
}

impl Sink for TreeSink {
    fn plan(&self, records: &[Record]) -> Vec<Verdict> {
        if self.comparison().delete {
            self.announced.note(records);
        }
        let mut look = self.config.storage.look();
        let mut path = RelPath::root();
        let mut last = LastDirectory::default();
        records
            .iter()
            .map(|record| self.plan_one(record, &mut *look, &mut path, &mut last))
            .collect()
    }

    fn write_slice(&self, slice: &Slice<'_>) -> Result<(), Fault> {
        let seq = slice.header.seq;
        if self.comparison().dry_run {
            let message = "contents came in a dry run".to_owned();
            self.acks.durable(&[seq]);
            return Err(destination_fault(
                slice.record.id,
                FaultCode::UNSUPPORTED,
                message,
            ));
        }
        let epoch = self.committer.epoch();
        let mut result = self.open_file(slice.record).and_then(|file| {
            let Some(file) = file else {
                self.acks.durable(&[seq]);
                return Ok(());
            };
            let fault =
                |error: StoreError| entry::fault(slice.record.id, Side::DESTINATION, &error);
            if slice.ranges.is_empty() {
                file.file
                    .write_at(slice.header.offset, slice.payload)
                    .map_err(fault)?;
            } else {
                let mut rest = slice.payload;
                for range in slice.ranges {
                    let (bytes, tail) = rest.split_at(
                        usize::try_from(range.bytes)
                            .unwrap_or(usize::MAX)
                            .min(rest.len()),
                    );
                    file.file
                        .preallocate(range.offset..range.offset + range.bytes)
                        .map_err(fault)?;
                    file.file.write_at(range.offset, bytes).map_err(fault)?;
                    rest = tail;
                }
            }
            if !self.config.no_sync {
                // A disk that is idle until the batch is synced is lost time.
                let begin = slice.header.offset;
                file.file
                    .write_out(begin..begin + u64::from(slice.header.length));
            }
            self.note(&file, slice.record, Some(slice), seq, epoch)
        });
        if let Err(fault) = &mut result {
            fault.entry = slice.record.id;
            // What did arrive of it is worth keeping if only room was lacking.
            self.give_up(slice.record, fault.code == FaultCode::NO_SPACE);
            self.acks.durable(&[seq]);
        }
        result
    }

    fn write_bundle(&self, seq: Seq, records: &[Record], contents: &[&[u8]]) -> Vec<Fault> {
        if self.comparison().dry_run {
            // Nothing but news of what failed at the source.
            self.acks.durable(&[seq]);
            return Vec::new();
        }
        let epoch = self.committer.epoch();
        let mut faults = Vec::new();
        let mut files = Vec::with_capacity(records.len());
        let mut bytes = 0;
        let mut noted_ends = 0;
        let mut path = RelPath::root();
        for (record, content) in records.iter().zip(contents) {
            if record.flags & RecordFlags::SOURCE_FAILED != 0 {
                self.give_up(record, record.path.is_empty());
                self.note_unseen(record);
            } else if record.flags & RecordFlags::END != 0 {
                let noted = self.open_file(record).and_then(|file| match file {
                    Some(file) => self.note(&file, record, None, seq, epoch).map(|()| true),
                    None => Ok(false),
                });
                match noted {
                    Ok(noted) => noted_ends += usize::from(noted),
                    Err(mut fault) => {
                        fault.entry = record.id;
                        self.give_up(record, fault.code == FaultCode::NO_SPACE);
                        faults.push(fault);
                    }
                }
            } else if entry::is_whole_file(record) && lock(&self.floors).takes(record) {
                if record.attempt > 0 {
                    self.begin_anew(record);
                }
                match self.write_small(record, content, &mut path) {
                    Ok(file) => {
                        bytes += content.len() as u64;
                        files.push(file);
                    }
                    Err(mut fault) => {
                        fault.entry = record.id;
                        lock(&self.replace).remove(&record.id);
                        self.note_undelivered(record, Undelivered::Failed);
                        faults.push(fault);
                    }
                }
            }
        }
        if noted_ends == 0 || !files.is_empty() {
            self.committer.add_files(files, bytes, seq, epoch);
        }
        faults
    }

    /// The kernel lets one thread at a time write into a file, and has the others spin for it.
    fn one_writer_an_entry(&self) -> bool {
        true
    }

    fn has_room(&self) -> bool {
        self.committer.has_room()
    }

    fn hurry(&self) {
        self.committer.hurry();
    }

    fn failure(&self) -> Option<String> {
        self.unusable
            .get()
            .cloned()
            .or_else(|| self.committer.failure())
    }

    fn finish(&self, ending: &mut Ending<'_>) -> FinishReport {
        if self.comparison().dry_run {
            self.delete_extras(ending);
            self.committer.stop(true);
            return FinishReport::default();
        }
        let failure = self.committer.flush();
        if let Some(message) = failure {
            return FinishReport {
                failure: Some(message),
                ..FinishReport::default()
            };
        }
        if let Some(damage) = &self.damage {
            let end = damage.floor_char_boundary(MESSAGE_BYTES_MAX);
            ending.tell(Notice {
                kind: NoticeKind::NOTE,
                text: damage.as_bytes()[..end].to_vec(),
                ..Notice::default()
            });
        }
        if let Err(error) = self.tell_replaced(ending) {
            return FinishReport {
                failure: Some(unreadable(error)),
                ..FinishReport::default()
            };
        }
        let deletion = self.delete_extras(ending);
        let failure = self
            .name_deferred(deletion)
            .or_else(|| self.make_links())
            .or_else(|| self.set_directories())
            .or_else(|| self.sync_adjusted());
        if failure.is_some() {
            return FinishReport {
                failure,
                ..FinishReport::default()
            };
        }
        let failure = self.close();
        FinishReport {
            synced: !self.config.no_sync,
            failure,
        }
    }

    fn suspend(&self) {
        // Names are mapped anew once the place is another: into it, if it is a directory then.
        let begun = self.unusable.get().is_none() || self.resumed;
        self.committer.stop(begun);
        let files = std::mem::take(&mut *lock(&self.files));
        if !self.comes_once.load(Ordering::Relaxed) {
            return;
        }
        for file in files.values() {
            // What cannot be removed now is swept by the next complete run.
            let _ = self.config.storage.discard(&file.path, &file.temp);
        }
    }

    fn display_path(&self, root: u16, path: &[u8]) -> Vec<u8> {
        self.mapped(root, path).map_or_else(
            |_fault| self.config.display.clone(),
            |path| self.shown(&path),
        )
    }
}

pub(super) fn destination_fault(entry: EntryId, code: FaultCode, message: String) -> Fault {
    Fault {
        entry,
        side: Side::DESTINATION,
        code,
        errno: None,
        message,
    }
}
