//! Chooses the next step of a sender's stream, and reads for it while it has nothing to send.
//! Does not move items; `stream_loop` does.

use std::cell::RefCell;
use std::sync::MutexGuard;
use std::time::Instant;

use godwit_store::pool::Block;

use super::stream_loop::StreamLoop;
use crate::sender::state::{Next, Piece, State, ToSend};
use crate::{StreamLoss, limits};

/// The next step of a stream.
pub(super) enum Step {
    Send(ToSend),
    /// Data was read; the flag is true if a frame arrived meanwhile.
    Read(bool),
    Wait(Reason),
    /// Everything sent on the stream is settled, and nothing more may be sent on it.
    Leave,
}

/// The reason why a stream waits.
pub(super) enum Reason {
    Starved,
    Unacknowledged,
    /// The stream carries no blocks: its waiting limits nothing.
    NotConcerned,
}

impl StreamLoop<'_> {
    /// Chooses the next step. `early_bytes` is set for a stream that may carry only this much content.
    pub(super) fn next(&mut self, early_bytes: Option<u64>) -> Result<Step, StreamLoss> {
        let shared = self.shared;
        let mut state = shared.lock_state();
        state.streams.unpark(self.id);
        if state.again.has_resting() {
            state.again.take_rested(Instant::now());
        }
        if state.streams.is_retiring(self.id) {
            return Ok(if state.may_leave(self.id) {
                Step::Leave
            } else {
                Step::Wait(Reason::NotConcerned)
            });
        }
        if let Some(early_bytes) = early_bytes {
            return self.next_without_blocks(early_bytes, state);
        }
        // Read-ahead threads are more efficient, so the stream reads itself only if there are none.
        match state.next(self.id, false, self.shared.config.block_bytes) {
            Next::Send(item) => return Ok(Step::Send(item)),
            Next::Read(_) | Next::Nothing => {}
        }
        if !self.shared.source.reads_again() {
            state.streams.park(self.id);
            return Ok(Step::Wait(Reason::Starved));
        }
        let Some(block) = self.streams.readers.try_take_block() else {
            state.streams.park(self.id);
            return Ok(Step::Wait(Reason::Unacknowledged));
        };
        Ok(
            match state.next(self.id, true, self.shared.config.block_bytes) {
                Next::Read(piece) => {
                    drop(state);
                    self.read_for(piece, block)?
                }
                Next::Send(item) => Step::Send(item),
                Next::Nothing => {
                    let waits_for_acks = state.items.unwritten() > 0;
                    state.streams.park(self.id);
                    Step::Wait(if waits_for_acks {
                        Reason::Unacknowledged
                    } else {
                        Reason::Starved
                    })
                }
            },
        )
    }

    /// Reads for the stream, and sends keep-alives if that takes long: a large hole is hashed at some GB a second.
    fn read_for(&mut self, piece: Piece, block: Block) -> Result<Step, StreamLoss> {
        let begun = Instant::now();
        let (shared, readers) = (self.shared, &self.streams.readers);
        let alive = RefCell::new((self, begun, begun, Ok(false)));
        readers.read(piece, block, &|| {
            let (stream, listened, spoke, result) = &mut *alive.borrow_mut();
            if let Ok(arrived) = result
                && listened.elapsed() >= limits::STATUS_EVERY
            {
                *listened = Instant::now();
                *result = stream.keep_alive(spoke).map(|now| now || *arrived);
            }
            shared.is_over()
        });
        shared.counters.reading_ns.add_since(begun);
        let (.., result) = alive.into_inner();
        result.map(Step::Read)
    }

    /// Processes frames, and sends a keep-alive if nothing was sent since `spoke` for long. Returns whether any frame
    /// arrived.
    fn keep_alive(&mut self, spoke: &mut Instant) -> Result<bool, StreamLoss> {
        let arrived = self.listen()?;
        if spoke.elapsed() >= limits::PING_EVERY {
            *spoke = Instant::now();
            self.ping()?;
        }
        Ok(arrived)
    }

    fn next_without_blocks(
        &mut self,
        early_bytes: u64,
        mut state: MutexGuard<'_, State>,
    ) -> Result<Step, StreamLoss> {
        // While there is a stream for blocks, this one carries none.
        let carried = if state.streams.has_carrier() {
            0
        } else {
            early_bytes
        };
        if let Next::Send(item) = state.items.next_without_blocks(self.id, carried) {
            return Ok(Step::Send(item));
        }
        if self.shared.source.reads_again()
            && let Some(block) = self.streams.readers.try_take_block()
            && let Some(piece) = state.next_early_piece(early_bytes, self.shared.config.block_bytes)
        {
            drop(state);
            return self.read_for(piece, block);
        }
        state.streams.park_without_blocks(self.id);
        Ok(Step::Wait(Reason::NotConcerned))
    }
}
