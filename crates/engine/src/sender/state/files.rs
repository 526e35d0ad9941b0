//! Which large file a slice is taken of next, and when one more is opened.
//! Cuts no slices; the file does.

use std::sync::Arc;

use super::{Piece, State};
use crate::limits;

impl State {
    /// Slices of the file in front; the file after it is opened while those are still being read.
    pub(super) fn next_large(&mut self) -> Option<Piece> {
        if self.active.len() < 2 {
            self.next_open().or_else(|| self.next_slice())
        } else {
            self.next_slice().or_else(|| self.next_open())
        }
    }

    fn next_open(&mut self) -> Option<Piece> {
        if self.active.len() >= limits::LARGE_FILES_ACTIVE_MAX {
            return None;
        }
        let (record, held) = self.large.pop_front()?;
        self.extensions_wanted -= record.extensions.len();
        Some(Piece::Open { record, held })
    }

    fn next_slice(&mut self) -> Option<Piece> {
        while let Some(file) = self.active.first() {
            match file.take_cut() {
                Some(cut) => {
                    return Some(Piece::Slice {
                        file: Arc::clone(file),
                        cut,
                        seq: None,
                    });
                }
                None => {
                    self.active.remove(0);
                }
            }
        }
        None
    }
}
