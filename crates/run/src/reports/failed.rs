//! Writes the list of failures: names for programs in one file, reasons for users and programs in another. Does not decide which entries
//! fail.

use std::fs::File;
use std::io::{BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use godwit_api::event::{EventSink, Fault};
use godwit_proto::{FaultCode, Side};
use godwit_store::manifest::escape;

use super::target::Target;
use super::{locked, show};
use godwit_api::failure::{Code, Failure, FailureCode, Scope};

/// Both files, as drafts until the end: an earlier list stays until the new one is complete.
pub(super) struct FailedList {
    path: PathBuf,
    /// Whether this run reads the earlier list as its list of names.
    again: bool,
    inner: Mutex<Inner>,
}

struct Inner {
    names: Option<Draft>,
    /// `None` if the names are written to a device or FIFO, which has no neighbouring file for reasons.
    reasons: Option<Draft>,
    count: u64,
    /// The state before the transfer began: lengths of names and reasons, and the number of failures.
    before: Option<(u64, u64, u64)>,
    error: Option<std::io::Error>,
}

/// The end of the run that the list describes.
#[derive(Clone, Copy)]
pub(super) struct Ending {
    /// Whether a transfer had begun.
    pub(super) began: bool,
    /// Whether every selected entry was delivered or has failed.
    pub(super) whole: bool,
    /// Entries that failed.
    pub(super) failed: u64,
}

struct Draft {
    target: Target,
    file: BufWriter<File>,
}

impl Draft {
    fn create(path: &Path, spill: &Path, umask: u32, what: &str) -> std::io::Result<Self> {
        let target = Target::find(path, spill, umask, what)?;
        let file = BufWriter::new(target.create()?);
        Ok(Self { target, file })
    }

    /// Cuts the draft to `length`, if given. Returns the length.
    fn cut(&mut self, length: Option<u64>) -> std::io::Result<u64> {
        if let Some(length) = length {
            self.file.seek(SeekFrom::Start(length))?;
            self.file.get_ref().set_len(length)?;
        }
        self.file.stream_position()
    }

    fn finish(mut self) -> std::io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        self.target.finish()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // A finished draft has its final name, so there is none to remove.
        let _ = std::fs::remove_file(self.target.draft());
    }
}

/// The file of reasons, beside the file of names.
pub(super) fn reasons_path(path: &Path) -> PathBuf {
    let mut reasons = path.as_os_str().to_owned();
    reasons.push(".reasons");
    PathBuf::from(reasons)
}

impl FailedList {
    /// Makes drafts of both files, so that an unwritable path fails before any data moves.
    pub(super) fn open(
        path: &Path,
        spill: &Path,
        umask: u32,
        again: bool,
    ) -> Result<Self, Failure> {
        let create = |path: &Path, what| {
            Draft::create(path, spill, umask, what).map_err(|error| {
                Failure::new(
                    FailureCode::ReportUnusable,
                    format!("--failed {}: {error}", show(path)),
                )
                .about(show(path))
            })
        };
        let names = create(path, "failed")?;
        let reasons = match names.target.is_named() {
            true => Some(create(&reasons_path(path), "reasons")?),
            false => None,
        };
        Ok(Self {
            path: path.to_owned(),
            again,
            inner: Mutex::new(Inner {
                names: Some(names),
                reasons,
                count: 0,
                before: None,
                error: None,
            }),
        })
    }

    /// The files that the list is written to, and their final names.
    pub(super) fn places(&self) -> Vec<PathBuf> {
        let inner = locked(&self.inner);
        let drafts = inner.names.iter().chain(&inner.reasons);
        drafts.flat_map(|draft| draft.target.places()).collect()
    }

    /// Called when the transfer begins or restarts. A restart drops the earlier failures, because those entries may succeed now.
    pub(super) fn begin(&self) {
        let mut inner = locked(&self.inner);
        let inner = &mut *inner;
        let before = inner.before;
        let cut = |draft: &mut Option<Draft>, length| match draft {
            Some(draft) => draft.cut(length),
            None => Ok(0),
        };
        let names = cut(&mut inner.names, before.map(|(names, _, _)| names));
        let reasons = cut(&mut inner.reasons, before.map(|(_, reasons, _)| reasons));
        match names.and_then(|names| Ok((names, reasons?))) {
            Ok((names, reasons)) => {
                let (_, _, count) = *inner.before.get_or_insert((names, reasons, inner.count));
                inner.count = count;
            }
            // Bytes that were written to a pipe cannot be removed.
            Err(_) if before.is_none() => {}
            Err(error) => {
                inner.error.get_or_insert(error);
            }
        }
    }

    /// Records an entry by its name below the source; the source itself is `.`.
    pub(super) fn add(&self, fault: &Fault) {
        let name = if fault.name.is_empty() {
            &b"."[..]
        } else {
            &fault.name[..]
        };
        let mut line = Vec::with_capacity(name.len() + 128);
        for field in [name, fault.side.as_bytes(), fault.code.as_str().as_bytes()] {
            escape(field, &mut line);
            line.push(b'\t');
        }
        escape(fault.message.as_bytes(), &mut line);
        line.push(b'\n');
        let mut inner = locked(&self.inner);
        let inner = &mut *inner;
        inner.count += 1;
        let written = match &mut inner.names {
            Some(Draft { file, .. }) => file.write_all(name).and_then(|()| file.write_all(b"\0")),
            None => Ok(()),
        };
        let written = written.and_then(|()| match &mut inner.reasons {
            Some(reasons) => reasons.file.write_all(&line),
            None => Ok(()),
        });
        if let Err(error) = written {
            inner.error.get_or_insert(error);
        }
    }

    /// Completes both files, unless the next run needs the earlier list. That is the case if the transfer never began, or if this run
    /// read the earlier list and cannot account for all of its names.
    pub(super) fn finish(&self, ending: Ending, output: &dyn EventSink) -> Result<(), Failure> {
        let mut inner = locked(&self.inner);
        let (names, reasons) = (inner.names.take(), inner.reasons.take());
        if !ending.began {
            return Ok(());
        }
        let shown = show(&self.path);
        let (known, failed) = (inner.count, ending.failed);
        if self.again && (!ending.whole || known < failed) {
            output.note(&format!(
                "--failed {shown}: the earlier list is kept unchanged, because this run did not handle all entries of the list"
            ));
            return Ok(());
        }
        let finished = match inner.error.take() {
            Some(error) => Err(error),
            // Programs read the names, so the names are written last.
            None => reasons
                .map_or(Ok(()), Draft::finish)
                .and_then(|()| names.map_or(Ok(()), Draft::finish)),
        };
        finished.map_err(|error| {
            Failure::new(
                FailureCode::ReportUnusable,
                format!("--failed {shown}: {error}; the list is incomplete"),
            )
            .about(&shown)
        })?;
        if known < failed {
            output.note(&format!(
                "--failed {shown}: the list names {known} of {failed} failed entries; run the same command again to find the others"
            ));
        }
        Ok(())
    }
}

/// The word for a side.
pub(crate) fn side(side: Side) -> &'static str {
    match side {
        Side::SOURCE => "source",
        Side::DESTINATION => "destination",
        _ => "unknown",
    }
}

/// The code of a fault, in lists for programs.
pub(crate) fn code(code: FaultCode) -> Code {
    FailureCode::of_number(Scope::Entry, code.0.into()).into()
}
