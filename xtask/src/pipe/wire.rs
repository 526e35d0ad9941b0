//! Owns the form of a frame of the bare file pipe: a length, then records of path, place and content.
//! Knows neither files nor connections.

use anyhow::{Context as _, ensure};

/// Bytes in front of a frame: its length.
pub(crate) const FRAME_HEADER_BYTES: usize = 4;
/// Bytes of a record before its path: path length (u16), two zero bytes, content length (u32), offset (u64).
pub(crate) const RECORD_HEADER_BYTES: usize = 16;
/// What a frame may hold beyond one block of contents: record headers and paths.
pub(crate) const FRAME_EXTRA_BYTES: usize = 64 << 10;

/// A part of a file, as it stands in a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) offset: u64,
    pub(crate) content: &'a [u8],
}

/// Appends the header and path of a record; its `bytes` of content follow.
pub(crate) fn push_header(
    frame: &mut Vec<u8>,
    path: &[u8],
    offset: u64,
    bytes: usize,
) -> anyhow::Result<()> {
    let path_bytes = u16::try_from(path.len()).context("path too long for the pipe")?;
    let bytes = u32::try_from(bytes).context("block too long for the pipe")?;
    frame.extend_from_slice(&path_bytes.to_le_bytes());
    frame.extend_from_slice(&[0, 0]);
    frame.extend_from_slice(&bytes.to_le_bytes());
    frame.extend_from_slice(&offset.to_le_bytes());
    frame.extend_from_slice(path);
    Ok(())
}

/// Writes the length of the frame that begins with [`FRAME_HEADER_BYTES`] of room.
pub(crate) fn seal(frame: &mut [u8]) -> anyhow::Result<()> {
    let bytes = u32::try_from(frame.len() - FRAME_HEADER_BYTES).context("frame too long")?;
    frame[..FRAME_HEADER_BYTES].copy_from_slice(&bytes.to_le_bytes());
    Ok(())
}

/// Takes the first record off `frame` (without its length).
pub(crate) fn take<'a>(frame: &mut &'a [u8]) -> anyhow::Result<Record<'a>> {
    let mut next = |bytes: usize| {
        let (head, rest) = frame
            .split_at_checked(bytes)
            .context("the frame ends within a record")?;
        *frame = rest;
        anyhow::Ok(head)
    };
    let path_bytes = usize::from(u16::from_le_bytes(next(2)?.try_into()?));
    ensure!(next(2)? == [0, 0], "this is not a record");
    let bytes = usize::try_from(u32::from_le_bytes(next(4)?.try_into()?))?;
    let offset = u64::from_le_bytes(next(8)?.try_into()?);
    Ok(Record {
        path: next(path_bytes)?,
        offset,
        content: next(bytes)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were() {
        let mut frame = vec![0; FRAME_HEADER_BYTES];
        for (path, offset, content) in [(&b"a/b"[..], 7, &b"xyz"[..]), (b"c", u64::MAX, b"")] {
            push_header(&mut frame, path, offset, content.len()).unwrap();
            frame.extend_from_slice(content);
        }
        seal(&mut frame).unwrap();
        assert_eq!(frame[..FRAME_HEADER_BYTES], 39_u32.to_le_bytes());
        let mut rest = &frame[FRAME_HEADER_BYTES..];
        assert_eq!(
            take(&mut rest).unwrap(),
            Record {
                path: b"a/b",
                offset: 7,
                content: b"xyz"
            }
        );
        assert_eq!(
            take(&mut rest).unwrap(),
            Record {
                path: b"c",
                offset: u64::MAX,
                content: b""
            }
        );
        assert!(rest.is_empty());
    }

    #[test]
    fn every_cut_of_a_frame_is_noticed() {
        let mut frame = Vec::new();
        push_header(&mut frame, b"path", 1, 3).unwrap();
        frame.extend_from_slice(b"abc");
        for length in 0..frame.len() {
            assert!(take(&mut &frame[..length]).is_err(), "{length} bytes of it");
        }
    }
}
