//! Owns the outbox of the receiving end: acknowledgements and faults to send, or to repeat after the loss of a stream. Sends
//! nothing itself; streams remove messages from it and send them.
//!
//! After the loss of a stream, everything that may have been lost with it is sent again, in ranges. A busy stream sends
//! its own acknowledgements after at most `limits::ACK_DELAY`; only other threads wake a stream to send one.

mod answers;
mod ending;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use godwit_net::Waker;
use godwit_proto::{AckRange, AckStatus, EntryFailed, EntryId, Fault, FaultCode, Seq, TransferId};

use self::answers::Answers;
pub(crate) use self::ending::{Ending, Nearness};
use crate::failed::Failed;
use crate::flag::Flag;
use crate::seqs::SeqSet;
use crate::{Counters, Observer, limits};

/// Outbox of one receiving transfer, shared by its sink and its streams.
pub struct Acks {
    transfer: TransferId,
    /// Receives what the user should know, and the entries that are complete at this end.
    pub observer: Arc<dyn Observer>,
    counters: Arc<Counters>,
    inner: Mutex<Inner>,
    /// Whether the transfer has ended; results of comparisons still running are then ignored.
    pub over: Flag,
    /// Whether something failed because the storage at this end was full.
    pub no_space: Flag,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<AckRange>,
    faults: VecDeque<EntryFailed>,
    /// Bytes of the names and messages of `faults`.
    faults_waiting_bytes: usize,
    /// Acknowledgements sent before, which are repeated after the loss of a stream.
    durable: SeqSet,
    written: SeqSet,
    in_process: SeqSet,
    /// Items requested again that have not arrived yet.
    lost: SeqSet,
    /// Items of which a copy was dropped while the first copy was being processed.
    dropped: SeqSet,
    /// The missing items were requested once more since acknowledgements were last taken.
    asked_again: bool,
    faults_said: Vec<EntryFailed>,
    faults_bytes: usize,
    failed: Failed,
    wakers: Vec<(u64, Waker)>,
    /// Number of busy streams, which send from this outbox when they finish their current step.
    working: usize,
    answers: Answers,
    ending: Option<Ending>,
}

/// How to handle an arriving item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// New: process it.
    Process,
    /// Being processed on another stream, or already processed: an acknowledgement was or will be sent.
    Known,
    /// New, but the arrived numbers form more ranges than a correct sender can leave: a protocol violation.
    Scattered,
}

impl Acks {
    /// Acknowledgements of a transfer that has received nothing yet.
    pub fn new(transfer: TransferId, observer: Arc<dyn Observer>, counters: Arc<Counters>) -> Self {
        Self {
            transfer,
            observer,
            counters,
            inner: Mutex::default(),
            over: Flag::default(),
            no_space: Flag::default(),
        }
    }

    /// Records that these items' contents are durable.
    pub fn durable(&self, seqs: &[Seq]) {
        let mut inner = crate::lock(&self.inner);
        for seq in seqs {
            inner.written.remove(seq.0);
            inner.durable.insert(seq.0);
            inner.push(*seq, AckStatus::DURABLE);
        }
        inner.wake_one();
    }

    /// Records that these items' contents were lost before they were durable, and must be sent again.
    pub fn resend(&self, seqs: &[Seq]) {
        let mut inner = crate::lock(&self.inner);
        inner.ending = None;
        for seq in seqs {
            inner.written.remove(seq.0);
            inner.lost.insert(seq.0);
            inner.push(*seq, AckStatus::RESEND);
        }
        inner.wake_one();
    }

