//! Makes the two ends of a transfer on this machine: senders from local sources, receivers to local destinations. Does not connect.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::build::{self, EndConfig, SenderSettings, Sinks, Sources, Trees};
use crate::local::LocalSource;
use godwit_api::endpoint::Endpoint;
use godwit_api::event::Started;
use godwit_engine::governor::Lease;
use godwit_engine::session::{Engine, run_local};
use godwit_engine::{Counters, Observer, Receiver, Sender};
use godwit_proto::TransferId;
use godwit_store::{Kind, digest};
use godwit_tree::pipe::PipeSource;
use godwit_tree::synthetic::{MEMORY_NAME, MemorySource};
use godwit_tree::{
    Buffering, DestinationError, DestinationRequest, Keeper, PreparedDestination, TreeRoot,
};

use super::admission::{Admitted, Places, admit};
use super::entry_events::EntryEvents;
use super::from_settings::{bounds_of, lossy, order_of, resources, wire_preserve_of};
use super::pipes::{INPUT_IS_GONE, OUTPUT_IS_GONE};
use super::progressing::Progressing;
use super::report::{Report, code_of};
use super::{Job, memory_bytes, places};
use crate::reports::ReportRoots;
use godwit_api::failure::{Failure, FailureCode};

/// The input of a local sender.
#[derive(Clone)]
pub(super) enum SenderInput {
    /// `mem:`
    Memory(u64),
    /// Standard input.
    Input(PipeSource),
    /// Files.
    Trees(Vec<TreeRoot>),
}

impl SenderInput {
    /// The trees of the input, if any.
    pub(super) fn trees(&self) -> Vec<TreeRoot> {
        match self {
            Self::Memory(_) | Self::Input(_) => Vec::new(),
            Self::Trees(roots) => roots.clone(),
        }
    }
}

/// The local sources of a transfer.
pub(super) struct LocalSources {
    /// The input of the sender.
    pub(super) input: SenderInput,
    /// Sources that do not exist.
    pub(super) missing: places::Missing,
    /// Names of the sources in a directory.
    pub(super) names: Vec<Vec<u8>>,
    /// Absolute paths.
    pub(super) absolute: Vec<Vec<u8>>,
    /// Paths in the user's spelling.
    pub(super) shown: Vec<Vec<u8>>,
}

/// The ends of a transfer on this machine: one of them, or both.
pub(super) struct Ends<'a> {
    pub(super) job: &'a Job<'a>,
    /// Places of the ends among all transfers of the process.
    places: Places,
    /// Whether data was written to standard output.
    output_used: AtomicBool,
}

impl<'a> Ends<'a> {
    /// No end has been made yet.
    pub(super) fn new(job: &'a Job<'a>) -> Self {
        Self {
            job,
            places: Places::default(),
            output_used: AtomicBool::new(false),
        }
    }

