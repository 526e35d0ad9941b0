//! A receiver's stream: takes frames, hands blocks on, carries acknowledgements back.
//! Does not check contents (`write`) and does not place them (the sink does).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use godwit_net::{Stream, StreamError, Wake};
use godwit_proto::{
    Ack, EntryFailed, ErrorCode, Frame, FrameKind, Limit, Manifest, Ping, Pong, Prelude, WireError,
};

use super::Receiver;
use crate::acks::Ending;
use crate::counters::CpuMeter;
use crate::last_words::last_words;
use crate::{End, StreamLoss, limits, lock};

/// How long a finished receiver keeps its streams for a sender that may ask again.
const LINGER: Duration = Duration::from_secs(5);

/// What one stream keeps between frames.
pub(super) struct StreamState {
    /// Number of the stream.
    pub(super) id: u64,
    heard: Instant,
    pub(super) spoke: Instant,
    unflushed: u32,
    /// When the last acknowledgements left.
    flushed: Instant,
    /// The last question whether the sender is there that this stream has passed on.
    asked: u64,
    pub(super) outgoing: Vec<u8>,
    /// Memory for the next manifest, that of the one before: there can be one of every thousand entries.
    pub(super) manifest: Manifest,
    ack: Ack,
    faults: Vec<EntryFailed>,
    pub(super) meter: CpuMeter,
    /// The sender was asked to end this stream; it has no more for it; both have said so.
    pub(super) asked_to_leave: bool,
    leaves: bool,
    pub(super) left: bool,
}

impl Receiver {
    /// Returns also whether the stream has left a transfer that goes on.
    pub(super) fn stream_loop(
        &self,
        id: u64,
        stream: &mut dyn Stream,
    ) -> (Result<(), StreamLoss>, bool) {
        let mut own = StreamState {
            id,
            heard: Instant::now(),
            spoke: Instant::now(),
            unflushed: 0,
            flushed: Instant::now(),
            asked: 0,
            outgoing: Vec::new(),
            manifest: Manifest::default(),
            ack: Ack {
                transfer: self.config.transfer,
                items: Vec::new(),
            },
            faults: Vec::new(),
            meter: CpuMeter::default(),
            asked_to_leave: false,
            leaves: false,
            left: false,
        };
        let result = self.serve(id, stream, &mut own);
        own.meter.settle(&self.counters);
        let result = match (result, self.end()) {
            // After the last word the sender hangs up; how it does so is of no interest.
            (Err(_), Some(End::Finished(_))) => Ok(()),
            (Err(loss), Some(end)) => {
                say_goodbye(stream, &end);
                match loss {
                    StreamLoss::Stream(StreamError::Ended { .. }) => Ok(()),
                    loss => Err(loss),
                }
            }
            (Err(loss), None) => match last_words(stream, &loss) {
                Some(end) => {
                    self.finish(end);
                    Ok(())
                }
                None => Err(loss),
            },
            (other, _) => other,
        };
        (result, own.left)
    }

    /// The sender broke the rules: the transfer ends, and this stream says why.
    pub(super) fn refuse(&self, stream: &dyn Stream, what: String) -> StreamLoss {
        self.fail(
            ErrorCode::PROTOCOL.0,
            &format!("the sender broke the protocol: {what}"),
        );
        StreamLoss::Peer {
            peer: stream.peer(),
            what,
        }
    }

    pub(super) fn check_transfer(
        &self,
        stream: &dyn Stream,
        transfer: &[u8],
        frame: &str,
    ) -> Result<(), StreamLoss> {
        if transfer == self.config.transfer.0 {
            return Ok(());
        }
        Err(self.refuse(stream, format!("a {frame} of another transfer")))
    }

