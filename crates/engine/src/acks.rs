//! The receiving end's outbox: acknowledgements and faults on their way back, and what must be said again when a stream dies.
//! Sends nothing itself; streams take from it.
//!
//! After the loss of a stream, everything that may have been lost with it is said again, in ranges. A stream at work says its own
//! acknowledgements, after at most `limits::ACK_DELAY`; only other threads wake a stream for an acknowledgement.

mod ending;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use godwit_net::Waker;
use godwit_proto::{
    AckRange, AckStatus, EntryFailed, EntryId, Fault, FaultCode, Record, Seq, TransferId,
};

pub(crate) use self::ending::{Ending, Nearness};
use crate::failed::Failed;
use crate::seqs::SeqSet;
use crate::{Counters, Observer, limits};

/// Outbox of one receiving transfer, shared by its sink and its streams.
pub struct Acks {
    transfer: TransferId,
    observer: Arc<dyn Observer>,
    counters: Arc<Counters>,
    inner: Mutex<Inner>,
    /// Nothing that is still being compared is of interest.
    over: AtomicBool,
    /// Whether something failed for want of room at this end.
    pub no_space: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<AckRange>,
    faults: VecDeque<EntryFailed>,
    /// Said before, and said again after the loss of a stream.
    durable: SeqSet,
    written: SeqSet,
    in_process: SeqSet,
    /// Asked for again and not yet come.
    lost: SeqSet,
    /// Copies of these were dropped while the first one was in process.
    dropped: SeqSet,
    faults_said: Vec<EntryFailed>,
    faults_bytes: usize,
    failed: Failed,
    wakers: Vec<(u64, Waker)>,
    /// Streams that will take from here when they have done what they are at.
    working: usize,
    /// Answers that were not ready when their manifest came, each for the stream that it came on.
    answers: Vec<(u64, Vec<u8>)>,
    ending: Option<Ending>,
}

/// What to do with an item that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// New: process it.
    Process,
    /// Being processed on another stream, or processed: it has been or will be acknowledged.
    Known,
    /// New, and the numbers that have come are scattered over more ranges than a sender can leave: it breaks the rules.
    Scattered,
}

impl Acks {
    /// Acknowledgements of a transfer of which nothing has arrived.
    pub fn new(transfer: TransferId, observer: Arc<dyn Observer>, counters: Arc<Counters>) -> Self {
        Self {
            transfer,
            observer,
            counters,
            inner: Mutex::default(),
            over: AtomicBool::new(false),
            no_space: AtomicBool::new(false),
        }
    }

    /// The item's contents are durable.
    pub fn durable(&self, seqs: &[Seq]) {
        let mut inner = crate::lock(&self.inner);
        for seq in seqs {
            inner.written.remove(seq.0);
            inner.durable.insert(seq.0);
            inner.push(*seq, AckStatus::DURABLE);
        }
        inner.wake_one();
    }

    /// The item's contents were lost before they were durable: they must be sent again.
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

