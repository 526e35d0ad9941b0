//! Tests that the digest of a file equals the one-shot digest of its bytes, for any slices in any order.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]
#![expect(
    clippy::cast_possible_truncation,
    reason = "sizes in these tests are small; patterns are cut on purpose"
)]

use godwit_store::digest::{
    Added, Digest, DigestKind, FileDigest, digest_slice, digest_sparse_slice,
};
use proptest::prelude::*;
use proptest::sample::Index;

const KIB: u64 = 1024;

fn one_shot(kind: DigestKind, data: &[u8]) -> Digest {
    match kind {
        DigestKind::Blake3 => Digest(*blake3::hash(data).as_bytes()),
        DigestKind::Crc64Nvme => {
            let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, data);
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&crc.to_le_bytes());
            Digest(bytes)
        }
    }
}

fn slice_of(data: &[u8], offset: u64, bytes: u64) -> &[u8] {
    &data[offset as usize..(offset + bytes) as usize]
}

/// Cuts a file into aligned windows of differing powers of two; the last slice may be short.
fn cut(file_bytes: u64, choices: &[u32]) -> Vec<(u64, u64)> {
    let mut slices = Vec::new();
    let mut offset = 0;
    for choice in choices.iter().cycle() {
        if offset >= file_bytes {
            break;
        }
        let window = if offset == 0 {
            KIB << choice
        } else {
            (KIB << choice).min(1 << offset.trailing_zeros())
        };
        let bytes = window.min(file_bytes - offset);
        slices.push((offset, bytes));
        offset += bytes;
    }
    slices
}

fn shuffled(slices: &[(u64, u64)], order: &[Index]) -> Vec<(u64, u64)> {
    let mut rest = slices.to_vec();
    let mut picks = order.iter().cycle();
    let mut result = Vec::new();
    while !rest.is_empty() {
        let at = picks.next().unwrap().index(rest.len());
        result.push(rest.swap_remove(at));
    }
    result
}

fn kinds() -> impl Strategy<Value = DigestKind> {
    prop_oneof![Just(DigestKind::Crc64Nvme), Just(DigestKind::Blake3)]
}

/// Any sizes, and sizes around the borders of chunks and windows.
fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![
        0..200_000_usize,
        (0..8_u32, 0..3_usize).prop_map(|(power, off)| ((1024 << power) + off).saturating_sub(1)),
    ]
}

proptest! {
    #[test]
    fn any_slicing_in_any_order_equals_one_shot(
        kind in kinds(),
        size in sizes(),
        seed: u8,
        choices in prop::collection::vec(0..7_u32, 1..20),
        order in prop::collection::vec(any::<Index>(), 1..50),
        holes in prop::collection::vec(any::<bool>(), 1..20),
        reload_at: Index,
    ) {
        let file_bytes = size as u64;
        let mut data: Vec<u8> = (0..size).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed).collect();
        let slices = cut(file_bytes, &choices);
        let mut held = Vec::new();
        for (slice, hole) in slices.iter().zip(holes.iter().cycle()) {
            if *hole {
                data[slice.0 as usize..(slice.0 + slice.1) as usize].fill(0);
            } else {
                held.push(*slice);
            }
        }
        let held = shuffled(&held, &order);
        let reload_at = reload_at.index(held.len() + 1);
        let mut file = FileDigest::new(kind);
        for (at, (offset, bytes)) in held.iter().enumerate() {
            if at == reload_at {
                let mut again = FileDigest::new(kind);
                for (offset, bytes, digest) in file.ranges() {
                    prop_assert_eq!(again.add(offset, bytes, digest), Added::New);
                }
                prop_assert_eq!(&again, &file);
                file = again;
            }
            prop_assert!(!file.contains(*offset, *bytes));
            let digest = digest_slice(kind, *offset, file_bytes, slice_of(&data, *offset, *bytes));
            prop_assert_eq!(file.add(*offset, *bytes, digest), Added::New);
            prop_assert_eq!(file.add(*offset, *bytes, digest), Added::Duplicate);
            prop_assert!(file.contains(*offset, *bytes));
        }
        prop_assert_eq!(file.covered(), held.iter().map(|slice| slice.1).sum::<u64>());
        prop_assert!(file.fits(file_bytes));
        prop_assert_eq!(file.finish(file_bytes), one_shot(kind, &data));
    }

    #[test]
    fn a_sparse_slice_has_the_digest_of_its_zeros(
        kind in kinds(),
        window in 0..4_u32,
        number in 0..5_u64,
        short in 0..1024_u64,
        cuts in prop::collection::btree_set(0..8192_u64, 0..8),
    ) {
        let length = (KIB << window) - short;
        let offset = number * (KIB << window);
        let file_bytes = offset + length;
        let mut dense = vec![0; length as usize];
        let cuts: Vec<u64> = cuts.into_iter().filter(|cut| *cut <= length).collect();
        for pair in cuts.chunks_exact(2) {
            dense[pair[0] as usize..pair[1] as usize].fill(0xa5);
        }
        let pieces: Vec<(u64, &[u8])> = cuts
            .chunks_exact(2)
            .map(|pair| (offset + pair[0], &dense[pair[0] as usize..pair[1] as usize]))
            .collect();
        let sparse = digest_sparse_slice(kind, offset, length, file_bytes, &pieces);
        prop_assert_eq!(sparse, digest_slice(kind, offset, file_bytes, &dense));
    }

    /// Offsets and lengths come from the peer: for any values, nothing panics and a refused range has no effect.
    #[test]
    fn ranges_of_any_shape_are_safe(
        kind in kinds(),
        ranges in prop::collection::vec((any_number(), any_number()), 0..30),
        file_bytes in 0..1_000_000_u64,
    ) {
        let mut file = FileDigest::new(kind);
        let mut covered = 0;
        for (offset, bytes) in ranges {
            let before = file.clone();
            let digest = digest_slice(kind, offset, offset.wrapping_add(bytes), &[1; 100]);
            if file.add(offset, bytes, digest) == Added::New {
                covered += bytes;
                prop_assert!(bytes == 0 || file.contains(offset, bytes));
            } else {
                prop_assert_eq!(&before, &file);
            }
            prop_assert_eq!(file.covered(), covered);
        }
        let fits = file.fits(file_bytes);
        prop_assert_eq!(file.finish(file_bytes) == Digest::NONE, !fits);
    }
}

fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..5000_u64,
        (0..64_u32).prop_map(|power| 1 << power),
        (0..20_u64).prop_map(|count| count * KIB),
        Just(u64::MAX),
    ]
}

#[test]
fn overlaps_and_misfits_are_distinguished() {
    let digest =
        |offset, bytes: usize| digest_slice(DigestKind::Blake3, offset, 1 << 20, &vec![3; bytes]);
    let mut file = FileDigest::new(DigestKind::Blake3);
    assert_eq!(file.add(4096, 4096, digest(4096, 4096)), Added::New);
    assert_eq!(file.add(0, 8192, digest(0, 8192)), Added::Overlap);
    assert_eq!(file.add(6144, 2048, digest(6144, 2048)), Added::Duplicate);
    assert_eq!(file.add(2048, 4096, digest(2048, 4096)), Added::Overlap);
    assert_eq!(file.add(10, 1024, digest(10, 1024)), Added::Misfit);
    assert_eq!(file.add(1024, 2048, digest(1024, 2048)), Added::Misfit);
    assert_eq!(file.add(u64::MAX, 2, Digest::NONE), Added::Misfit);
    assert_eq!(file.add(77, 0, Digest::NONE), Added::New);
    assert_eq!(file.covered(), 4096);
    assert_eq!(file.finish(8191), Digest::NONE, "a part beyond the end");
    assert_ne!(file.finish(8192), Digest::NONE);
}

/// A file of one slice has its standard hash at once; the same bytes at the beginning of a longer file do not.
#[test]
fn a_first_slice_is_not_taken_for_its_file() {
    let data = vec![9; 4096];
    let mut whole = FileDigest::new(DigestKind::Blake3);
    whole.add(0, 4096, digest_slice(DigestKind::Blake3, 0, 4096, &data));
    assert_eq!(whole.finish(4096), one_shot(DigestKind::Blake3, &data));
    let mut first = FileDigest::new(DigestKind::Blake3);
    first.add(0, 4096, digest_slice(DigestKind::Blake3, 0, 8192, &data));
    let mut longer = data.clone();
    longer.resize(8192, 0);
    assert_eq!(first.finish(8192), one_shot(DigestKind::Blake3, &longer));
}

#[test]
fn in_order_arrival_needs_few_entries() {
    // BLAKE3: on each of 14 levels one subtree of the ladder that starts at offset 0, and one that waits for its
    // sibling.
    for (kind, most) in [(DigestKind::Crc64Nvme, 1), (DigestKind::Blake3, 2 * 14)] {
        let mut file = FileDigest::new(kind);
        for slice in 0..10_000_u64 {
            let digest = digest_slice(kind, slice * KIB, 1 << 30, &[7; 1024]);
            assert_eq!(file.add(slice * KIB, KIB, digest), Added::New);
            assert!(file.ranges().len() <= most);
        }
    }
}

#[test]
fn a_tebibyte_of_hole_costs_the_crc_nothing() {
    let kind = DigestKind::Crc64Nvme;
    let end = 1 << 40;
    let mut file = FileDigest::new(kind);
    file.add(end - 3, 3, digest_slice(kind, end - 3, end, b"end"));
    let sparse = digest_sparse_slice(kind, 0, end, end, &[(end - 3, b"end")]);
    assert_eq!(file.finish(end), sparse);
}