    /// Waits for the places of an attempt; `None` if the job was stopped meanwhile.
    pub(super) fn admit(
        &self,
        sources: &[Endpoint],
        destination: &Endpoint,
    ) -> Option<Admitted<'_>> {
        admit(self.job, &self.places, sources, destination)
    }

    /// Both ends on this machine.
    pub(super) fn local(
        &self,
        sources: &[Endpoint],
        destination: &Endpoint,
    ) -> Result<Report, Failure> {
        let LocalSources {
            input,
            missing,
            names,
            absolute,
            shown,
        } = self.sources(sources)?;
        let missing = places::report_missing(self.job, missing);
        let transfer = TransferId([0; 16]);
        let root_names = names.clone();
        let prepared = match destination {
            Endpoint::Local(path) => {
                let prepared =
                    self.prepare_destination(path, b"local".to_vec(), names, absolute.clone())?;
                Some(self.refuse_into_itself(prepared, (&input, &root_names, &absolute))?)
            }
            _ => None,
        };
        let resumed = !self.job.pipes.from_input
            && prepared
                .as_ref()
                .is_some_and(|prepared| prepared.recovered.resumed);
        let arrived = prepared.as_ref().map(PreparedDestination::arrived);
        let arrived = arrived.unwrap_or_default();
        let mapped = prepared.as_ref().map_or_else(
            || self.job.pipes.nowhere(),
            |prepared| prepared.mapped.clone(),
        );
        self.job.record().report_place(prepared.as_ref());
        let digest = prepared.as_ref().map_or_else(
            || self.job.settings.digest,
            |prepared| prepared.config.digest,
        );
        let counters = Arc::new(Counters::default());
        // The sending end reports the failures of both, so this end reports none.
        let receiver = self.receiver(
            prepared,
            transfer,
            digest,
            self.job.settings.block_bytes,
            &counters,
            Arc::new(Quiet),
        )?;
        let sending = Arc::new(Counters::default());
        self.job.run.reports.begin(
            ReportRoots {
                names: root_names,
                copies: input.trees(),
            },
            digest,
        )?;
        self.job.run.begins(Started {
            transfer: transfer.to_string(),
            sources: shown.clone(),
            destination: mapped,
            resumed,
        });
        let observer = EntryEvents::of(self.job, &shown, None);
        let sender = self.sender(
            &input,
            shown.clone(),
            transfer,
            digest,
            self.job.settings.block_bytes,
            &sending,
            observer,
        )?;
        let streams = self.job.settings.streams.hold(2);
        let mut progressing = Progressing::local(self.job, Arc::clone(&counters), arrived);
        let end = run_local(&sender, &receiver, streams, &mut |engine| {
            progressing.show(Some(engine));
            self.job.run.goes_on()
        })
        .map_err(|error| {
            Failure::new(
                FailureCode::OutOfResources,
                format!("the transfer cannot run: {error}"),
            )
        })?;
        progressing.show_end(Some(&Engine::Sender(sender)), &end);
        Ok(Report::local(
            &end,
            &sending.snapshot(),
            &counters.snapshot(),
            arrived.lost_bytes,
            missing,
            self.job,
        ))
    }

    /// Finds the sources. Missing ones are not reported yet.
    pub(super) fn sources(&self, sources: &[Endpoint]) -> Result<LocalSources, Failure> {
        if let Some(bytes) = memory_bytes(sources) {
            let name = format!("mem:{bytes}").into_bytes();
            return Ok(LocalSources {
                input: SenderInput::Memory(bytes),
                missing: Vec::new(),
                names: vec![MEMORY_NAME.to_vec()],
                absolute: vec![name.clone()],
                shown: vec![name],
            });
        }
        if self.job.pipes.from_input {
            return Ok(LocalSources {
                input: SenderInput::Input(self.standard_input()?),
                missing: Vec::new(),
                names: vec![INPUT_NAME.to_vec()],
                absolute: vec![b"-".to_vec()],
                shown: vec![b"-".to_vec()],
            });
        }
        let (found, missing) = places::sources(self.job, sources)?;
        if self.job.chosen.is_listed()
            && let Some(file) = found.iter().find(|source| !is_directory(source))
        {
            return Err(Failure::usage(format!(
                "{}: with --files-from the source must be a directory",
                lossy(&file.shown)
            )));
        }
        if self.job.pipes.to_output
            && let Some(directory) = found.iter().find(|source| source.root.start.is_root())
        {
            return Err(Failure::usage(format!(
                "{}: standard output takes one file, and this is a directory; pack it with tar first",
                lossy(&directory.shown)
            )));
        }
        let mut trees = Vec::with_capacity(found.len());
        let (mut names, mut absolute, mut shown) = (Vec::new(), Vec::new(), Vec::new());
        for LocalSource {
            root,
            name,
            absolute: path,
            shown: typed,
        } in found
        {
            trees.push(root);
            // An entry of a list is copied to the destination itself.
            names.push(if self.job.chosen.is_listed() {
                Vec::new()
            } else {
                name
            });
            absolute.push(path);
            shown.push(typed);
        }
        Ok(LocalSources {
            input: SenderInput::Trees(trees),
            missing,
            names,
            absolute,
            shown,
        })
    }

    /// Prepares a local destination for a transfer of `sender`.
    pub(super) fn prepare_destination(
        &self,
        path: &std::path::Path,
        sender: Vec<u8>,
        names: Vec<Vec<u8>>,
        sources: Vec<Vec<u8>>,
    ) -> Result<PreparedDestination, Failure> {
        if self.job.settings.comparison.delete {
            self.job
                .run
                .reports
                .refuse_deletion(&self.job.env.resolve(path), &self.job.chosen.select)?;
        }
        let mut place = places::destination(self.job, path)?;
        place.is_directory |= self.job.chosen.is_listed();
        let exports = self.job.env.exports.as_ref();
        let journals = self.job.env.home.journals()?;
        let request = DestinationRequest {
            digest: self.job.settings.digest,
            force: self.job.settings.force,
            verify: self.job.settings.verify,
            no_sync: self.job.settings.no_sync,
            comparison: Some(self.job.comparison()),
            select: Arc::clone(&self.job.chosen.select),
            fence: self.job.record().fence(),
            earlier: self.job.record().earlier(),
            node: self.job.record().node()?,
            ..DestinationRequest::new(place, sender, sources, names, journals)
        };
        let mut prepared = request
            .prepare()
            .map_err(|error| unusable(&error, exports.is_some()).about(path.display()))?;
        if let Some(why) = exports.and_then(|exports| exports.claimed(&prepared.destinations)) {
            let put_away = prepared.put_away();
            put_away.map_err(|error| Failure::new(FailureCode::JournalUnusable, error))?;
            return Err(Failure::new(FailureCode::BusyDestination, why).about(path.display()));
        }
        if let Some(sealing) = &self.job.sealing {
            sealing.begins(&prepared.destinations);
        }
        // This note replaces the one of the sink.
        if let Some(damage) = prepared.recovered.damage.take() {
            self.job.run.events.note(&damage);
        }
        prepared.config.hides_names = self.job.env.hides_names;
        prepared.config.hides_contents = self.job.env.hides_contents;
        prepared.config.keeper = Arc::new(Keeper::new(wire_preserve_of(&self.job.settings)));
        if prepared.config.digest != self.job.settings.digest {
            self.job.note_digest_kept();
        }
        Ok(prepared)
    }

    fn end_config(
        &self,
        transfer: TransferId,
        digest: digest::DigestKind,
        block_bytes: u32,
        counters: &Arc<Counters>,
        observer: Arc<dyn Observer>,
        lease: Option<Lease>,
    ) -> EndConfig {
        EndConfig {
            transfer,
            digest: godwit_engine::wire_digest_kind(digest),
            block_bytes,
            comparison: Some(self.job.comparison()),
            itemise: self.job.itemises(),
            network_use: self.job.network_use(),
            lease,
            observer,
            resources: resources(),
            counters: Arc::clone(counters),
        }
    }

    /// A receiving end; with `None` it discards all data.
    pub(super) fn receiver(
        &self,
        prepared: Option<PreparedDestination>,
        transfer: TransferId,
        digest: digest::DigestKind,
        block_bytes: u32,
        counters: &Arc<Counters>,
        observer: Arc<dyn Observer>,
    ) -> Result<Arc<Receiver>, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(
                FailureCode::OutOfResources,
                format!("the receiving end cannot start: {error}"),
            )
        };
        if self.job.pipes.to_output && self.output_used.swap(true, Ordering::Relaxed) {
            return Err(Failure::new(FailureCode::CannotResume, OUTPUT_IS_GONE));
        }
        let sinks = match prepared {
            Some(prepared) => Sinks::Tree(Box::new(prepared)),
            None if self.job.pipes.to_output => Sinks::Pipe {
                out: self.standard_output()?.into(),
                bytes_max: self.job.memory_bytes(),
                dry_run: self.job.settings.comparison.dry_run,
            },
            None => Sinks::Nothing,
        };
        let lease = self.places.of_receiver();
        let end = self.end_config(transfer, digest, block_bytes, counters, observer, lease);
        build::receiver(end, bounds_of(self.job.settings.writers), sinks).map_err(failed)
    }

    /// A sending end.
    #[expect(
        clippy::too_many_arguments,
        reason = "each argument is a different part of a sending end"
    )]
    pub(super) fn sender(
        &self,
        sources: &SenderInput,
        root_names: Vec<Vec<u8>>,
        transfer: TransferId,
        digest: digest::DigestKind,
        block_bytes: u32,
        counters: &Arc<Counters>,
        observer: Arc<dyn Observer>,
    ) -> Result<Arc<Sender>, Failure> {
        let sources = match sources {
            SenderInput::Memory(bytes) => Sources::Memory(MemorySource::new(*bytes)),
            SenderInput::Input(pipe) => {
                let work = pipe
                    .work()
                    .ok_or_else(|| Failure::new(FailureCode::CannotResume, INPUT_IS_GONE))?;
                Sources::Pipe(pipe.clone(), work)
            }
            SenderInput::Trees(roots) => Sources::Trees(Trees {
                roots: roots.iter().cloned().map(Ok).collect(),
                names: self.job.chosen.names(),
                spill: self.job.env.home.spill()?,
                preserve: wire_preserve_of(&self.job.settings),
                select: Arc::clone(&self.job.chosen.select),
                announces_passed: self.job.settings.comparison.delete,
                own: self.job.run.reports.own_files(),
                items: self.job.items.clone(),
            }),
        };
        let sending = SenderSettings {
            pool_bytes: self.job.memory_bytes(),
            root_names,
            limit: self
                .job
                .settings
                .limit_bytes_per_second
                .map_or(0, std::num::NonZeroU64::get),
            readers: bounds_of(self.job.settings.readers),
            in_order: self.job.pipes.to_output,
            order: order_of(&self.job.settings),
            fence: self.job.record().fence(),
            seat: self.job.env.seat.as_ref(),
            buffering: self.buffering(),
        };
        let lease = self.places.of_sender();
        let end = self.end_config(transfer, digest, block_bytes, counters, observer, lease);
        build::sender(end, sending, sources).map_err(|error| {
            Failure::new(
                FailureCode::OutOfResources,
                format!("the sending end cannot start: {error}"),
            )
        })
    }
}

