//! Writes reports about a transfer: its manifest, and the list of failed entries. Does not move data; the engine reports the
//! entries.
//!
//! An observer at the client's end receives each entry once the entry is durable, with its digest, and writes a line. Existing
//! entries wait on disk for threads that read this side's copy. No part of a report is sent over the network.

mod failed;
mod inputs;
pub(crate) mod listing;
mod manifest;
mod names_room;
mod pending;
mod report_files;
mod signing;
mod target;
mod write_error;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use godwit_api::event::{self, Event, EventSink};
use godwit_api::settings::ReportSettings;
use godwit_engine::FailedEntry;
use godwit_proto::Record;
use godwit_store::digest::DigestKind;
use godwit_tree::select::Select;
use godwit_tree::{OwnFiles, TreeRoot};

pub(crate) use failed::{code, side};
pub use inputs::{file_key, refuse_inputs, refuse_manifest_in, refuse_source};
pub use manifest::{Finished, Keeper, KeeperOptions, ManifestPlace};
pub use report_files::ReportFiles;
pub use signing::Signer;
pub(crate) use signing::check_signature;

use crate::env::{Env, EventDetail};
use failed::{Ending, FailedList};
use godwit_api::failure::Failure;

/// The reports of one command.
#[derive(Default)]
pub(crate) struct Reports {
    failed: Option<FailedList>,
    keeper: Option<Arc<Keeper>>,
    /// Another godwit process that receives the failed entries.
    listener: Option<Arc<dyn EventSink>>,
    /// The prefix of names in reports, for each root.
    prefixes: Mutex<Vec<Vec<u8>>>,
    /// Whether a transfer has begun.
    began: AtomicBool,
    own: ReportFiles,
}

/// The roots of a transfer for its reports; empty if another godwit process supplies the names.
#[derive(Default)]
pub(crate) struct ReportRoots {
    /// Names of the roots at the destination; empty for "the contents of the source".
    pub(crate) names: Vec<Vec<u8>>,
    /// This side's copies: the source's in a push, the destination's in a pull. May be empty if there is none.
    pub(crate) copies: Vec<TreeRoot>,
}

impl Reports {
    /// Opens the report files, before any data moves.
    pub(crate) fn open(settings: &ReportSettings, env: &Env) -> Result<Self, Failure> {
        let home = &env.home;
        let keeper = match &settings.manifest {
            Some(path) => Some(Keeper::open(KeeperOptions {
                place: ManifestPlace::File {
                    path: path.clone(),
                    sorted: settings.manifest_sorted,
                    signer: settings.sign.then(|| Signer::load(home)).transpose()?,
                },
                spill: home.spill()?,
                umask: env.umask,
                threads: 0,
            })?),
            None if settings.sign || settings.manifest_sorted => {
                return Err(Failure::usage(
                    "--sign and --manifest-sorted need a manifest: name its file with --manifest FILE",
                ));
            }
            None => None,
        };
        let failed = match &settings.failed {
            Some(path) => Some(FailedList::open(
                path,
                &home.spill()?,
                env.umask,
                env.list
                    .as_ref()
                    .is_some_and(|list| inputs::is_list(path, list)),
            )?),
            None => None,
        };
        let named = |flag: &str, path: &Option<PathBuf>, places: Vec<PathBuf>| {
            path.as_ref()
                .map(|path| (format!("{flag} {}", show(path)), places))
        };
        let manifest = keeper
            .as_ref()
            .map_or_else(Vec::new, |keeper| keeper.places());
        let list = failed.as_ref().map_or_else(Vec::new, FailedList::places);
        let own = [
            named("--manifest", &settings.manifest, manifest),
            named("--failed", &settings.failed, list),
        ];
        let kept_out = env.kept_out.iter();
        let kept_out = kept_out.map(|(name, path)| (name.clone(), vec![path.clone()]));
        Ok(Self {
            failed,
            keeper,
            own: ReportFiles::new(own.into_iter().flatten().chain(kept_out)),
            ..Self::default()
        })
    }

