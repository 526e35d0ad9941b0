//! A sender's stream: hands items to the network, takes acknowledgements, and reads for itself when nothing is ready.
//! Does not choose what is sent; the state does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use godwit_net::Stream;
use godwit_proto::{
    Ack, AckStatus, ErrorCode, Frame, Manifest, Pong, Prelude, Record, Seq, Status, WireError,
};

use super::Sender;
use super::pace::{Turn, Waited};
use super::state::{Desc, Head, Image, Outstanding, State};
use super::step::{Reason, Step};
use crate::counters::CpuMeter;
use crate::{End, StreamLoss, entry, limits, lock};

impl Sender {
    pub(super) fn stream_loop(&self, id: u64, stream: &mut dyn Stream) -> Result<(), StreamLoss> {
        let mut meter = CpuMeter::default();
        let mut heard = Instant::now();
        let mut spoke = Instant::now();
        let mut listened = Instant::now();
        let mut unlistened = 0;
        let mut listens = true;
        let mut tell_due = Instant::now() + limits::STATUS_EVERY;
        loop {
            // Each look costs a system call, and while there is something to send nothing depends on it; but of a slow stream
            // the other end would have to wait until it has sent some blocks.
            if listens || unlistened >= LISTEN_EVERY_BLOCKS || listened.elapsed() >= LISTEN_EVERY {
                (listens, unlistened) = (false, 0);
                listened = Instant::now();
                while let Some((prelude, head)) = stream.try_recv()? {
                    heard = Instant::now();
                    self.handle(id, stream, &prelude, &head)?;
                }
            }
            if let Some(end) = self.shared.end() {
                self.say_goodbye(stream, &end);
                meter.settle(&self.shared.counters);
                return Ok(());
            }
            let now = Instant::now();
            meter.settle_if_due(now, &self.shared.counters);
            if now >= tell_due {
                tell_due = now + limits::STATUS_EVERY;
                self.say_sending(stream)?;
            }
            if self.status_is_due(now) {
                let drained = self.shared.lock_state().only_waits();
                self.say_status(stream, drained, None)?;
            }
            self.say_taken(stream)?;
            let early_bytes = (!stream.carries_blocks()).then(|| stream.early_bytes_left());
            match self.next(id, stream, early_bytes)? {
                Step::Send {
                    seq,
                    image,
                    content,
                    again,
                } => {
                    let Waited { any, turn } =
                        self.send(id, stream, seq, &image, content, again)?;
                    if any {
                        heard = Instant::now();
                    }
                    match turn {
                        Turn::Come => {
                            if self.shared.source.reads_again() {
                                self.shared.lock_state().sent(seq);
                            }
                            spoke = Instant::now();
                        }
                        Turn::Left => self.shared.lock_state().give_back(seq, id, again),
                        Turn::Ended => {}
                    }
                    unlistened += 1;
                }
                Step::Read(was_heard) => {
                    if was_heard {
                        heard = Instant::now();
                    }
                }
                Step::Leave => {
                    meter.settle(&self.shared.counters);
                    return self.leave(id, stream);
                }
                Step::Wait(_) if unlistened > 0 => listens = true,
                // Taken since the look above, and before this stream could be woken for it.
                Step::Wait(_) if self.scan.names().is_some_and(|names| names.is_due()) => {}
                Step::Wait(reason) => {
                    let (drained, last_item, news, rest) = {
                        let mut state = self.shared.lock_state();
                        self.shared.finish_if_done(&mut state);
                        let news = early_bytes.is_some_and(|bytes| state.note_want(bytes));
                        let rest = state.rest_left(now).unwrap_or(limits::STATUS_EVERY);
                        (state.is_drained(), state.foretold_end(), news, rest)
                    };
                    if drained || last_item.is_some() || news {
                        self.say_status(stream, drained, last_item)?;
                    }
                    meter.settle(&self.shared.counters);
                    if heard.elapsed() > limits::SILENCE_MAX {
                        return Err(StreamLoss::Silent {
                            peer: stream.peer(),
                            seconds: heard.elapsed().as_secs(),
                        });
                    }
                    if spoke.elapsed() >= limits::PING_EVERY {
                        self.ping(stream)?;
                        spoke = Instant::now();
                    }
                    let start = Instant::now();
                    stream.wait(rest.min(limits::STATUS_EVERY))?;
                    listens = true;
                    match reason {
                        Reason::Starved => self.shared.counters.starved_ns.add_since(start),
                        Reason::Unacknowledged => {
                            self.shared.counters.unacknowledged_ns.add_since(start)
                        }
                        Reason::NotConcerned => {}
                    }
                }
            }
        }
    }

    /// Sends the item when the limit lets it go; tells what came of the wait for that.
    fn send(
        &self,
        id: u64,
        stream: &mut dyn Stream,
        seq: u64,
        image: &Image,
        content: u64,
        again: bool,
    ) -> Result<Waited, StreamLoss> {
        let payload = image.payload.as_slice();
        let waited = self.obey_limit(id, stream, payload.len() as u64)?;
        if waited.turn != Turn::Come {
            return Ok(waited);
        }
        let mut written = Vec::new();
        let head = match &image.head {
            Head::Image(head) => head,
            Head::Manifest(records) => {
                let transfer = self.shared.config.transfer;
                if let Err(error) =
                    Manifest::encode_records(transfer, Seq(seq), records, &mut written)
                {
                    let message = format!("a manifest cannot be encoded: {error}");
                    self.shared.fail(ErrorCode::INTERNAL.0, &message);
                    return Ok(waited);
                }
                &written
            }
        };
        let start = Instant::now();
        stream.send(head, payload)?;
        self.shared.counters.sending_ns.add_since(start);
        self.shared.counters.bytes_sent.add(content);
        if again {
            self.shared.counters.bytes_resent.add(content);
        }
        Ok(waited)
    }

