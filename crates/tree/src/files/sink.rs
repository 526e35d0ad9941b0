//! Combines planner, writer, committer and finisher to the sink of a tree of files. Delegates all planning, writing and closing to
//! them.
//!
//! Lock order of the parts, outermost first: `Directories::replacing`, `Writer::files`, `Writer::floors`, the `progress` of a file, the
//! committer's `journal`, the committer's `state`, the lists of the agenda, all sets. Each list and each set is locked for one call
//! only.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use godwit_engine::{
    Acks, Counters, Ending, Fence, FinishReport, Sink, SinkFailure, Slice, limits,
};
use godwit_proto::{Comparison, Fault, FaultCode, Record, Seq, Verdict};
use godwit_store::digest;
use godwit_store::journal::{DoneSet, Journal, Recovered};
use godwit_store::spill::SpillRoom;
use godwit_store::{RelPath, Storage, Timestamp};

use crate::files::beacon::Beacon;
use crate::files::finish::commit::{Committer, CommitterParts};
use crate::files::finish::finisher::Finisher;
use crate::files::finish::undelivered::UndeliveredSet;
use crate::files::member::{Delivered, Membership};
use crate::files::plan::agenda::Agenda;
use crate::files::plan::awaited::Awaited;
use crate::files::plan::directories::Directories;
use crate::files::plan::planner::{Planner, PlannerParts};
use crate::files::read::keeper::Keeper;
use crate::files::target::{Target, destination_fault};
use crate::files::write::held::Held;
use crate::files::write::maker::Maker;
use crate::files::write::ranges::RangeBudget;
use crate::files::write::writer::Writer;
use crate::select::Select;

/// Configuration of a tree sink.
pub struct TreeSinkConfig {
    /// The storage of the files.
    pub storage: Arc<dyn Storage>,
    /// For each root of the source, its name in the storage.
    pub mapping: Vec<RelPath>,
    /// The destination that the sender requested. All names are at it or below it.
    pub base: RelPath,
    /// Tag of the temporary names of this transfer; for a member, of all members of its claim.
    pub tag: u64,
    /// The key of the transfer's journal.
    pub key: [u8; 32],
    /// Membership in a claim, if the transfer is a member.
    pub member: Option<Membership>,
    /// Decides whether the transfer may still write. None if no claim bounds it.
    pub fence: Option<Arc<dyn Fence>>,
    /// Tags of temporary files of the job's earlier attempts; a complete transfer removes these files.
    pub earlier_tags: Vec<u64>,
    /// Time since the first attempt of the job began, if this is a later one.
    pub age: Option<Duration>,
    /// When the first attempt began, by the clock of the destination's file system.
    pub since: Option<Timestamp>,
    /// The file that the source searches for, if the search is wanted.
    pub beacon: Option<Beacon>,
    /// Digest of blocks and files.
    pub digest: digest::DigestKind,
    /// Send entries even if size and time match.
    pub force: bool,
    /// Read every file back before it gets its name.
    pub verify: bool,
    /// Do not wait for storage: delivered data may not survive a power cut.
    pub no_sync: bool,
    /// Room for data that does not fit in memory.
    pub spill: SpillRoom,
    /// The destination's name in messages.
    pub display: Vec<u8>,
    /// The metadata to keep.
    pub keeper: Arc<Keeper>,
    /// How to treat existing entries; `None` if the sender did not request anything.
    pub comparison: Option<Comparison>,
    /// The path of this program's own files in the storage, which are never deleted.
    pub protected: Option<RelPath>,
    /// The user named the destination as a directory, so it must not become another kind of entry.
    pub must_be_directory: bool,
    /// The selection rules of the sources. The transfer does not change excluded entries.
    pub select: Arc<Select>,
    /// The peer may not list the destination, so messages contain no name that the source did not announce.
    pub hides_names: bool,
    /// The peer may not read the destination, so links are made only to files that the source has too.
    pub hides_contents: bool,
}

impl TreeSinkConfig {
    /// `asked` if the sender requested a comparison, otherwise `plain`, which every sender knows.
    pub(crate) fn unless_plain(&self, asked: Verdict, plain: Verdict) -> Verdict {
        if self.comparison.is_some() {
            asked
        } else {
            plain
        }
    }
}

/// Limits for senders that break the rules; tests choose smaller ones.
pub(crate) struct SinkBounds {
    /// Ranges of all unfinished files.
    pub(crate) ranges_max: usize,
    /// Requested entries that have neither arrived nor failed, of each kind.
    pub(crate) awaited_max: usize,
}

impl Default for SinkBounds {
    fn default() -> Self {
        Self {
            ranges_max: limits::FILE_RANGES_MAX,
            awaited_max: limits::AWAITED_ENTRIES_MAX,
        }
    }
}

/// A tree of files as a destination.
pub struct TreeSink {
    target: Arc<Target>,
    held: Arc<Held>,
    pub(crate) planner: Planner,
    pub(crate) writer: Writer,
    pub(crate) committer: Arc<Committer>,
    finisher: Finisher,
    /// An entry has been announced or written, so the destination may have changed.
    may_have_changed: AtomicBool,
}

