//! Copies contents from one file of the destination to another, so that a separate copy gets new attributes. Does not decide which files
//! are copied (`compare`, `writer`).
//!
//! A call that hangs in the kernel of a lost node may set attributes of a file long after the right ones were set. If such a call is
//! possible, the attributes are set on another inode than the target of the call.

use godwit_store::{
    Create, FinalMeta, Kind, Lost, Meta, ReadFile, RelPath, Replace, StoreError, StoreErrorKind,
    WriteFile,
};

use crate::files::member::copies;
use crate::files::target::Target;

/// Bytes copied at a time through this process.
const COPY_BYTES: usize = 1 << 20;

/// Bytes copied at a time by the file system, between two checks of the fence.
const RANGE_BYTES: u64 = 64 << 20;

/// Whether an existing entry must be made again instead of changed. A file with more names stays, because a copy would separate them.
pub(crate) fn is_due(target: &Target, there: &Meta) -> bool {
    let comparison = target.comparison();
    copies(target) && !comparison.dry_run && there.kind != Kind::Directory && there.links == 1
}

/// Replaces a file by a copy with these attributes; `None` if it cannot be copied, or changes meanwhile.
pub(crate) fn adjust(
    target: &Target,
    path: &RelPath,
    there: &Meta,
    meta: &FinalMeta,
) -> Result<Option<Lost>, StoreError> {
    let storage = &target.config.storage;
    let temp = target.temp(path);
    let is_same = |from: &dyn ReadFile| {
        let now = from.meta();
        now.is_ok_and(|now| {
            (now.inode, now.bytes, now.mtime) == (there.inode, there.bytes, there.mtime)
        })
    };
    let copy = || {
        let from = storage.open(path)?;
        let to = storage.create(path, &temp, Create::Fresh, Some(there.bytes))?;
        copy_contents(target, path, &*from, &*to)?;
        let lost = to.finish(there.bytes, meta)?;
        if !target.config.no_sync {
            storage.sync_batch(&[(path, temp)], there.bytes)?;
        }
        if !is_same(&*from) {
            return Ok(None);
        }
        storage.commit(path, &temp, Replace::Atomically)?;
        Ok(Some(lost))
    };
    let copied: Result<_, StoreError> = copy();
    if !matches!(copied, Ok(Some(_))) {
        // The close sweeps a file that cannot be removed now.
        let _ = storage.discard(path, &temp);
    }
    match copied {
        Err(error) if error.kind != StoreErrorKind::Fenced => Ok(None),
        copied => copied,
    }
}

/// Copies the contents of a file, without its holes.
pub(crate) fn copy_contents(
    target: &Target,
    path: &RelPath,
    from: &dyn ReadFile,
    to: &dyn WriteFile,
) -> Result<(), StoreError> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    while let Some(data) = from.next_data(at)? {
        at = data.start.max(at);
        while at < data.end {
            if target.is_fenced() {
                return Err(StoreError {
                    operation: "copy",
                    path: path.clone(),
                    kind: StoreErrorKind::Fenced,
                    errno: None,
                });
            }
            let end = data.end.min(at.saturating_add(RANGE_BYTES));
            let copied = to.copy_from(from, at..end)?;
            at += copied;
            if copied > 0 {
                continue;
            }
            let wanted = usize::try_from(data.end - at).unwrap_or(COPY_BYTES);
            let buffer = &mut buffer[..wanted.min(COPY_BYTES)];
            let read = from.read_at(at, buffer)?;
            if read == 0 {
                return Ok(());
            }
            to.write_at(at, &buffer[..read])?;
            at += read as u64;
        }
    }
    Ok(())
}
