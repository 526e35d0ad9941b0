//! State that all parts of a sender share: its configuration, its state under one lock, its end, and the reporting of failures.
//! Does none of the work; `scan`, `readers` and `streams` do it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use godwit_proto::{ErrorCode, Fault, Finish, Record, Side, Status};
use godwit_store::digest;

use super::SenderConfig;
use super::shuffle::Shuffle;
use super::state::{Desc, Head, Image, State};
use crate::counters::Snapshot;
use crate::decided::Decided;
use crate::source::Payload;
use crate::{Counters, End, FailedEntry, IfPanicking, Live, PANICKED, Source, entry, lock};

pub(super) struct Shared {
    pub(super) config: SenderConfig,
    pub(super) digest: digest::DigestKind,
    pub(super) source: Arc<dyn Source>,
    pub(super) live: Arc<Live>,
    pub(super) counters: Arc<Counters>,
    pub(super) decided: Decided,
    state: Mutex<State>,
    /// Signals changed work or windows to threads that scan or read ahead.
    changed: Condvar,
    /// Number of threads waiting for `changed`: with none, notifying needs no system call.
    waiting: AtomicUsize,
    /// Signals the end.
    ended: Condvar,
    /// Whether the transfer has ended, for threads that must not wait for the state's lock.
    over: AtomicBool,
}

impl Shared {
    pub(super) fn new(
        config: SenderConfig,
        digest: digest::DigestKind,
        source: Arc<dyn Source>,
        live: Arc<Live>,
        counters: Arc<Counters>,
        shuffle: Shuffle,
    ) -> Self {
        Self {
            config,
            digest,
            live,
            counters,
            decided: Decided::default(),
            state: Mutex::new(State::new(source.reads_apart(), shuffle)),
            source,
            changed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            ended: Condvar::new(),
            over: AtomicBool::new(false),
        }
    }

    pub(super) fn lock_state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Notifies threads that scan or read ahead about a change. They count themselves under the state's lock. Therefore a
    /// caller that changed the state under the lock before this call misses none of them.
    pub(super) fn notify(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits for a change of the state, no longer than `at_most`.
    pub(super) fn wait_for_change<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        at_most: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let state = match at_most {
            None => self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner),
            Some(most) => {
                let waited = self.changed.wait_timeout(state, most);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        state
    }

    /// Waits for the end, at most `timeout`.
    pub(super) fn wait(&self, timeout: Duration) -> Option<End> {
        crate::wait_for_end(&self.state, &self.ended, timeout, |state| {
            state.end.as_ref()
        })
    }

    pub(super) fn end(&self) -> Option<End> {
        self.lock_state().end.clone()
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn finish(&self, end: End) {
        self.source.close();
        if let End::Finished(finished) = &end {
            // The receiver knows which bytes belong to failed entries.
            let durable = &self.counters.bytes_durable;
            durable.take_back(durable.get().saturating_sub(finished.bytes));
            self.counters.files_done.set(finished.files);
        }
        self.over.store(true, Ordering::Relaxed);
        self.lock_state().finish(end);
        self.notify();
        self.ended.notify_all();
    }

    /// Makes all threads stop. The recorded end stays unchanged.
    pub(super) fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.notify();
    }

    /// Whether the transfer may still send. If not, the transfer is ended.
    pub(super) fn may_send(&self) -> bool {
        let fence = self.config.fence.as_ref();
        let holds = fence.is_none_or(|fence| fence.holds());
        if !holds {
            self.finish(End::Cancelled("another node has the job".to_owned()));
        }
        holds
    }

    /// Ends with a failure.
    pub(super) fn fail(&self, code: ErrorCode, message: &str) {
        self.finish(End::Failed {
            code,
            message: message.to_owned(),
            retryable: false,
        });
    }

    /// Ends the transfer if a thread of this end panics, because others would wait for the thread.
    pub(super) fn if_panicking(&self) -> IfPanicking<impl Fn() + '_> {
        IfPanicking(|| self.fail(ErrorCode::INTERNAL, PANICKED))
    }

