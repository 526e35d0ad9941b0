//! Owns the sealing of data with ASC MHL histories: of copies after a transfer, and of data at rest.
//! Knows nothing of the format; `godwit_mhl` does.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use godwit_api::endpoint::Endpoint;
use godwit_api::event::{Different, Event, EventSink, ManifestDone};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::settings::CpSettings;
use godwit_engine::governor::machine_memory;
use godwit_mhl::{Chains, Difference, Error, Format, Process, ROOM_MAX, Sealed, Tool, Watch};

use crate::env::Env;
use crate::verify::threads;

/// The sealing of the copies of one transfer.
pub(crate) struct Sealing {
    formats: Vec<Format>,
    threads: usize,
    /// The chains of the histories that the transfer may replace, by the paths that it writes.
    copies: Mutex<Vec<(PathBuf, Chains)>>,
}

/// The result of a sealing.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The new generation; the last one if there are several.
    pub generation: Option<ManifestDone>,
    /// Number of files that differ from the history.
    pub differences: u64,
}

impl Sealing {
    /// The sealing that the settings ask for.
    ///
    /// # Errors
    /// The job belongs to a node, a kind of digest is unknown, or a source is no directory.
    pub(crate) fn of(
        settings: &CpSettings,
        env: &Env,
        sources: &[Endpoint],
    ) -> Result<Option<Self>, Failure> {
        let Some(kinds) = &settings.reports.ascmhl else {
            return Ok(None);
        };
        if env.exports.is_some() || env.tells.is_some() {
            return Err(Failure::usage(
                "--manifest ascmhl: this transfer runs for another machine, which writes no ASC MHL history; seal the copy on its machine with: godwit manifest DIR ascmhl",
            ));
        }
        for source in sources {
            if let Endpoint::Local(path) = source {
                refuse_file(path, &env.resolve(path))?;
            }
        }
        Ok(Some(Self {
            formats: formats(kinds)?,
            threads: threads(settings.threads),
            copies: Mutex::default(),
        }))
    }

    /// Notes the paths that the transfer is about to write.
    pub(crate) fn begins(&self, destinations: &[Vec<u8>]) {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        for path in destinations {
            let path = PathBuf::from(OsString::from_vec(path.clone()));
            // After a lost connection, the paths are sent again.
            if !copies.iter().any(|(known, _)| *known == path) {
                let chains = Chains::below(&path);
                copies.push((path, chains));
            }
        }
    }

    /// Ends the sealing: repairs the chains, and adds a generation to each copy if the transfer is complete.
    ///
    /// # Errors
    /// A history is damaged, cannot be written, or the user stops.
    pub(crate) fn end(
        &self,
        is_complete: bool,
        events: &dyn EventSink,
        stop: &AtomicBool,
    ) -> Result<Outcome, Failure> {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outcome = Outcome::default();
        let mut paths = Vec::new();
        for (path, chains) in std::mem::take(&mut *copies) {
            chains.put_back().map_err(failed)?;
            paths.push(path);
        }
        if !is_complete {
            return Ok(outcome);
        }
        let is_one = paths.len() == 1;
        for path in paths {
            // A source that arrives as a link must not lead the history to another place.
            if !path.symlink_metadata().is_ok_and(|about| about.is_dir()) {
                let why = format!(
                    "{}: an ASC MHL history belongs to a directory, and this copy is none; seal a directory above it with: godwit manifest DIR ascmhl",
                    path.display()
                );
                return Err(Failure::new(FailureCode::ReportUnusable, why).about(path.display()));
            }
            let process = (Process::Transfer, self.threads);
            let done = seal(&path, &self.formats, process, events, stop)?;
            if let (false, Some(done)) = (is_one, &done.generation) {
                let file = String::from_utf8_lossy(&done.path);
                events.note(&format!("sealed {}: {file}", path.display()));
            }
            outcome.differences += done.differences;
            outcome.generation = done.generation;
        }
        Ok(outcome)
    }
}

