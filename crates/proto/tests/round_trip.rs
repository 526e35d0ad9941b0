//! Tests properties of the codec: an encoded frame decodes to itself, one frame has one encoding, and no bytes make the decoder
//! panic. `golden.rs` tests particular layouts, `refusals` particular refusals.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod samples;
mod strategies;

use godwit_proto::*;
use proptest::collection::vec;
use proptest::prelude::*;
use strategies::{items, manifest, metadata, setup, watch};

fn encode(frame: &Frame) -> Vec<u8> {
    let mut image = Vec::new();
    frame.encode(&mut image).unwrap();
    image
}

fn read(image: &[u8]) -> Result<Frame, WireError> {
    let (prelude, head) = image.split_first_chunk().unwrap();
    decode(&Prelude::decode(prelude)?, head)
}

/// Checks that accepted input has one encoding; a protobuf message reaches it after encoding once.
fn accepted_or_refused(image: &[u8]) {
    let Ok(frame) = read(image) else { return };
    if matches!(frame, Frame::Unknown { .. }) {
        return;
    }
    let again = encode(&frame);
    let fixed = matches!(
        frame.kind(),
        FrameKind::MANIFEST
            | FrameKind::ANSWER
            | FrameKind::BLOCK
            | FrameKind::ACK
            | FrameKind::ENTRY_FAILED
            | FrameKind::SELECTION
            | FrameKind::NOTICE
    );
    // Flags of the prelude are not part of a frame.
    if fixed {
        assert_eq!(again[PRELUDE_BYTES..], image[PRELUDE_BYTES..]);
    }
    assert_eq!(encode(&read(&again).unwrap()), again);
}

proptest! {
    #[test]
    fn encoded_setup_frames_decode_to_the_same(frame in setup()) {
        prop_assert_eq!(read(&encode(&frame)), Ok(frame));
    }

    #[test]
    fn encoded_metadata_decodes_to_the_same(metadata in metadata(), bytes in vec(any::<u8>(), 0..200)) {
        let mut extensions = Vec::new();
        metadata.encode(&mut extensions).unwrap();
        prop_assert_eq!(Metadata::decode(&extensions), Ok(metadata));
        // Any decoded value has an encoding that decodes to the same value.
        if let Ok(read) = Metadata::decode(&bytes) {
            let mut again = Vec::new();
            read.encode(&mut again).unwrap();
            prop_assert_eq!(Metadata::decode(&again), Ok(read));
        }
    }

    #[test]
    fn encoded_parts_decode_to_the_same(
        (offset, bytes) in (0..1_u64 << 60, 1..1_u64 << 60),
        gaps in vec((0..1_u64 << 40, 1..1_u64 << 40, any::<u8>()), 1..9),
        noise in vec(any::<u8>(), 0..200),
    ) {
        let (part, mut free) = (Part { offset, bytes }, 0);
        let ranges: Vec<HeldRange> = gaps
            .into_iter()
            .map(|(gap, bytes, digest)| {
                let range = HeldRange { offset: free + gap, bytes, digest: Digest([digest; 32]) };
                free = range.offset + range.bytes;
                range
            })
            .collect();
        let mut extensions = Vec::new();
        parts::push_held_elsewhere(&ranges, &mut extensions).unwrap();
        part.push(&mut extensions).unwrap();
        prop_assert_eq!(Part::find(&extensions), Ok(Some(part)));
        prop_assert_eq!(parts::find_held_elsewhere(&extensions), Ok(Some(ranges)));
        // Any decoded value has an encoding that decodes to the same value.
        if let Ok(Some(read)) = parts::find_held_elsewhere(&noise) {
            let mut again = Vec::new();
            parts::push_held_elsewhere(&read, &mut again).unwrap();
            prop_assert_eq!(parts::find_held_elsewhere(&again), Ok(Some(read)));
        }
    }

    #[test]
    fn encoded_items_decode_to_the_same(frame in items()) {
        prop_assert_eq!(read(&encode(&frame)), Ok(frame));
    }

    #[test]
    fn an_encoded_manifest_decodes_to_the_same_in_the_memory_of_any_other(used in manifest(), manifest in manifest()) {
        let mut image = Vec::new();
        manifest.encode(&mut image).unwrap();
        let mut read = used;
        prop_assert_eq!(read.decode_in(&image[PRELUDE_BYTES..]), Ok(()));
        prop_assert_eq!(read, manifest);
    }

    #[test]
    fn encoded_watch_frames_decode_to_the_same(frame in watch()) {
        prop_assert_eq!(read(&encode(&frame)), Ok(frame));
    }

    #[test]
    fn encoded_preludes_decode_to_the_same(kind in any::<u16>(), flags in any::<u16>(), head_bytes in 0..=4096_u32) {
        let prelude = Prelude { kind: FrameKind(kind), flags, head_bytes, payload_bytes: 0 };
        prop_assert_eq!(Prelude::decode(&prelude.encode()), Ok(prelude));
    }

    #[test]
    fn a_frame_cut_short_is_refused(frame in items(), at in any::<prop::sample::Index>()) {
        let image = encode(&frame);
        let head = &image[PRELUDE_BYTES..];
        let cut = &head[..at.index(head.len())];
        let mut prelude = Prelude::decode(image.first_chunk().unwrap()).unwrap();
        prelude.head_bytes = u32::try_from(cut.len()).unwrap();
        prop_assert!(decode(&prelude, cut).is_err());
    }

    #[test]
    fn changed_bytes_are_refused_or_have_one_encoding(
        frame in prop_oneof![setup(), items(), watch()],
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut image = encode(&frame);
        for (at, byte) in changes {
            let at = at.index(image.len());
            image[at] = byte;
        }
        accepted_or_refused(&image);
    }

    #[test]
    fn any_bytes_are_refused_or_have_one_encoding(kind in 0..24_u16, head in vec(any::<u8>(), 0..400)) {
        let head_bytes = u32::try_from(head.len()).unwrap();
        let payload_bytes = if FrameKind(kind) == FrameKind::BLOCK { 1000 } else { 0 };
        let prelude = Prelude { kind: FrameKind(kind), flags: 0, head_bytes, payload_bytes };
        accepted_or_refused(&[&prelude.encode()[..], &head].concat());
    }
}

#[test]
fn every_byte_of_every_sample_may_take_any_value() {
    for (_, frame) in samples::all() {
        let image = encode(&frame);
        for at in 0..image.len() {
            for change in 1..=255 {
                let mut changed = image.clone();
                changed[at] ^= change;
                accepted_or_refused(&changed);
            }
        }
    }
}