    /// The reports of a process that works for another godwit process, which writes the files.
    pub(crate) fn as_events(
        output: &Arc<dyn EventSink>,
        tells: EventDetail,
        env: &Env,
    ) -> Result<Self, Failure> {
        let keeper = match tells.entries {
            true => Some(Keeper::open(KeeperOptions {
                place: ManifestPlace::Events(Arc::clone(output)),
                spill: env.home.spill()?,
                umask: env.umask,
                threads: 0,
            })?),
            false => None,
        };
        Ok(Self {
            keeper,
            listener: tells.faults.then(|| Arc::clone(output)),
            ..Self::default()
        })
    }

    /// Called when the transfer begins or restarts. Earlier records are dropped.
    pub(crate) fn begin(&self, roots: ReportRoots, digest: DigestKind) -> Result<(), Failure> {
        let prefixes = if roots.names.len() > 1 {
            roots.names
        } else {
            vec![Vec::new(); roots.names.len()]
        };
        self.began.store(true, Ordering::Relaxed);
        locked(&self.prefixes).clone_from(&prefixes);
        if let Some(failed) = &self.failed {
            failed.begin();
        }
        match &self.keeper {
            Some(keeper) => keeper.begin(prefixes, roots.copies, digest),
            None => Ok(()),
        }
    }

    /// Report files inside the sources.
    pub(crate) fn own_files(&self) -> Arc<OwnFiles> {
        self.own.files()
    }

    /// Refuses reports that `--delete` would delete in a destination of this machine.
    pub(crate) fn refuse_deletion(
        &self,
        destination: &Path,
        select: &Select,
    ) -> Result<(), Failure> {
        self.own.refuse_deletion(destination, select)
    }

    /// Whether the reports need the complete entries.
    pub(crate) fn wants_entries(&self) -> bool {
        self.keeper.is_some()
    }

    /// Records a complete entry.
    pub(crate) fn entry_done(&self, record: &Record) {
        if let Some(keeper) = &self.keeper {
            keeper.entry_done(record);
        }
    }

    /// The name of an entry below the source. With several sources, the name of the source comes first.
    pub(crate) fn name_of(&self, root: u16, path: &[u8]) -> Vec<u8> {
        let prefixes = locked(&self.prefixes);
        match prefixes.get(usize::from(root)) {
            Some(prefix) => listing::join(prefix, path),
            None => path.to_vec(),
        }
    }

    /// Records a failed entry. Reports use its name below the source.
    pub(crate) fn entry_failed(&self, failed: &FailedEntry<'_>) {
        let name = match failed.root {
            Some(root) => self.name_of(root, failed.path),
            None => failed.path.to_vec(),
        };
        let fault = failed.fault;
        self.add_fault(&event::Fault {
            name,
            side: side(fault.side).to_owned(),
            code: code(fault.code),
            message: fault.message.clone(),
        });
    }

    /// Records a failed entry by its name below the source.
    pub(crate) fn add_fault(&self, fault: &event::Fault) {
        if let Some(keeper) = &self.keeper {
            keeper.entry_failed(&fault.name);
        }
        if let Some(failed) = &self.failed {
            failed.add(fault);
        }
        if let Some(listener) = &self.listener {
            listener.emit(Event::Fault(fault.clone()));
        }
    }

    /// Records an entry that another godwit process completed, by its line in a manifest.
    pub(crate) fn add_line(&self, line: &[u8]) {
        if let Some(keeper) = &self.keeper {
            keeper.add_line(line);
        }
    }

    /// Whether the reports need the names of failed entries.
    pub(crate) fn wants_faults(&self) -> bool {
        self.failed.is_some() || self.keeper.is_some()
    }

    /// Finishes the reports once all files are complete or gone. `dry` means that the transfer copied nothing.
    pub(crate) fn finish(
        &self,
        whole: bool,
        dry: bool,
        failed: u64,
        output: &dyn EventSink,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Finished, Failure> {
        for note in self.own.notes() {
            output.note(&note);
        }
        if let Some(list) = &self.failed {
            let ending = Ending {
                began: self.began.load(Ordering::Relaxed),
                whole: whole && !dry,
                failed,
            };
            list.finish(ending, output)?;
        }
        match &self.keeper {
            Some(keeper) if whole => keeper.finish(failed, output, goes_on),
            Some(keeper) => {
                keeper.discard();
                Ok(Finished::default())
            }
            None => Ok(Finished::default()),
        }
    }
}

/// A path in messages.
#[must_use]
pub fn show(path: &Path) -> String {
    path.display().to_string()
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