impl Ends<'_> {
    /// How the job uses the buffer of this process.
    fn buffering(&self) -> Option<Buffering> {
        let buffer = self.job.env.process.buffer.as_ref()?;
        let keep_for = self.job.settings.keep_in_buffer;
        Some(Buffering {
            buffer: buffer.clone(),
            keep_for,
        })
    }
}

/// Name of standard input in a destination directory.
const INPUT_NAME: &[u8] = b"stdin";

impl Ends<'_> {
    fn standard_input(&self) -> Result<PipeSource, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(
                FailureCode::InputUnusable,
                format!("standard input cannot be used: {error}"),
            )
        };
        let input = self.job.env.input.as_ref();
        let input = input.ok_or_else(|| Failure::usage("-: this job has no standard input"))?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        PipeSource::new(input.try_clone().map_err(failed)?, now).map_err(failed)
    }

    fn standard_output(&self) -> Result<OwnedFd, Failure> {
        let output = self.job.env.output.as_ref();
        let output = output.ok_or_else(|| Failure::usage("-: this job has no standard output"))?;
        output.try_clone().map_err(|error| {
            Failure::new(
                FailureCode::OutOfResources,
                format!("the receiving end cannot start: {error}"),
            )
        })
    }
}

/// An observer that reports nothing, because the other end of the same process does.
struct Quiet;

impl Observer for Quiet {
    fn entry_failed(&self, _failed: &godwit_engine::FailedEntry<'_>) {}
}

/// Whether a source is a directory: the root of a storage, or a directory below an export.
fn is_directory(source: &LocalSource) -> bool {
    let TreeRoot { storage, start } = &source.root;
    let there = || storage.stat(start).ok().flatten();
    start.is_root() || there().is_some_and(|meta| meta.kind == Kind::Directory)
}

/// Converts a destination error to a failure of the job. A job in exports belongs to a user, who must not see other users' transfers
/// or paths of this machine. A command may see both.
fn unusable(error: &DestinationError, is_in_exports: bool) -> Failure {
    let code = code_of(error.code());
    match error {
        DestinationError::Busy { .. } if is_in_exports => Failure::new(
            code,
            "another transfer writes to this place, or above or below it; wait for that transfer, or name another place",
        ),
        _ => Failure::new(code, error),
    }
}
