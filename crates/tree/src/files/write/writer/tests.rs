//! Tests that the sink refuses senders that exceed the limits. The simulation covers honest
//! senders.

use godwit_engine::{Acks, Counters, Observer, Sink};
use godwit_proto::{
    BlockHeader, Comparison, EntryKind, ErrorCode, Generation, TransferId, Verdict,
};
use godwit_store::spill::{Free, SpillRoom};
use godwit_store::{FinalMeta, Timestamp};
use godwit_testkit::MemoryStorage;

use super::*;
use crate::TreeSink;
use crate::files::sink::SinkBounds;
use crate::{DestinationPlace, DestinationRequest};

struct Deaf;

impl Observer for Deaf {
    fn entry_failed(&self, _failed: &godwit_engine::FailedEntry<'_>) {}
}

fn sink(ranges_max: usize, journals: &std::path::Path) -> Arc<TreeSink> {
    let bounds = SinkBounds {
        ranges_max,
        ..SinkBounds::default()
    };
    sink_in(MemoryStorage::new(), None, &bounds, journals)
}

/// A sink whose lists find this amount of free space.
fn sink_with_free(free: Free, journals: &std::path::Path) -> Arc<TreeSink> {
    let bounds = SinkBounds::default();
    let room = SpillRoom::with_free(journals, free);
    sink_of(MemoryStorage::new(), None, &bounds, &room)
}

fn sink_in(
    storage: MemoryStorage,
    comparison: Option<Comparison>,
    bounds: &SinkBounds,
    journals: &std::path::Path,
) -> Arc<TreeSink> {
    sink_of(storage, comparison, bounds, &SpillRoom::new(journals))
}

fn sink_of(
    storage: MemoryStorage,
    comparison: Option<Comparison>,
    bounds: &SinkBounds,
    room: &SpillRoom,
) -> Arc<TreeSink> {
    let mut request = DestinationRequest::new(
        DestinationPlace {
            storage: Arc::new(storage),
            storage_path: b"/target".to_vec(),
            base: RelPath::parse(b"out").unwrap(),
            is_directory: true,
            display: Vec::new(),
        },
        b"me".to_vec(),
        vec![b"/src".to_vec()],
        vec![Vec::new()],
        room.directory().to_owned(),
    );
    request.comparison = comparison;
    let mut prepared = request.prepare().unwrap();
    prepared.config.spill = room.clone();
    let counters = Arc::new(Counters::default());
    let acks = Arc::new(Acks::new(
        TransferId([0; 16]),
        Arc::new(Deaf),
        Arc::clone(&counters),
    ));
    TreeSink::start_within(
        bounds,
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
    write_byte_of(sink, &record(entry), offset)
}

fn write_byte_of(sink: &TreeSink, record: &Record, offset: u64) -> Result<(), Fault> {
    let header = BlockHeader {
        seq: Seq(1 + offset + (record.id.0 << 32)),
        entry: record.id,
        generation: record.generation,
        offset,
        length: 1,
        entry_bytes: record.bytes,
        ..BlockHeader::default()
    };
    sink.write_slice(&Slice {
        header: &header,
        record,
        ranges: &[],
        payload: b"x",
    })
}

/// A peer may have 1,024 large files in progress, with names of 64 KiB and attributes of 384 KiB each.
#[test]
fn names_of_open_files_count_like_their_ranges() {
    let journals = tempfile::tempdir().unwrap();
    let sink = sink(100, journals.path());
    let long = |entry: u64| Record {
        path: format!("{entry:0>250}").into_bytes(),
        ..record(entry)
    };
    let refused = (1..=100).find_map(|entry| write_byte_of(&sink, &long(entry), 0).err());
    assert_eq!(refused.expect("too many").code, FaultCode::LIMIT);
    sink.suspend();
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
fn a_call_that_outlasts_the_transfer_leaves_no_new_file() {
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
    sink.writer.target.acks.over.set();
    write_byte(&sink, 1, 1).unwrap();
    write_byte(&sink, 2, 0).unwrap();
    assert!(sink.write_bundle(Seq(7), &[small], &[b"x"]).is_empty());
    // An unfinished file stays, so that a later run resumes it.
    assert_eq!(names(), before);
    sink.suspend();
}

/// Requested entries that have arrived or failed count no more, so a sender that obeys its windows is never refused.
#[test]
fn entries_that_are_requested_and_never_sent_end_the_transfer() {
    let deletes = Comparison {
        delete: true,
        counterpart: true,
        ..Comparison::default()
    };
    // A file is replaced; a directory is removed at the end.
    for (inner, comparison) in [("", None), ("/inner", Some(deletes))] {
        let journals = tempfile::tempdir().unwrap();
        let storage = MemoryStorage::new();
        let meta = FinalMeta {
            mode: 0o644,
            mtime: Timestamp::default(),
            ..FinalMeta::default()
        };
        for id in 1..=20 {
            let path = format!("out/f{id}{inner}");
            let path = RelPath::parse(path.as_bytes()).unwrap();
            storage.put(&path, &meta, b"is there").unwrap();
        }
        let bounds = SinkBounds {
            awaited_max: 4,
            ..SinkBounds::default()
        };
        let sink = sink_in(storage, comparison, &bounds, journals.path());
        let small = |id: u64| Record {
            bytes: 3,
            data_bytes: 3,
            mtime_seconds: 1000,
            ..record(id)
        };
        for id in 1..=12 {
            let mut record = small(id);
            let verdicts = sink.plan(std::slice::from_ref(&record));
            assert_eq!(verdicts, [Verdict::Send], "{id}");
            let mut content = &b"new"[..];
            if id % 2 == 0 {
                record.flags |= RecordFlags::SOURCE_FAILED;
                content = b"";
            }
            let faults = sink.write_bundle(Seq(id), &[record], &[content]);
            assert!(faults.is_empty(), "{faults:?}");
            sink.committer.flush().unwrap();
        }
        for id in [13, 14, 15, 16, 13] {
            assert_eq!(sink.plan(&[small(id)]), [Verdict::Send], "{id}");
        }
        assert!(sink.failure().is_none());
        let verdicts = sink.plan(&[small(17)]);
        assert!(matches!(verdicts[..], [Verdict::Failed(_)]), "{verdicts:?}");
        let failure = sink.failure().expect("too many are awaited");
        assert_eq!(failure.code(), ErrorCode::PROTOCOL);
        assert!(
            failure.to_string().contains("the sender broke"),
            "{failure}"
        );
        sink.suspend();
    }
}

/// A peer that may write chooses the names of links, and their number.
#[test]
fn links_that_wait_for_the_end_do_not_fill_the_disk() {
    let journals = tempfile::tempdir().unwrap();
    let sink = sink_with_free(|_| Some(16 << 20), journals.path());
    let link = |id: u64| {
        let name = format!("{:064}", id.wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(3);
        let reversed: String = name.chars().rev().collect();
        Record {
            kind: EntryKind::HARD_LINK,
            bytes: 0,
            path: [&reversed[..], &name[..]].repeat(4).join("/").into_bytes(),
            target: b"first".to_vec(),
            ..record(id)
        }
    };
    let refused = (1..=20_000).find(|id| {
        let verdicts = sink.plan(&[link(*id)]);
        matches!(verdicts[..], [Verdict::Failed(_)])
    });
    let refused = refused.expect("a quarter of the free space is enough");
    assert!(refused > 500, "{refused}");
    // Names that were sent before take hardly any room, and a sender may repeat them.
    let others = tempfile::tempdir().unwrap();
    let same = sink_with_free(|_| Some(16 << 20), others.path());
    let again = |id| Record {
        id: EntryId(id),
        ..link(1)
    };
    for id in 1..=5_000 {
        assert_eq!(same.plan(&[again(id)]), [Verdict::Done], "{id}");
    }
    for sink in [sink, same] {
        sink.suspend();
    }
}
