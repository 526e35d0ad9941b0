//! Checks a copy on this machine. Does not connect.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_engine::PANICKED;
use godwit_store::{Confine, FsOptions, FsStorage, RelPath};
use godwit_tree::TreeRoot;
use godwit_tree::verification::{Checked, Expected, ExtraError, Finding, Verifier, VerifierConfig};

use super::{CheckInputs, Checklist};
use crate::Home;
use godwit_api::failure::{Failure, FailureCode};

/// The path as a root of a storage: a name in its parent directory, so that its own mode and time count too.
///
/// # Errors
/// The path does not exist, or cannot be opened.
pub fn root_of(path: &Path, home: &Home) -> Result<TreeRoot, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(
            FailureCode::NoSource,
            format!("{}: {error}", path.display()),
        )
        .about(path.display())
    };
    let follows = path.as_os_str().as_bytes().ends_with(b"/") || path.is_dir();
    let real = if follows {
        std::fs::canonicalize(path).map_err(|error| failed(&error))?
    } else {
        path.symlink_metadata().map_err(|error| failed(&error))?;
        path.to_owned()
    };
    let (parent, name) = match (real.parent(), real.file_name()) {
        (Some(parent), Some(name)) if parent.as_os_str().is_empty() => {
            (PathBuf::from("."), name.as_bytes().to_vec())
        }
        (Some(parent), Some(name)) => (parent.to_owned(), name.as_bytes().to_vec()),
        _ => (real.clone(), Vec::new()),
    };
    let options = FsOptions::new(Confine::Local);
    let storage =
        FsStorage::open_with(&parent, &home.spill()?, options).map_err(|error| failed(&error))?;
    Ok(TreeRoot {
        storage: Arc::new(storage),
        start: RelPath::parse(&name).map_err(|error| failed(&error))?,
    })
}

/// Checks the copy at `root`; messages contain `path`. Returns false if it was interrupted.
pub(super) fn check(
    asked: &CheckInputs<'_>,
    mut checklist: Checklist,
    root: TreeRoot,
    path: &Path,
) -> Result<bool, Failure> {
    let CheckInputs {
        settings,
        env,
        findings,
        ..
    } = asked;
    let config = VerifierConfig {
        roots: vec![root.clone()],
        digest: checklist.digest_kind(),
        contents_only: settings.content_only,
        durable: asked.durable,
        touched: checklist.directory,
        threads: threads(settings.threads),
    };
    let mut expected = match settings.extra {
        true => Some(Expected::new(&env.home.spill()?).without(Arc::clone(&checklist.own))),
        false => None,
    };
    let (sender, receiver) = std::sync::mpsc::sync_channel::<Checked>(CHECKED_MAX);
    let reported = Box::new(move |checked| {
        // After an interrupt the receiver is gone.
        let _ = sender.send(checked);
    });
    let verifier =
        Verifier::start(config, Arc::clone(findings.counters()), reported).map_err(|error| {
            Failure::new(FailureCode::OutOfResources, format!("no thread: {error}"))
        })?;
    let add = |checked: Checked| {
        for (record, finding) in checked.records.iter().zip(&checked.findings) {
            match finding {
                Finding::Same(_) => findings.checked(record, None),
                Finding::Different(fault) => findings.checked(record, Some(fault)),
            }
        }
    };
    let mut under_way = 0_usize;
    let mut over = false;
    while !over || under_way > 0 {
        if !asked.goes_on() {
            verifier.stop();
            // The threads may wait for room in the channel.
            drop(receiver);
            return Ok(false);
        }
        if verifier.has_failed() {
            drop(receiver);
            return Err(Failure::new(FailureCode::Internal, PANICKED));
        }
        if !over && verifier.has_room() && under_way < CHECKED_MAX {
            match checklist.next_batch()? {
                Some(records) => {
                    for record in &records {
                        if let Some(expected) = &mut expected {
                            expected.add(&record.path).map_err(|error| {
                                Failure::new(
                                    FailureCode::SpillUnusable,
                                    format!("names cannot be sorted on disk: {error}"),
                                )
                            })?;
                        }
                    }
                    under_way += 1;
                    verifier.submit(0, records);
                }
                None => over = true,
            }
            while let Ok(checked) = receiver.try_recv() {
                under_way -= 1;
                add(checked);
            }
        } else if let Ok(checked) = receiver.recv_timeout(LOOK_EVERY) {
            under_way -= 1;
            add(checked);
        }
    }
    if let Some(expected) = expected {
        let found = expected.find_extra(&root, &mut || asked.goes_on(), &mut |path| {
            findings.extra(path.as_bytes());
            true
        });
        return match found {
            Ok(()) => Ok(true),
            Err(ExtraError::GivenUp) => Ok(false),
            Err(error) => {
                let what = format!("{}: {error}", path.display());
                Err(Failure::new(FailureCode::NoSource, what).about(path.display()))
            }
        };
    }
    Ok(true)
}

pub(crate) fn threads(asked: u32) -> usize {
    match asked {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads as usize,
    }
}

/// Batches that are being checked or wait for their report, so that the threads never wait to report.
const CHECKED_MAX: usize = 2 * godwit_tree::verification::BATCHES_MAX;

/// Longest wait between checks for an interrupt.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(200);
