//! Makes the two ends of a transfer on this machine: senders from local sources, receivers to local destinations.
//! Dials nobody.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::build::{self, EndConfig, Sending, Sinks, Sources, Trees};
use crate::itself;
use crate::local::LocalSource;
use godwit_api::endpoint::Endpoint;
use godwit_api::event::Started;
use godwit_engine::governor::Lease;
use godwit_engine::session::{Engine, run_local};
use godwit_engine::{Counters, Observer, Receiver, Sender, Share};
use godwit_proto::TransferId;
use godwit_store::digest;
use godwit_tree::pipe::PipeSource;
use godwit_tree::synthetic::{MEMORY_NAME, MemorySource};
use godwit_tree::{DestinationError, DestinationRequest, Keeper, PreparedDestination, TreeRoot};

use super::from_settings::{bounds_of, digest_of, lossy, resources, wire_preserve_of};
use super::progressing::Progressing;
use super::report::{Report, code_of};
use super::{Job, memory_bytes};
use crate::reports::ReportRoots;
use godwit_api::failure::{Failure, FailureCode};

/// Why a transfer from standard input is not opened anew.
pub(super) const INPUT_IS_GONE: &str = "the other end is gone or forgot the transfer, and standard input cannot be read again; give the whole input once more";

/// Why one to standard output is not.
pub(super) const OUTPUT_IS_GONE: &str = "the other end is gone or forgot the transfer, and what standard output got of it cannot be taken back; begin anew";

/// What a local side sends.
#[derive(Clone)]
pub(super) enum Given {
    /// `mem:`
    Memory(u64),
    /// Standard input.
    Input(PipeSource),
    /// Files.
    Trees(Vec<TreeRoot>),
}

impl Given {
    /// The trees, if they are any.
    pub(super) fn trees(&self) -> Vec<TreeRoot> {
        match self {
            Self::Memory(_) | Self::Input(_) => Vec::new(),
            Self::Trees(roots) => roots.clone(),
        }
    }
}

