//! The scan stage: takes offers from the work, numbers them, and announces them in manifests within the window.
//! Does not decide what is sent; the receiver's answers do.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use godwit_proto::{EntryId, EntryKind, Fault, FaultCode, Record, RecordFlags, Side};

use super::Sender;
use super::state::{Desc, Head, Image};
use crate::counters::CpuMeter;
use crate::source::Payload;
use crate::work::{Offer, Work};
use crate::{entry, limits};

impl Sender {
    pub(super) fn scan(&self, mut work: Box<dyn Work>) {
        let _panic = self.if_panicking();
        self.begin_sharing();
        let mut meter = CpuMeter::default();
        let mut helpers_cpu = Duration::ZERO;
        let mut offers = Vec::with_capacity(limits::MANIFEST_RECORDS);
        loop {
            if !self.wait_for_scan_window() {
                return;
            }
            let more = work.next_batch(&mut offers);
            self.announce(&mut offers);
            if self.names.get().is_some() {
                // The other end may be waiting to hear that a part was taken.
                self.lock_state().wake_stream();
            }
            meter.settle(&self.counters);
            let total = work.helpers_cpu();
            let more_cpu = total.saturating_sub(std::mem::replace(&mut helpers_cpu, total));
            self.counters.cpu_ns.add_time(more_cpu);
            if !more {
                break;
            }
        }
        let mut state = self.lock_state();
        state.scan_done = true;
        self.finish_if_done(&mut state);
        state.wake_streams();
        drop(state);
        self.notify();
    }

    /// False when the transfer has ended.
    fn wait_for_scan_window(&self) -> bool {
        let mut state = self.lock_state();
        while state.end.is_none() && !Self::scan_may_go_on(&state) {
            state = self.wait_for_change(state);
        }
        state.end.is_none()
    }

    fn announce(&self, offers: &mut Vec<Offer>) {
        let mut records: Vec<Record> = Vec::with_capacity(offers.len());
        let mut section = 0;
        let (mut entries, mut content_bytes) = (0, 0);
        for offer in offers.drain(..) {
            match offer {
                Offer::Entry(mut record) => {
                    record.id = EntryId(self.number());
                    entries += 1;
                    if let Err(error) = record.validate() {
                        let name = String::from_utf8_lossy(&record.path);
                        let message =
                            format!("{name}: it cannot be described on the wire: {error}");
                        let fault = Fault {
                            entry: record.id,
                            side: Side::SOURCE,
                            code: FaultCode::NAME,
                            errno: None,
                            message,
                        };
                        record.path.clear();
                        self.fail_entry(&record, fault);
                        continue;
                    }
                    let passed = record.flags & RecordFlags::PASSED_OVER != 0;
                    if record.kind == EntryKind::FILE && !passed {
                        content_bytes += entry::known_bytes(&record);
                    }
                    let bytes =
                        128 + record.path.len() + record.target.len() + record.extensions.len();
                    if section + bytes > limits::RECORD_SECTION_BYTES
                        || records.len() >= limits::MANIFEST_RECORDS
                    {
                        self.send_manifest(std::mem::take(&mut records));
                        section = 0;
                    }
                    section += bytes;
                    records.push(record);
                }
                Offer::Fault {
                    root,
                    path,
                    mut fault,
                } => {
                    self.counters.scan_faults.add(1);
                    fault.entry = EntryId(self.number());
                    self.fail_named(root, path, fault);
                }
            }
        }
        self.counters.entries_scanned.add(entries);
        self.counters.bytes_scanned.add(content_bytes);
        if !records.is_empty() {
            self.send_manifest(records);
        }
    }

    fn number(&self) -> u64 {
        self.last_entry.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn send_manifest(&self, records: Vec<Record>) {
        let mut state = self.lock_state();
        if state.end.is_some() {
            return;
        }
        state.unanswered += records.len();
        let seq = state.reserve_seq();
        drop(state);
        let records = Arc::new(records);
        let image = Arc::new(Image {
            head: Head::Manifest(Arc::clone(&records)),
            payload: Payload::Empty,
        });
        let mut state = self.lock_state();
        state.insert(seq, Desc::Manifest(records), 0, image, false);
        drop(state);
        self.notify();
    }
}