/// Adds a generation to the history of a directory at rest.
///
/// # Errors
/// A kind of digest is unknown, the path is no directory, its history is damaged or cannot be written, or the user stops.
pub fn at_rest(
    directory: &Path,
    (kinds, cores): (&OsStr, u32),
    events: &dyn EventSink,
    stop: &AtomicBool,
) -> Result<Outcome, Failure> {
    let formats = formats(kinds)?;
    let about = std::fs::metadata(directory).map_err(|error| {
        let why = format!("{}: {error}", directory.display());
        Failure::new(FailureCode::NoSource, why).about(directory.display())
    })?;
    if !about.is_dir() {
        return Err(Failure::usage(format!(
            "{}: an ASC MHL history belongs to a directory: name the directory of the file",
            directory.display()
        )));
    }
    let process = (Process::InPlace, threads(cores));
    seal(directory, &formats, process, events, stop)
}

fn seal(
    directory: &Path,
    formats: &[Format],
    (process, threads): (Process, usize),
    events: &dyn EventSink,
    stop: &AtomicBool,
) -> Result<Outcome, Failure> {
    let tool = tool();
    let watch = Watch {
        stop,
        read: &|_| {},
        room: ROOM_MAX,
    };
    let by = (process, &tool);
    let sealed = godwit_mhl::seal(directory, formats, by, threads, &watch).map_err(failed)?;
    let Sealed {
        generation,
        identifier,
        files,
        others,
        differences,
        ..
    } = sealed;
    if others > 0 {
        events.note(&format!(
            "{}: the history leaves out {others} entries that are no files, such as symbolic links",
            directory.display()
        ));
    }
    let count = differences.len() as u64;
    for (path, difference) in differences {
        report_difference(events, path, &difference);
    }
    let bytes = std::fs::metadata(&generation).map_or(0, |about| about.len());
    Ok(Outcome {
        generation: Some(ManifestDone {
            path: generation.as_os_str().as_bytes().to_vec(),
            entries: files,
            digest: identifier,
            bytes,
        }),
        differences: count,
    })
}

/// This program and this machine, as a generation names them.
fn tool() -> Tool {
    Tool {
        name: "godwit".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
    }
}

/// A copy in an export that was sealed.
#[derive(Debug)]
pub struct SealedCopy {
    /// The file of the new generation.
    pub file: PathBuf,
    /// The C4 identifier of that file.
    pub identifier: String,
    /// Files with digests in it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries that no history has, such as symbolic links.
    pub others: u64,
    /// Generations that a copied chain had left out, and that are in the chain again.
    pub rejoined: u64,
    /// Files that differ from the history, by path, each with the difference in words.
    pub differences: Vec<(String, &'static str)>,
}

/// Adds a generation to the history of a copy in an export. No link is followed, in any part of the path. `watch` has a flag that ends the
/// work, and a receiver of the bytes that are read.
///
/// # Errors
/// As for [`at_rest`]. Messages have absolute paths of this machine.
pub fn copy(
    directory: &Path,
    kinds: &OsStr,
    (stop, read): (&AtomicBool, &(dyn Fn(u64) + Sync)),
) -> Result<SealedCopy, Failure> {
    let formats = formats(kinds)?;
    let watch = Watch {
        stop,
        read,
        room: room(),
    };
    let real = std::fs::canonicalize(directory).map_err(|error| {
        let why = format!("{}: {error}", directory.display());
        Failure::new(FailureCode::ReportUnusable, why).about(directory.display())
    })?;
    if real != directory {
        let why = format!(
            "{}: a part of this path is a symbolic link, and a history is written through none",
            directory.display()
        );
        return Err(Failure::new(FailureCode::ReportUnusable, why).about(directory.display()));
    }
    let rejoined = godwit_mhl::rejoin(&real, &watch).map_err(failed)?;
    let by = (Process::Transfer, &tool());
    let cores = threads(0).min(CORES_MAX);
    let sealed = godwit_mhl::seal_real(&real, &formats, by, cores, &watch).map_err(failed)?;
    let differences = sealed.differences.into_iter();
    Ok(SealedCopy {
        file: sealed.generation,
        identifier: sealed.identifier,
        files: sealed.files,
        bytes: sealed.bytes,
        others: sealed.others,
        rejoined,
        differences: differences
            .map(|(path, difference)| (path, in_words(&difference)))
            .collect(),
    })
}

/// Cores that the digests of one copy in an export take: a node has other work.
const CORES_MAX: usize = 4;

/// The room for the entries of one copy in an export: this part of the machine's memory. Others choose these entries, and the work takes up to
/// sixteen times as much.
const ROOM_PART: u64 = 96;

/// The same where the machine has little memory, or does not say how much: 200,000 entries.
const ROOM_LEAST: u64 = 32 << 20;

fn room() -> u64 {
    let part = machine_memory().map_or(ROOM_LEAST, |bytes| bytes / ROOM_PART);
    part.clamp(ROOM_LEAST, ROOM_MAX)
}

/// A difference without a digest, which would reveal contents.
const fn in_words(difference: &Difference) -> &'static str {
    match difference {
        Difference::Missing => "not found",
        Difference::Type => "not a file",
        Difference::Size { .. } => "another size than in the history",
        Difference::Content { .. } => "other contents than in the history",
        Difference::Unread(_) => "cannot be read, or changed while it was read",
        Difference::Extra => "not in the history",
    }
}

