//! Reads a journal: its records in order, up to the first incomplete one. Does not repair the file;
//! returns how many of its bytes are valid.

use std::collections::HashMap;
use std::io::{self, Read};

use super::record::{self, HEAD_BYTES, Head, Kind, PREAMBLE_BYTES};
use super::{DoneSet, JournalHeader, Partial, PathKey, RangeRecord, Recovered, done};
use crate::digest::FileDigest;

/// Reason why a journal contains nothing usable.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The bytes do not begin with a header of this format.
    #[error("the file does not begin with a complete header")]
    Header,
    /// The bytes could not be read.
    #[error(transparent)]
    Read(#[from] io::Error),
}

/// Reads a journal from its beginning, as a resume does, and changes nothing.
///
/// # Errors
/// When it has no header, or reading fails. [`Recovered::damage`] reports any error behind the header.
pub fn replay(reader: impl Read) -> Result<Recovered, ReplayError> {
    load(reader).map(|loaded| loaded.recovered)
}

/// The contents of a journal after reading.
pub(super) struct Loaded {
    pub(super) recovered: Recovered,
    /// Number of valid bytes.
    pub(super) end: u64,
    /// The checksum for the next record to continue.
    pub(super) chain: u64,
}

pub(super) fn load(reader: impl Read) -> Result<Loaded, ReplayError> {
    let mut records = Records::begin(reader)?;
    let header = records.header()?;
    let mut replay = Replay {
        header,
        partial: HashMap::new(),
        forced: false,
        done: Vec::new(),
        received_bytes: 0,
        done_bytes: 0,
        done_files: 0,
        epoch: 0,
    };
    let damage = loop {
        let end = records.end;
        match records.next()? {
            Next::Record(kind) if replay.apply(kind, &records.body).is_some() => {}
            Next::End => break None,
            Next::Torn => {
                break Some(format!(
                    "the last record, at byte {end}, is incomplete and was dropped"
                ));
            }
            Next::Bad | Next::Record(_) => {
                records.end = end;
                break Some(format!(
                    "the record at byte {end} is damaged; it and all that follow were dropped"
                ));
            }
        }
    };
    Ok(Loaded {
        end: records.end,
        chain: records.chain,
        recovered: replay.finish(damage),
    })
}

/// Reads only the header.
pub(super) fn load_header(reader: impl Read) -> Result<JournalHeader, ReplayError> {
    Records::begin(reader)?.header()
}

struct Records<R> {
    reader: R,
    end: u64,
    chain: u64,
    body: Vec<u8>,
}

enum Next {
    Record(Kind),
    End,
    Torn,
    Bad,
}

impl<R: Read> Records<R> {
    fn begin(mut reader: R) -> Result<Self, ReplayError> {
        let mut preamble = [0; PREAMBLE_BYTES];
        if read_up_to(&mut reader, &mut preamble)? < PREAMBLE_BYTES {
            return Err(ReplayError::Header);
        }
        let chain = record::decode_preamble(&preamble).ok_or(ReplayError::Header)?;
        Ok(Self {
            reader,
            end: PREAMBLE_BYTES as u64,
            chain,
            body: Vec::new(),
        })
    }

    fn header(&mut self) -> Result<JournalHeader, ReplayError> {
        match self.next()? {
            Next::Record(Kind::Header) => {
                record::decode_header(&self.body).ok_or(ReplayError::Header)
            }
            _ => Err(ReplayError::Header),
        }
    }

    /// Reads the next record into `body`.
    fn next(&mut self) -> io::Result<Next> {
        let mut head = [0; HEAD_BYTES];
        match read_up_to(&mut self.reader, &mut head)? {
            0 => return Ok(Next::End),
            HEAD_BYTES => {}
            _ => return Ok(Next::Torn),
        }
        let Some(head) = Head::decode(&head) else {
            return Ok(Next::Bad);
        };
        // The buffer grows with the bytes read, so a wrong length in a damaged file costs no
        // memory.
        self.body.clear();
        let mut rest = (&mut self.reader).take(head.body_bytes as u64);
        if rest.read_to_end(&mut self.body)? < head.body_bytes {
            return Ok(Next::Torn);
        }
        let Some(chain) = head.verify(self.chain, &self.body) else {
            return Ok(Next::Bad);
        };
        self.chain = chain;
        self.end += (HEAD_BYTES + head.body_bytes) as u64;
        Ok(Next::Record(head.kind))
    }
}

/// Fills `buffer` until it is full or the input ends.
fn read_up_to(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The combined contents of the records.
struct Replay {
    header: JournalHeader,
    partial: HashMap<PathKey, Partial>,
    forced: bool,
    done: Vec<u64>,
    received_bytes: u64,
    done_bytes: u64,
    done_files: u64,
    epoch: u64,
}

impl Replay {
    /// `None`, with nothing changed, if the body is invalid.
    fn apply(&mut self, kind: Kind, body: &[u8]) -> Option<()> {
        match kind {
            Kind::Header => None,
            Kind::Ranges => {
                record::decode_ranges(body, self.header.digest, |range| self.add_range(range))
            }
            Kind::Done => record::decode_done(body, |entry| {
                self.partial.remove(&entry.key);
                self.done
                    .push(done::fingerprint(&entry.key, entry.generation));
                self.done_bytes = self.done_bytes.saturating_add(entry.bytes);
                self.done_files += 1;
            }),
            Kind::Restart => record::decode_restart(body).map(|key| {
                self.partial.remove(&key);
            }),
            Kind::Received => record::decode_number(body).map(|bytes| {
                self.received_bytes = bytes;
            }),
            Kind::Epoch => record::decode_number(body).map(|epoch| {
                self.epoch = self.epoch.max(epoch);
            }),
            Kind::Run => record::decode_run(body).map(|forced| {
                if std::mem::replace(&mut self.forced, forced) != forced {
                    self.done.clear();
                }
            }),
        }
    }

    /// A range of another generation replaces all earlier ranges: generations are never mixed.
    fn add_range(&mut self, range: RangeRecord) {
        let fresh = || Partial {
            generation: range.generation,
            digest: FileDigest::new(self.header.digest),
        };
        let partial = self.partial.entry(range.key).or_insert_with(fresh);
        if partial.generation != range.generation {
            *partial = fresh();
        }
        // A range that overlaps or does not fit is not recorded; its data is received again.
        let _ = partial.digest.add(range.offset, range.bytes, range.digest);
    }

    fn finish(self, damage: Option<String>) -> Recovered {
        let partial_bytes = self
            .partial
            .values()
            .map(|partial| partial.digest.covered());
        Recovered {
            resumed: true,
            vouched_bytes: partial_bytes.fold(self.done_bytes, u64::saturating_add),
            vouched_files: self.done_files,
            header: self.header,
            partial: self.partial,
            forced: self.forced,
            done: DoneSet::from_fingerprints(self.done),
            received_bytes: self.received_bytes,
            epoch: self.epoch,
            damage,
        }
    }
}
