//! Owns the contents of files in memory, with holes. Does not know names, or metadata except the length.

use std::collections::BTreeMap;
use std::ops::Range;

/// Granularity of holes, as in most file systems.
const PAGE_BYTES: usize = 4096;
const PAGE: u64 = PAGE_BYTES as u64;

/// The bytes of one file; pages that were never written are holes.
#[derive(Debug, Default)]
pub(super) struct Content {
    pages: BTreeMap<u64, Box<[u8]>>,
    bytes: u64,
}

impl Content {
    /// Length in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether at least one page was never written.
    pub(super) fn is_sparse(&self) -> bool {
        (self.pages.len() as u64) < self.bytes / PAGE
    }

    /// Reads until `buffer` is full or the end is reached.
    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let left = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let bytes = buffer.len().min(left);
        buffer[..bytes].fill(0);
        for_each_page(offset, bytes, |index, within, at| {
            if let Some(page) = self.pages.get(&index) {
                buffer[at.clone()].copy_from_slice(&page[within..within + at.len()]);
            }
        });
        bytes
    }

    /// Writes all of `data`, and extends the file if necessary.
    pub(super) fn write_at(&mut self, offset: u64, data: &[u8]) {
        for_each_page(offset, data.len(), |index, within, at| {
            let page = self
                .pages
                .entry(index)
                .or_insert_with(|| vec![0; PAGE_BYTES].into_boxed_slice());
            page[within..within + at.len()].copy_from_slice(&data[at]);
        });
        if !data.is_empty() {
            self.bytes = self.bytes.max(offset + data.len() as u64);
        }
    }

    /// Cuts the file, or extends it by a hole.
    pub(super) fn set_bytes(&mut self, bytes: u64) {
        self.pages.split_off(&bytes.div_ceil(PAGE));
        if let Some(page) = self.pages.get_mut(&(bytes / PAGE)) {
            page[page_offset(bytes)..].fill(0);
        }
        self.bytes = bytes;
    }

    /// The next range of data at or after `offset`.
    pub(super) fn next_data(&self, offset: u64) -> Option<Range<u64>> {
        let (first, _) = self.pages.range(offset / PAGE..).next()?;
        let pages = self
            .pages
            .range(first..)
            .zip(*first..)
            .take_while(|((index, _), expected)| *index == expected);
        let start = offset.max(first * PAGE);
        let end = self.bytes.min((first + pages.count() as u64) * PAGE);
        (start < end).then_some(start..end)
    }
}

/// Calls `act` with each affected page: its index, the offset within it, and the range of the caller's
/// buffer.
fn for_each_page(offset: u64, bytes: usize, mut act: impl FnMut(u64, usize, Range<usize>)) {
    let mut done = 0;
    while done < bytes {
        let at = offset + done as u64;
        let within = page_offset(at);
        let part = (PAGE_BYTES - within).min(bytes - done);
        act(at / PAGE, within, done..done + part);
        done += part;
    }
}

fn page_offset(offset: u64) -> usize {
    (offset % PAGE) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_reads_like_a_vector(
            steps in proptest::collection::vec((0..40_000_u64, proptest::collection::vec(any::<u8>(), 0..9000), proptest::option::of(0..50_000_u64)), 1..12),
        ) {
            let mut content = Content::default();
            let mut model = Vec::new();
            for (offset, data, cut) in steps {
                content.write_at(offset, &data);
                let start = usize::try_from(offset).unwrap();
                if !data.is_empty() {
                    model.resize(model.len().max(start + data.len()), 0);
                    model[start..start + data.len()].copy_from_slice(&data);
                }
                if let Some(bytes) = cut {
                    content.set_bytes(bytes);
                    model.resize(usize::try_from(bytes).unwrap(), 0);
                }
                let mut buffer = vec![1; model.len() + 10];
                prop_assert_eq!(content.read_at(0, &mut buffer), model.len());
                prop_assert_eq!(&buffer[..model.len()], &model[..]);
                let mut at = 0;
                while let Some(data) = content.next_data(at) {
                    let hole = usize::try_from(at).unwrap()..usize::try_from(data.start).unwrap();
                    prop_assert!(model[hole].iter().all(|byte| *byte == 0));
                    at = data.end;
                }
                prop_assert!(model[usize::try_from(at).unwrap().min(model.len())..].iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn a_tebibyte_of_nothing_takes_no_memory() {
        let mut content = Content::default();
        content.set_bytes(1 << 40);
        assert_eq!(content.next_data(0), None);
        content.write_at(1 << 39, b"x");
        assert_eq!(content.next_data(0), Some(1 << 39..(1 << 39) + PAGE));
        assert_eq!(content.pages.len(), 1);
    }
}
