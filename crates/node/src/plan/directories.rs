//! Looks at the directory of each export before the node uses it, each on one thread: a file system may hang.
//! Decides nothing about the directory's place: `apart` does.
//!
//! While a look hangs, its export stays closed. If the look then finds an unsuitable directory, the export stays closed for good.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use godwit_api::watched::Watched;

use crate::{apart, log};

/// Time for all looks. A file system whose look takes longer counts as one that does not answer.
const WITHIN: Duration = Duration::from_secs(5);

/// The directory of one export.
pub(super) struct Directory {
    /// Real, unless its file system was silent.
    pub(super) path: PathBuf,
    pub(super) watched: Watched,
    /// Whether the look has not ended yet.
    pub(super) is_late: bool,
}

/// Steps of one look.
const STEPS: usize = 2;

/// Findings of a look, in this order.
enum Step {
    Real(PathBuf),
    Ended(Result<(), String>),
}

/// Looks at all directories at once, each with the name of its export. They must lie apart from the node's own files.
pub(super) fn look(exports: &[(&str, &Path)], own: &[&Path]) -> Vec<Result<Directory, String>> {
    let own: Arc<[PathBuf]> = own.iter().map(|path| path.to_path_buf()).collect();
    let began = Instant::now();
    let looks = exports.iter().map(|(_, path)| begin(path, &own));
    let looks: Vec<_> = looks.collect();
    let with_looks = exports.iter().zip(looks);
    with_looks
        .map(|((name, path), look)| wait(name, path, look?, began))
        .collect()
}

fn begin(named: &Path, own: &Arc<[PathBuf]>) -> Result<Receiver<Step>, String> {
    let (sender, steps) = sync_channel(STEPS);
    let (named, own) = (named.to_owned(), Arc::clone(own));
    let look = move || {
        // The receiver is gone when the process ends.
        let say = |step| drop(sender.send(step));
        match fs::canonicalize(named) {
            Ok(real) => {
                say(Step::Real(real.clone()));
                say(Step::Ended(check(&real, &own)));
            }
            Err(error) => say(Step::Ended(Err(error.to_string()))),
        }
    };
    let thread = Builder::new().name("gw-look".to_owned()).spawn(look);
    thread.map(|_| steps).map_err(|error| error.to_string())
}

fn check(real: &Path, own: &[PathBuf]) -> Result<(), String> {
    if !real.is_dir() {
        return Err("it is not a directory".to_owned());
    }
    let own: Vec<&Path> = own.iter().map(PathBuf::as_path).collect();
    apart::trouble(real, &own).map_or(Ok(()), Err)
}

fn wait(
    name: &str,
    named: &Path,
    steps: Receiver<Step>,
    began: Instant,
) -> Result<Directory, String> {
    let mut real = None;
    loop {
        let left = WITHIN.saturating_sub(began.elapsed());
        match steps.recv_timeout(left) {
            Ok(Step::Real(path)) => real = Some(path),
            Ok(Step::Ended(ended)) => {
                ended?;
                break;
            }
            Err(RecvTimeoutError::Timeout) => return late(name, named, real, steps, began),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(
                    "the check of it ended early; see the log, and start the node again".to_owned(),
                );
            }
        }
    }
    Ok(Directory {
        // The last step follows this one.
        path: real.unwrap_or_else(|| named.to_owned()),
        watched: Watched::default(),
        is_late: false,
    })
}

/// Closes the export until the rest of its look has arrived.
fn late(
    name: &str,
    named: &Path,
    real: Option<PathBuf>,
    steps: Receiver<Step>,
    began: Instant,
) -> Result<Directory, String> {
    let path = match real {
        Some(real) => real,
        None => std::path::absolute(named).map_err(|error| error.to_string())?,
    };
    let watched = Watched::default();
    watched.awaits_checks(began);
    let (name, expected, checked) = (name.to_owned(), path.clone(), watched.clone());
    let rest = move || {
        let mut moved = None;
        for step in steps {
            let ended = match step {
                Step::Real(real) if real != expected => {
                    moved = Some(format!("its path leads to {}", real.display()));
                    continue;
                }
                Step::Real(_) => continue,
                Step::Ended(ended) => ended,
            };
            let trouble = ended.err().or_else(|| moved.take());
            let Some(why) = trouble else {
                return checked.passes_checks();
            };
            let path = expected.display();
            log::line(&format!(
                "the file system of the export {name} ({path}) answers, but the export stays closed until the node is started again: {why}"
            ));
            checked.close();
        }
    };
    let thread = Builder::new().name("gw-look".to_owned()).spawn(rest);
    thread.map_err(|error| error.to_string())?;
    Ok(Directory {
        path,
        watched,
        is_late: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look at its deadline: this part is known, and the rest comes later.
    fn late_look(known: Option<&str>, rest: Vec<Step>) -> Watched {
        let (sender, steps) = sync_channel(STEPS);
        let began = Instant::now().checked_sub(WITHIN).expect("a time");
        let known = known.map(PathBuf::from);
        let directory = late("late", Path::new("/mnt/late"), known, steps, began);
        let watched = directory.expect("a thread").watched;
        assert!(watched.hangs_for(Instant::now()).is_some() && !watched.is_closed());
        rest.into_iter().for_each(|step| drop(sender.send(step)));
        drop(sender);
        let until = Instant::now() + Duration::from_secs(60);
        while watched.hangs_for(Instant::now()).is_some() && !watched.is_closed() {
            assert!(Instant::now() < until, "nothing is decided");
            std::thread::sleep(Duration::from_millis(5));
        }
        watched
    }

    #[test]
    fn a_late_look_opens_its_export_only_if_the_directory_is_the_expected_one_and_fits() {
        let real = |path: &str| Step::Real(PathBuf::from(path));
        let fits = || Step::Ended(Ok(()));
        let unfit = || Step::Ended(Err("it reaches the home".to_owned()));
        let is_closed = |known, rest| late_look(known, rest).is_closed();
        assert!(!is_closed(None, vec![real("/mnt/late"), fits()]));
        assert!(!is_closed(Some("/srv/late"), vec![fits()]));
        assert!(is_closed(None, vec![real("/elsewhere"), fits()]));
        assert!(is_closed(None, vec![real("/mnt/late"), unfit()]));
        assert!(is_closed(Some("/srv/late"), vec![unfit()]));
        assert!(is_closed(None, vec![unfit()]));
    }
}