    fn serve(
        &self,
        id: u64,
        stream: &mut dyn Stream,
        own: &mut StreamState,
    ) -> Result<(), StreamLoss> {
        let mut ended: Option<Instant> = None;
        loop {
            while self.sink.has_room() {
                let Some((prelude, head)) = stream.try_recv()? else {
                    break;
                };
                own.heard = Instant::now();
                // Where there is always more there is no rest.
                own.meter.settle_if_due(own.heard, &self.counters);
                self.handle(stream, own, &prelude, &head)?;
                if own.leaves {
                    return self.leave(stream, own);
                }
                // A fast stream brings four blocks in a part of that time.
                if own.unflushed >= limits::ACK_EVERY_BLOCKS
                    && own.heard.duration_since(own.flushed) >= limits::ACK_DELAY
                {
                    self.flush(stream, own)?;
                    self.ask_to_leave(stream, own)?;
                }
            }
            if own.unflushed > 0 && self.sink.has_room() {
                let start = Instant::now();
                let wake = stream.wait(limits::ACK_DELAY)?;
                self.counters.waiting_ns.add_since(start);
                if wake == Wake::Readable {
                    continue;
                }
            }
            self.flush(stream, own)?;
            self.ask_to_leave(stream, own)?;
            if let Some(failure) = self.sink.failure() {
                self.fail(failure.code().0, &failure.to_string());
            }
            self.mind_ending(stream, own)?;
            match self.end() {
                // Whoever carries it on has the last word.
                Some(End::Finished(_)) if stream.is_relayed() => return Ok(()),
                Some(End::Finished(_)) => {
                    let since = *ended.get_or_insert_with(Instant::now);
                    if since.elapsed() > LINGER {
                        return Ok(());
                    }
                }
                Some(end) => {
                    say_goodbye(stream, &end);
                    return Ok(());
                }
                None => {}
            }
            own.meter.settle(&self.counters);
            // One at a time: what arrives meanwhile goes before the rest of a list.
            if !self.send_part(stream, id)? {
                self.wait_stream(stream, own)?;
            }
        }
    }

    fn wait_stream(
        &self,
        stream: &mut dyn Stream,
        own: &mut StreamState,
    ) -> Result<(), StreamLoss> {
        if own.heard.elapsed() > limits::SILENCE_MAX && self.sink.has_room() {
            return Err(StreamLoss::Silent {
                peer: stream.peer(),
                seconds: own.heard.elapsed().as_secs(),
            });
        }
        let asked = lock(&self.state).asked;
        if asked > own.asked || own.spoke.elapsed() >= limits::PING_EVERY {
            own.asked = asked;
            own.outgoing.clear();
            Ping { nonce: asked }.encode(&mut own.outgoing);
            stream.send(&own.outgoing, &[])?;
            own.spoke = Instant::now();
        }
        let start = Instant::now();
        let room = self.sink.has_room();
        if room {
            stream.wait(limits::STATUS_EVERY)?;
            if stream.carries_blocks() {
                self.counters.waiting_ns.add_since(start);
            }
        } else {
            stream.wait_woken(limits::STATUS_EVERY)?;
            self.counters.undurable_ns.add_since(start);
        }
        Ok(())
    }

    fn handle(
        &self,
        stream: &mut dyn Stream,
        own: &mut StreamState,
        prelude: &Prelude,
        head: &[u8],
    ) -> Result<(), StreamLoss> {
        let broke = |error: WireError| StreamLoss::Wire {
            peer: stream.peer(),
            error,
        };
        if prelude.kind == FrameKind::MANIFEST {
            let mut manifest = std::mem::take(&mut own.manifest);
            manifest.decode_in(head).map_err(broke)?;
            self.check_transfer(stream, &manifest.transfer.0, "manifest")?;
            return self.answer(stream, own, manifest);
        }
        let frame = godwit_proto::decode(prelude, head);
        match frame.map_err(broke)? {
            Frame::Block(block) => {
                self.check_transfer(stream, &block.header.transfer.0, "block")?;
                own.unflushed += 1;
                self.take_block(stream, block)
            }
            Frame::Finish(finish) => {
                self.check_transfer(stream, &finish.transfer, "finish")?;
                self.take_finish(stream, own, &finish)
            }
            Frame::Ping(ping) => {
                own.outgoing.clear();
                Pong { nonce: ping.nonce }.encode(&mut own.outgoing);
                Ok(stream.send(&own.outgoing, &[])?)
            }
            Frame::Status(status) => {
                let announced = status.scan_done.then_some(status.bytes_scanned);
                self.take_peer(&status, announced);
                self.peer_wants_stream
                    .store(status.wants_stream, Ordering::Relaxed);
                if status.last_item > 0 {
                    *lock(&self.peer_max_rss) = status.max_rss_bytes;
                    self.acks.foretell(Ending {
                        last: status.last_item,
                        entries_failed: status.entries_failed,
                        scan_faults: status.scan_faults,
                        hurried: false,
                    });
                }
                if status.drained {
                    self.acks.ask_again();
                    self.sink.hurry();
                }
                Ok(())
            }
            Frame::Error(error) => {
                self.finish(End::by_failure(error));
                Ok(())
            }
            Frame::Cancel(cancel) => {
                self.finish(End::by_peer(&cancel.reason));
                Ok(())
            }
            Frame::Pong(pong) => {
                let mut state = lock(&self.state);
                state.answered = state.answered.max(pong.nonce.min(state.asked));
                Ok(())
            }
            Frame::Sending(sending) => {
                self.counters.table.tell(own.id, sending);
                Ok(())
            }
            Frame::NameList(list) => self.take_word_of_parts(&list, stream),
            Frame::Retired(_) => {
                own.leaves = true;
                Ok(())
            }
            Frame::Unknown { .. } => Ok(()),
            other => Err(StreamLoss::Peer {
                peer: stream.peer(),
                what: format!("a {} frame came to the receiving end", other.name()),
            }),
        }
    }

