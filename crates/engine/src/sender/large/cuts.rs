//! Cuts a large file into aligned windows around the ranges that the receiver holds. Does not know holes; the file does.

use std::collections::VecDeque;

use godwit_proto::Range;

/// A slice: an aligned power-of-two window of the file; the last slice of a file may be shorter.
#[derive(Debug, Clone)]
pub(crate) struct SliceCut {
    pub(crate) offset: u64,
    pub(crate) length: u32,
    /// Data ranges within the slice; empty if all of it is data.
    pub(crate) ranges: Vec<Range>,
}

impl SliceCut {
    pub(crate) fn content(&self) -> u64 {
        if self.ranges.is_empty() {
            u64::from(self.length)
        } else {
            self.ranges.iter().map(|range| range.bytes).sum()
        }
    }
}

/// Merges ranges that overlap or touch; returns them in ascending order.
pub(super) fn merged(mut ranges: Vec<(u64, u64)>) -> VecDeque<(u64, u64)> {
    ranges.sort_unstable();
    let mut merged: VecDeque<(u64, u64)> = VecDeque::with_capacity(ranges.len());
    for (start, end) in ranges {
        match merged.back_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push_back((start, end)),
        }
    }
    merged
}

/// Largest aligned power-of-two window at `offset`. It is at most a block, and ends before the end of the file and before
/// `held_from`, the next byte that is held.
pub(super) fn window(
    offset: u64,
    file_bytes: u64,
    block_bytes: u64,
    held_from: Option<u64>,
) -> u64 {
    let room = held_from.map_or(u64::MAX, |start| start - offset);
    let mut length = block_bytes;
    while length > 1 && (!offset.is_multiple_of(length) || length > room) {
        length /= 2;
    }
    length.min(file_bytes - offset)
}

#[cfg(test)]
mod tests {
    use super::{merged, window};

    #[test]
    fn windows_are_aligned_and_keep_clear_of_what_is_held() {
        assert_eq!(window(0, 10_000, 4096, None), 4096);
        assert_eq!(window(8192, 10_000, 4096, None), 10_000 - 8192);
        assert_eq!(window(0, 10_000, 4096, Some(1024)), 1024);
        assert_eq!(window(0, 10_000, 4096, Some(1500)), 1024);
        assert_eq!(window(2048, 10_000, 4096, Some(9000)), 2048);
        assert_eq!(window(3072, 10_000, 4096, None), 1024);
    }

    #[test]
    fn overlapping_and_adjacent_ranges_are_merged() {
        assert_eq!(
            merged(vec![(8, 12), (0, 4), (4, 6), (2, 3), (20, 20), (10, 16)]),
            [(0, 6), (8, 16), (20, 20)]
        );
    }
}
