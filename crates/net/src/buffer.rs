//! Owns the two byte buffers of a stream: outgoing and received bytes.
//! Does no input or output and knows no frames.

use crate::limits::{RECEIVE_BYTES, RECORD_BYTES_MAX, RECORD_HEADER_BYTES};

/// Outgoing bytes. Grows to its largest use, never shrinks, and is filled with zeros only once.
#[derive(Default)]
pub(crate) struct OutBuffer {
    bytes: Vec<u8>,
    end: usize,
}

impl OutBuffer {
    /// At least `bytes` writable bytes after the content; [`OutBuffer::commit`] then sets how many were
    /// used.
    pub(crate) fn room(&mut self, bytes: usize) -> &mut [u8] {
        let needed = self.end + bytes;
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
        &mut self.bytes[self.end..]
    }

    pub(crate) fn commit(&mut self, bytes: usize) {
        assert!(
            self.end + bytes <= self.bytes.len(),
            "only written bytes are committed"
        );
        self.end += bytes;
    }

    /// Moves all bytes of `other` to the end of the content.
    pub(crate) fn append(&mut self, other: &mut Self) {
        let bytes = other.end;
        self.room(bytes)[..bytes].copy_from_slice(other.filled());
        self.commit(bytes);
        other.clear();
    }

    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.end == 0
    }

    pub(crate) fn clear(&mut self) {
        self.end = 0;
    }
}

/// Received bytes, which are removed from the front one record or one piece at a time.
pub(crate) struct InBuffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

/// State of the front of an [`InBuffer`], interpreted as TLS records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// More bytes are needed.
    Partial,
    /// A whole record of this many bytes, its header included.
    Whole(usize),
    /// The header announces more than TLS permits.
    TooLong(usize),
}

impl InBuffer {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
        }
    }

    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn front_mut(&mut self, bytes: usize) -> &mut [u8] {
        &mut self.bytes[self.start..self.end][..bytes]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The free space after the content. If little space is left, the content is first moved to the
    /// front.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.bytes.len() - self.end < RECORD_BYTES_MAX {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }

    pub(crate) fn commit(&mut self, bytes: usize) {
        assert!(
            self.end + bytes <= self.bytes.len(),
            "only received bytes are committed"
        );
        self.end += bytes;
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        assert!(
            bytes <= self.end - self.start,
            "only held bytes are consumed"
        );
        self.start += bytes;
    }

    /// The record that begins `offset` bytes after the front.
    pub(crate) fn record(&self, offset: usize) -> Record {
        let Some(&[_, _, _, high, low]) = self
            .filled()
            .get(offset..)
            .and_then(<[u8]>::first_chunk::<RECORD_HEADER_BYTES>)
        else {
            return Record::Partial;
        };
        let bytes = RECORD_HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
        if bytes > RECORD_BYTES_MAX {
            Record::TooLong(bytes)
        } else if self.filled().len() - offset < bytes {
            Record::Partial
        } else {
            Record::Whole(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(bytes: &[u8]) -> InBuffer {
        let mut buffer = InBuffer::new();
        buffer.room()[..bytes.len()].copy_from_slice(bytes);
        buffer.commit(bytes.len());
        buffer
    }

    #[test]
    fn tells_records_by_their_header() {
        assert_eq!(holding(&[]).record(0), Record::Partial);
        assert_eq!(holding(&[23, 3, 3, 0]).record(0), Record::Partial);
        assert_eq!(holding(&[23, 3, 3, 0, 2, 9]).record(0), Record::Partial);
        assert_eq!(
            holding(&[23, 3, 3, 0, 2, 9, 9, 23]).record(0),
            Record::Whole(7)
        );
        assert_eq!(
            holding(&[23, 3, 3, 0, 2, 9, 9, 23]).record(7),
            Record::Partial
        );
        assert_eq!(
            holding(&[23, 3, 3, 255, 255]).record(0),
            Record::TooLong(65_540)
        );
    }

    #[test]
    fn always_has_room_for_a_record_behind_a_partial_one() {
        let mut buffer = InBuffer::new();
        for _ in 0..1000 {
            let room = buffer.room().len();
            assert!(room >= RECORD_BYTES_MAX);
            buffer.commit(room);
            let held = buffer.filled().len();
            buffer.consume(held - (RECORD_BYTES_MAX - 1));
        }
    }
}
