//! Splits a list into names: one per line, or each followed by a zero byte. Does not open lists and does not check
//! names.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use godwit_proto::PATH_BYTES_MAX;

use super::{Names, Supply};

/// The bytes of a list that may still be arriving. The list can be read again from its beginning.
pub trait ListBytes: Send + Sync {
    /// Reads available bytes at `offset`, at most a full `buffer`; `Some(0)` at the end, `None` if no bytes arrived
    /// within `wait`.
    ///
    /// # Errors
    /// The list cannot be read further.
    fn read_at(&self, offset: u64, buffer: &mut [u8], wait: Duration) -> io::Result<Option<usize>>;
}

/// Bytes read at a time. Together with the incomplete line before them, they fit into a part of a list in the protocol.
const READ_BYTES: usize = 64 * 1024;

/// The names in the bytes of a list.
pub struct LineNames {
    list: Arc<dyn ListBytes>,
    offset: u64,
    separator: u8,
    /// The beginning of an incomplete name.
    begun: Vec<u8>,
    /// Whether bytes of that name were dropped.
    dropped: bool,
    buffer: Vec<u8>,
}

impl LineNames {
    /// Names from the beginning of `list`: one per line, or with `from0` each followed by a zero byte (optional after
    /// the last one). Empty names are ignored. A name longer than any path is cut, and gets a component longer than any
    /// name.
    pub fn new(list: Arc<dyn ListBytes>, from0: bool) -> Self {
        Self {
            list,
            offset: 0,
            separator: if from0 { 0 } else { b'\n' },
            begun: Vec::new(),
            dropped: false,
            buffer: vec![0; READ_BYTES],
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        let room = PATH_BYTES_MAX - self.begun.len();
        self.begun
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.dropped |= bytes.len() > room;
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.dropped {
            // A cut name must not be mistaken for another existing name.
            let tail = self.begun.len() - CUT_BYTES;
            self.begun[tail..].fill(b'.');
        }
        if !self.begun.is_empty() {
            out.extend_from_slice(&self.begun);
            out.push(0);
        }
        self.begun.clear();
        self.dropped = false;
    }
}

/// One byte more than the maximum of a name.
const CUT_BYTES: usize = godwit_proto::NAME_BYTES_MAX + 1;

impl Names for LineNames {
    fn next(&mut self, out: &mut Vec<u8>, wait: Duration) -> Supply {
        let before = out.len();
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = self.list.read_at(self.offset, &mut buffer, wait);
        let supply = match read {
            Err(error) => Supply::Failed(error.to_string()),
            Ok(None) => Supply::NotYet,
            Ok(Some(0)) => {
                self.end(out);
                Supply::End
            }
            Ok(Some(bytes)) => {
                self.offset += bytes as u64;
                let mut rest = &buffer[..bytes];
                while let Some(at) = rest.iter().position(|byte| *byte == self.separator) {
                    self.extend(&rest[..at]);
                    self.end(out);
                    rest = &rest[at + 1..];
                }
                self.extend(rest);
                // A line may not contain a zero byte, because the reader would take it as the end of the name.
                let zero = self.separator != 0 && buffer[..bytes].contains(&0);
                if zero {
                    out.truncate(before);
                    Supply::Failed(
                        "the list contains zero bytes; if its names end in zero bytes, add --from0"
                            .to_owned(),
                    )
                } else if out.len() > before {
                    Supply::Some
                } else {
                    Supply::NotYet
                }
            }
        };
        self.buffer = buffer;
        supply
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Slow(Vec<u8>, usize);

    impl ListBytes for Slow {
        fn read_at(
            &self,
            offset: u64,
            buffer: &mut [u8],
            _: Duration,
        ) -> io::Result<Option<usize>> {
            let rest = &self.0[usize::try_from(offset).unwrap()..];
            let bytes = rest.len().min(buffer.len()).min(self.1);
            buffer[..bytes].copy_from_slice(&rest[..bytes]);
            Ok(Some(bytes))
        }
    }

    fn names(list: &[u8], from0: bool, step: usize) -> Result<Vec<Vec<u8>>, String> {
        let mut lines = LineNames::new(Arc::new(Slow(list.to_vec(), step)), from0);
        let mut out = Vec::new();
        loop {
            match lines.next(&mut out, Duration::ZERO) {
                Supply::Some | Supply::NotYet => {}
                Supply::End => break,
                Supply::Failed(why) => return Err(why),
            }
        }
        Ok(godwit_proto::names::split(&out)
            .map(<[u8]>::to_vec)
            .collect())
    }

    #[test]
    fn lists_are_cut_into_names_however_they_come() {
        for step in [1, 2, 7, 1000] {
            let list = b"a\n\n-b c\xff\r\n./d/\nlast";
            let expected = [&b"a"[..], b"-b c\xff\r", b"./d/", b"last"];
            assert_eq!(names(list, false, step).unwrap(), expected);
            let list = b"a\nb\0\0c\0";
            assert_eq!(names(list, true, step).unwrap(), [&b"a\nb"[..], b"c"]);
            assert!(names(b"a\0b", false, step).unwrap_err().contains("--from0"));
            assert!(names(b"", false, step).unwrap().is_empty());
        }
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory_and_is_no_name() {
        let mut list = b"ab/".repeat(1 << 20);
        list.extend(b"\nnext\n");
        let names = names(&list, false, 10_000).unwrap();
        assert_eq!(names.len(), 2);
        assert_eq!(names[0].len(), PATH_BYTES_MAX);
        assert!(godwit_store::RelPath::parse(&names[0]).is_err());
        assert_eq!(names[1], b"next");
    }
}