    /// Records that an entry failed while the item `seq` (0 for none) was processed or made durable. The sender knows
    /// the entry as `path` below its source number `root`; `shown` is the entry's name at this end.
    pub fn fault(&self, seq: Seq, fault: Fault, root: u16, path: &[u8], shown: &[u8]) {
        if fault.code == FaultCode::NO_SPACE {
            self.no_space.set();
        }
        if self.count_failure(fault.entry) {
            self.observer.entry_failed(&crate::FailedEntry {
                root: Some(root),
                path,
                shown,
                fault: &fault,
            });
        }
        let mut inner = crate::lock(&self.inner);
        let bytes = inner.faults_waiting_bytes + path.len() + fault.message.len();
        // More failures are only counted; the sender learns their number at the end.
        if inner.faults.len() < limits::FAULTS_KEPT_MAX && bytes <= limits::FAULTS_KEPT_BYTES_MAX {
            inner.faults_waiting_bytes = bytes;
            inner.faults.push_back(EntryFailed {
                transfer: self.transfer,
                seq,
                root,
                path: path.to_vec(),
                fault,
            });
        }
        inner.wake_one();
    }

    /// Counts an entry as failed; false if the entry was counted before.
    pub(crate) fn count_failure(&self, entry: EntryId) -> bool {
        let first = crate::lock(&self.inner).failed.is_first(entry);
        if first {
            self.counters.entries_failed.add(1);
        }
        first
    }

    /// Wakes every stream, for instance because this end has room for more.
    pub fn wake_all(&self) {
        for (_, waker) in &crate::lock(&self.inner).wakers {
            waker.wake();
        }
    }

    pub(crate) fn arrive(&self, seq: Seq) -> Arrival {
        let mut inner = crate::lock(&self.inner);
        inner.outdate(seq);
        if inner.durable.contains(seq.0) {
            inner.push(seq, AckStatus::DURABLE);
            Arrival::Known
        } else if inner.written.contains(seq.0) {
            inner.push(seq, AckStatus::WRITTEN);
            Arrival::Known
        } else if inner.in_process.contains(seq.0) {
            inner.dropped.insert(seq.0);
            Arrival::Known
        } else if inner.durable.range_count() >= limits::ITEM_RANGES_MAX
            || inner.lost.range_count() >= limits::ITEM_RANGES_MAX && !inner.lost.contains(seq.0)
        {
            Arrival::Scattered
        } else {
            inner.in_process.insert(seq.0);
            inner.lost.remove(seq.0);
            Arrival::Process
        }
    }

    /// Registers a manifest that arrived. A manifest needs no acknowledgement, but its number closes a gap in the
    /// sequence.
    pub(crate) fn arrive_manifest(&self, seq: Seq) -> Arrival {
        let mut inner = crate::lock(&self.inner);
        inner.outdate(seq);
        if inner.durable.contains(seq.0) {
            return Arrival::Known;
        }
        if inner.durable.range_count() >= limits::ITEM_RANGES_MAX {
            return Arrival::Scattered;
        }
        inner.durable.insert(seq.0);
        Arrival::Process
    }

    pub(crate) fn written(&self, seq: Seq) {
        let mut inner = crate::lock(&self.inner);
        inner.in_process.remove(seq.0);
        let dropped = inner.dropped.contains(seq.0);
        inner.dropped.remove(seq.0);
        if inner.lost.contains(seq.0) {
            // The item was requested again before the writing thread arrived here. WRITTEN would now make the sender
            // release the item, but a copy that arrived too early was dropped.
            if dropped {
                inner.push(seq, AckStatus::RESEND);
                inner.wake_one();
            }
            return;
        }
        // A small batch can be durable before the writing thread arrives here.
        if !inner.durable.contains(seq.0) {
            inner.written.insert(seq.0);
        }
        inner.push(seq, AckStatus::WRITTEN);
        inner.wake_one();
    }

    /// Records that the item was not accepted: the sender must send it again.
    pub(crate) fn rejected(&self, seq: Seq) {
        let mut inner = crate::lock(&self.inner);
        inner.ending = None;
        inner.in_process.remove(seq.0);
        inner.dropped.remove(seq.0);
        inner.lost.insert(seq.0);
        inner.push(seq, AckStatus::RESEND);
        inner.wake_one();
    }

    /// Called when the sender waits only for durability. Requests missing items once more, because an older
    /// acknowledgement on another stream may have overtaken the request.
    pub(crate) fn ask_again(&self) {
        let mut inner = crate::lock(&self.inner);
        // A sender may say it often, and take nothing.
        if !std::mem::replace(&mut inner.asked_again, true) {
            inner.say_all(|inner| &inner.lost, AckStatus::RESEND);
        }
    }

