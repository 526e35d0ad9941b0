//! Owns a list of byte records that only grows and is read from either end; beyond a bound it is on disk. Does not interpret the records.
//!
//! Records are packed in groups: within a group, a record stores only the bytes in which it differs from the beginning of the previous one.
//! A peer that names one long path again and again thus fills no more disk than it sends. A group is unpacked as a whole.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::room::{SpillRoom, Taken};
use super::{length_of, unnamed_file};

/// Bytes of the records of one group, unpacked. The last group is in memory.
const GROUP_BYTES: usize = 1 << 20;

/// Most bytes that a record shares with the previous one.
const SHARED_MAX: usize = u16::MAX as usize;

/// A list of byte records, in a file without a name.
#[derive(Debug)]
pub struct SpillList {
    /// Bytes at the beginning of each record that are never shared, such as its number.
    own_bytes: usize,
    taken: Taken,
    file: Option<File>,
    /// Offset and length of each group on disk.
    groups: Vec<(u64, usize)>,
    /// The last group, packed.
    buffer: Vec<u8>,
    /// Bytes of the last group, unpacked.
    unpacked: usize,
    /// The last record of the last group, without its own bytes.
    previous: Vec<u8>,
}

/// The records of a group, one after the other, and the end of each.
#[derive(Default)]
struct Group {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl SpillList {
    /// An empty list in `room`. The first `own_bytes` of each record differ from record to record.
    pub fn new(room: impl Into<SpillRoom>, own_bytes: usize) -> Self {
        Self {
            own_bytes,
            taken: Taken::new(room),
            file: None,
            groups: Vec::new(),
            buffer: Vec::new(),
            unpacked: 0,
            previous: Vec::new(),
        }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The record is not in the list: the disk failed, or the list has its share of the free space.
    pub fn push(&mut self, record: &[u8]) -> io::Result<()> {
        let length = length_of(record)?;
        if self.unpacked >= GROUP_BYTES {
            self.write_group()?;
        }
        let (own, rest) = record.split_at(record.len().min(self.own_bytes));
        let same = self.previous.iter().zip(rest).take(SHARED_MAX);
        let shared = same.take_while(|(one, other)| one == other).count();
        self.buffer.extend(length);
        self.buffer
            .extend(u16::try_from(shared).unwrap_or(u16::MAX).to_le_bytes());
        self.buffer.extend(own);
        self.buffer.extend(&rest[shared..]);
        self.previous.truncate(shared);
        self.previous.extend(&rest[shared..]);
        self.unpacked += record.len() + size_of::<usize>();
        Ok(())
    }

    /// Calls `each` with every record, in order.
    pub fn forward(&self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        for (offset, bytes) in &self.groups {
            self.read_group(*offset, *bytes)?
                .records()
                .for_each(&mut each);
        }
        self.unpack(&self.buffer)?.records().for_each(&mut each);
        Ok(())
    }

    /// Calls `each` with every record, in reverse order.
    pub fn backward(&self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let last = self.unpack(&self.buffer)?;
        last.records().rev().for_each(&mut each);
        for (offset, bytes) in self.groups.iter().rev() {
            let group = self.read_group(*offset, *bytes)?;
            group.records().rev().for_each(&mut each);
        }
        Ok(())
    }

    fn write_group(&mut self) -> io::Result<()> {
        let end = |(offset, bytes): &(u64, usize)| offset + *bytes as u64;
        let offset = self.groups.last().map_or(0, end);
        self.taken.reach(offset + self.buffer.len() as u64)?;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(unnamed_file(self.taken.directory())?),
        };
        file.write_all_at(&self.buffer, offset)?;
        self.groups.push((offset, self.buffer.len()));
        self.buffer.clear();
        self.previous.clear();
        self.unpacked = 0;
        Ok(())
    }

    fn read_group(&self, offset: u64, bytes: usize) -> io::Result<Group> {
        let mut packed = vec![0; bytes];
        if let Some(file) = &self.file {
            file.read_exact_at(&mut packed, offset)?;
        }
        self.unpack(&packed)
    }

    fn unpack(&self, packed: &[u8]) -> io::Result<Group> {
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        let mut group = Group::default();
        let mut rest = packed;
        let mut previous = 0..0;
        while !rest.is_empty() {
            let (length, after) = rest.split_first_chunk().ok_or_else(broken)?;
            let (shared, after) = after.split_first_chunk().ok_or_else(broken)?;
            let shared = usize::from(u16::from_le_bytes(*shared));
            let length = u32::from_le_bytes(*length) as usize;
            let stored = length.checked_sub(shared).ok_or_else(broken)?;
            let (stored, after) = after.split_at_checked(stored).ok_or_else(broken)?;
            let (own, differs) = stored.split_at(stored.len().min(self.own_bytes));
            if shared > previous.len() {
                return Err(broken());
            }
            group.bytes.extend(own);
            let start = group.bytes.len();
            let from = previous.start;
            group.bytes.extend_from_within(from..from + shared);
            group.bytes.extend(differs);
            previous = start..group.bytes.len();
            group.ends.push(group.bytes.len());
            rest = after;
        }
        Ok(group)
    }
}

impl Group {
    fn records(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        (0..self.ends.len()).map(move |at| {
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start..self.ends[at]]
        })
    }
}
