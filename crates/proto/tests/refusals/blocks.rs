//! Tests refusals of blocks. `items` tests the records in them.

use godwit_proto::*;

use super::{encode, file, prelude};

pub(super) fn slice(offset: u64, length: u32, entry_bytes: u64) -> Block {
    let header = BlockHeader {
        kind: BlockKind::SLICE,
        offset,
        length,
        entry_bytes,
        payload_bytes: length,
        ..BlockHeader::default()
    };
    Block {
        header,
        ranges: Vec::new(),
        records: vec![file(b"big", entry_bytes)],
    }
}

fn sparse(ranges: &[(u64, u64)], payload_bytes: u32) -> Block {
    let mut block = slice(1 << 20, 1 << 20, 1 << 30);
    block.header.flags = block::SPARSE;
    block.header.payload_bytes = payload_bytes;
    block.ranges = ranges
        .iter()
        .map(|&(offset, bytes)| Range { offset, bytes })
        .collect();
    block
}

#[test]
fn slices_are_aligned_and_inside_their_file() {
    let good = [
        slice(0, 4096, 4096),
        slice(8192, 4096, 1 << 30),
        slice(4096, 904, 5000),
        slice(0, 904, UNKNOWN_BYTES),
    ];
    for block in good {
        assert!(encode(&Frame::Block(block.clone())).is_ok(), "{block:?}");
    }
    let bad = [
        slice(0, 0, 4096),
        slice(4096, 4096, 8191),
        slice(2048, 4096, 1 << 30),
        slice(0, 904, 5000),
        slice(512, 904, 1416),
        slice(u64::MAX - 4095, 4096, UNKNOWN_BYTES),
        slice(0, 8 << 20, 1 << 30),
    ];
    for block in bad {
        assert!(encode(&Frame::Block(block.clone())).is_err(), "{block:?}");
    }
}

#[test]
fn data_ranges_are_inside_their_slice_and_make_up_the_payload() {
    let start = 1 << 20;
    let good = sparse(
        &[(start, 10), (start + 10, 10), (start + (1 << 20) - 1, 1)],
        21,
    );
    assert!(encode(&Frame::Block(good)).is_ok());
    assert!(encode(&Frame::Block(sparse(&[], 0))).is_ok());
    let bad = [
        sparse(&[(start, 10)], 11),
        sparse(&[(start, 0)], 0),
        sparse(&[(start - 1, 10)], 10),
        sparse(&[(start, 10), (start + 9, 10)], 20),
        sparse(&[(start + 20, 10), (start, 10)], 20),
        sparse(&[(start, (1 << 20) + 1)], (1 << 20) + 1),
        sparse(&[(start, u64::MAX)], 0),
    ];
    for block in bad {
        assert!(encode(&Frame::Block(block.clone())).is_err(), "{block:?}");
    }
}

#[test]
fn the_parts_of_a_block_agree() {
    let good = slice(0, 4096, 4096);
    let mut cases = vec![good.clone(); 6];
    cases[0].records.clear();
    cases[1].records.push(file(b"other", 4096));
    cases[2].records[0].id = EntryId(5);
    cases[3].header.payload_bytes = 4095;
    cases[4].ranges.push(Range {
        offset: 0,
        bytes: 4096,
    });
    cases[5].records[0].kind = EntryKind::DIRECTORY;
    for block in cases {
        assert!(encode(&Frame::Block(block.clone())).is_err(), "{block:?}");
    }
    let image = encode(&Frame::Block(good)).unwrap();
    let head = &image[PRELUDE_BYTES..];
    let other = decode(&prelude(FrameKind::BLOCK, head, 4095), head);
    assert_eq!(
        other,
        Err(WireError::Disagree {
            what: "payload lengths of prelude and block"
        })
    );
}

#[test]
fn a_bundle_holds_the_contents_of_its_files_and_nothing_else() {
    let failed = Record {
        flags: RecordFlags::SOURCE_FAILED,
        ..file(b"gone", 1 << 40)
    };
    let end = Record {
        flags: RecordFlags::END,
        ..file(b"big", 1 << 40)
    };
    let records = vec![file(b"a", 10), failed, file(b"b", 20), end];
    let header = BlockHeader {
        kind: BlockKind::BUNDLE,
        payload_bytes: 30,
        ..BlockHeader::default()
    };
    let good = Block {
        header,
        ranges: Vec::new(),
        records,
    };
    assert!(encode(&Frame::Block(good.clone())).is_ok());
    let mut cases = vec![good; 4];
    cases[0].header.payload_bytes = 31;
    cases[1].header.offset = 1;
    cases[2].ranges.push(Range {
        offset: 0,
        bytes: 1,
    });
    cases[3].records[0].bytes = u64::MAX;
    for block in cases {
        assert!(encode(&Frame::Block(block.clone())).is_err(), "{block:?}");
    }
}
