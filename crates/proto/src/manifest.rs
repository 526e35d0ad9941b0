//! Owns the manifest: a batch of entries that the sender announces.
//! Does not carry contents. `docs/wire.md`, "MANIFEST".

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{encode_frame, take};
use crate::error::WireError;
use crate::ids::{Seq, TransferId};
use crate::limits::RECORD_BYTES;
use crate::prelude::FrameKind;
use crate::record::{Record, RecordReader, RecordWriter};

/// A batch of entries; the receiver answers with one verdict for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The transfer.
    pub transfer: TransferId,
    /// Number of this item.
    pub seq: Seq,
    /// The entries, at most [`RECORDS_MAX`](crate::RECORDS_MAX).
    pub records: Vec<Record>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Wire {
    transfer: [u8; 16],
    seq: U64,
    records: U32,
    reserved: U32,
}

const _: () = assert!(size_of::<Wire>() == 32);

/// Memory for this many records is kept for the next manifest.
const RECORDS_KEPT_MAX: usize = 1024;

/// Usual size of a name without the prefix shared with the previous one; only an estimate that avoids
/// repeated growing.
const NAME_BYTES_USUAL: usize = 16;

impl Manifest {
    /// Appends the frame's head image to `out`.
    ///
    /// # Errors
    /// An invalid record, or too many records; `out` is then unchanged.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        self.records.iter().try_for_each(Record::validate)?;
        Self::encode_records(self.transfer, self.seq, &self.records, out)
    }

    /// Like [`Manifest::encode`], for borrowed records that have all passed [`Record::validate`].
    ///
    /// # Errors
    /// Too many records; `out` is then unchanged.
    pub fn encode_records(
        transfer: TransferId,
        seq: Seq,
        records: &[Record],
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        encode_frame(out, FrameKind::MANIFEST, 0, |out| {
            let Ok(count) = u32::try_from(records.len()) else {
                return Err(WireError::too_long("record section", u64::from(u32::MAX)));
            };
            let wire = Wire {
                transfer: transfer.0,
                seq: seq.0.into(),
                records: count.into(),
                reserved: 0.into(),
            };
            out.reserve(records.len() * (RECORD_BYTES + NAME_BYTES_USUAL));
            out.extend_from_slice(wire.as_bytes());
            let mut writer = RecordWriter::new(out);
            records
                .iter()
                .try_for_each(|record| writer.push_valid(record))
        })
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// The fault in the head.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        let mut manifest = Self::default();
        manifest.decode_in(head)?;
        Ok(manifest)
    }

    /// Clears the manifest and releases memory beyond the usual need; the next manifest reuses the rest.
    pub fn trim(&mut self) {
        if self.records.capacity() > RECORDS_KEPT_MAX {
            self.records = Vec::new();
        }
        self.records.iter_mut().for_each(Record::trim);
    }

    /// Like [`Manifest::decode`], reusing the memory of an old manifest; after an error the content is
    /// invalid.
    ///
    /// # Errors
    /// The fault in the head.
    pub fn decode_in(&mut self, head: &[u8]) -> Result<(), WireError> {
        let mut rest = head;
        let wire: Wire = take(&mut rest, "a manifest")?;
        if wire.reserved.get() != 0 {
            return Err(WireError::NonZeroReserved { what: "a manifest" });
        }
        self.transfer = TransferId(wire.transfer);
        self.seq = Seq(wire.seq.get());
        RecordReader::new(rest, wire.records.get())?.read_all_in(&mut self.records)
    }
}

#[cfg(test)]
mod tests {
    use super::{Manifest, RECORDS_KEPT_MAX};
    use crate::limits::{PATHS_BYTES_MAX, PRELUDE_BYTES};
    use crate::record::{EntryKind, PATH_BYTES_KEPT, Record};

    /// The maximum number of records, or the kept number, with paths of the maximum total length.
    fn decoded(records: usize) -> Result<Manifest, crate::WireError> {
        let bytes = (PATHS_BYTES_MAX / records).min(2 * PATH_BYTES_KEPT);
        let link = |number: usize| Record {
            kind: EntryKind::SYMLINK,
            path: format!("{}{number:0250}", "d/".repeat((bytes - 250) / 2)).into(),
            target: vec![b't'; 4],
            ..Record::default()
        };
        let manifest = Manifest {
            records: (0..records).map(link).collect(),
            ..Manifest::default()
        };
        let mut image = Vec::new();
        manifest.encode(&mut image)?;
        Manifest::decode(&image[PRELUDE_BYTES..])
    }

    #[test]
    fn a_trimmed_manifest_keeps_little_memory() -> Result<(), crate::WireError> {
        for records in [RECORDS_KEPT_MAX, 8 * RECORDS_KEPT_MAX] {
            let mut kept = decoded(records)?;
            kept.trim();
            assert!(kept.records.capacity() <= RECORDS_KEPT_MAX);
            for record in &kept.records {
                assert!(record.path.capacity() <= PATH_BYTES_KEPT);
                assert_eq!(record.target.capacity(), 0);
            }
        }
        Ok(())
    }
}
