//! Computes the digests that the receiver requests, and announces the entries again with them. Additional names of files are announced
//! as separate files. Does not compare digests; the receiver does, with its own files.
//!
//! A comparison by digest causes no extra wait. The receiver answers `digest`. A stream thread of the sender reads the file (a piece
//! like any other, large files by slices). Then it announces the entry again with its digest. Threads of the receiver
//! (`receiver::answer`) read their own file, and answer on the stream of the manifest. If that stream dies, the digest is requested
//! again.

use godwit_proto::{Digest, EntryKind, Record, RecordFlags};
use godwit_store::pool::Block;

use super::bundle::with_room;
use super::piece::PieceReader;
use crate::entry;
use crate::source::ReadError;

impl PieceReader {
    /// Reads small files one after another into `block`, and announces those that have not changed.
    pub(super) fn read_digests(&self, records: Vec<Record>, mut block: Block) {
        let mut announced = Vec::with_capacity(records.len());
        for record in records {
            if record.kind == EntryKind::HARD_LINK {
                announced.extend(self.by_itself(&record));
                continue;
            }
            let bytes = usize::try_from(record.bytes).unwrap_or(usize::MAX);
            let read = match with_room(&mut block, bytes) {
                Some(buffer) => self
                    .shared
                    .counters
                    .storage_reading_ns
                    .time(|| self.shared.source.read_whole_shared(&record, buffer)),
                None => Err(ReadError::Changed),
            };
            match read {
                Ok((length, once)) if length == bytes => {
                    self.shared.counters.bytes_read.add(record.bytes);
                    let digest = self.digest_once(once.as_ref(), 0, record.bytes, &block[..bytes]);
                    announced.push(with_digest(record, entry::digest_to_wire(&digest)));
                }
                Ok(_) | Err(ReadError::Changed) => self.announce_again(&record),
                Err(ReadError::Failed(fault)) => {
                    self.shared.give_up(record.bytes);
                    self.shared.fail_entry(&record, fault);
                }
            }
        }
        if !announced.is_empty() {
            self.shared.queue_manifest(announced);
        }
    }

    /// Converts an additional name of a file to a separate file: the destination's entry with the first name stays, and is a different
    /// file.
    fn by_itself(&self, link: &Record) -> Option<Record> {
        match self.shared.source.refresh(link) {
            Ok(mut record) => {
                record.kind = EntryKind::FILE;
                record.target.clear();
                self.shared.counters.bytes_scanned.add(record.bytes);
                Some(record)
            }
            Err(fault) => {
                self.shared.fail_entry(link, fault);
                None
            }
        }
    }

    /// Announces a large file whose digest is now known.
    pub(super) fn announce_digest(&self, record: &Record, digest: Option<Digest>) {
        if let Some(digest) = digest {
            self.shared
                .queue_manifest(vec![with_digest(record.clone(), digest)]);
        }
    }
}

fn with_digest(mut record: Record, digest: Digest) -> Record {
    record.digest = Some(digest);
    record.flags |= RecordFlags::HAS_DIGEST;
    record
}
