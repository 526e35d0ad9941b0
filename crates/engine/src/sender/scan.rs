//! The scan stage: reads offers from the work, numbers them, and announces them in manifests within the window.
//! Does not decide what is sent; the receiver's answers do.

mod answer;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use godwit_proto::{
    EntryId, EntryKind, Fault, FaultCode, NameList, Record, RecordFlags, Side, WireError,
};

use super::shared::Shared;
use super::state::State;
use crate::counters::CpuMeter;
use crate::courtesy::Courtesy;
use crate::names::NameQueue;
use crate::work::{Offers, Unoffered, Work};
use crate::{entry, limits, lock};

/// Finds entries, announces them, and processes the answers.
pub(super) struct Scan {
    shared: Arc<Shared>,
    /// The queue for the parts of a list that the other end streams.
    names: OnceLock<Arc<NameQueue>>,
    /// Paths of settled entries, whose memory new paths reuse.
    used_paths: Mutex<Vec<Vec<u8>>>,
    /// The last assigned entry number.
    last_entry: AtomicU64,
}

impl Scan {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            names: OnceLock::new(),
            used_paths: Mutex::default(),
            last_entry: AtomicU64::new(0),
        }
    }

    /// The list that the other end streams, if any.
    pub(super) fn names(&self) -> Option<&Arc<NameQueue>> {
        self.names.get()
    }

    /// Puts the parts of a list that the other end streams into `queue`.
    pub(super) fn take_names(&self, queue: Arc<NameQueue>) {
        // A second queue would never be filled.
        let _ = self.names.set(queue);
    }

    /// Takes a part of the list that the other end streams.
    ///
    /// # Errors
    /// The protocol rule that the part breaks.
    pub(super) fn take_part(&self, list: NameList) -> Result<(), &'static str> {
        match self.names.get() {
            Some(names) => names.put(list),
            None => Err("a part of a list that was not requested"),
        }
    }

    /// Main function of the scanning thread.
    pub(super) fn run(&self, mut work: Box<dyn Work>) {
        let _panic = self.shared.if_panicking();
        let mut courtesy = Courtesy::default();
        courtesy.follow(&self.shared.live);
        let mut meter = CpuMeter::default();
        let mut helpers_cpu = Duration::ZERO;
        let mut offers = Offers::default();
        loop {
            if !self.wait_for_scan_window() {
                return;
            }
            courtesy.follow(&self.shared.live);
            offers.used_paths.append(&mut lock(&self.used_paths));
            let more = work.next_batch(&mut offers);
            offers.used_paths.clear();
            self.announce(&mut offers);
            if self.names.get().is_some() {
                // The other end may be waiting for the report about the taken part.
                self.shared.lock_state().streams.wake_one();
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
        state.streams.wake_all();
        drop(state);
        self.shared.notify();
    }

    /// Waits until the windows have room. Returns false if the transfer has ended.
    fn wait_for_scan_window(&self) -> bool {
        let mut state = self.shared.lock_state();
        while state.end.is_none() && !has_room(&state) {
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
        // The streams that send the manifest share these records, so none may move from here on.
        let mut records = std::mem::take(&mut offers.entries);
        let first = self.numbers(records.len());
        for (record, id) in records.iter_mut().zip(first..) {
            record.id = EntryId(id);
        }
        let (mut entries, mut files, mut content_bytes) = (0, 0, 0);
        records.retain_mut(|record| {
            entries += 1;
            if entry::is_portion(record) {
                self.shared.config.observer.portion_announced(record);
            }
            if let Err(error) = record.validate() {
                self.fail_indescribable(record, &error);
                return false;
            }
            let passed = record.flags & RecordFlags::PASSED_OVER != 0;
            files += u64::from(record.kind != EntryKind::DIRECTORY && !passed);
            if record.kind == EntryKind::FILE && !passed {
                content_bytes += entry::known_bytes(record);
            }
            true
        });
        self.shared.counters.entries_scanned.add(entries);
        self.shared.counters.files_scanned.add(files);
        self.shared.counters.bytes_scanned.add(content_bytes);
        while !records.is_empty() {
            let rest = records.split_off(fitting(&records));
            self.shared
                .queue_manifest(std::mem::replace(&mut records, rest));
        }
    }

    /// Reports a failure of a name that is not an entry: `path` may be a line of a user's list.
    fn fail_named(&self, root: u16, path: Vec<u8>, fault: Fault) {
        if godwit_proto::path::validate(&path).is_ok() {
            let record = entry::unknown_record(fault.entry, root, path);
            return self.shared.fail_entry(&record, fault);
        }
        // The message contains the beginning of longer names.
        let name = match path.len() {
            ..=entry::ODD_NAME_BYTES_MAX => &path[..],
            _ => &[],
        };
        self.shared.report(root, name, &fault);
        let nameless = entry::unknown_record(fault.entry, root, Vec::new());
        let mut notice = entry::failed_record(&nameless, &fault);
        if !name.is_empty() {
            entry::add_odd_name(&mut notice, name);
        }
        self.shared.say_failed(notice);
    }

    /// Reuses the memory of settled entries' paths for new ones, because there may be millions of entries.
    pub(super) fn reuse_paths(&self, paths: impl IntoIterator<Item = Vec<u8>>) {
        let mut used = lock(&self.used_paths);
        let room = limits::USED_PATHS_MAX.saturating_sub(used.len());
        let small = |path: &Vec<u8>| path.capacity() <= limits::USED_PATH_BYTES_MAX;
        used.extend(paths.into_iter().filter(small).take(room));
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

    /// Reserves numbers for this many entries; returns the first.
    fn numbers(&self, count: usize) -> u64 {
        self.last_entry.fetch_add(count as u64, Ordering::Relaxed) + 1
    }
}

/// Whether the windows have room for another batch of the scan.
fn has_room(state: &State) -> bool {
    state.unanswered < limits::UNANSWERED_RECORDS_MAX
        && state.wanted.count() < limits::WANTED_RECORDS_MAX
        && state.extensions_held() < limits::EXTENSIONS_HELD_BYTES_MAX
        && state.notices.len() < limits::NOTICES_MAX
}

/// Number of records (at least one) that fit into one manifest.
fn fitting(records: &[Record]) -> usize {
    let mut section = 0;
    let within = records.iter().take(limits::MANIFEST_RECORDS);
    within
        .take_while(|record| {
            section += entry::encoded_bytes(record);
            section <= limits::RECORD_SECTION_BYTES
        })
        .count()
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::state::{Desc, Head, Image};
    use crate::source::Payload;

    /// A peer may have made a tree with very long paths, and not answer.
    #[test]
    fn long_names_fill_the_windows() {
        let record = Record {
            path: vec![b'x'; 64 << 10],
            ..Record::default()
        };
        let most = limits::EXTENSIONS_HELD_BYTES_MAX / record.path.len() + 1;
        let ways: [fn(&mut State, Record); 4] = [
            |state, record| {
                let desc = Desc::Manifest(Arc::new(vec![record]));
                state.add(desc, 0, |_| Image {
                    head: Head::Image(Vec::new()),
                    payload: Payload::Empty,
                });
            },
            |state, record| state.wanted.want(record, Vec::new(), limits::BLOCK_BYTES),
            |state, record| state.wanted.want_digest(record),
            |state, record| state.notices.push(record),
        ];
        for way in ways {
            let (mut state, mut count) = (State::default(), 0);
            while has_room(&state) {
                way(&mut state, record.clone());
                count += 1;
            }
            assert!(count <= most, "{count}");
        }
    }
}