    pub(super) fn flush(
        &self,
        stream: &mut dyn Stream,
        own: &mut StreamState,
    ) -> Result<(), StreamLoss> {
        own.unflushed = 0;
        own.flushed = own.heard;
        self.acks.take(&mut own.ack.items, &mut own.faults);
        own.outgoing.clear();
        self.acks.take_answers(own.id, &mut own.outgoing);
        for fault in own.faults.drain(..) {
            self.encoded(fault.encode(&mut own.outgoing));
        }
        for items in own.ack.items.chunks(limits::ACK_RANGES_MAX) {
            let ack = Ack {
                transfer: self.config.transfer,
                items: items.to_vec(),
            };
            self.encoded(ack.encode(&mut own.outgoing));
        }
        own.ack.items.clear();
        if let Some(bytes_per_second) = self.limit_to_say() {
            Limit { bytes_per_second }.encode(&mut own.outgoing);
        }
        if self.status_is_due() {
            let counted = self.counters.snapshot();
            self.status(&counted).encode(&mut own.outgoing);
        }
        if !own.outgoing.is_empty() {
            own.spoke = Instant::now();
            stream.send_all(&own.outgoing)?;
        }
        Ok(())
    }

    /// What this end itself puts together always fits; if not, the transfer must not go on as if it did.
    pub(super) fn encoded(&self, result: Result<(), WireError>) {
        if let Err(error) = result {
            self.fail(
                ErrorCode::INTERNAL.0,
                &format!("a frame cannot be encoded: {error}"),
            );
        }
    }

    /// A limit that the sender is to be asked for, now or once more.
    fn limit_to_say(&self) -> Option<u64> {
        let mut limit = self.limit.try_lock().ok()?;
        let wanted = limit.wanted?;
        let obeyed = (*lock(&self.peer)).map(|peer| peer.limit_bytes_per_second);
        let now = Instant::now();
        let said = limit
            .said
            .is_some_and(|said| now.duration_since(said) < limits::STATUS_EVERY);
        if said || (limit.said.is_some() && obeyed == Some(wanted)) {
            return None;
        }
        limit.said = Some(now);
        Some(wanted)
    }

    fn status_is_due(&self) -> bool {
        let now = Instant::now();
        let Ok(mut due) = self.status_due.try_lock() else {
            return false;
        };
        let is_due = *due <= now;
        if is_due {
            *due = now + limits::STATUS_EVERY;
        }
        is_due
    }
}

/// Tells the other end how it ended; best effort, the connection closes either way.
fn say_goodbye(stream: &mut dyn Stream, end: &End) {
    stream.set_stall_limit(Duration::from_secs(1));
    let frame = end.last_word();
    if !frame.is_empty() {
        let _ = stream.send(&frame, &[]);
    }
    stream.shutdown();
}
