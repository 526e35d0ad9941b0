//! Tests when holes are looked for, and what a file that was read keeps. The tests of transfers check the slices.

use std::ops::Range;
use std::sync::Arc;

use godwit_proto::{HeldRange, Record, RecordFlags};
use godwit_store::digest::{DigestKind, digest_slice};

use super::{LargeFile, may_have_holes};
use crate::limits;
use crate::sender::shuffle::Shuffle;
use crate::source::{ReadError, SourceFile};

/// A file with a few bytes in front of a hole.
struct Hole;

impl SourceFile for Hole {
    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), ReadError> {
        Ok(())
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ReadError> {
        Ok((offset < 10).then_some(0..10))
    }

    fn generation(&self) -> Result<u64, ReadError> {
        Ok(0)
    }
}

/// A receiver may claim to hold thousands of ranges of each file, and acknowledge nothing.
#[test]
fn a_file_that_was_read_keeps_no_ranges() {
    let kind = DigestKind::Crc64Nvme;
    let record = Record {
        bytes: 1_000,
        flags: RecordFlags::SPARSE,
        ..Record::default()
    };
    let held = [500, 600, 700].map(|offset| HeldRange {
        offset,
        bytes: 10,
        ..HeldRange::default()
    });
    let large = LargeFile::new(record, Arc::new(Hole), &held, kind, 1_024, 1).unwrap();
    let parts = || crate::lock(&large.progress).digest.range_count();
    assert_eq!(parts(), held.len());
    let mut ends = 0;
    while let Some(cut) = large.take_cut(&mut Shuffle::default()) {
        let zeros = vec![0; usize::try_from(cut.length).unwrap()];
        let digest = digest_slice(kind, cut.offset, 1_000, &zeros);
        ends += usize::from(large.slice_read(&cut, digest, true, &|| false).is_some());
    }
    assert_eq!((ends, parts()), (1, 0));
}

#[test]
fn holes_are_looked_for_where_there_may_be_some_worth_it() {
    let record = |bytes, flags| Record {
        bytes,
        flags,
        ..Record::default()
    };
    let most = limits::UNSOUNDED_BYTES_MAX;
    assert!(!may_have_holes(&record(1, 0)) && !may_have_holes(&record(most, 0)));
    assert!(may_have_holes(&record(1, RecordFlags::SPARSE)));
    assert!(may_have_holes(&record(most + 1, 0)) && may_have_holes(&record(0, 0)));
}
