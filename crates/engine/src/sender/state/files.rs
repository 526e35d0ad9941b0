//! Chooses the large file of the next slice, and decides when to open another one. Does not cut slices; the file does.
//!
//! On storage that does not seek, large files are read apart: each stream continues its own file, or begins a file that
//! no other stream reads. Therefore one stream writes each file at the other end, and no block changes threads there.
//! At most three files are read apart, and a fourth is open in advance; more streams take turns at the first file. On a
//! disk that seeks (`store`, `fs::medium`), and for a pipe, all streams take turns at the first file. In a random order
//! each slice may belong to any open file.

use std::sync::Arc;

use super::Piece;
use super::wanted::Wanted;
use crate::limits;
use crate::sender::large::LargeFile;
use crate::sender::shuffle::Shuffle;

/// The number of a reader that continues no file, because it reads little.
pub(super) const NO_READER: u64 = 0;

/// Large files that are open, or being opened.
#[derive(Default)]
pub(crate) struct OpenFiles {
    pub(crate) active: Vec<Arc<LargeFile>>,
    /// Large files that are being opened.
    opening: usize,
    /// Whether each reader has its own file, if there are enough files.
    apart: bool,
}

impl OpenFiles {
    /// `apart`: each large file is read by one reader.
    pub(super) fn new(apart: bool) -> Self {
        Self {
            apart,
            ..Self::default()
        }
    }

    /// A slice for `reader`: of the first file or, if files are read apart, of the reader's own file. Opens files
    /// before they are needed.
    pub(super) fn next_large(
        &mut self,
        reader: u64,
        streams: usize,
        wanted: &mut Wanted,
        shuffle: &mut Shuffle,
    ) -> Option<Piece> {
        let random = shuffle.is_random();
        let readers = if self.apart || random { streams } else { 1 };
        if self.count() <= readers.clamp(1, limits::LARGE_FILES_ACTIVE_MAX - 1) {
            self.next_open(wanted)
                .or_else(|| self.next_slice(reader, shuffle))
        } else {
            self.next_slice(reader, shuffle)
                .or_else(|| self.next_open(wanted))
        }
    }

    fn next_open(&mut self, wanted: &mut Wanted) -> Option<Piece> {
        if self.is_full() {
            return None;
        }
        let (record, held) = wanted.take_large()?;
        self.begin_opening();
        Some(Piece::Open { record, held })
    }

    /// Files that are open or being opened.
    fn count(&self) -> usize {
        self.active.len() + self.opening
    }

    /// Whether no more files may be opened.
    pub(super) fn is_full(&self) -> bool {
        self.count() >= limits::LARGE_FILES_ACTIVE_MAX
    }

    /// Counts a file that a thread is about to open.
    pub(super) fn begin_opening(&mut self) {
        self.opening += 1;
    }

    /// Ends [`begin_opening`](Self::begin_opening): the file is open, or could not be opened.
    pub(in crate::sender) fn end_opening(&mut self) {
        self.opening = self.opening.saturating_sub(1);
    }

    /// Removes files that are read completely.
    pub(super) fn drop_spent(&mut self) {
        self.active.retain(|file| !file.is_spent());
    }

    fn next_slice(&mut self, reader: u64, shuffle: &mut Shuffle) -> Option<Piece> {
        loop {
            let at = match shuffle.is_random() {
                true => (!self.active.is_empty()).then(|| shuffle.pick(self.active.len()))?,
                false => self.file_of(reader)?,
            };
            let file = &self.active[at];
            match file.take_cut(shuffle) {
                Some(cut) => {
                    return Some(Piece::Slice {
                        file: Arc::clone(file),
                        cut,
                        seq: None,
                    });
                }
                None => {
                    self.active.remove(at);
                }
            }
        }
    }

