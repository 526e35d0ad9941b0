//! The scan stage: takes offers from the work, numbers them, and announces them in manifests within the window.
//! Does not decide what is sent; the receiver's answers do.

use std::sync::atomic::Ordering;
use std::time::Duration;

use godwit_proto::{EntryId, EntryKind, Fault, FaultCode, Record, RecordFlags, Side, WireError};

use super::Sender;
use crate::counters::CpuMeter;
use crate::work::{Offers, Unoffered, Work};
use crate::{entry, limits, lock};

impl Sender {
    pub(super) fn scan(&self, mut work: Box<dyn Work>) {
        let _panic = self.shared.if_panicking();
        self.shared.begin_sharing();
        let mut meter = CpuMeter::default();
        let mut helpers_cpu = Duration::ZERO;
        let mut offers = Offers::default();
        loop {
            if !self.wait_for_scan_window() {
                return;
            }
            offers.used_paths.append(&mut lock(&self.used_paths));
            let more = work.next_batch(&mut offers);
            offers.used_paths.clear();
            self.announce(&mut offers);
            if self.names.get().is_some() {
                // The other end may be waiting to hear that a part was taken.
                self.shared.lock_state().wake_stream();
            }
            meter.settle(&self.shared.counters);
            let total = work.helpers_cpu();
            let more_cpu = total.saturating_sub(std::mem::replace(&mut helpers_cpu, total));
            self.shared.counters.cpu_ns.add_time(more_cpu);
            if !more {
                break;
            }
        }
        let mut state = self.shared.lock_state();
        state.scan_done = true;
        self.shared.finish_if_done(&mut state);
        state.wake_streams();
        drop(state);
        self.shared.notify();
    }

    /// False when the transfer has ended.
    fn wait_for_scan_window(&self) -> bool {
        let mut state = self.shared.lock_state();
        while state.end.is_none() && !Self::scan_may_go_on(&state) {
            state = self.shared.wait_for_change(state, None);
        }
        state.end.is_none()
    }

    fn announce(&self, offers: &mut Offers) {
        for Unoffered {
            root,
            path,
            mut fault,
        } in offers.faults.drain(..)
        {
            self.shared.counters.scan_faults.add(1);
            fault.entry = EntryId(self.numbers(1));
            self.fail_named(root, path, fault);
        }
        // Whoever reads the manifest keeps them: none is moved from here on.
        let mut records = std::mem::take(&mut offers.entries);
        let first = self.numbers(records.len());
        for (record, id) in records.iter_mut().zip(first..) {
            record.id = EntryId(id);
        }
        let (mut entries, mut content_bytes) = (0, 0);
        records.retain_mut(|record| {
            entries += 1;
            if let Err(error) = record.validate() {
                self.fail_indescribable(record, &error);
                return false;
            }
            let passed = record.flags & RecordFlags::PASSED_OVER != 0;
            if record.kind == EntryKind::FILE && !passed {
                content_bytes += entry::known_bytes(record);
            }
            true
        });
        self.shared.counters.entries_scanned.add(entries);
        self.shared.counters.bytes_scanned.add(content_bytes);
        while !records.is_empty() {
            let rest = records.split_off(fitting(&records));
            self.shared
                .queue_manifest(std::mem::replace(&mut records, rest));
        }
    }

    fn fail_indescribable(&self, record: &mut Record, error: &WireError) {
        let name = String::from_utf8_lossy(&record.path);
        let fault = Fault {
            entry: record.id,
            side: Side::SOURCE,
            code: FaultCode::NAME,
            errno: None,
            message: format!("{name}: it cannot be described on the wire: {error}"),
        };
        record.path.clear();
        self.shared.fail_entry(record, fault);
    }

    /// Numbers for this many entries; the first of them.
    fn numbers(&self, count: usize) -> u64 {
        self.last_entry.fetch_add(count as u64, Ordering::Relaxed) + 1
    }
}

/// How many of the records, which are not none, one manifest has room for.
fn fitting(records: &[Record]) -> usize {
    let mut section = 0;
    let within = records.iter().take(limits::MANIFEST_RECORDS);
    within
        .take_while(|record| {
            section += 128 + record.path.len() + record.target.len() + record.extensions.len();
            section <= limits::RECORD_SECTION_BYTES
        })
        .count()
        .max(1)
}