    /// All failures reported so far, on any stream.
    pub(crate) fn faults_said(&self) -> Vec<EntryFailed> {
        crate::lock(&self.inner).faults_said.clone()
    }

    /// Takes the acknowledgements and faults that the calling stream must send.
    pub(crate) fn take(&self, ranges: &mut Vec<AckRange>, faults: &mut Vec<EntryFailed>) {
        let mut inner = crate::lock(&self.inner);
        ranges.extend(inner.queue.drain(..));
        inner.asked_again = false;
        inner.faults_waiting_bytes = 0;
        while let Some(fault) = inner.faults.pop_front() {
            let bytes = inner.faults_bytes + fault.path.len() + fault.fault.message.len();
            if inner.faults_said.len() < limits::FAULTS_KEPT_MAX
                && bytes <= limits::FAULTS_KEPT_BYTES_MAX
            {
                inner.faults_said.push(fault.clone());
                inner.faults_bytes = bytes;
            }
            faults.push(fault);
        }
    }

    /// Marks the calling stream as busy until the result is dropped; the stream sends from this outbox soon after.
    pub(crate) fn work(&self) -> Working<'_> {
        crate::lock(&self.inner).working += 1;
        Working(self)
    }

    pub(crate) fn attach(&self, stream: u64, waker: Waker) {
        crate::lock(&self.inner).wakers.push((stream, waker));
    }

    /// Records that a stream is about to leave in order, so that everything it took from here arrives.
    pub(crate) fn leave(&self, stream: u64) {
        let mut inner = crate::lock(&self.inner);
        inner.wakers.retain(|(id, _)| *id != stream);
        inner.wake_one();
    }

    /// Handles the loss of a stream, perhaps with acknowledgements that it had taken: all acknowledgements are sent
    /// again.
    pub(crate) fn detach(&self, stream: u64) {
        let mut inner = crate::lock(&self.inner);
        inner.wakers.retain(|(id, _)| *id != stream);
        // The items that were on this stream are sent again, and may fail this time.
        inner.ending = None;
        // The manifests of the lost stream arrive again on another stream.
        inner.answers.remove(stream, |_| {});
        inner.queue.clear();
        inner.say_all(|inner| &inner.durable, AckStatus::DURABLE);
        inner.say_all(|inner| &inner.written, AckStatus::WRITTEN);
        inner.say_all(|inner| &inner.lost, AckStatus::RESEND);
        let said: Vec<_> = inner.faults_said.drain(..).collect();
        let bytes = std::mem::take(&mut inner.faults_bytes);
        inner.faults_waiting_bytes += bytes;
        inner.faults.extend(said);
        inner.wake_one();
    }
}

/// See [`Acks::work`].
pub(crate) struct Working<'a>(&'a Acks);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        crate::lock(&self.0.inner).working -= 1;
    }
}

impl Inner {
    fn say_all(&mut self, of: impl Fn(&Self) -> &SeqSet, status: AckStatus) {
        let ranges: Vec<AckRange> = of(self)
            .ranges()
            .map(|(first, last)| AckRange {
                first: Seq(first),
                last: Seq(last),
                status,
            })
            .collect();
        self.queue.extend(ranges);
    }

    fn push(&mut self, seq: Seq, status: AckStatus) {
        if let Some(back) = self.queue.back_mut()
            && back.status == status
            && back.last.0.checked_add(1) == Some(seq.0)
        {
            back.last = seq;
            return;
        }
        self.queue.push_back(AckRange {
            first: seq,
            last: seq,
            status,
        });
    }