    /// Index of the file for `reader`: the file that it has begun, otherwise a file without reader, otherwise the
    /// first. [`NO_READER`] never gets a file for itself.
    fn file_of(&self, reader: u64) -> Option<usize> {
        let of = |reader| self.active.iter().position(|file| file.reader() == reader);
        let begun = self.active.iter().filter(|file| file.reader().is_some());
        // One file is open in advance, besides those being read.
        let one_more = begun.count() < limits::LARGE_FILES_ACTIVE_MAX - 1;
        if self.apart
            && reader != NO_READER
            && let Some(at) = of(Some(reader)).or_else(|| one_more.then(|| of(None))?)
        {
            self.active[at].set_reader(Some(reader));
            return Some(at);
        }
        (!self.active.is_empty()).then_some(0)
    }

    /// Releases the files that `reader` has begun.
    pub(crate) fn let_go(&self, reader: u64) {
        for file in &self.active {
            if file.reader() == Some(reader) {
                file.set_reader(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use godwit_net::Waker;
    use godwit_proto::{EntryId, Record};
    use godwit_store::digest::DigestKind;

    use super::super::super::large::LargeFile;
    use super::super::{Desc, Piece, State};
    use super::{NO_READER, Shuffle};
    use crate::limits;
    use crate::sender::shuffle::Order;
    use crate::source::{ReadError, SourceFile};

    const BLOCK_BYTES: u32 = 1024;

    struct Data(u64);

    impl SourceFile for Data {
        fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), ReadError> {
            Ok(())
        }

        fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ReadError> {
            Ok((offset < self.0).then_some(0..self.0))
        }

        fn generation(&self) -> Result<u64, ReadError> {
            Ok(0)
        }
    }

    /// A state with open files of these numbers of slices, numbered from 1.
    fn state(apart: bool, files: &[u64]) -> State {
        with_files(State::new(apart, Shuffle::default()), files, 1)
    }

    /// Adds files with these numbers of slices; `window` slices of each are cut in advance.
    fn with_files(mut state: State, files: &[u64], window: usize) -> State {
        for (number, slices) in (1..).zip(files) {
            let bytes = slices * u64::from(BLOCK_BYTES);
            let record = Record {
                id: EntryId(number),
                bytes,
                ..Record::default()
            };
            let file = Arc::new(Data(bytes));
            let file = LargeFile::new(record, file, &[], DigestKind::Blake3, BLOCK_BYTES, window);
            state.files.active.push(Arc::new(file.unwrap()));
        }
        state
    }

    /// The next piece of a large file for the reader.
    fn large(state: &mut State, reader: u64) -> Option<Piece> {
        let streams = state.streams.count();
        let (wanted, shuffle) = (&mut state.wanted, &mut state.shuffle);
        state.files.next_large(reader, streams, wanted, shuffle)
    }

    /// Number of the file whose slice the reader gets.
    fn file(state: &mut State, reader: u64) -> Option<u64> {
        match large(state, reader)? {
            Piece::Slice { file, .. } => Some(file.record.id.0),
            _ => None,
        }
    }

    /// A receiver may acknowledge nothing of many files with long names.
    #[test]
    fn a_slice_in_flight_counts_the_name_of_its_file() {
        let record = Record {
            bytes: 1_000,
            path: vec![b'x'; 60_000],
            ..Record::default()
        };
        let kind = DigestKind::Blake3;
        let opened = LargeFile::new(record, Arc::new(Data(1_000)), &[], kind, BLOCK_BYTES, 1);
        let mut state = State::default();
        state.files.active.push(Arc::new(opened.unwrap()));
        let Some(Piece::Slice { file, cut, .. }) = large(&mut state, NO_READER) else {
            panic!("there is a slice");
        };
        assert!(Desc::Slice { file, cut }.extension_bytes() > 59_000);
    }

    #[test]
    fn readers_take_turns_at_one_file() {
        let mut state = state(false, &[3, 3]);
        let files: Vec<_> = (0..7).map(|turn| file(&mut state, 1 + turn % 2)).collect();
        let expected = [Some(1), Some(1), Some(1), Some(2), Some(2), Some(2), None];
        assert_eq!(files, expected);
    }

    #[test]
    fn readers_apart_have_files_of_their_own_and_share_the_last() {
        let mut state = state(true, &[2, 4, 2]);
        let files: Vec<_> = (0..9).map(|turn| file(&mut state, 1 + turn % 2)).collect();
        let expected = [1, 2, 1, 2, 3, 2, 3, 2].map(Some);
        assert_eq!(files[..8], expected);
        assert_eq!(files[8], None);
        let mut state = self::state(true, &[4]);
        let files: Vec<_> = (0..4).map(|turn| file(&mut state, 1 + turn % 2)).collect();
        assert_eq!(files, [Some(1); 4]);
    }

    #[test]
    fn in_a_random_order_each_slice_is_of_any_open_file_and_comes_once() {
        let shuffle = Shuffle::new(Order::Random).expect("there are random numbers");
        let slices = 100_u64;
        let mut state = with_files(State::new(true, shuffle), &[slices; 2], 8);
        let mut taken = Vec::new();
        while let Some(Piece::Slice { file, cut, .. }) = large(&mut state, 1) {
            let slice = cut.offset / u64::from(BLOCK_BYTES);
            let of_it = taken.iter().filter(|(id, _)| *id == file.record.id.0);
            assert!(slice < of_it.count() as u64 + 8, "beyond the window");
            taken.push((file.record.id.0, slice));
        }
        let changes = taken.windows(2).filter(|pair| pair[0].0 != pair[1].0);
        assert!(changes.count() > 20 && !taken.is_sorted(), "{taken:?}");
        taken.sort_unstable();
        let all = (1..=2).flat_map(|id| (0..slices).map(move |slice| (id, slice)));
        assert_eq!(taken, all.collect::<Vec<_>>());
    }

    #[test]
    fn the_file_of_a_lost_stream_continues_before_a_file_that_was_not_begun() {
        let mut state = state(true, &[4, 4, 4]);
        let waker = Waker::new().unwrap();
        let gone = state.streams.attach(waker.clone(), true);
        let other = state.streams.attach(waker, true);
        assert_eq!(file(&mut state, gone), Some(1));
        assert_eq!(file(&mut state, other), Some(2));
        state.detach(gone);
        let next = state.streams.last + 1;
        assert_eq!(file(&mut state, next), Some(1));
        assert_eq!(file(&mut state, other), Some(2));
    }

    #[test]
    fn of_many_readers_three_have_files_of_their_own() {
        let mut state = state(true, &[4, 4, 4, 4]);
        let files: Vec<_> = (1..=6).map(|reader| file(&mut state, reader)).collect();
        assert_eq!(files, [1, 2, 3, 1, 1, 1].map(Some));
        assert_eq!(file(&mut state, 2), Some(2));
    }

    #[test]
    fn a_slow_stream_begins_no_file_and_a_leaving_stream_continues_none() {
        let mut state = state(true, &[4, 4]);
        assert_eq!(file(&mut state, NO_READER), Some(1));
        let waker = Waker::new().unwrap();
        let leaving = state.streams.attach(waker.clone(), true);
        assert_eq!(file(&mut state, leaving), Some(1));
        let other = state.streams.attach(waker, true);
        state.retire(leaving);
        assert_eq!(file(&mut state, other), Some(1));
    }

    #[test]
    fn streams_that_ask_at_once_open_no_more_files_than_may_be() {
        let mut state = State::new(true, Shuffle::default());
        let waker = Waker::new().unwrap();
        for number in 0..16 {
            state.streams.attach(waker.clone(), true);
            let record = Record {
                id: EntryId(number),
                ..Record::default()
            };
            state.wanted.large.push_back((record, Vec::new()));
        }
        let opened: Vec<_> = (1..=16)
            .filter_map(|reader| large(&mut state, reader))
            .collect();
        assert_eq!(opened.len(), limits::LARGE_FILES_ACTIVE_MAX);
        state.files.end_opening();
        assert!(matches!(large(&mut state, 1), Some(Piece::Open { .. })));
        assert!(large(&mut state, 2).is_none());
    }
}
