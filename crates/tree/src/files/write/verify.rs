//! Reads a file back from storage and computes its digest. Does not compare it.

use godwit_proto::HeldRange;
use godwit_store::digest::{self, Digest, DigestKind, FileDigest};
use godwit_store::{ReadFile, RelPath, Storage, StoreError, StoreErrorKind, TempName};

/// Unit of reading back: a power of two, so that slices can be combined in BLAKE3's tree.
const CHUNK_BYTES: usize = 1 << 20;

/// Bytes read back between two checks for a stop; a multiple of the chunk.
const STOP_EVERY_BYTES: u64 = 64 << 20;

/// Files up to this size are read in one call.
const SMALL_BYTES: u64 = 256 << 10;

/// Digest of the data in storage under a temporary name, read without the page cache if the file system allows it. `None` if
/// `stop` returned true; it is called now and then.
pub(crate) fn digest_of(
    storage: &dyn Storage,
    path: &RelPath,
    temp: &TempName,
    bytes: u64,
    kind: DigestKind,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Digest>, StoreError> {
    let file = storage.open_temp(path, temp)?;
    file.drop_cache();
    digest_of_opened(&*file, path, bytes, kind, stop)
}

/// Digest of a file with its final name and an expected length of `bytes`. `None` as for `digest_of`.
pub(crate) fn digest_of_file(
    storage: &dyn Storage,
    path: &RelPath,
    bytes: u64,
    kind: DigestKind,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Digest>, StoreError> {
    if bytes > SMALL_BYTES {
        let file = storage.open(path)?;
        return digest_of_opened(&*file, path, bytes, kind, stop);
    }
    let mut buffer = vec![0; usize::try_from(bytes).unwrap_or(0)];
    let (_, filled) = storage.read_whole(path, &mut buffer)?;
    if filled < buffer.len() {
        return Err(changed(path));
    }
    Ok(Some(digest::digest_slice(kind, 0, bytes, &buffer)))
}

fn digest_of_opened(
    file: &dyn ReadFile,
    path: &RelPath,
    bytes: u64,
    kind: DigestKind,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Digest>, StoreError> {
    let mut whole = FileDigest::new(kind);
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut next = 0;
    while let Some(data) = if next < bytes {
        file.next_data(next)?
    } else {
        None
    } {
        let mut offset = data.start.max(next);
        offset -= offset % CHUNK_BYTES as u64;
        offset = offset.max(next);
        let end = data.end.min(bytes);
        while offset < end {
            let length = CHUNK_BYTES.min(usize::try_from(bytes - offset).unwrap_or(CHUNK_BYTES));
            read_exact(file, path, offset, &mut buffer[..length])?;
            whole.add(
                offset,
                length as u64,
                digest::digest_slice(kind, offset, bytes, &buffer[..length]),
            );
            offset += length as u64;
            if offset.is_multiple_of(STOP_EVERY_BYTES) && stop() {
                return Ok(None);
            }
        }
        next = offset;
    }
    Ok(whole.finish_unless(bytes, stop))
}

/// The first of these ranges whose data in storage, under a temporary name, has another digest; `None` if all are right or cannot be read.
pub(crate) fn wrong_range<'a>(
    storage: &dyn Storage,
    (path, temp): (&RelPath, &TempName),
    bytes: u64,
    kind: DigestKind,
    ranges: &'a [HeldRange],
) -> Option<&'a HeldRange> {
    let file = storage.open_temp(path, temp).ok()?;
    let mut buffer = vec![0; CHUNK_BYTES];
    ranges.iter().find(|range| {
        let mut digest = FileDigest::new(kind);
        let end = range.offset.saturating_add(range.bytes).min(bytes);
        let mut offset = range.offset;
        while offset < end {
            let length = CHUNK_BYTES.min(usize::try_from(end - offset).unwrap_or(CHUNK_BYTES));
            if read_exact(&*file, path, offset, &mut buffer[..length]).is_err() {
                return false;
            }
            let chunk = digest::digest_slice(kind, offset, bytes, &buffer[..length]);
            digest.add(offset, length as u64, chunk);
            offset += length as u64;
        }
        let found = digest.part_unless(range.offset, range.bytes, bytes, &|| false);
        found.is_some_and(|found| found.0 != range.digest.0)
    })
}

fn read_exact(
    file: &dyn ReadFile,
    path: &RelPath,
    offset: u64,
    buffer: &mut [u8],
) -> Result<(), StoreError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(offset + filled as u64, &mut buffer[filled..])? {
            0 => {
                return Err(changed(path));
            }
            read => filled += read,
        }
    }
    Ok(())
}

fn changed(path: &RelPath) -> StoreError {
    StoreError {
        operation: "read back",
        path: path.clone(),
        kind: StoreErrorKind::Changed,
        errno: None,
    }
}
