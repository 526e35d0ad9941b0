//! Serves one stream of a sender: sends items, receives frames, and reads for itself when nothing is ready.
//! Does not choose what is sent; the state does.
//!
//! A stream sends a filled block if one is ready. Otherwise it reads a block itself and sends it while the block is in the
//! processor's cache, without a hand-over between threads.

use std::time::{Duration, Instant};

use godwit_net::Stream;
use godwit_proto::{ErrorCode, Manifest, Seq};

use super::Streams;
use super::limit::{Turn, Waited};
use super::step::{Reason, Step};
use crate::counters::CpuMeter;
use crate::courtesy::Courtesy;
use crate::sender::shared::Shared;
use crate::sender::state::{Head, ToSend};
use crate::{StreamLoss, limits};

/// Blocks sent between two checks for acknowledgements: while blocks keep arriving, the receiver acknowledges at least as
/// many at once.
const LISTEN_EVERY_BLOCKS: u32 = limits::ACK_EVERY_BLOCKS;

/// Longest time between two checks for acknowledgements, if the receiver has sent anything meanwhile.
const LISTEN_EVERY: Duration = Duration::from_millis(200);

/// One stream, and its state between two steps.
pub(super) struct StreamLoop<'a> {
    pub(super) shared: &'a Shared,
    pub(super) streams: &'a Streams,
    /// Number of the stream.
    pub(super) id: u64,
    pub(super) stream: &'a mut dyn Stream,
    meter: CpuMeter,
    courtesy: Courtesy,
    /// When the last frame of the other end arrived.
    last_frame: Instant,
    /// When this end last sent anything.
    spoke: Instant,
    /// When this end last checked for frames of the other end.
    listened: Instant,
    /// Blocks sent since that check.
    unlistened: u32,
    /// Whether the next step checks for frames, even if nothing was sent.
    listens: bool,
    /// When this stream must send its measurements.
    figures_due: Instant,
}

impl<'a> StreamLoop<'a> {
    pub(super) fn new(streams: &'a Streams, id: u64, stream: &'a mut dyn Stream) -> Self {
        let now = Instant::now();
        Self {
            shared: &streams.shared,
            streams,
            id,
            stream,
            meter: CpuMeter::default(),
            courtesy: Courtesy::default(),
            last_frame: now,
            spoke: now,
            listened: now,
            unlistened: 0,
            listens: true,
            figures_due: now + limits::STATUS_EVERY,
        }
    }

    /// Serves the stream until the transfer ends or the stream has left.
    ///
    /// # Errors
    /// The cause of the stream's loss.
    pub(super) fn run(mut self) -> Result<(), StreamLoss> {
        loop {
            if self.courtesy.follow(&self.shared.live) {
                self.stream
                    .set_network_use("", self.courtesy.is_lowered())?;
            }
            self.listen_if_due()?;
            if let Some(end) = self.shared.end() {
                self.say_goodbye(&end);
                self.meter.settle(&self.shared.counters);
                return Ok(());
            }
            let now = Instant::now();
            self.meter.settle_if_due(now, &self.shared.counters);
            self.say_what_is_due(now)?;
            let early_bytes =
                (!self.stream.carries_blocks()).then(|| self.stream.early_bytes_left());
            match self.next(early_bytes)? {
                Step::Send(item) => self.send(&item)?,
                Step::Read(arrived) => self.note_frames(arrived),
                Step::Leave => {
                    self.meter.settle(&self.shared.counters);
                    return self.leave();
                }
                Step::Wait(_) if self.unlistened > 0 => self.listens = true,
                // A list part was taken after the check above, before this stream could be woken for it.
                Step::Wait(_) if self.taken_is_due() => {}
                Step::Wait(reason) => self.wait(now, early_bytes, reason)?,
            }
        }
    }

    /// Checks for frames, which costs a system call. While there are items to send, no frame is urgent; but on a slow
    /// stream the other end would otherwise wait until some blocks are sent.
    fn listen_if_due(&mut self) -> Result<(), StreamLoss> {
        if self.listens
            || self.unlistened >= LISTEN_EVERY_BLOCKS
            || self.listened.elapsed() >= LISTEN_EVERY
        {
            (self.listens, self.unlistened) = (false, 0);
            self.listened = Instant::now();
            let arrived = self.listen()?;
            self.note_frames(arrived);
        }
        Ok(())
    }