    /// An entry failed while the item `seq` (0 for none) was processed or made durable. The sender knows it as `path`
    /// below its source number `root`; `shown` names it at this end.
    pub fn fault(&self, seq: Seq, fault: Fault, root: u16, path: &[u8], shown: &[u8]) {
        if fault.code == FaultCode::NO_SPACE {
            self.no_space.store(true, Ordering::Relaxed);
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
        // The rest is counted, and its number told at the end.
        if inner.faults.len() < limits::FAULTS_KEPT_MAX {
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

    /// Counts an entry as failed; false if that was done before.
    pub(crate) fn count_failure(&self, entry: EntryId) -> bool {
        let first = crate::lock(&self.inner).failed.is_first(entry);
        if first {
            self.counters.entries_failed.add(1);
        }
        first
    }

    /// Something that people should know and that needs no action of theirs.
    pub fn note(&self, message: &str) {
        self.observer.note(message);
    }

    /// Whether [`done`](Self::done) is of use.
    pub fn wants_entries(&self) -> bool {
        self.observer.wants_entries()
    }

    /// An entry is complete at this end.
    pub fn done(&self, record: &Record) {
        self.observer.entry_done(record);
    }

    /// There is room for more at this end, or another reason for every stream to look.
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
        } else if inner.durable.range_count() >= limits::ITEM_RANGES_MAX {
            Arrival::Scattered
        } else {
            inner.in_process.insert(seq.0);
            inner.lost.remove(seq.0);
            Arrival::Process
        }
    }

    /// A manifest came. It needs no acknowledgement, but its number closes the gap that it would leave.
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
            // It was asked for again before the thread that wrote it came here: to say "written" now would make the
            // sender let go of it. A copy that came too early is gone.
            if dropped {
                inner.push(seq, AckStatus::RESEND);
                inner.wake_one();
            }
            return;
        }
        // A small batch can be durable before the thread that wrote it comes here.
        if !inner.durable.contains(seq.0) {
            inner.written.insert(seq.0);
        }
        inner.push(seq, AckStatus::WRITTEN);
        inner.wake_one();
    }

    /// The item was not taken: it is to be sent again.
    pub(crate) fn rejected(&self, seq: Seq) {
        let mut inner = crate::lock(&self.inner);
        inner.ending = None;
        inner.in_process.remove(seq.0);
        inner.dropped.remove(seq.0);
        inner.lost.insert(seq.0);
        inner.push(seq, AckStatus::RESEND);
        inner.wake_one();
    }

    /// The sender waits for nothing but durability: what was asked for again and is not on its way is asked for once more,
    /// for an older word on another stream may have overtaken the request.
    pub(crate) fn ask_again(&self) {
        crate::lock(&self.inner).say_all(|inner| &inner.lost, AckStatus::RESEND);
    }

    /// What was said to have failed, on whatever stream.
    pub(crate) fn faults_said(&self) -> Vec<EntryFailed> {
        crate::lock(&self.inner).faults_said.clone()
    }

    /// Takes what is to be said, for the calling stream to say.
    pub(crate) fn take(&self, ranges: &mut Vec<AckRange>, faults: &mut Vec<EntryFailed>) {
        let mut inner = crate::lock(&self.inner);
        ranges.extend(inner.queue.drain(..));
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

    /// The calling stream is at work until the result is dropped, and takes from here soon after.
    pub(crate) fn work(&self) -> Working<'_> {
        crate::lock(&self.inner).working += 1;
        Working(self)
    }

    /// The answer to a manifest that came on `stream`: it goes the same way, for if that dies the manifest comes again.
    pub(crate) fn answer(&self, stream: u64, answer: Vec<u8>) {
        let mut inner = crate::lock(&self.inner);
        if let Some((_, waker)) = inner.wakers.iter().find(|(id, _)| *id == stream) {
            waker.wake();
            inner.answers.push((stream, answer));
        }
    }

    /// Appends the answers that `stream` has to give.
    pub(crate) fn take_answers(&self, stream: u64, out: &mut Vec<u8>) {
        let mut inner = crate::lock(&self.inner);
        inner.answers.retain(|(id, answer)| {
            if *id == stream {
                out.extend_from_slice(answer);
            }
            *id != stream
        });
    }

    /// The transfer has ended.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether the transfer has ended, so that what takes long should be given up.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn attach(&self, stream: u64, waker: Waker) {
        crate::lock(&self.inner).wakers.push((stream, waker));
    }

    /// A stream is about to leave in order: what was given to it to say arrives.
    pub(crate) fn leave(&self, stream: u64) {
        let mut inner = crate::lock(&self.inner);
        inner.wakers.retain(|(id, _)| *id != stream);
        inner.wake_one();
    }

    /// A stream is gone, and with it perhaps what it had been told to say: all of that is said again.
    pub(crate) fn detach(&self, stream: u64) {
        let mut inner = crate::lock(&self.inner);
        inner.wakers.retain(|(id, _)| *id != stream);
        // What it took with it is sent again, and may fail this time.
        inner.ending = None;
        // Its manifests come again on another stream.
        inner.answers.retain(|(id, _)| *id != stream);
        inner.queue.clear();
        inner.say_all(|inner| &inner.durable, AckStatus::DURABLE);
        inner.say_all(|inner| &inner.written, AckStatus::WRITTEN);
        inner.say_all(|inner| &inner.lost, AckStatus::RESEND);
        let said: Vec<_> = inner.faults_said.drain(..).collect();
        inner.faults_bytes = 0;
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

    /// Has a stream say what is in the queue; one that is at work does so anyway.
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
    fn what_is_asked_for_again_is_not_called_written_afterwards() {
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
