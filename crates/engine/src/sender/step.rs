//! What a sender's stream does next, and its reading while it has nothing to send.
//! Does not move items; `stream` does.

use std::cell::RefCell;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use godwit_net::Stream;
use godwit_store::pool::Block;

use super::Sender;
use super::state::{Image, Next, Piece, State};
use crate::{StreamLoss, limits};

/// What a stream does next.
pub(super) enum Step {
    Send {
        seq: u64,
        image: Arc<Image>,
        content: u64,
        again: bool,
    },
    /// Something was read, and perhaps something was heard meanwhile.
    Read(bool),
    Wait(Reason),
    /// Nothing that was sent on it is unsettled, and nothing more shall be.
    Leave,
}

/// What it waits for.
pub(super) enum Reason {
    Starved,
    Unacknowledged,
    /// It carries no blocks: that it waits limits nothing.
    NotConcerned,
}

impl Sender {
    /// `early_bytes` is for a stream that carries no blocks but so much of their content.
    pub(super) fn next(
        &self,
        id: u64,
        stream: &mut dyn Stream,
        early_bytes: Option<u64>,
    ) -> Result<Step, StreamLoss> {
        let mut state = self.shared.lock_state();
        state.unpark(id);
        if state.has_resting() {
            state.take_rested(Instant::now());
        }
        if state.is_retiring(id) {
            return Ok(if state.may_leave(id) {
                Step::Leave
            } else {
                Step::Wait(Reason::NotConcerned)
            });
        }
        if let Some(early_bytes) = early_bytes {
            return self.next_without_blocks(id, stream, early_bytes, state);
        }
        // A thread that reads ahead does it better: the stream reads only what nobody else is there for.
        match state.next(id, false, self.shared.config.block_bytes) {
            Next::Send {
                seq,
                image,
                content,
                again,
            } => {
                return Ok(Step::Send {
                    seq,
                    image,
                    content,
                    again,
                });
            }
            Next::Read(_) | Next::Nothing => {}
        }
        if !self.shared.source.reads_again() {
            state.park(id);
            return Ok(Step::Wait(Reason::Starved));
        }
        let Some(block) = self.readers.try_take_block() else {
            state.park(id);
            return Ok(Step::Wait(Reason::Unacknowledged));
        };
        Ok(match state.next(id, true, self.shared.config.block_bytes) {
            Next::Read(piece) => {
                drop(state);
                self.read_for(id, stream, piece, block)?
            }
            Next::Send {
                seq,
                image,
                content,
                again,
            } => Step::Send {
                seq,
                image,
                content,
                again,
            },
            Next::Nothing => {
                let waits_for_acks = state.unwritten() > 0;
                state.park(id);
                Step::Wait(if waits_for_acks {
                    Reason::Unacknowledged
                } else {
                    Reason::Starved
                })
            }
        })
    }

    /// Reads for a stream. Where that takes long the stream stays alive: a large hole is hashed at some GB a second.
    fn read_for(
        &self,
        id: u64,
        stream: &mut dyn Stream,
        piece: Piece,
        block: Block,
    ) -> Result<Step, StreamLoss> {
        let begun = Instant::now();
        let alive = RefCell::new((stream, begun, begun, Ok(false)));
        self.readers.read(piece, block, &|| {
            let (stream, listened, spoke, result) = &mut *alive.borrow_mut();
            if let Ok(heard) = result
                && listened.elapsed() >= limits::STATUS_EVERY
            {
                *listened = Instant::now();
                *result = self.keep_alive(id, *stream, spoke).map(|now| now || *heard);
            }
            self.shared.is_over()
        });
        self.shared.counters.reading_ns.add_since(begun);
        let (.., result) = alive.into_inner();
        result.map(Step::Read)
    }

    /// Listens, and says something if nothing was said since `spoke` for long. Tells whether anything was heard.
    fn keep_alive(
        &self,
        id: u64,
        stream: &mut dyn Stream,
        spoke: &mut Instant,
    ) -> Result<bool, StreamLoss> {
        let mut heard = false;
        while let Some((prelude, head)) = stream.try_recv()? {
            heard = true;
            self.handle(id, stream, &prelude, &head)?;
        }
        if spoke.elapsed() >= limits::PING_EVERY {
            *spoke = Instant::now();
            self.ping(stream)?;
        }
        Ok(heard)
    }

    fn next_without_blocks(
        &self,
        id: u64,
        stream: &mut dyn Stream,
        early_bytes: u64,
        mut state: MutexGuard<'_, State>,
    ) -> Result<Step, StreamLoss> {
        if let Next::Send {
            seq,
            image,
            content,
            again,
        } = state.next_without_blocks(id, early_bytes)
        {
            return Ok(Step::Send {
                seq,
                image,
                content,
                again,
            });
        }
        if self.shared.source.reads_again()
            && let Some(block) = self.readers.try_take_block()
            && let Some(piece) = state.next_early_piece(early_bytes, self.shared.config.block_bytes)
        {
            drop(state);
            return self.read_for(id, stream, piece, block);
        }
        state.park_without_blocks(id);
        Ok(Step::Wait(Reason::NotConcerned))
    }
}
