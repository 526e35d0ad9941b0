//! Tests that the sink refuses senders that exceed the limits. The simulation covers honest
//! senders.

use godwit_engine::{Acks, Counters, Observer, Sink};
use godwit_proto::{BlockHeader, EntryKind, Generation, TransferId};
use godwit_testkit::MemoryStorage;

use super::*;
use crate::TreeSink;
use crate::files::write::ranges::RangeBudget;
use crate::{DestinationPlace, DestinationRequest};

struct Deaf;

impl Observer for Deaf {
    fn entry_failed(&self, _failed: &godwit_engine::FailedEntry<'_>) {}
}

fn sink(ranges_max: usize, journals: &std::path::Path) -> Arc<TreeSink> {
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
    let acks = Arc::new(Acks::new(
        TransferId([0; 16]),
        Arc::new(Deaf),
        Arc::clone(&counters),
    ));
    TreeSink::start_within(
        RangeBudget::new(ranges_max),
        prepared.config,
        prepared.journal,
        prepared.recovered,
        acks,
        counters,
    )
    .unwrap()
}

fn record(entry: u64) -> Record {
    Record {
        id: EntryId(entry),
        generation: Generation(1),
        kind: EntryKind::FILE,
        bytes: 1 << 30,
        path: format!("f{entry}").into_bytes(),
        ..Record::default()
    }
}

fn write_byte(sink: &TreeSink, entry: u64, offset: u64) -> Result<(), Fault> {
    let record = record(entry);
    let header = BlockHeader {
        seq: Seq(1 + offset + (entry << 32)),
        entry: record.id,
        generation: record.generation,
        offset,
        length: 1,
        entry_bytes: record.bytes,
        ..BlockHeader::default()
    };
    sink.write_slice(&Slice {
        header: &header,
        record: &record,
        ranges: &[],
        payload: b"x",
    })
}

#[test]
fn scattered_slices_fail_their_file_before_their_digests_take_all_memory() {
    let journals = tempfile::tempdir().unwrap();
    let sink = sink(100, journals.path());
    // Any number of slices in order forms one range.
    for offset in 0..1000 {
        write_byte(&sink, 1, offset).unwrap();
    }
    for index in 0..99 {
        write_byte(&sink, 2, index * 2).unwrap();
    }
    let fault = write_byte(&sink, 2, 500).unwrap_err();
    assert_eq!((fault.code, fault.entry), (FaultCode::LIMIT, EntryId(2)));
    assert!(fault.message.contains("the sender"), "{}", fault.message);
    // The ranges become free for others, and the sender that obeyed the rules continues.
    for index in 0..99 {
        write_byte(&sink, 3, index * 2).unwrap();
    }
    write_byte(&sink, 1, 1000).unwrap();
    sink.suspend();
}

#[test]
fn a_new_file_is_opened_while_the_journal_is_being_synced() {
    let journals = tempfile::tempdir().unwrap();
    let sink = sink(100, journals.path());
    let syncing = lock(&sink.committer.journal);
    assert!(syncing.is_some(), "there is a journal");
    let (done, opened) = std::sync::mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(|| done.send(write_byte(&sink, 1, 0)));
        let opened = opened.recv_timeout(std::time::Duration::from_secs(20));
        drop(syncing);
        opened.unwrap().unwrap();
    });
    sink.suspend();
}

/// Bytes in the files of a directory.
fn bytes_in(directory: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum()
}

#[test]
fn once_something_was_kept_of_a_failed_file_each_new_one_is_struck_out_in_the_journal() {
    let journals = tempfile::tempdir().unwrap();
    let sink = sink(100, journals.path());
    sink.writer.give_up_by(&record(1), FaultCode::NO_SPACE);
    let before = bytes_in(journals.path());
    write_byte(&sink, 2, 0).unwrap();
    assert!(bytes_in(journals.path()) > before, "{before} bytes");
    sink.suspend();
}

/// A call may hang in a mount until another attempt has finished the job elsewhere.
#[test]
fn what_is_made_in_a_call_that_outlasts_the_transfer_goes_again() {
    let journals = tempfile::tempdir().unwrap();
    let sink = sink(100, journals.path());
    let small = Record {
        bytes: 1,
        data_bytes: 1,
        ..record(3)
    };
    let names = || {
        let mut names = Vec::new();
        let storage = &sink.writer.target.config.storage;
        let listed = storage.names_in(&RelPath::parse(b"out").unwrap(), &mut |name| {
            names.push(name.to_vec());
        });
        listed.unwrap();
        names
    };
    write_byte(&sink, 1, 0).unwrap();
    let before = names();
    assert_eq!(before.len(), 1);
    sink.writer.target.acks.end();
    write_byte(&sink, 1, 1).unwrap();
    write_byte(&sink, 2, 0).unwrap();
    assert!(sink.write_bundle(Seq(7), &[small], &[b"x"]).is_empty());
    // An open file stays, so that a later run resumes it.
    assert_eq!(names(), before);
    sink.suspend();
}
