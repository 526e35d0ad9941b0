//! Serves one stream of a receiver: receives frames, sends acknowledgements, and waits. Does not check frames
//! (`frames`) or contents (`writers`), and does not store data (the sink).

use std::time::{Duration, Instant};

use godwit_net::{Stream, StreamError, Wake};
use godwit_proto::{Ack, EntryFailed, Manifest, Ping};

use super::Streams;
use crate::counters::CpuMeter;
use crate::courtesy::Courtesy;
use crate::last_words::last_words;
use crate::receiver::shared::Shared;
use crate::{End, StreamLoss, limits};

/// How long a finished receiver keeps its streams for a sender that may ask for the end again.
const LINGER: Duration = Duration::from_secs(5);

/// One stream, and its state between frames.
pub(super) struct StreamLoop<'a> {
    pub(super) shared: &'a Shared,
    pub(super) streams: &'a Streams,
    /// Number of the stream.
    pub(super) id: u64,
    pub(super) stream: &'a mut dyn Stream,
    received_at: Instant,
    pub(super) spoke: Instant,
    pub(super) unflushed: u32,
    /// When acknowledgements were last sent.
    flushed: Instant,
    /// The last liveness question that this stream has sent.
    asked: u64,
    pub(super) outgoing: Vec<u8>,
    /// Reuses the memory of the previous manifest, because there can be one manifest for every thousand entries.
    pub(super) manifest: Manifest,
    ack: Ack,
    faults: Vec<EntryFailed>,
    pub(super) meter: CpuMeter,
    /// Steps of leaving: the sender was asked to end this stream, it has no more items for the stream, both have
    /// confirmed.
    pub(super) asked_to_leave: bool,
    pub(super) leaves: bool,
    pub(super) left: bool,
}

impl<'a> StreamLoop<'a> {
    pub(super) fn new(streams: &'a Streams, id: u64, stream: &'a mut dyn Stream) -> Self {
        let now = Instant::now();
        let shared = &*streams.shared;
        Self {
            shared,
            streams,
            id,
            stream,
            received_at: now,
            spoke: now,
            unflushed: 0,
            flushed: now,
            asked: 0,
            outgoing: Vec::new(),
            manifest: Manifest::default(),
            ack: Ack {
                transfer: shared.config.transfer,
                items: Vec::new(),
            },
            faults: Vec::new(),
            meter: CpuMeter::default(),
            asked_to_leave: false,
            leaves: false,
            left: false,
        }
    }

    /// Serves the stream until the transfer ends or the stream breaks. Also returns whether the stream left while the
    /// transfer continues.
    pub(super) fn run(mut self) -> (Result<(), StreamLoss>, bool) {
        let result = self.serve();
        self.meter.settle(&self.shared.counters);
        let result = match (result, self.shared.end()) {
            // After the final frame the sender hangs up, so an error does not matter.
            (Err(_), Some(End::Finished(_))) => Ok(()),
            (Err(loss), Some(end)) => {
                say_goodbye(self.stream, &end);
                match loss {
                    StreamLoss::Stream(StreamError::Ended { .. }) => Ok(()),
                    loss => Err(loss),
                }
            }
            (Err(loss), None) => match last_words(self.stream, &loss, &mut |_| None) {
                Some(end) => {
                    self.shared.finish(end);
                    Ok(())
                }
                None => Err(loss),
            },
            (other, _) => other,
        };
        (result, self.left)
    }

