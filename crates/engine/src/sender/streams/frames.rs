//! Receives the receiver's frames from a stream, and passes each to its consumer. Does not
//! interpret their contents; `scan` and `feedback` do.

use godwit_proto::{Frame, Pong, Prelude, WireError, priority};

use super::Streams;
use super::stream_loop::StreamLoop;
use crate::{End, StreamLoss};

impl Streams {
    /// Processes a frame that came before the receiver hung up; returns the end of the transfer once it is known.
    pub(super) fn take_last(&self, frame: Frame) -> Option<End> {
        let own = &self.shared.config.transfer.0[..];
        match frame {
            Frame::Ack(ack) if ack.transfer.0[..] == *own => self.feedback.take_ack(&ack),
            Frame::EntryFailed(failed) if failed.transfer.0[..] == *own => {
                self.feedback.take_failure(&failed);
            }
            Frame::Notices(notices) if notices.transfer.0[..] == *own => {
                self.feedback.take_notices(&notices, self.obeys_limits());
            }
            Frame::Finished(finished) if finished.transfer == own => {
                self.feedback.take_finished(finished);
            }
            _ => {}
        }
        self.shared.end()
    }
}

impl StreamLoop<'_> {
    /// Processes all frames that have arrived. Returns whether there were any.
    pub(super) fn listen(&mut self) -> Result<bool, StreamLoss> {
        let mut any = false;
        while let Some((prelude, head)) = self.stream.try_recv()? {
            any = true;
            self.handle(&prelude, &head)?;
        }
        Ok(any)
    }

    pub(super) fn handle(&mut self, prelude: &Prelude, head: &[u8]) -> Result<(), StreamLoss> {
        let broke = |error: WireError| StreamLoss::Wire {
            peer: self.stream.peer(),
            error,
        };
        let frame = godwit_proto::decode(prelude, head).map_err(broke)?;
        let transfer = match &frame {
            Frame::Answer(answer) => Some(&answer.transfer.0[..]),
            Frame::Ack(ack) => Some(&ack.transfer.0[..]),
            Frame::EntryFailed(failed) => Some(&failed.transfer.0[..]),
            Frame::NameList(list) => Some(&list.transfer.0[..]),
            Frame::Notices(notices) => Some(&notices.transfer.0[..]),
            Frame::Finished(finished) => Some(&finished.transfer[..]),
            _ => None,
        };
        if transfer.is_some_and(|transfer| transfer != self.shared.config.transfer.0) {
            return Err(StreamLoss::Peer {
                peer: self.stream.peer(),
                what: format!("a {} frame of another transfer", frame.name()),
            });
        }
        match frame {
            Frame::Answer(answer) => self.streams.scan.take_answer(answer, &self.stream.peer()),
            Frame::Ack(ack) => {
                self.streams.feedback.take_ack(&ack);
                Ok(())
            }
            Frame::EntryFailed(failed) => {
                self.streams.feedback.take_failure(&failed);
                Ok(())
            }
            Frame::Finished(finished) => {
                self.streams.feedback.take_finished(finished);
                Ok(())
            }
            Frame::Status(status) => {
                self.streams.feedback.take_peer(&status);
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
            Frame::Ping(ping) => {
                let mut head = Vec::new();
                Pong { nonce: ping.nonce }.encode(&mut head);
                Ok(self.stream.send(&head, &[])?)
            }
            Frame::Limit(limit) => {
                if self.streams.obeys_limits() {
                    self.shared.live.rate().set(limit.bytes_per_second);
                    if let Some(background) = priority::is_background(limit.priority) {
                        self.shared.live.set_background(background);
                    }
                    let drained = self.shared.lock_state().only_waits();
                    self.say_status(drained, None)?;
                }
                Ok(())
            }
            Frame::NameList(list) => {
                let taken = self.streams.scan.take_part(list);
                taken.map_err(|what| StreamLoss::Peer {
                    peer: self.stream.peer(),
                    what: what.to_owned(),
                })
            }
            Frame::Notices(notices) => {
                let of_client = self.streams.obeys_limits();
                self.streams.feedback.take_notices(&notices, of_client);
                Ok(())
            }
            // The side that dialled decides the number of streams.
            Frame::Retire(_) if self.streams.obeys_limits() => {
                self.shared.lock_state().retire(self.id);
                Ok(())
            }
            Frame::Pong(_) | Frame::Unknown { .. } => Ok(()),
            other => Err(StreamLoss::Peer {
                peer: self.stream.peer(),
                what: format!("a {} frame came to the sending end", other.name()),
            }),
        }
    }
}