impl TreeSink {
    /// Starts the thread that makes data durable.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        config: TreeSinkConfig,
        journal: Option<Journal>,
        recovered: Recovered,
        acks: Arc<Acks>,
        counters: Arc<Counters>,
    ) -> std::io::Result<Arc<Self>> {
        let bounds = SinkBounds::default();
        Self::start_within(&bounds, config, journal, recovered, acks, counters)
    }

    pub(crate) fn start_within(
        bounds: &SinkBounds,
        config: TreeSinkConfig,
        journal: Option<Journal>,
        mut recovered: Recovered,
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
        // With `force`, entries that another run found or delivered are sent again.
        let done = match config.force && forced_before {
            true => std::mem::take(&mut recovered.done),
            false => DoneSet::default(),
        };
        let agenda = Arc::new(Agenda::new(&config.spill, bounds.awaited_max));
        let undelivered = Arc::new(UndeliveredSet::new(&config.spill, config.hides_contents));
        let held = Arc::new(Held::new(&mut recovered));
        let target = Arc::new(Target {
            config,
            acks,
            counters,
            delivered: Delivered::default(),
        });
        let directories = Arc::new(Directories::new(&target, &agenda));
        let (files, replace) = (Arc::default(), Arc::new(Awaited::new(bounds.awaited_max)));
        let parts = CommitterParts {
            target: Arc::clone(&target),
            agenda: Arc::clone(&agenda),
            files: Arc::clone(&files),
            replace: Arc::clone(&replace),
            undelivered: Arc::clone(&undelivered),
        };
        let committer = Committer::start(parts, journal, recovered.vouched_bytes)?;
        let parts = PlannerParts {
            target: &target,
            agenda: &agenda,
            directories: &directories,
            held: &held,
            undelivered: &undelivered,
            replace: &replace,
        };
        let planner = Planner::new(&parts, done);
        let finisher = Finisher {
            target: Arc::clone(&target),
            agenda: Arc::clone(&agenda),
            directories: Arc::clone(&directories),
            held: Arc::clone(&held),
            undelivered: Arc::clone(&undelivered),
            committer: Arc::clone(&committer),
            files: Arc::clone(&files),
            maker: Maker::new(&target, &directories),
            damage: recovered.damage,
            unknown: AtomicU64::new(0),
        };
        let writer = Writer {
            target: Arc::clone(&target),
            agenda,
            directories,
            held: Arc::clone(&held),
            undelivered,
            committer: Arc::clone(&committer),
            replace,
            files,
            ranges: RangeBudget::new(bounds.ranges_max),
            floors: Mutex::default(),
        };
        Ok(Arc::new(Self {
            target,
            held,
            planner,
            writer,
            committer,
            finisher,
            may_have_changed: AtomicBool::new(false),
        }))
    }

    fn is_dry(&self) -> bool {
        self.target.comparison().dry_run
    }
}

impl Sink for TreeSink {
    fn plan(&self, records: &[Record]) -> Vec<Verdict> {
        if let Some(beacon) = &self.target.config.beacon {
            beacon.begin();
        }
        self.may_have_changed.store(true, Ordering::Relaxed);
        self.planner.plan(records)
    }

    fn write_slice(&self, slice: &Slice<'_>) -> Result<(), Fault> {
        if self.is_dry() {
            let message = "contents arrived in a dry run".to_owned();
            self.target.acks.durable(&[slice.header.seq]);
            return Err(destination_fault(
                slice.record.id,
                FaultCode::UNSUPPORTED,
                message,
            ));
        }
        self.may_have_changed.store(true, Ordering::Relaxed);
        let written = self.writer.write_slice(slice);
        written.map_err(|fault| self.target.with_room(fault))
    }

    fn write_bundle(&self, seq: Seq, records: &[Record], contents: &[&[u8]]) -> Vec<Fault> {
        if self.is_dry() {
            // The message only reports failures at the source, so it needs no sync.
            self.target.acks.durable(&[seq]);
            return Vec::new();
        }
        self.may_have_changed.store(true, Ordering::Relaxed);
        let faults = self.writer.write_bundle(seq, records, contents);
        let faults = faults.into_iter();
        faults.map(|fault| self.target.with_room(fault)).collect()
    }

    /// The kernel lets only one thread at a time write to a file, and the others spin.
    fn one_writer_an_entry(&self) -> bool {
        true
    }

    fn has_room(&self) -> bool {
        self.committer.filling.has_room()
    }

    fn hurry(&self) {
        self.committer.filling.hurry();
    }

    fn failure(&self) -> Option<SinkFailure> {
        if let Some(why) = self.planner.unusable.get() {
            return Some(SinkFailure::Unusable(why.to_owned()));
        }
        if let Some(failure) = self.writer.overrun() {
            return Some(failure);
        }
        let beacon = self.target.config.beacon.as_ref();
        if let Some(failure) = beacon.and_then(Beacon::failure) {
            return Some(failure);
        }
        self.committer.failure().map(SinkFailure::from)
    }

    fn finish(&self, ending: &mut Ending<'_>) -> Result<FinishReport, SinkFailure> {
        if let Some(beacon) = &self.target.config.beacon {
            // The source has been scanned completely.
            beacon.put_out();
            beacon.failure().map_or(Ok(()), Err)?;
        }
        self.finisher.finish(ending)?;
        Ok(FinishReport {
            synced: !self.is_dry() && !self.target.config.no_sync,
            delivered: self.target.delivered.counted(),
        })
    }

    fn suspend(&self) {
        // If the destination has changed, names are mapped again, and go into it if it is now a directory.
        let beacon = self.target.config.beacon.as_ref();
        let goes_on =
            self.planner.unusable.get().is_none() && beacon.is_none_or(|beacon| beacon.has_begun());
        // A member's journal keeps the epoch, and goes with its claim.
        let keeps =
            self.may_have_changed.load(Ordering::Relaxed) || self.target.config.member.is_some();
        let begun = keeps && goes_on || self.held.resumed;
        self.committer.stop(begun);
        self.writer.suspend();
        if let Some(beacon) = beacon {
            beacon.put_out();
        }
    }

    fn display_path(&self, root: u16, path: &[u8]) -> Vec<u8> {
        self.target.display_path(root, path)
    }
}
