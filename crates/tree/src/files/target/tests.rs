//! Tests names that a hostile sender may send. Does not test names of honest senders.

use godwit_engine::{Observer, Sink, Slice};
use godwit_proto::{BlockHeader, Generation, RecordFlags, Seq, TransferId, Verdict};
use godwit_testkit::MemoryStorage;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::{DestinationPlace, DestinationRequest, TreeSink};

#[derive(Default)]
struct Failures(AtomicU64);

impl Observer for Failures {
    fn entry_failed(&self, _failed: &godwit_engine::FailedEntry<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn sink(journals: &std::path::Path) -> Arc<TreeSink> {
    let request = DestinationRequest::new(
        DestinationPlace {
            storage: Arc::new(MemoryStorage::new()),
            storage_path: b"/target".to_vec(),
            base: RelPath::parse(b"out").unwrap(),
            is_directory: true,
            display: Vec::new(),
        },
        b"me".to_vec(),
        vec![b"/src".to_vec()],
        vec![Vec::new()],
        journals.to_owned(),
    );
    let prepared = request.prepare().unwrap();
    let counters = Arc::new(Counters::default());
    let acks = Acks::new(
        TransferId([0; 16]),
        Arc::new(Failures::default()),
        Arc::clone(&counters),
    );
    TreeSink::start(
        prepared.config,
        prepared.journal,
        prepared.recovered,
        Arc::new(acks),
        counters,
    )
    .unwrap()
}

#[test]
fn no_sender_delivers_an_entry_with_a_temporary_name() {
    let journals = tempfile::tempdir().unwrap();
    let sink = sink(journals.path());
    let temp = TempName::new(7, &RelPath::root());
    let temp = String::from_utf8_lossy(temp.as_bytes()).into_owned();
    let mut id = 0;
    for path in [temp.clone(), format!("d/{temp}"), format!("{temp}/f")] {
        for kind in [
            EntryKind::FILE,
            EntryKind::DIRECTORY,
            EntryKind::SYMLINK,
            EntryKind::HARD_LINK,
        ] {
            id += 1;
            let record = Record {
                id: EntryId(id),
                kind,
                generation: Generation(1),
                path: path.clone().into_bytes(),
                bytes: u64::from(kind == EntryKind::FILE),
                target: b"f".to_vec(),
                ..Record::default()
            };
            let verdict = sink.plan(std::slice::from_ref(&record)).remove(0);
            let Verdict::Failed(fault) = verdict else {
                panic!("{path}: {verdict:?}");
            };
            assert_eq!(fault.code, FaultCode::NAME, "{path}");
            if kind != EntryKind::FILE {
                continue;
            }
            // A sender that writes without a request.
            let faults = sink.write_bundle(Seq(id), std::slice::from_ref(&record), &[b"x"]);
            assert_eq!(faults.len(), 1, "{path}");
            let whole = Record {
                flags: RecordFlags::END,
                ..record
            };
            let header = BlockHeader {
                seq: Seq(100 + id),
                entry: whole.id,
                generation: whole.generation,
                length: 1,
                entry_bytes: 1,
                ..BlockHeader::default()
            };
            let slice = Slice {
                header: &header,
                record: &whole,
                ranges: &[],
                payload: b"x",
            };
            assert!(sink.write_slice(&slice).is_err(), "{path}");
        }
    }
    sink.suspend();
}