/// Whether a list of kinds of digest makes sense.
///
/// # Errors
/// A kind is unknown.
pub fn check_kinds(kinds: &OsStr) -> Result<(), Failure> {
    formats(kinds).map(drop)
}

/// Refuses a source that is no directory. The transfer reports a missing source.
fn refuse_file(shown: &Path, path: &Path) -> Result<(), Failure> {
    let follows = path.as_os_str().as_bytes().ends_with(b"/");
    let about = match follows {
        true => path.metadata(),
        false => path.symlink_metadata(),
    };
    match about {
        Ok(about) if !about.is_dir() => Err(Failure::usage(format!(
            "{}: --manifest ascmhl seals copied directories, and this source is none; copy its directory, or seal the destination with: godwit manifest DIR ascmhl",
            shown.display()
        ))),
        _ => Ok(()),
    }
}

/// The kinds of digest in a list with commas.
fn formats(kinds: &OsStr) -> Result<Vec<Format>, Failure> {
    let kinds = kinds.to_string_lossy();
    let formats = kinds.split(',').map(|name| {
        Format::from_name(name.trim()).ok_or_else(|| {
            let known = Format::ALL.map(Format::name).join(", ");
            Failure::usage(format!(
                "--ascmhl-digest: {name:?} is no kind of digest; the kinds are {known}"
            ))
        })
    });
    formats.collect()
}

/// The failure for an error of a history.
pub(crate) fn failed(error: Error) -> Failure {
    let (code, path) = match &error {
        Error::Stopped => {
            return Failure::new(FailureCode::Cancelled, "interrupted by the user");
        }
        Error::Malformed { path, .. } => (FailureCode::ManifestRefused, path.clone()),
        Error::Io { path, .. } => (FailureCode::ReportUnusable, path.clone()),
    };
    Failure::new(code, error).about(path.display())
}

/// Reports a difference between data and its history.
pub(crate) fn report_difference(events: &dyn EventSink, path: String, difference: &Difference) {
    let path = path.into_bytes();
    let (code, message) = match difference {
        Difference::Missing => (FailureCode::Missing, "not found".to_owned()),
        Difference::Type => (FailureCode::Type, "not a file".to_owned()),
        Difference::Size { recorded, found } => (
            FailureCode::Size,
            format!("{found} bytes, but the history has {recorded}"),
        ),
        Difference::Content {
            format,
            recorded,
            found,
        } => (
            FailureCode::Content,
            format!(
                "{} {}, but the history has {}",
                format.name(),
                format.text(found),
                format.text(recorded)
            ),
        ),
        Difference::Unread(reason) => (FailureCode::Unread, reason.clone()),
        Difference::Extra => {
            events.emit(Event::Extra { path });
            return;
        }
    };
    events.emit(Event::Different(Different {
        path,
        kind: code.into(),
        message,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_digest_are_a_list_with_commas() {
        let read = |text: &str| formats(OsStr::new(text));
        let two = [Format::Xxh64, Format::Md5];
        assert_eq!(read("xxh64,md5").expect("known"), two);
        assert_eq!(read("c4").expect("known"), [Format::C4]);
        for unknown in ["", "md5,", "sha256", "MD5"] {
            let refused = read(unknown).expect_err(unknown);
            assert_eq!(refused.code, FailureCode::Usage);
        }
    }
}