    fn note_frames(&mut self, arrived: bool) {
        if arrived {
            self.last_frame = Instant::now();
        }
    }

    fn say_what_is_due(&mut self, now: Instant) -> Result<(), StreamLoss> {
        if now >= self.figures_due {
            self.figures_due = now + limits::STATUS_EVERY;
            self.say_sending()?;
        }
        if self.streams.status_is_due(now) {
            let drained = self.shared.lock_state().only_waits();
            self.say_status(drained, None)?;
        }
        self.say_taken()
    }

    /// Sends the item, unless the transfer ends or the stream must leave before the limit admits the item.
    fn send(&mut self, item: &ToSend) -> Result<(), StreamLoss> {
        let Waited { any, turn } = self.send_in_turn(item)?;
        self.note_frames(any);
        match turn {
            Turn::Come => {
                if self.shared.source.reads_again() {
                    self.shared.lock_state().items.sent(item.seq);
                }
                self.spoke = Instant::now();
            }
            Turn::Left => {
                let mut state = self.shared.lock_state();
                state.give_back(item.seq, self.id, item.again);
            }
            Turn::Ended => {}
        }
        self.unlistened += 1;
        Ok(())
    }

    /// Sends the item when the limit admits it; returns the result of that wait.
    fn send_in_turn(&mut self, item: &ToSend) -> Result<Waited, StreamLoss> {
        let payload = item.image.payload.as_slice();
        let waited = self.obey_limit(payload.len() as u64)?;
        if waited.turn != Turn::Come {
            return Ok(waited);
        }
        // Checked as late as possible, because the process may have been suspended during each wait before.
        if !self.shared.may_send() {
            let turn = Turn::Ended;
            return Ok(Waited { turn, ..waited });
        }
        let mut written = Vec::new();
        let head = match &item.image.head {
            Head::Image(head) => head,
            Head::Manifest(records) => {
                let transfer = self.shared.config.transfer;
                if let Err(error) =
                    Manifest::encode_records(transfer, Seq(item.seq), records, &mut written)
                {
                    let message = format!("a manifest cannot be encoded: {error}");
                    self.shared.fail(ErrorCode::INTERNAL, &message);
                    return Ok(waited);
                }
                &written
            }
        };
        let start = Instant::now();
        self.stream.send(head, payload)?;
        self.shared.counters.sending_ns.add_since(start);
        self.shared.counters.bytes_sent.add(item.content);
        if item.again {
            self.shared.counters.bytes_resent.add(item.content);
        }
        Ok(waited)
    }

    /// Called if there is no work: sends pending reports to the other end, and waits until the stream is woken.
    fn wait(
        &mut self,
        now: Instant,
        early_bytes: Option<u64>,
        reason: Reason,
    ) -> Result<(), StreamLoss> {
        let (drained, last_item, news, rest) = {
            let mut state = self.shared.lock_state();
            self.shared.finish_if_done(&mut state);
            let news = early_bytes.is_some_and(|bytes| state.note_want(bytes));
            let rest = state.again.rest_left(now).unwrap_or(limits::STATUS_EVERY);
            (state.is_drained(), state.announced_end(), news, rest)
        };
        if drained || last_item.is_some() || news {
            self.say_status(drained, last_item)?;
        }
        self.meter.settle(&self.shared.counters);
        if self.last_frame.elapsed() > limits::SILENCE_MAX {
            return Err(StreamLoss::Silent {
                peer: self.stream.peer(),
                seconds: self.last_frame.elapsed().as_secs(),
            });
        }
        if self.spoke.elapsed() >= limits::PING_EVERY {
            self.ping()?;
            self.spoke = Instant::now();
        }
        let start = Instant::now();
        self.stream.wait(rest.min(limits::STATUS_EVERY))?;
        self.listens = true;
        let counters = &self.shared.counters;
        match reason {
            Reason::Starved => counters.starved_ns.add_since(start),
            Reason::Unacknowledged => counters.unacknowledged_ns.add_since(start),
            Reason::NotConcerned => {}
        }
        Ok(())
    }
}
