//! Owns the format of a frame of the bare file pipe: a length, then records of path, offset and content. Does not depend on files
//! or connections.

use anyhow::{Context as _, ensure};

/// Bytes before a frame, for its length.
pub(crate) const FRAME_HEADER_BYTES: usize = 4;
/// Bytes of a record before its path: path length (u16), 1 if a whole file with a stamp (u16), content length (u32), offset (u64).
pub(crate) const RECORD_HEADER_BYTES: usize = 16;
/// Bytes of a stamp, before the content: seconds (i64), nanoseconds (u32), mode (u32).
pub(crate) const STAMP_BYTES: usize = 16;
/// Bytes in a frame beyond one block of contents: record headers and paths.
pub(crate) const FRAME_EXTRA_BYTES: usize = 64 << 10;

/// Metadata of a whole file in addition to its name and content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u32,
    pub(crate) mode: u32,
}

impl Stamp {
    fn bytes(self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        bytes[..8].copy_from_slice(&self.seconds.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.nanoseconds.to_le_bytes());
        bytes[12..].copy_from_slice(&self.mode.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        Ok(Self {
            seconds: i64::from_le_bytes(bytes[..8].try_into()?),
            nanoseconds: u32::from_le_bytes(bytes[8..12].try_into()?),
            mode: u32::from_le_bytes(bytes[12..].try_into()?),
        })
    }
}

/// A part of a file, as a frame contains it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) offset: u64,
    pub(crate) stamp: Option<Stamp>,
    pub(crate) content: &'a [u8],
}

/// A frame under construction, in memory that is used again and never cleared: contents are read directly into it.
#[derive(Debug)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    filled: usize,
}

impl Frame {
    /// A frame with memory for `block_bytes` of contents, with their headers and paths.
    pub(crate) fn new(block_bytes: usize) -> Self {
        Self {
            bytes: vec![0; FRAME_HEADER_BYTES + block_bytes + FRAME_EXTRA_BYTES],
            filled: FRAME_HEADER_BYTES,
        }
    }

    /// Starts the next frame.
    pub(crate) fn clear(&mut self) {
        self.filled = FRAME_HEADER_BYTES;
    }

    /// Appends the header, path and stamp of a record; returns the space for its `bytes` of content.
    pub(crate) fn push(
        &mut self,
        path: &[u8],
        offset: u64,
        bytes: usize,
        stamp: Option<Stamp>,
    ) -> anyhow::Result<&mut [u8]> {
        let path_bytes = u16::try_from(path.len()).context("path too long for the pipe")?;
        let content_bytes = u32::try_from(bytes).context("block too long for the pipe")?;
        self.put(&path_bytes.to_le_bytes())?;
        self.put(&u16::from(stamp.is_some()).to_le_bytes())?;
        self.put(&content_bytes.to_le_bytes())?;
        self.put(&offset.to_le_bytes())?;
        self.put(path)?;
        if let Some(stamp) = stamp {
            self.put(&stamp.bytes())?;
        }
        self.room(bytes)
    }

    /// The whole frame, with its length at the front.
    pub(crate) fn seal(&mut self) -> anyhow::Result<&[u8]> {
        let bytes = u32::try_from(self.filled - FRAME_HEADER_BYTES).context("frame too long")?;
        self.bytes[..FRAME_HEADER_BYTES].copy_from_slice(&bytes.to_le_bytes());
        Ok(&self.bytes[..self.filled])
    }

    fn put(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.room(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn room(&mut self, bytes: usize) -> anyhow::Result<&mut [u8]> {
        let start = self.filled;
        let room = self.bytes.get_mut(start..start + bytes);
        let room = room.context("more than a frame holds")?;
        self.filled += bytes;
        Ok(room)
    }
}

/// Removes the first record from `frame`, which does not include its length.
pub(crate) fn take<'a>(frame: &mut &'a [u8]) -> anyhow::Result<Record<'a>> {
    let mut next = |bytes: usize| {
        let (head, rest) = frame
            .split_at_checked(bytes)
            .context("the frame ends within a record")?;
        *frame = rest;
        anyhow::Ok(head)
    };
    let path_bytes = usize::from(u16::from_le_bytes(next(2)?.try_into()?));
    let has_stamp = u16::from_le_bytes(next(2)?.try_into()?);
    ensure!(has_stamp <= 1, "this is not a record");
    let bytes = usize::try_from(u32::from_le_bytes(next(4)?.try_into()?))?;
    let offset = u64::from_le_bytes(next(8)?.try_into()?);
    let path = next(path_bytes)?;
    let stamp = (has_stamp == 1)
        .then(|| Stamp::parse(next(STAMP_BYTES)?))
        .transpose()?;
    Ok(Record {
        path,
        offset,
        stamp,
        content: next(bytes)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were() {
        let stamp = Stamp {
            seconds: -5,
            nanoseconds: 999_999_999,
            mode: 0o755,
        };
        let records = [
            (&b"a/b"[..], 7, None, &b"xyz"[..]),
            (b"c", u64::MAX, Some(stamp), b""),
        ];
        let mut frame = Frame::new(100);
        // The contents of an earlier frame must have no effect.
        frame.push(b"earlier", 1, 50, None).unwrap().fill(7);
        frame.clear();
        for (path, offset, stamp, content) in records {
            let room = frame.push(path, offset, content.len(), stamp).unwrap();
            room.copy_from_slice(content);
        }
        let frame = frame.seal().unwrap();
        assert_eq!(frame[..FRAME_HEADER_BYTES], 55_u32.to_le_bytes());
        let mut rest = &frame[FRAME_HEADER_BYTES..];
        for (path, offset, stamp, content) in records {
            let expected = Record {
                path,
                offset,
                stamp,
                content,
            };
            assert_eq!(take(&mut rest).unwrap(), expected);
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn every_cut_of_a_frame_is_noticed() {
        let mut frame = Frame::new(100);
        let stamp = Stamp {
            seconds: 1,
            nanoseconds: 2,
            mode: 3,
        };
        let room = frame.push(b"path", 1, 3, Some(stamp)).unwrap();
        room.copy_from_slice(b"abc");
        let frame = &frame.seal().unwrap()[FRAME_HEADER_BYTES..];
        for length in 0..frame.len() {
            assert!(take(&mut &frame[..length]).is_err(), "{length} bytes of it");
        }
    }
}
