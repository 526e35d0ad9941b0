//! Holds work that must wait until all files exist (hard links, directory times); beyond a bound it is
//! on disk. Does not do the work; the sink reads the list at the end.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use godwit_proto::{EntryId, Record, RecordReader, RecordWriter};
use godwit_store::{Replace, open_with_room};

/// Bytes kept in memory before they are appended to the file.
const BUFFER_BYTES: usize = 1 << 20;

/// A list that only grows, and is read once, from either end. Its file has no name.
pub(crate) struct SpillList {
    directory: PathBuf,
    file: Option<File>,
    flushed: u64,
    buffer: Vec<u8>,
}

impl SpillList {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            file: None,
            flushed: 0,
            buffer: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, item: &[u8]) -> io::Result<()> {
        let length = u32::try_from(item.len())
            .map_err(io::Error::other)?
            .to_le_bytes();
        self.buffer.extend(length);
        self.buffer.extend(item);
        self.buffer.extend(length);
        if self.buffer.len() < BUFFER_BYTES {
            return Ok(());
        }
        if self.file.is_none() {
            self.file = Some(unnamed_file(&self.directory)?);
        }
        if let Some(file) = &self.file {
            file.write_all_at(&self.buffer, self.flushed)?;
        }
        self.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Calls `each` with every item, in order.
    pub(crate) fn forward(&self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut at = 0;
        let end = self.flushed + self.buffer.len() as u64;
        while at < end {
            let length = self.length_at(at)?;
            each(&self.bytes_at(at + 4, length)?);
            at += 8 + length as u64;
        }
        Ok(())
    }

    /// Calls `each` with every item, in reverse order.
    pub(crate) fn backward(&self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut end = self.flushed + self.buffer.len() as u64;
        while end > 0 {
            let length = self.length_at(end - 4)?;
            each(&self.bytes_at(end - 4 - length as u64, length)?);
            end -= 8 + length as u64;
        }
        Ok(())
    }

    fn length_at(&self, at: u64) -> io::Result<usize> {
        let mut length = [0; 4];
        length.copy_from_slice(&self.bytes_at(at, 4)?);
        usize::try_from(u32::from_le_bytes(length)).map_err(io::Error::other)
    }

    fn bytes_at(&self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        if at >= self.flushed {
            let start = usize::try_from(at - self.flushed).map_err(io::Error::other)?;
            let bytes = self.buffer.get(start..start + length);
            return bytes
                .map(<[u8]>::to_vec)
                .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let mut bytes = vec![0; length];
        if let Some(file) = &self.file {
            file.read_exact_at(&mut bytes, at)?;
        }
        Ok(bytes)
    }
}

/// A file that disappears when its handle is closed.
fn unnamed_file(directory: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!(
        ".later-{}-{}",
        std::process::id(),
        NUMBER.fetch_add(1, Ordering::Relaxed)
    );
    let path = directory.join(name);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = open_with_room(|| options.open(&path))?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Encoded like a section of a message: a directory's attributes may be long, and already have a form
/// there.
pub(crate) fn encode_directory(record: &Record) -> io::Result<Vec<u8>> {
    let mut item = Vec::new();
    let written = RecordWriter::new(&mut item).push(record);
    written.map_err(io::Error::other)?;
    Ok(item)
}

pub(crate) fn decode_directory(item: &[u8]) -> Option<Record> {
    RecordReader::new(item, 1).ok()?.next()?.ok()
}

/// An additional name of a file, to be made at the end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DeferredLink<'a> {
    pub(crate) id: EntryId,
    pub(crate) root: u16,
    pub(crate) path: &'a [u8],
    /// The existing name of the file.
    pub(crate) first: &'a [u8],
    /// Whether another entry had the name when it was looked at.
    pub(crate) replace: Replace,
    /// The entry already exists under both names. If it cannot be linked, two separate entries stay.
    pub(crate) is_there: bool,
}

/// Bit of a link's third field: it may replace an entry with its name.
const REPLACES: u8 = 1;
/// Bit of a link's third field: the entry already exists.
const IS_THERE: u8 = 2;

/// Encodes an additional name of a file.
pub(crate) fn encode_link(record: &Record, replace: Replace) -> Vec<u8> {
    let replaces = u8::from(replace == Replace::Atomically) * REPLACES;
    encode(record, &record.target, replaces)
}

/// Encodes an additional name of an entry without contents.
pub(crate) fn encode_first(record: &Record, first: &[u8]) -> Vec<u8> {
    encode(record, first, REPLACES | IS_THERE)
}

/// A hard link: its number, its root, its kind, its path with its length, and the first name.
fn encode(record: &Record, first: &[u8], how: u8) -> Vec<u8> {
    let mut item = Vec::with_capacity(16 + record.path.len() + first.len());
    item.extend(record.id.0.to_le_bytes());
    item.extend(record.root.to_le_bytes());
    item.push(how);
    item.extend(
        u32::try_from(record.path.len())
            .unwrap_or(u32::MAX)
            .to_le_bytes(),
    );
    item.extend(&record.path);
    item.extend(first);
    item
}

pub(crate) fn decode_link(item: &[u8]) -> Option<DeferredLink<'_>> {
    let (id, rest) = item.split_first_chunk::<8>()?;
    let (root, rest) = rest.split_first_chunk::<2>()?;
    let (how, rest) = rest.split_first()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (path, first) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some(DeferredLink {
        id: EntryId(u64::from_le_bytes(*id)),
        root: u16::from_le_bytes(*root),
        path,
        first,
        replace: if how & REPLACES == 0 {
            Replace::Never
        } else {
            Replace::Atomically
        },
        is_there: how & IS_THERE != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_what_it_was_given_in_both_directions_across_the_bound() {
        let directory = tempfile::tempdir().unwrap();
        let mut list = SpillList::new(directory.path());
        let items: Vec<Vec<u8>> = (0..5000u32)
            .map(|index| vec![u8::try_from(index % 251).unwrap(); (index % 977) as usize])
            .collect();
        for item in &items {
            list.push(item).unwrap();
        }
        assert!(
            list.flushed > 0 && !list.buffer.is_empty(),
            "the test must cross the bound"
        );
        let mut seen = Vec::new();
        list.forward(|item| seen.push(item.to_vec())).unwrap();
        assert_eq!(seen, items);
        seen.clear();
        list.backward(|item| seen.push(item.to_vec())).unwrap();
        seen.reverse();
        assert_eq!(seen, items);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