    fn serve(&mut self) -> Result<(), StreamLoss> {
        let mut ended: Option<Instant> = None;
        let mut courtesy = Courtesy::default();
        loop {
            courtesy.follow(&self.shared.live);
            while self.shared.sink.has_room() {
                let Some((prelude, head)) = self.stream.try_recv()? else {
                    break;
                };
                self.received_at = Instant::now();
                // A stream that always has frames never waits, so its measurements are settled here too.
                self.meter
                    .settle_if_due(self.received_at, &self.shared.counters);
                self.handle(&prelude, &head)?;
                if self.leaves {
                    return self.leave();
                }
                // A fast stream delivers four blocks in a fraction of that time.
                if self.unflushed >= limits::ACK_EVERY_BLOCKS
                    && self.received_at.duration_since(self.flushed) >= limits::ACK_DELAY
                {
                    self.flush()?;
                    self.ask_to_leave()?;
                }
            }
            if self.unflushed > 0 && self.shared.sink.has_room() {
                let start = Instant::now();
                let wake = self.stream.wait(limits::ACK_DELAY)?;
                self.shared.counters.waiting_ns.add_since(start);
                if wake == Wake::Readable {
                    continue;
                }
            }
            self.flush()?;
            self.ask_to_leave()?;
            if let Some(failure) = self.shared.sink.failure() {
                self.shared.fail(failure.code(), &failure.to_string());
            }
            self.mind_ending()?;
            match self.shared.end() {
                // On a relayed stream, the relaying process sends the final frame.
                Some(End::Finished(_)) if self.stream.is_relayed() => return Ok(()),
                Some(End::Finished(_)) => {
                    let since = *ended.get_or_insert_with(Instant::now);
                    if since.elapsed() > LINGER {
                        return Ok(());
                    }
                }
                Some(end) => {
                    say_goodbye(self.stream, &end);
                    return Ok(());
                }
                None => {}
            }
            self.meter.settle(&self.shared.counters);
            // Only one part at a time, because arriving frames take precedence over the rest of a list.
            if !self.send_part()? {
                self.wait_stream()?;
            }
        }
    }

    fn wait_stream(&mut self) -> Result<(), StreamLoss> {
        if self.received_at.elapsed() > limits::SILENCE_MAX && self.shared.sink.has_room() {
            return Err(StreamLoss::Silent {
                peer: self.stream.peer(),
                seconds: self.received_at.elapsed().as_secs(),
            });
        }
        let asked = self.shared.lock_state().asked;
        if asked > self.asked || self.spoke.elapsed() >= limits::PING_EVERY {
            self.asked = asked;
            self.outgoing.clear();
            Ping { nonce: asked }.encode(&mut self.outgoing);
            self.stream.send(&self.outgoing, &[])?;
            self.spoke = Instant::now();
        }
        let start = Instant::now();
        let room = self.shared.sink.has_room();
        if room {
            self.stream.wait(limits::STATUS_EVERY)?;
            if self.stream.carries_blocks() {
                self.shared.counters.waiting_ns.add_since(start);
            }
        } else {
            self.stream.wait_woken(limits::STATUS_EVERY)?;
            self.shared.counters.undurable_ns.add_since(start);
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), StreamLoss> {
        self.unflushed = 0;
        self.flushed = self.received_at;
        self.shared.acks.take(&mut self.ack.items, &mut self.faults);
        self.outgoing.clear();
        self.shared.acks.take_answers(self.id, &mut self.outgoing);
        for fault in self.faults.drain(..) {
            self.shared.encoded(fault.encode(&mut self.outgoing));
        }
        for items in self.ack.items.chunks(limits::ACK_RANGES_MAX) {
            let ack = Ack {
                transfer: self.shared.config.transfer,
                items: items.to_vec(),
            };
            self.shared.encoded(ack.encode(&mut self.outgoing));
        }
        self.ack.items.clear();
        if let Some(limit) = self.streams.poll_limit() {
            limit.encode(&mut self.outgoing);
        }
        if self.streams.status_is_due() {
            let counted = self.shared.counters.snapshot();
            self.shared.status(&counted).encode(&mut self.outgoing);
        }
        if !self.outgoing.is_empty() {
            self.spoke = Instant::now();
            self.stream.send_all(&self.outgoing)?;
        }
        Ok(())
    }
}

/// Announces to the other end how the transfer ended; best effort, the connection closes either way.
fn say_goodbye(stream: &mut dyn Stream, end: &End) {
    stream.set_stall_limit(Duration::from_secs(1));
    let frame = end.last_word();
    if !frame.is_empty() {
        let _ = stream.send(&frame, &[]);
    }
    stream.shutdown();
}