impl Job<'_> {
    /// How a destination without files is called.
    pub(super) fn nowhere(&self) -> Vec<u8> {
        if self.to_output { &b"-"[..] } else { b"null:" }.to_vec()
    }

    /// What the user is told instead of a transfer being opened anew.
    pub(super) fn once(&self) -> Option<&'static str> {
        if self.from_input {
            Some(INPUT_IS_GONE)
        } else {
            self.to_output.then_some(OUTPUT_IS_GONE)
        }
    }

    /// Both ends on this machine.
    pub(super) fn local(
        &self,
        sources: &[Endpoint],
        destination: &Endpoint,
    ) -> Result<Report, Failure> {
        let (given, missing, names, absolute, shown) = self.sources(sources)?;
        let transfer = TransferId([0; 16]);
        let root_names = names.clone();
        let prepared = match destination {
            Endpoint::Local(path) => {
                let prepared =
                    self.prepare_destination(path, b"local".to_vec(), names, absolute.clone())?;
                Some(refuse_into_itself(
                    &absolute,
                    prepared,
                    self.settings.comparison.delete,
                )?)
            }
            _ => None,
        };
        let resumed = !self.from_input
            && prepared
                .as_ref()
                .is_some_and(|prepared| prepared.recovered.resumed);
        let lost_bytes = prepared.as_ref().map_or(0, PreparedDestination::lost_bytes);
        let mapped = prepared
            .as_ref()
            .map_or_else(|| self.nowhere(), |prepared| prepared.mapped.clone());
        let digest = prepared.as_ref().map_or_else(
            || digest_of(&self.settings),
            |prepared| prepared.config.digest,
        );
        let counters = Arc::new(Counters::default());
        // The sending end tells of the failures of both; said once is enough.
        let receiver = self.receiver(
            prepared,
            transfer,
            digest,
            self.settings.block_bytes,
            &counters,
            Arc::new(Quiet),
        )?;
        let sending = Arc::new(Counters::default());
        self.reports.begin(
            ReportRoots {
                names: root_names,
                copies: given.trees(),
            },
            digest,
        )?;
        self.say_started(Started {
            transfer: transfer.to_string(),
            sources: shown.clone(),
            destination: mapped,
            resumed,
        });
        let told = self.told(&shown, None);
        let sender = self.sender(
            &given,
            shown.clone(),
            transfer,
            digest,
            self.settings.block_bytes,
            &sending,
            told,
        )?;
        let streams = self.settings.streams.hold(2);
        let mut progressing = Progressing::local(self, Arc::clone(&counters));
        let end = run_local(&sender, &receiver, streams, &mut |engine| {
            progressing.show(Some(engine));
            self.goes_on()
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
            lost_bytes,
            missing,
            self,
        ))
    }

    /// What is sent, how many sources are missing, their names, absolute paths, and as typed.
    #[expect(
        clippy::type_complexity,
        reason = "five views of one list, taken apart at once by the three callers"
    )]
    pub(super) fn sources(
        &self,
        sources: &[Endpoint],
    ) -> Result<(Given, u64, Vec<Vec<u8>>, Vec<Vec<u8>>, Vec<Vec<u8>>), Failure> {
        if let Some(bytes) = memory_bytes(sources) {
            let name = format!("mem:{bytes}").into_bytes();
            return Ok((
                Given::Memory(bytes),
                0,
                vec![MEMORY_NAME.to_vec()],
                vec![name.clone()],
                vec![name],
            ));
        }
        if self.from_input {
            return Ok((
                Given::Input(self.standard_input()?),
                0,
                vec![INPUT_NAME.to_vec()],
                vec![b"-".to_vec()],
                vec![b"-".to_vec()],
            ));
        }
        let (found, missing) = self.local_sources(sources)?;
        if self.chosen.is_listed()
            && let Some(file) = found.iter().find(|source| !source.root.start.is_root())
        {
            return Err(Failure::usage(format!(
                "{}: with --files-from the source must be a directory",
                lossy(&file.shown)
            )));
        }
        if self.to_output
            && let Some(directory) = found.iter().find(|source| source.root.start.is_root())
        {
            return Err(Failure::usage(format!(
                "{}: standard output takes one file, and this is a directory; tar makes one of it",
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
            // What a list names goes to the destination itself.
            names.push(if self.chosen.is_listed() {
                Vec::new()
            } else {
                name
            });
            absolute.push(path);
            shown.push(typed);
        }
        Ok((Given::Trees(trees), missing, names, absolute, shown))
    }

    /// Takes a local destination for a transfer of `sender`.
    pub(super) fn prepare_destination(
        &self,
        path: &std::path::Path,
        sender: Vec<u8>,
        names: Vec<Vec<u8>>,
        sources: Vec<Vec<u8>>,
    ) -> Result<PreparedDestination, Failure> {
        if self.settings.comparison.delete {
            self.reports
                .refuse_deletion(&self.env.resolve(path), &self.chosen.select)?;
        }
        let place = self.local_destination(path)?;
        let request = DestinationRequest {
            storage: place.storage,
            storage_path: place.storage_path,
            base: place.base,
            is_directory: place.is_directory || self.chosen.is_listed(),
            sender,
            sources,
            names,
            digest: digest_of(&self.settings),
            force: self.settings.force,
            verify: self.settings.verify,
            no_sync: self.settings.no_sync,
            journals: self.env.home.journals()?,
            display: place.display,
            comparison: self.comparison(),
            select: Arc::clone(&self.chosen.select),
            member: None,
        };
        let mut prepared = request
            .prepare()
            .map_err(|error| unusable(&error).about(path.display()))?;
        let exports = self.env.exports.as_ref();
        if let Some(why) = exports.and_then(|exports| exports.claimed(&prepared.destinations)) {
            let put_away = prepared.put_away();
            put_away.map_err(|error| Failure::new(FailureCode::JournalUnusable, error))?;
            return Err(Failure::new(FailureCode::BusyDestination, why).about(path.display()));
        }
        // Told here, it need not be told by the sink.
        if let Some(damage) = prepared.recovered.damage.take() {
            self.events.note(&damage);
        }
        prepared.config.keeper = Arc::new(Keeper::new(wire_preserve_of(&self.settings)));
        if prepared.config.digest != digest_of(&self.settings) {
            self.note_digest_kept();
        }
        Ok(prepared)
    }

    pub(super) fn note_digest_kept(&self) {
        self.events
            .note("the unfinished transfer is finished with the --digest that it was begun with");
    }

    /// How the transfer behaves towards others, by now.
    pub(super) fn share(&self) -> Share {
        let sharing = &self.settings.sharing;
        Share {
            congestion: sharing.congestion.clone(),
            background: self.control.background().unwrap_or(sharing.background),
        }
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
            comparison: self.comparison(),
            itemise: self.itemises(),
            share: self.share(),
            lease,
            observer,
            resources: resources(),
            counters: Arc::clone(counters),
        }
    }

    /// A receiving end; `None` lets everything go.
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
        if self.to_output && self.output_used.swap(true, Ordering::Relaxed) {
            return Err(Failure::new(FailureCode::CannotResume, OUTPUT_IS_GONE));
        }
        let sinks = match prepared {
            Some(prepared) => Sinks::Tree(Box::new(prepared)),
            None if self.to_output => Sinks::Pipe {
                out: self.standard_output()?.into(),
                bytes_max: self.memory_bytes(),
                dry_run: self.settings.comparison.dry_run,
            },
            None => Sinks::Nothing,
        };
        let lease = self.places.of_receiver();
        let end = self.end_config(transfer, digest, block_bytes, counters, observer, lease);
        build::receiver(end, bounds_of(self.settings.writers), sinks).map_err(failed)
    }

    /// Memory for blocks, and for what waits for its turn into a pipe.
    fn memory_bytes(&self) -> usize {
        usize::try_from(self.settings.memory_bytes).unwrap_or(usize::MAX)
    }

    /// A sending end.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is another part of what a sending end is made of"
    )]
    pub(super) fn sender(
        &self,
        sources: &Given,
        root_names: Vec<Vec<u8>>,
        transfer: TransferId,
        digest: digest::DigestKind,
        block_bytes: u32,
        counters: &Arc<Counters>,
        observer: Arc<dyn Observer>,
    ) -> Result<Arc<Sender>, Failure> {
        let sources = match sources {
            Given::Memory(bytes) => Sources::Memory(MemorySource::new(*bytes)),
            Given::Input(pipe) => {
                let work = pipe
                    .work()
                    .ok_or_else(|| Failure::new(FailureCode::CannotResume, INPUT_IS_GONE))?;
                Sources::Pipe(pipe.clone(), work)
            }
            Given::Trees(roots) => Sources::Trees(Trees {
                roots: roots.iter().cloned().map(Ok).collect(),
                names: self.chosen.names(),
                spill: self.env.home.spill()?,
                preserve: wire_preserve_of(&self.settings),
                select: Arc::clone(&self.chosen.select),
                announces_passed: self.settings.comparison.delete,
                own: self.reports.own_files(),
                items: self.items.clone(),
            }),
        };
        let sending = Sending {
            pool_bytes: self.memory_bytes(),
            root_names,
            limit: self
                .settings
                .limit_bytes_per_second
                .map_or(0, std::num::NonZeroU64::get),
            readers: bounds_of(self.settings.readers),
            in_order: self.to_output,
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

/// What standard input is called in a directory.
const INPUT_NAME: &[u8] = b"stdin";

impl Job<'_> {
    fn standard_input(&self) -> Result<PipeSource, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(
                FailureCode::InputUnusable,
                format!("standard input cannot be used: {error}"),
            )
        };
        let input = self.env.input.as_ref();
        let input = input.ok_or_else(|| Failure::usage("-: this job has no standard input"))?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        PipeSource::new(input.try_clone().map_err(failed)?, now).map_err(failed)
    }

    fn standard_output(&self) -> Result<OwnedFd, Failure> {
        let output = self.env.output.as_ref();
        let output = output.ok_or_else(|| Failure::usage("-: this job has no standard output"))?;
        output.try_clone().map_err(|error| {
            Failure::new(
                FailureCode::OutOfResources,
                format!("the receiving end cannot start: {error}"),
            )
        })
    }
}

/// Says nothing: the other end of the same process does.
struct Quiet;

impl Observer for Quiet {
    fn entry_failed(&self, _failed: &godwit_engine::FailedEntry<'_>) {}
}

/// A destination that cannot be had, as a failure of the job.
fn unusable(error: &DestinationError) -> Failure {
    Failure::new(code_of(error.code()), error)
}

/// Gives the destination back if something would be copied into itself.
fn refuse_into_itself(
    sources: &[Vec<u8>],
    prepared: PreparedDestination,
    deletes: bool,
) -> Result<PreparedDestination, Failure> {
    let Some(reason) = itself::reason(sources, &prepared.destinations, deletes) else {
        return Ok(prepared);
    };
    match prepared.put_away() {
        Ok(()) => Err(Failure::new(FailureCode::IntoItself, reason)),
        Err(error) => Err(Failure::new(FailureCode::JournalUnusable, error)),
    }
}
