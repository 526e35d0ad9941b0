//! Breaks each rule of `docs/wire.md` separately, and checks the error message. Other tests use
//! valid frames.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod asking;
mod beacons;
mod blocks;
mod control;
mod items;
mod metadata;
mod parts;
mod selection;

use godwit_proto::*;

fn prelude(kind: FrameKind, head: &[u8], payload_bytes: u32) -> Prelude {
    Prelude {
        kind,
        flags: 0,
        head_bytes: u32::try_from(head.len()).unwrap(),
        payload_bytes,
    }
}

fn encode(frame: &Frame) -> Result<Vec<u8>, WireError> {
    let mut image = b"kept".to_vec();
    let encoded = frame.encode(&mut image);
    if encoded.is_err() {
        assert_eq!(image, b"kept", "a refused frame leaves nothing behind");
    }
    encoded.map(|()| image.split_off(4))
}

/// Encodes a valid frame, changes the head, and decodes it.
fn changed(frame: &Frame, change: impl FnOnce(&mut Vec<u8>)) -> Result<Frame, WireError> {
    let image = encode(frame).unwrap();
    let (first, head) = image.split_first_chunk().unwrap();
    let payload_bytes = Prelude::decode(first).unwrap().payload_bytes;
    let mut head = head.to_vec();
    change(&mut head);
    decode(&prelude(frame.kind(), &head, payload_bytes), &head)
}

fn file(path: &[u8], bytes: u64) -> Record {
    Record {
        kind: EntryKind::FILE,
        path: path.to_vec(),
        bytes,
        ..Record::default()
    }
}

fn manifest(records: Vec<Record>) -> Frame {
    Frame::Manifest(Manifest {
        transfer: TransferId([1; 16]),
        seq: Seq(1),
        records,
    })
}