    /// Queues an item whose number is reserved; `again` if the receiver requested a resend.
    pub(super) fn queue(&self, seq: u64, desc: Desc, content: u64, image: Image, again: bool) {
        self.lock_state()
            .insert(seq, desc, content, Arc::new(image), again);
    }

    /// Queues a manifest of the records.
    pub(super) fn queue_manifest(&self, records: Vec<Record>) {
        let mut state = self.lock_state();
        if state.end.is_some() {
            return;
        }
        state.unanswered += records.len();
        let seq = state.items.reserve_seq();
        drop(state);
        let records = Arc::new(records);
        let image = Image {
            head: Head::Manifest(Arc::clone(&records)),
            payload: Payload::Empty,
        };
        self.queue(seq, Desc::Manifest(records), 0, image, false);
        self.notify();
    }

    /// Announces the finish to the receiver once no work is left.
    pub(super) fn finish_if_done(&self, state: &mut State) {
        if !state.should_finish() {
            return;
        }
        let own: Snapshot = self.counters.snapshot();
        let transfer = self.config.transfer;
        state.add(Desc::Finish, 0, |seq| {
            let mut head = Vec::new();
            let finish = Finish {
                transfer: transfer.0.to_vec(),
                seq,
                entries: own.entries_scanned,
                bytes: own.bytes_scanned,
                failed: own.entries_failed,
                counters: Some(Status {
                    max_rss_bytes: (self.config.resources)(),
                    tuned: self.decided.latest(),
                    ..entry::status_from_snapshot(&own)
                }),
                scan_faults: own.scan_faults,
            };
            finish.encode(&mut head);
            Image {
                head: Head::Image(head),
                payload: Payload::Empty,
            }
        });
    }

    /// Counts announced bytes that will not be sent.
    pub(super) fn give_up(&self, bytes: u64) {
        self.counters.bytes_unmoved.add(bytes);
    }

    /// Reports an entry that failed at this end to the user, and to the receiver, which may hold a part of it.
    pub(super) fn fail_entry(&self, record: &Record, fault: Fault) {
        self.report(record.root, &record.path, &fault);
        self.say_failed(entry::failed_record(record, &fault));
    }

    /// Queues a record that reports a failed entry to the receiver.
    pub(super) fn say_failed(&self, notice: Record) {
        let mut state = self.lock_state();
        state.notices.push(notice);
        state.streams.wake_one();
        drop(state);
        self.notify();
    }

    /// Counts and reports a failed entry, the first time that its failure is known.
    pub(super) fn report(&self, root: u16, path: &[u8], fault: &Fault) {
        self.let_go();
        let mut state = self.lock_state();
        let is_first = state.failed.is_first(fault.entry);
        if is_first {
            // Changed under the state's lock, like the comparison with the receiver's number.
            match &mut state.unnamed {
                0 => self.counters.entries_failed.add(1),
                counted => *counted -= 1,
            }
        }
        drop(state);
        if is_first {
            if path.is_empty() && fault.side == Side::SOURCE {
                self.counters.sources_failed.add(1);
            }
            self.config.observer.entry_failed(&FailedEntry {
                root: Some(root),
                path,
                shown: &self.display(root, path),
                fault,
            });
        }
    }

    /// Reports completed entries. Do not call this under the state's lock: the observer may be slow.
    pub(super) fn report_done(&self, records: &[Record]) {
        for record in records {
            self.config.observer.entry_done(record);
        }
    }

    /// Records that an entry is no longer wanted. A source that can be read only once has no other entry, so the source is
    /// closed: its remaining data is not read, and its writer sees a closed pipe.
    pub(super) fn let_go(&self) {
        if !self.source.reads_again() {
            self.source.close();
        }
    }

    fn display(&self, root: u16, path: &[u8]) -> Vec<u8> {
        let mut name = self
            .config
            .root_names
            .get(usize::from(root))
            .cloned()
            .unwrap_or_default();
        if !path.is_empty() {
            if !name.is_empty() && !name.ends_with(b"/") {
                name.push(b'/');
            }
            name.extend_from_slice(path);
        }
        name
    }
}
