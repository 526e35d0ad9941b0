//! The list of what failed: names for programs in one file, reasons for people and programs in another.
//! Does not decide what is a failure.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use godwit_proto::{FaultCode, Side};
use godwit_store::manifest::escape;

use super::{locked, show};
use crate::exit::Failure;
use crate::output::ToldFault;

/// Both files.
pub(super) struct FailedList {
    path: PathBuf,
    inner: Mutex<Inner>,
}

struct Inner {
    names: BufWriter<File>,
    /// `None` where the names go into a device or FIFO: beside one there is no place for more.
    reasons: Option<BufWriter<File>>,
    error: Option<std::io::Error>,
}

impl FailedList {
    /// Makes both files, empty.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let create = |path: &Path| {
            File::create(path)
                .map(BufWriter::new)
                .map_err(|error| Failure::failed(format!("--failed {}: {error}", show(path))))
        };
        let mut reasons = path.as_os_str().to_owned();
        reasons.push(".reasons");
        let is_file = path.metadata().map_or(true, |there| there.is_file());
        Ok(Self {
            path: path.to_owned(),
            inner: Mutex::new(Inner {
                names: create(path)?,
                reasons: is_file.then(|| create(Path::new(&reasons))).transpose()?,
                error: None,
            }),
        })
    }

    /// Notes an entry by its name below the source; the source itself is `.`.
    pub(super) fn add(&self, fault: &ToldFault<'_>) {
        let name = if fault.name.is_empty() {
            b"."
        } else {
            fault.name
        };
        let mut line = Vec::with_capacity(name.len() + 128);
        for field in [name, fault.side.as_bytes(), fault.code.as_bytes()] {
            escape(field, &mut line);
            line.push(b'\t');
        }
        escape(fault.message.as_bytes(), &mut line);
        line.push(b'\n');
        let mut inner = locked(&self.inner);
        let inner = &mut *inner;
        let written = inner
            .names
            .write_all(name)
            .and_then(|()| inner.names.write_all(b"\0"))
            .and_then(|()| match &mut inner.reasons {
                Some(reasons) => reasons.write_all(&line),
                None => Ok(()),
            });
        if let Err(error) = written {
            inner.error.get_or_insert(error);
        }
    }

    /// Everything noted is in the files.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        let mut inner = locked(&self.inner);
        let inner = &mut *inner;
        let reasons = inner.reasons.as_mut().map_or(Ok(()), Write::flush);
        let flushed = inner.names.flush().and(reasons);
        match inner.error.take().map_or(flushed, Err) {
            Ok(()) => Ok(()),
            Err(error) => Err(Failure::failed(format!(
                "--failed {}: {error}; the list is incomplete",
                show(&self.path)
            ))),
        }
    }
}

/// The word for a side.
pub(super) fn side(side: Side) -> &'static str {
    match side {
        Side::SOURCE => "source",
        Side::DESTINATION => "destination",
        _ => "unknown",
    }
}

/// The word for a code, in lists that programs read.
pub(crate) fn code(code: FaultCode) -> &'static str {
    match code {
        FaultCode::IO => "io",
        FaultCode::NO_SPACE => "no-space",
        FaultCode::PERMISSION => "permission",
        FaultCode::READ_ONLY => "read-only",
        FaultCode::NOT_FOUND => "not-found",
        FaultCode::CHANGED => "changed",
        FaultCode::NOT_REGULAR => "not-regular",
        FaultCode::COLLISION => "collision",
        FaultCode::NAME => "name",
        FaultCode::TYPE_CONFLICT => "type",
        FaultCode::ESCAPE => "escape",
        FaultCode::DIGEST => "digest",
        FaultCode::LIMIT => "limit",
        FaultCode::UNSUPPORTED => "unsupported",
        FaultCode::SIZE => "size",
        FaultCode::METADATA => "metadata",
        _ => "other",
    }
}