#[test]
fn pieces_that_are_no_pieces_of_the_slice_are_refused() {
    let kind = DigestKind::Crc64Nvme;
    let bad: [&[(u64, &[u8])]; 4] = [
        &[(0, b"before the slice")],
        &[(1030, b"x"), (1024, b"y")],
        &[(2047, b"beyond")],
        &[(u64::MAX, b"far")],
    ];
    for pieces in bad {
        let digest = digest_sparse_slice(kind, 1024, 1024, 4096, pieces);
        assert_eq!(digest, Digest::NONE);
    }
}

#[test]
fn numbers_of_kinds_go_both_ways() {
    for kind in [DigestKind::Crc64Nvme, DigestKind::Blake3] {
        assert_eq!(DigestKind::from_number(kind.number()), Some(kind));
    }
    assert_eq!(DigestKind::from_number(0), None);
    assert_eq!(DigestKind::from_number(3), None);
}

#[test]
fn the_digest_of_a_large_hole_is_given_up_when_it_is_not_wanted_any_more() {
    let bytes = 1 << 50;
    let asked = std::cell::Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() == 2
    };
    let mut digest = FileDigest::new(DigestKind::Blake3);
    assert_eq!(digest.finish_unless(bytes, &stop), None);
    let slice = digest_slice(DigestKind::Blake3, 1 << 40, bytes, &[1; 4096]);
    assert_eq!(digest.add(1 << 40, 4096, slice), Added::New);
    asked.set(0);
    assert_eq!(digest.finish_unless(bytes, &stop), None);
    // Short work is never stopped, and CRC is always short.
    let always = || true;
    let mut small = FileDigest::new(DigestKind::Blake3);
    small.add(
        0,
        4096,
        digest_slice(DigestKind::Blake3, 0, 8192, &[1; 4096]),
    );
    assert_eq!(small.finish_unless(8192, &always), Some(small.finish(8192)));
    let crc = FileDigest::new(DigestKind::Crc64Nvme);
    assert_eq!(crc.finish_unless(bytes, &always), Some(crc.finish(bytes)));
}

proptest! {
    /// The digests of a file's parts, each combined from its slices, combine to the digest of the file.
    #[test]
    fn parts_of_a_file_make_the_file(
        kind in prop_oneof![Just(DigestKind::Crc64Nvme), Just(DigestKind::Blake3)],
        log in 12..16_u32,
        file_bytes in 1..200_000_u64,
        order in any::<[Index; 5]>(),
        hole in any::<Index>(),
    ) {
        let mut data: Vec<u8> = (0..file_bytes).map(|at| (at * 31 % 251) as u8).collect();
        let part_bytes = 1_u64 << log;
        // One slice is never added: it is a hole.
        let slices = cut(file_bytes, &[0, 2, 1]);
        let hole = slices[hole.index(slices.len())];
        data[hole.0 as usize..(hole.0 + hole.1) as usize].fill(0);
        let mut whole = FileDigest::new(kind);
        let mut offset = 0;
        while offset < file_bytes {
            let bytes = part_bytes.min(file_bytes - offset);
            let within = |slice: &&(u64, u64)| {
                slice.0 >= offset && slice.0 + slice.1 <= offset + bytes && **slice != hole
            };
            let mine: Vec<(u64, u64)> = slices.iter().filter(within).copied().collect();
            let mut part = FileDigest::new(kind);
            for (at, length) in shuffled(&mine, &order) {
                let digest = digest_slice(kind, at, file_bytes, slice_of(&data, at, length));
                prop_assert_eq!(part.add(at, length, digest), Added::New);
            }
            let digest = part.part_unless(offset, bytes, file_bytes, &|| false).unwrap();
            let expected = digest_slice(kind, offset, file_bytes, slice_of(&data, offset, bytes));
            prop_assert_eq!(digest, expected);
            prop_assert_eq!(whole.add(offset, bytes, digest), Added::New);
            // A range that reaches beyond a part does not count.
            if !mine.is_empty() && offset + bytes < file_bytes {
                let next = part.part_unless(offset + bytes, 1, file_bytes, &|| false);
                prop_assert_eq!(next, Some(Digest::NONE));
            }
            offset += bytes;
        }
        prop_assert_eq!(whole.finish(file_bytes), one_shot(kind, &data));
        // The merged ranges are few, and describe the same file.
        let mut merged = FileDigest::new(kind);
        for (at, length, digest) in whole.ranges() {
            merged.add(at, length, digest);
        }
        prop_assert_eq!(merged.finish(file_bytes), one_shot(kind, &data));
    }
}
