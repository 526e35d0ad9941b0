//! Receives the sender's frames from a stream, and passes each to its consumer. Does not check contents;
//! `answer` and `writers` do.

use std::time::Instant;

use godwit_proto::{Frame, FrameKind, Manifest, Pong, Prelude, WireError};

use super::stream_loop::StreamLoop;
use crate::acks::Ending;
use crate::receiver::answer::Answered;
use crate::receiver::writers::scattered;
use crate::{End, StreamLoss};

impl StreamLoop<'_> {
    /// The sender broke the protocol: ends the transfer, and returns the reason as this stream's loss.
    pub(super) fn refuse(&self, what: String) -> StreamLoss {
        self.shared.refuse(&*self.stream, what)
    }

    pub(super) fn check_transfer(&self, transfer: &[u8], frame: &str) -> Result<(), StreamLoss> {
        if transfer == self.shared.config.transfer.0 {
            return Ok(());
        }
        Err(self.refuse(format!("a {frame} of another transfer")))
    }

    pub(super) fn handle(&mut self, prelude: &Prelude, head: &[u8]) -> Result<(), StreamLoss> {
        let broke = |error: WireError| StreamLoss::Wire {
            peer: self.stream.peer(),
            error,
        };
        if prelude.kind == FrameKind::MANIFEST {
            let mut manifest = std::mem::take(&mut self.manifest);
            manifest.decode_in(head).map_err(broke)?;
            self.check_transfer(&manifest.transfer.0, "manifest")?;
            return self.answer(manifest);
        }
        let frame = godwit_proto::decode(prelude, head);
        match frame.map_err(broke)? {
            Frame::Block(block) => {
                self.check_transfer(&block.header.transfer.0, "block")?;
                self.unflushed += 1;
                self.streams.writers.take_block(self.stream, block)
            }
            Frame::Finish(finish) => {
                self.check_transfer(&finish.transfer, "finish")?;
                self.take_finish(&finish)
            }
            Frame::Ping(ping) => {
                self.outgoing.clear();
                Pong { nonce: ping.nonce }.encode(&mut self.outgoing);
                Ok(self.stream.send(&self.outgoing, &[])?)
            }
            Frame::Status(status) => {
                let announced = status.scan_done.then_some(status.bytes_scanned);
                self.streams.take_peer(&status, announced);
                self.streams.peer.set_wants_stream(status.wants_stream);
                if status.last_item > 0 {
                    self.streams.peer.set_max_rss(status.max_rss_bytes);
                    self.shared.acks.foretell(Ending {
                        last: status.last_item,
                        entries_failed: status.entries_failed,
                        scan_faults: status.scan_faults,
                        hurried: false,
                    });
                }
                if status.drained {
                    self.shared.acks.ask_again();
                    self.shared.sink.hurry();
                }
                Ok(())
            }
            Frame::Error(error) => {
                self.shared.finish(End::by_failure(error));
                Ok(())
            }
            Frame::Cancel(cancel) => {
                self.shared.finish(End::by_peer(&cancel.reason));
                Ok(())
            }
            Frame::Pong(pong) => {
                let mut state = self.shared.lock_state();
                state.answered = state.answered.max(pong.nonce.min(state.asked));
                Ok(())
            }
            Frame::SendingStream(sending) => {
                self.shared.counters.table.set_reported(self.id, sending);
                Ok(())
            }
            Frame::NameList(list) => self.take_word_of_parts(&list),
            Frame::Retired(_) => {
                self.leaves = true;
                Ok(())
            }
            Frame::Unknown { .. } => Ok(()),
            other => Err(StreamLoss::Peer {
                peer: self.stream.peer(),
                what: format!("a {} frame came to the receiving end", other.name()),
            }),
        }
    }

    pub(super) fn answer(&mut self, manifest: Manifest) -> Result<(), StreamLoss> {
        // Hashing a large file takes long, and a stream that is silent meanwhile would count as dead.
        let Some(mut manifest) = self.streams.answerer.offer(self.id, manifest) else {
            return Ok(());
        };
        self.outgoing.clear();
        let answered = self
            .streams
            .answerer
            .answer_to(&manifest, &mut self.outgoing);
        manifest.trim();
        self.manifest = manifest;
        match answered {
            Answered::Frame => {}
            Answered::Over => return Ok(()),
            Answered::Scattered => return Err(self.refuse(scattered())),
        }
        self.spoke = Instant::now();
        Ok(self.stream.send(&self.outgoing, &[])?)
    }
}