    pub(super) fn handle(
        &self,
        id: u64,
        stream: &mut dyn Stream,
        prelude: &Prelude,
        head: &[u8],
    ) -> Result<(), StreamLoss> {
        let broke = |error: WireError| StreamLoss::Wire {
            peer: stream.peer(),
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
                peer: stream.peer(),
                what: format!("a {} frame of another transfer", frame.name()),
            });
        }
        match frame {
            Frame::Answer(answer) => self.scan.take_answer(answer, &stream.peer()),
            Frame::Ack(ack) => {
                self.take_ack(&ack);
                Ok(())
            }
            Frame::EntryFailed(failed) => {
                self.take_failure(&failed);
                Ok(())
            }
            Frame::Finished(finished) => {
                if let Some(status) = &finished.counters {
                    self.take_peer(status);
                }
                self.count_unnamed(finished.failed);
                let finished = self.shared.lock_state().take_finished(Some(finished));
                if let Some(finished) = finished {
                    self.shared.finish(End::Finished(finished));
                }
                Ok(())
            }
            Frame::Status(status) => {
                self.take_peer(&status);
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
                Ok(stream.send(&head, &[])?)
            }
            Frame::Limit(limit) => {
                if self.obeys_limits.load(Ordering::Relaxed) {
                    self.shared.live.rate().set(limit.bytes_per_second);
                    let drained = self.shared.lock_state().only_waits();
                    self.say_status(stream, drained, None)?;
                }
                Ok(())
            }
            Frame::NameList(list) => self.take_part(list, &stream.peer()),
            Frame::Notices(notices) => {
                self.take_notices(&notices);
                Ok(())
            }
            // Who dialled decides how many streams there are.
            Frame::Retire(_) if self.obeys_limits.load(Ordering::Relaxed) => {
                self.shared.lock_state().retire(id);
                Ok(())
            }
            Frame::Pong(_) | Frame::Unknown { .. } => Ok(()),
            other => Err(StreamLoss::Peer {
                peer: stream.peer(),
                what: format!("a {} frame came to the sending end", other.name()),
            }),
        }
    }

    /// What the receiver has counted, and decided.
    fn take_peer(&self, status: &Status) {
        *lock(&self.peer) = Some(entry::snapshot_from_status(status));
        self.shared
            .decided
            .hear(&status.tuned, &*self.shared.config.observer);
    }

    fn take_ack(&self, ack: &Ack) {
        let mut done = Vec::new();
        let mut delivered = Vec::new();
        let mut state = self.shared.lock_state();
        for range in &ack.items {
            // Ranges come from the other end: walk what we have, not what it names.
            let seqs: Vec<u64> =
                if range.last.0.saturating_sub(range.first.0) < state.outstanding.len() as u64 {
                    (range.first.0..=range.last.0)
                        .filter(|seq| state.outstanding.contains_key(seq))
                        .collect()
                } else {
                    let mut seqs: Vec<u64> = state
                        .outstanding
                        .keys()
                        .copied()
                        .filter(|seq| (range.first.0..=range.last.0).contains(seq))
                        .collect();
                    seqs.sort_unstable();
                    seqs
                };
            for seq in seqs {
                let item = self.take_status(&mut state, seq, range.status, &mut done);
                delivered.extend(item);
            }
        }
        // Before the end can come, which others may act upon.
        drop(state);
        self.shared.tell_done(&done);
        for item in delivered {
            if let Desc::Bundle(records) = item.desc
                && let Some(records) = Arc::into_inner(records)
            {
                self.scan
                    .reuse_paths(records.into_iter().map(|record| record.path));
            }
        }
        let mut state = self.shared.lock_state();
        let finished = state.take_finished(None);
        if finished.is_none() {
            self.shared.finish_if_done(&mut state);
        }
        state.wake_streams();
        drop(state);
        self.shared.notify();
        if let Some(finished) = finished {
            self.shared.finish(End::Finished(finished));
        }
    }

    /// Gives the item that is done with.
    fn take_status(
        &self,
        state: &mut State,
        seq: u64,
        status: AckStatus,
        done: &mut Vec<Record>,
    ) -> Option<Outstanding> {
        if !matches!(
            state.outstanding.get(&seq).map(|item| &item.desc),
            Some(Desc::Slice { .. } | Desc::Bundle(_))
        ) {
            return None;
        }
        match status {
            AckStatus::WRITTEN => self.shared.counters.bytes_written.add(state.written(seq)),
            AckStatus::DURABLE => {
                self.shared.counters.bytes_written.add(state.written(seq));
                if let Some(item) = state.durable(seq) {
                    self.shared.counters.bytes_durable.add(item.content);
                    let tell = self.shared.config.observer.wants_entries();
                    let files = state.take_done(&item.desc, tell.then_some(done));
                    self.shared.counters.files_done.add(files);
                    return Some(item);
                }
            }
            AckStatus::RESEND => state.resend(seq),
            _ => {}
        }
        None
    }
}

/// Blocks sent between two looks for acknowledgements: the receiver puts at least as many into one while more keep coming.
const LISTEN_EVERY_BLOCKS: u32 = limits::ACK_EVERY_BLOCKS;

/// And the longest time, where it has sent anything meanwhile.
const LISTEN_EVERY: Duration = Duration::from_millis(200);
