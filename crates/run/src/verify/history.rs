//! Checks a copy on this machine by an ASC MHL history: a folder `ascmhl`, or the file of one generation. Does not connect.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use godwit_api::endpoint::Endpoint;
use godwit_api::event::{EventSink, Summary};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::JobSpec;
use godwit_api::settings::VerifySettings;
use godwit_engine::PANICKED;
use godwit_mhl::{Error, FOLDER, ROOM_MAX, Recorded, Watch};

use super::findings::{Findings, Whole};
use super::{conclude, threads};
use crate::control::Control;
use crate::env::Env;
use crate::seal::failed;

/// Longest wait between two reports of progress.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Whether the manifest of a verification is an ASC MHL history.
pub(super) fn is_one(env: &Env, manifest: &Path) -> bool {
    let by_name = manifest.extension() == Some(OsStr::new("mhl"));
    match env.exports {
        // Only the export knows whether the path is a directory.
        Some(_) => by_name || manifest.file_name() == Some(OsStr::new(FOLDER)),
        None => by_name || env.resolve(manifest).is_dir(),
    }
}

/// The failure for a history that cannot be read.
fn unreadable(error: Error) -> Failure {
    let mut failure = failed(error);
    if failure.code == FailureCode::ReportUnusable {
        failure.code = FailureCode::InputUnusable;
    }
    failure
}

/// Checks a copy by the history.
pub(super) fn check(
    spec: &JobSpec,
    settings: &VerifySettings,
    history: &Path,
    (env, events, control): (&Env, &Arc<dyn EventSink>, &Control),
) -> Result<Summary, Failure> {
    let shown = history.display();
    if env.exports.is_some() {
        return Err(Failure::usage(format!(
            "{shown}: a job does not read ASC MHL histories yet; run godwit verify on the machine of the copy"
        )));
    }
    if settings.signed_by.is_some() {
        return Err(Failure::usage(
            "--signed-by: an ASC MHL history has no signature; leave out --signed-by",
        ));
    }
    let Endpoint::Local(copy) = &spec.destination else {
        return Err(Failure::usage(format!(
            "{}: an ASC MHL history is checked on the machine of the copy; run godwit verify there",
            spec.destination
        )));
    };
    let copy = env.resolve(copy);
    let about = std::fs::metadata(&copy).map_err(|error| {
        let what = format!("{}: {error}", copy.display());
        Failure::new(FailureCode::NoSource, what).about(copy.display())
    })?;
    if !about.is_dir() {
        return Err(Failure::usage(format!(
            "{}: the copy of an ASC MHL history is a directory",
            copy.display()
        )));
    }
    let stop = &**control.cancelled();
    let silent = Watch {
        stop,
        read: &|_| {},
        room: ROOM_MAX,
    };
    let recorded = Recorded::read(&env.resolve(history), &silent).map_err(unreadable)?;
    let files = recorded.files();
    let whole = Whole {
        bytes: recorded.bytes(),
        files,
    };
    let findings = Findings::new(Arc::clone(events), env.started, whole);
    let counters = Arc::clone(findings.counters());
    let watch = Watch {
        stop,
        read: &|bytes| counters.bytes_read.add(bytes),
        room: ROOM_MAX,
    };
    let (sender, receiver) = sync_channel(1);
    let ended = std::thread::scope(|scope| {
        let watch = &watch;
        let copy = &copy;
        let work = move || {
            let checked = recorded.check(copy, settings.extra, threads(settings.threads), watch);
            // The receiver waits for this result.
            let _ = sender.send(checked);
        };
        let thread = std::thread::Builder::new().name("gw-history".to_owned());
        let thread = thread.spawn_scoped(scope, work).map_err(|error| {
            Failure::new(FailureCode::OutOfResources, format!("no thread: {error}"))
        })?;
        loop {
            match receiver.recv_timeout(LOOK_EVERY) {
                Ok(ended) => return Ok(ended),
                Err(RecvTimeoutError::Timeout) => findings.progress(Instant::now()),
                Err(RecvTimeoutError::Disconnected) => {
                    // The panic has been printed.
                    let _ = thread.join();
                    return Err(Failure::new(FailureCode::Internal, PANICKED));
                }
            }
        }
    })?;
    let checked = match ended {
        Ok(checked) => checked,
        Err(Error::Stopped) => return conclude(&findings, false, files),
        Err(error) => return Err(unreadable(error)),
    };
    findings.files(files, checked.bytes);
    for (path, difference) in checked.differences {
        findings.differs(path, &difference);
    }
    conclude(&findings, true, files)
}
