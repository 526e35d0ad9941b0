//! Owns the parts that the bare file pipe sends: each stream takes the contents of its next frame from one cursor, or whole files. Does
//! not read contents.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, bail};

use super::wire::{FRAME_EXTRA_BYTES, RECORD_HEADER_BYTES, STAMP_BYTES};

/// A file to send: its path below the root, and its size when it was listed.
#[derive(Debug)]
pub(crate) struct PlanFile {
    pub(crate) path: Vec<u8>,
    pub(crate) bytes: u64,
}

/// A part of a file: index in [`Plan::files`], first byte, number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) file: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
}

/// All files, in the order of their directories.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) files: Vec<PlanFile>,
    cursor: Mutex<Cursor>,
}

#[derive(Debug, Default)]
pub(crate) struct Cursor {
    file: usize,
    offset: u64,
}

impl Plan {
    /// Lists `source`: a single file, or a directory with all its contents, with its own name.
    ///
    /// # Errors
    /// An entry cannot be listed, or is neither a file nor a directory.
    pub(crate) fn list(source: &Path) -> anyhow::Result<Self> {
        let name = source.file_name().context("the source needs a name")?;
        let mut files = Vec::new();
        let meta = fs::metadata(source).with_context(|| format!("cannot look at {source:?}"))?;
        if meta.is_dir() {
            list_into(source, name.as_bytes(), &mut files)?;
        } else {
            files.push(PlanFile {
                path: name.as_bytes().to_vec(),
                bytes: meta.len(),
            });
        }
        Ok(Self {
            files,
            cursor: Mutex::default(),
        })
    }

    /// Removes the parts of the next frame from the plan: at most `block_bytes` of contents; empty at the end.
    pub(crate) fn take(&self, block_bytes: usize, parts: &mut Vec<Part>) {
        parts.clear();
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut room, mut extra) = (block_bytes, FRAME_EXTRA_BYTES);
        while let Some(file) = self.files.get(cursor.file) {
            let Some(rest) = extra.checked_sub(RECORD_HEADER_BYTES + STAMP_BYTES + file.path.len())
            else {
                break;
            };
            let left = file.bytes - cursor.offset;
            // A small file waits for the next frame and is not divided.
            if room == 0 || (left > room as u64 && left <= block_bytes as u64) {
                break;
            }
            let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(room);
            parts.push(Part {
                file: cursor.file,
                offset: cursor.offset,
                bytes,
            });
            (room, extra) = (room - bytes, rest);
            cursor.offset += bytes as u64;
            if cursor.offset == file.bytes {
                *cursor = Cursor {
                    file: cursor.file + 1,
                    offset: 0,
                };
            }
        }
    }

    /// Takes the part of the next frame from the stream's present file, and then from the next unassigned file; none at the end.
    pub(crate) fn take_of_own(
        &self,
        own: &mut Option<Cursor>,
        block_bytes: usize,
        parts: &mut Vec<Part>,
    ) {
        parts.clear();
        let mut cursor = own.take().unwrap_or_else(|| {
            let mut next = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
            next.file += 1;
            Cursor {
                file: next.file - 1,
                offset: 0,
            }
        });
        let Some(file) = self.files.get(cursor.file) else {
            return;
        };
        let left = file.bytes - cursor.offset;
        let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(block_bytes);
        parts.push(Part {
            file: cursor.file,
            offset: cursor.offset,
            bytes,
        });
        cursor.offset += bytes as u64;
        *own = (cursor.offset < file.bytes).then_some(cursor);
    }
}

fn list_into(directory: &Path, below: &[u8], files: &mut Vec<PlanFile>) -> anyhow::Result<()> {
    let context = || format!("cannot list {directory:?}");
    for entry in fs::read_dir(directory).with_context(context)? {
        let entry = entry.with_context(context)?;
        let meta = entry.metadata().with_context(context)?;
        let path = [below, entry.file_name().as_bytes()].join(&b'/');
        if meta.is_dir() {
            list_into(&entry.path(), &path, files)?;
        } else if meta.is_file() {
            files.push(PlanFile {
                path,
                bytes: meta.len(),
            });
        } else {
            bail!("{:?} is neither file nor directory", entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(sizes: &[u64]) -> Plan {
        let files = sizes
            .iter()
            .map(|&bytes| PlanFile {
                path: b"name".to_vec(),
                bytes,
            })
            .collect();
        Plan {
            files,
            cursor: Mutex::default(),
        }
    }

    #[test]
    fn frames_cover_every_byte_once_and_hold_no_more_than_a_block() {
        let sizes = [3, 0, 10, 4, 25, 1, 0, 9];
        let plan = plan(&sizes);
        let mut next: Vec<u64> = vec![0; sizes.len()];
        let mut seen = vec![false; sizes.len()];
        let mut parts = Vec::new();
        loop {
            plan.take(10, &mut parts);
            if parts.is_empty() {
                break;
            }
            assert!(parts.iter().map(|part| part.bytes).sum::<usize>() <= 10);
            for part in &parts {
                assert_eq!(part.offset, next[part.file]);
                next[part.file] += part.bytes as u64;
                seen[part.file] = true;
            }
        }
        assert_eq!(next, sizes);
        assert!(seen.iter().all(|&seen| seen));
    }

    #[test]
    fn streams_with_files_of_their_own_cover_every_byte_once() {
        let sizes = [3, 0, 25, 4, 10];
        let plan = plan(&sizes);
        let mut next: Vec<u64> = vec![0; sizes.len()];
        let mut owner = vec![None; sizes.len()];
        let (mut owns, mut parts, mut live) = ([None, None], Vec::new(), 2);
        while live > 0 {
            live = 0;
            for (stream, own) in owns.iter_mut().enumerate() {
                plan.take_of_own(own, 10, &mut parts);
                live += parts.len();
                for part in &parts {
                    assert_eq!(*owner[part.file].get_or_insert(stream), stream);
                    assert!(part.bytes <= 10);
                    assert_eq!(part.offset, next[part.file]);
                    next[part.file] += part.bytes as u64;
                }
            }
        }
        assert_eq!(next, sizes);
        assert!(owner.iter().all(Option::is_some));
    }

    #[test]
    fn paths_limit_a_frame_too() {
        let count = 2 * FRAME_EXTRA_BYTES / RECORD_HEADER_BYTES;
        let plan = plan(&vec![0; count]);
        let mut parts = Vec::new();
        plan.take(10, &mut parts);
        assert_eq!(
            parts.len(),
            FRAME_EXTRA_BYTES / (RECORD_HEADER_BYTES + STAMP_BYTES + 4)
        );
    }
}
