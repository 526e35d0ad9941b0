//! Reads a journal: its records in order, up to the first incomplete one. Does not repair the file;
//! returns how many of its bytes are valid.

use std::collections::HashMap;
use std::io::{self, Read};

use super::record::{self, HEAD_BYTES, Head, Kind, PREAMBLE_BYTES};
use super::{DoneSet, JournalHeader, Partial, PathKey, RangeRecord, Recovered, done};
use crate::digest::FileDigest;

/// Limits of the contents of a journal.
#[derive(Clone, Copy)]
struct Most {
    /// Ranges, and files of which a journal may hold ranges. Each takes some 128 bytes in memory.
    ranges: usize,
    /// Records of finished files. Each takes 8 bytes in memory.
    done: usize,
}

/// Twice the ranges of one run's unfinished files; as many finished files as the journals of one sender may have records of.
const MOST: Most = Most {
    ranges: 2 << 20,
    done: 32 << 20,
};

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
    /// Only the header counts, and the epoch of the claim, which must be recorded again.
    pub(super) begins_again: bool,
}

pub(super) fn load(reader: impl Read) -> Result<Loaded, ReplayError> {
    load_within(reader, MOST)
}

/// A peer can leave unfinished ranges in each of its runs, and send the same files again and again. A journal with more records
/// than `most` is treated as if it had been cut: its transfer begins again with the same names.
fn load_within(reader: impl Read, most: Most) -> Result<Loaded, ReplayError> {
    let mut records = Records::begin(reader)?;
    let mut replay = Replay::new(records.header()?, most);
    let first = (records.end, records.chain);
    let mut damage = loop {
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
    let begins_again = replay.overflowed;
    if begins_again {
        (records.end, records.chain) = first;
        replay = Replay {
            epoch: replay.epoch,
            ..Replay::new(replay.header, most)
        };
        damage = Some(format!(
            "it has more than {} ranges of unfinished files, or {} finished files, so the transfer starts from the beginning",
            most.ranges, most.done
        ));
    }
    Ok(Loaded {
        end: records.end,
        chain: records.chain,
        begins_again,
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
    /// Number of their ranges.
    ranges: usize,
    most: Most,
    /// There are more records than `most` allows; the rest is ignored.
    overflowed: bool,
    forced: bool,
    done: Vec<u64>,
    received_bytes: u64,
    done_bytes: u64,
    done_files: u64,
    epoch: u64,
}

impl Replay {
    fn new(header: JournalHeader, most: Most) -> Self {
        Self {
            header,
            partial: HashMap::new(),
            ranges: 0,
            most,
            overflowed: false,
            forced: false,
            done: Vec::new(),
            received_bytes: 0,
            done_bytes: 0,
            done_files: 0,
            epoch: 0,
        }
    }

    /// `None`, with nothing changed, if the body is invalid.
    fn apply(&mut self, kind: Kind, body: &[u8]) -> Option<()> {
        match kind {
            Kind::Header => None,
            Kind::Ranges => {
                record::decode_ranges(body, self.header.digest, |range| self.add_range(range))
            }
            Kind::Done => record::decode_done(body, |entry| {
                self.forget(&entry.key);
                if self.done.len() >= self.most.done {
                    self.overflow();
                }
                if !self.overflowed {
                    let fingerprint = done::fingerprint(&entry.key, entry.generation);
                    self.done.push(fingerprint);
                }
                self.done_bytes = self.done_bytes.saturating_add(entry.bytes);
                self.done_files += 1;
            }),
            Kind::Restart => record::decode_restart(body).map(|key| self.forget(&key)),
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
        if self.overflowed {
            return;
        }
        let fresh = || Partial {
            generation: range.generation,
            digest: FileDigest::new(self.header.digest),
        };
        let partial = self.partial.entry(range.key).or_insert_with(fresh);
        let before = partial.digest.range_count();
        if partial.generation != range.generation {
            *partial = fresh();
        }
        // A range that overlaps or does not fit is not recorded; its data is received again.
        let _ = partial.digest.add(range.offset, range.bytes, range.digest);
        self.ranges = self.ranges - before + partial.digest.range_count();
        if self.partial.len() + self.ranges > self.most.ranges {
            self.overflow();
        }
    }

    fn overflow(&mut self) {
        self.overflowed = true;
        self.partial = HashMap::new();
        self.ranges = 0;
        self.done = Vec::new();
    }

    fn forget(&mut self, key: &PathKey) {
        if let Some(partial) = self.partial.remove(key) {
            self.ranges -= partial.digest.range_count();
        }
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::JournalDirectory;
    use super::*;
    use crate::digest::{DigestKind, digest_slice};
    use crate::journal::DoneRecord;

    const FEW: Most = Most {
        ranges: 30,
        done: 5,
    };

    /// A journal of runs that leave two ranges in each of these files, give some up, and finish others.
    fn journal(files: u8, given_up: u8, finished: u8) -> Vec<u8> {
        let header = JournalHeader {
            mapping: Vec::new(),
            digest: DigestKind::Crc64Nvme,
            destinations: Vec::new(),
            label: String::new(),
            claim: None,
            sender: None,
        };
        let (mut bytes, mut part) = (Vec::new(), Vec::new());
        let mut chain = record::encode_preamble(&mut bytes, 1);
        let mut add = |kind: Kind, fill: &dyn Fn(&mut Vec<u8>)| {
            part.clear();
            chain = record::encode(&mut part, chain, kind, fill);
            bytes.extend_from_slice(&part);
        };
        add(Kind::Header, &|body| record::encode_header(&header, body));
        let range = |number: u8, offset: u64| RangeRecord {
            key: PathKey([number; 16]),
            generation: 1,
            offset,
            bytes: 1,
            digest: digest_slice(header.digest, offset, 100, b"x"),
        };
        for number in 0..files {
            let ranges = [range(number, 0), range(number, 50)];
            add(Kind::Ranges, &|body| {
                record::encode_ranges(&ranges, header.digest, body);
            });
        }
        for number in 0..given_up {
            let key = PathKey([number; 16]);
            add(Kind::Restart, &|body| body.extend_from_slice(&key.0));
        }
        for number in 0..finished {
            let done = DoneRecord {
                key: PathKey([100 + number; 16]),
                generation: 1,
                bytes: 1,
            };
            add(Kind::Done, &|body| record::encode_done(&[done], body));
        }
        add(Kind::Epoch, &|body| {
            body.extend_from_slice(&7_u64.to_le_bytes())
        });
        bytes
    }

    #[test]
    fn the_records_of_a_journal_take_bounded_memory() {
        let whole = load_within(&*journal(10, 4, 5), FEW).expect("loaded");
        assert!(!whole.begins_again && whole.recovered.damage.is_none());
        assert_eq!(whole.recovered.partial.len(), 6);
        assert_eq!(whole.recovered.epoch, 7);
        assert_eq!(whole.recovered.done.len(), 5);
        for bytes in [journal(11, 11, 0), journal(1, 0, 6)] {
            let over = load_within(&*bytes, FEW).expect("loaded");
            assert!(over.begins_again && over.recovered.damage.is_some());
            assert!(over.recovered.resumed && over.recovered.partial.is_empty());
            assert!(over.recovered.done.is_empty());
            // A run of an earlier epoch must not resume it.
            assert_eq!(over.recovered.epoch, 7);
            let end = usize::try_from(over.end).expect("short");
            let cut = load_within(&bytes[..end], FEW).expect("loaded");
            assert_eq!((cut.end, cut.chain), (over.end, over.chain));
            assert!(cut.recovered.damage.is_none());
        }
    }

    #[test]
    fn a_journal_that_begins_again_keeps_its_epoch_in_the_file() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("one.journal");
        fs::write(&path, journal(11, 0, 0)).expect("written");
        let mut options = fs::OpenOptions::new();
        let file = options.read(true).write(true).open(&path).expect("open");
        let loaded = load_within(&file, FEW).expect("loaded");
        let directory = JournalDirectory::open(place.path()).expect("open");
        let resumed = directory.resume(file, path.clone(), loaded);
        let (resumed, recovered) = resumed.expect("resumed");
        assert_eq!((recovered.epoch, recovered.partial.len()), (7, 0));
        assert!(
            recovered
                .damage
                .is_some_and(|damage| damage.contains("one.journal"))
        );
        resumed.append_received(5).expect("appended");
        let bytes = fs::read(&path).expect("read");
        let again = load_within(&*bytes, FEW).expect("loaded");
        assert_eq!(again.end, bytes.len() as u64, "the ranges are gone");
        let again = again.recovered;
        assert_eq!((again.epoch, again.received_bytes), (7, 5));
        assert!(again.damage.is_none() && again.partial.is_empty());
    }
}