    /// Wakes an idle stream to send the queue; a busy stream sends it anyway.
    fn wake_one(&self) {
        if self.working == 0
            && let Some((_, waker)) = self.wakers.first()
        {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use godwit_proto::Side;

    use super::*;

    struct Deaf;

    impl Observer for Deaf {
        fn entry_failed(&self, _failed: &crate::FailedEntry<'_>) {}
    }

    #[test]
    fn numbers_with_a_gap_after_each_are_refused_before_they_take_all_memory() {
        let acks = acks();
        let most = limits::ITEM_RANGES_MAX as u64;
        for index in 0..most {
            assert_eq!(acks.arrive(Seq(1 + 2 * index)), Arrival::Process);
            acks.durable(&[Seq(1 + 2 * index)]);
        }
        assert_eq!(acks.arrive(Seq(1 + 2 * most)), Arrival::Scattered);
        assert_eq!(acks.arrive(Seq(1)), Arrival::Known);
    }

    /// A sender may leave all that it is asked for again.
    #[test]
    fn items_requested_again_are_bounded_and_may_come() {
        let acks = acks();
        let most = limits::ITEM_RANGES_MAX as u64;
        for index in 0..most {
            assert_eq!(acks.arrive(Seq(1 + 2 * index)), Arrival::Process);
            acks.rejected(Seq(1 + 2 * index));
        }
        assert_eq!(acks.arrive(Seq(1 + 2 * most)), Arrival::Scattered);
        assert_eq!(acks.arrive(Seq(1)), Arrival::Process);
    }

    pub(super) fn acks() -> Acks {
        Acks::new(TransferId([0; 16]), Arc::new(Deaf), Arc::default())
    }

    fn said(acks: &Acks) -> Vec<(u64, AckStatus)> {
        let (mut ranges, mut faults) = (Vec::new(), Vec::new());
        acks.take(&mut ranges, &mut faults);
        ranges
            .iter()
            .map(|range| (range.first.0, range.status))
            .collect()
    }

    #[test]
    fn a_sender_that_takes_nothing_gets_bounded_words() {
        let acks = acks();
        assert_eq!(acks.arrive(Seq(5)), Arrival::Process);
        acks.rejected(Seq(5));
        let fault = Fault {
            entry: EntryId(1),
            side: Side::DESTINATION,
            code: FaultCode::IO,
            errno: None,
            message: String::new(),
        };
        let path = vec![b'x'; limits::FAULTS_KEPT_BYTES_MAX / 4];
        for _ in 0..100 {
            acks.ask_again();
            acks.fault(Seq(0), fault.clone(), 0, &path, &path);
        }
        let (mut ranges, mut faults) = (Vec::new(), Vec::new());
        acks.take(&mut ranges, &mut faults);
        assert_eq!((ranges.len(), faults.len()), (2, 4));
        acks.ask_again();
        acks.fault(Seq(0), fault, 0, &path, &path);
        acks.take(&mut ranges, &mut faults);
        assert_eq!((ranges.len(), faults.len()), (3, 5));
    }

    #[test]
    fn a_block_requested_again_is_not_acknowledged_as_written() {
        let acks = acks();
        assert_eq!(acks.arrive(Seq(5)), Arrival::Process);
        acks.resend(&[Seq(5)]);
        acks.written(Seq(5));
        assert_eq!(said(&acks), [(5, AckStatus::RESEND)]);
        assert_eq!(acks.arrive(Seq(5)), Arrival::Process);
    }

    #[test]
    fn a_copy_dropped_while_the_first_was_lost_is_asked_for_again() {
        let acks = acks();
        assert_eq!(acks.arrive(Seq(5)), Arrival::Process);
        acks.resend(&[Seq(5)]);
        assert_eq!(said(&acks), [(5, AckStatus::RESEND)]);
        assert_eq!(acks.arrive(Seq(5)), Arrival::Known);
        acks.written(Seq(5));
        assert_eq!(said(&acks), [(5, AckStatus::RESEND)]);
        assert_eq!(acks.arrive(Seq(5)), Arrival::Process);
    }

    #[test]
    fn a_damaged_item_is_asked_for_until_it_comes() {
        let acks = acks();
        assert_eq!(acks.arrive(Seq(u64::MAX)), Arrival::Process);
        acks.rejected(Seq(u64::MAX));
        said(&acks);
        acks.detach(1);
        assert_eq!(said(&acks), [(u64::MAX, AckStatus::RESEND)]);
        assert_eq!(acks.arrive(Seq(u64::MAX)), Arrival::Process);
        acks.ask_again();
        assert_eq!(said(&acks), []);
    }
}
