//! Tests closers of a region: their deletions stop at directories of other closers, and an unfinished directory never counts as a copy.
//! Does not test how the controller divides a tree into regions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use godwit_engine::{Acks, Counters, Ending, FailedEntry, Fence, Observer, Sink as _, lock};
use godwit_proto::{
    EntryId, EntryKind, Fault, FaultCode, Generation, Record, RecordFlags, TransferId, Verdict,
};
use godwit_store::journal::CLAIM_BYTES;
use godwit_testkit::MemoryStorage;

use super::deletes;
use crate::files::member::Membership;
use crate::files::plan::spelling::tests::{at, put};
use crate::files::region::Region;
use crate::{DestinationPlace, DestinationRequest, TreeSink};

/// A fence that never ends.
struct Holds;

impl Fence for Holds {
    fn holds(&self) -> bool {
        true
    }

    fn copies(&self) -> bool {
        false
    }
}

/// Reported faults, by the entry that they concern.
#[derive(Default)]
struct Faults(Mutex<HashMap<String, Fault>>);

impl Observer for Faults {
    fn entry_failed(&self, failed: &FailedEntry<'_>) {
        let path = String::from_utf8_lossy(failed.shown).into_owned();
        lock(&self.0).insert(path, failed.fault.clone());
    }
}

/// The closer of a region of `out`.
struct Closer {
    sink: Arc<TreeSink>,
    reported: Arc<Faults>,
    next: u64,
    _journals: tempfile::TempDir,
}

impl Closer {
    fn of(storage: &MemoryStorage, within: &[&str], flat: bool) -> Self {
        let journals = tempfile::tempdir().unwrap();
        let within: Vec<Vec<u8>> = within.iter().map(|path| path.as_bytes().to_vec()).collect();
        let member = Membership {
            claim: [1; CLAIM_BYTES],
            node: b"node".to_vec(),
            epoch: 1,
            closer: true,
            lane: 0,
            fence: Arc::new(Holds),
            since: None,
            part_bytes_min: 4096,
            region: Region::of(&within, flat).unwrap(),
        };
        let request = DestinationRequest {
            member: Some(member),
            comparison: Some(deletes()),
            ..DestinationRequest::new(
                DestinationPlace {
                    storage: Arc::new(storage.clone()),
                    storage_path: b"/target".to_vec(),
                    base: at("out"),
                    is_directory: true,
                    display: Vec::new(),
                },
                b"me".to_vec(),
                vec![b"/src/.".to_vec()],
                vec![Vec::new()],
                journals.path().to_owned(),
            )
        };
        let prepared = request.prepare().unwrap();
        let counters = Arc::new(Counters::default());
        let reported = Arc::new(Faults::default());
        let acks = Acks::new(
            TransferId([0; 16]),
            Arc::clone(&reported) as Arc<dyn Observer>,
            Arc::clone(&counters),
        );
        let sink = TreeSink::start(
            prepared.config,
            prepared.journal,
            prepared.recovered,
            Arc::new(acks),
            counters,
        );
        Self {
            sink: sink.unwrap(),
            reported,
            next: 1,
            _journals: journals,
        }
    }

    /// Announces directories.
    fn directories(&mut self, paths: &[&str]) -> Vec<Verdict> {
        self.announce(paths, EntryKind::DIRECTORY, 0)
    }

    /// Announces that other closers finish these directories.
    fn leaves(&mut self, paths: &[&str]) {
        self.announce(paths, EntryKind::DIRECTORY, RecordFlags::PASSED_OVER);
    }

    fn announce(&mut self, paths: &[&str], kind: EntryKind, flags: u8) -> Vec<Verdict> {
        let records: Vec<Record> = paths
            .iter()
            .map(|path| self.record(path, kind, flags))
            .collect();
        self.sink.plan(&records)
    }

    fn record(&mut self, path: &str, kind: EntryKind, flags: u8) -> Record {
        self.next += 1;
        Record {
            id: EntryId(self.next),
            kind,
            flags,
            generation: Generation(1),
            mode: 0o755,
            mtime_seconds: 1000,
            path: path.as_bytes().to_vec(),
            ..Record::default()
        }
    }

    /// Ends the closer, with this many failed entries at the source; returns the reported faults.
    fn finish(self, failed: u64) -> HashMap<String, Fault> {
        let mut ending = Ending {
            failed,
            scan_faults: 0,
            say: &mut |_| {},
            goes_on: &|| true,
        };
        self.sink.finish(&mut ending).unwrap();
        std::mem::take(&mut *lock(&self.reported.0))
    }
}

/// Storage with these files.
fn with(files: &[&str]) -> MemoryStorage {
    let storage = MemoryStorage::new();
    files.iter().for_each(|path| put(&storage, path, "theirs"));
    storage
}

#[track_caller]
fn assert_has(storage: &MemoryStorage, path: &str, has: bool) {
    let paths = storage.paths();
    assert_eq!(paths.contains(&at(path)), has, "{path}: {paths:?}");
}

#[track_caller]
fn changed(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Failed(fault) if fault.code == FaultCode::CHANGED => &fault.message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_flat_closer_deletes_extra_entries_and_nothing_in_directories_of_other_closers() {
    let storage = with(&["out/set/in", "out/extra/deep/in", "out/extra file"]);
    let mut closer = Closer::of(&storage, &[""], true);
    closer.leaves(&["set"]);
    closer.directories(&["", "set"]);
    assert_eq!(closer.finish(0), HashMap::new());
    assert_has(&storage, "out/set/in", true);
    assert_has(&storage, "out/extra", false);
    assert_has(&storage, "out/extra file", false);
}

#[test]
fn temporary_files_of_other_transfers_stay_in_the_directories_of_a_region() {
    let temporary = ".godwit-5df8ada93fab455ad7a07379d0724cca";
    let [above, inside, extra] =
        ["out", "out/set", "out/extra"].map(|at| format!("{at}/{temporary}"));
    for (within, flat, files) in [
        ("", true, [&above, &extra]),
        ("set", false, [&inside, &inside]),
    ] {
        let storage = with(&[&above, &inside, &extra, "out/set/x"]);
        let mut closer = Closer::of(&storage, &[within], flat);
        match flat {
            true => closer.leaves(&["set"]),
            false => drop(closer.directories(&["", "set"])),
        }
        assert_eq!(closer.finish(0), HashMap::new());
        assert_has(&storage, files[0], true);
        assert_has(&storage, &extra, !flat);
        assert_has(&storage, "out/set/x", flat);
    }
}

#[test]
fn a_directory_that_another_node_makes_late_keeps_its_contents() {
    let storage = with(&["out/file"]);
    let mut closer = Closer::of(&storage, &[""], true);
    // The destination does not have the directory yet.
    closer.leaves(&["set"]);
    put(&storage, "out/set/in", "ours");
    closer.directories(&["", "set"]);
    assert_eq!(closer.finish(0), HashMap::new());
    assert_has(&storage, "out/set/in", true);
    assert_has(&storage, "out/file", false);
}

#[test]
fn a_directory_that_no_closer_has_finished_is_not_made_and_nothing_is_deleted() {
    // The source has renamed `old` to `new` after `old` was finished.
    let storage = with(&["out/old/in", "out/other/in"]);
    let mut closer = Closer::of(&storage, &[""], true);
    closer.leaves(&["new", "other"]);
    let verdicts = closer.directories(&["", "new", "other"]);
    let message = changed(&verdicts[1]);
    assert!(
        message.contains("the destination lacks this directory"),
        "{message}"
    );
    closer.finish(1);
    assert_has(&storage, "out/new", false);
    assert_has(&storage, "out/old/in", true);

    // A file makes no way for an empty directory either.
    let storage = with(&["out/new", "out/old/in"]);
    let mut closer = Closer::of(&storage, &[""], true);
    closer.leaves(&["new"]);
    changed(&closer.directories(&["", "new"])[1]);
    closer.finish(1);
    assert_has(&storage, "out/old/in", true);
    assert!(storage.content(&at("out/new")).is_some());
}

#[test]
fn a_closer_makes_the_directories_of_its_region_and_those_around_it() {
    let storage = MemoryStorage::new();
    for flat in [false, true] {
        let mut closer = Closer::of(&storage, &["a/b"], flat);
        let verdicts = closer.directories(&["", "a", "a/b"]);
        assert!(
            verdicts
                .iter()
                .all(|verdict| !matches!(verdict, Verdict::Failed(_))),
            "{verdicts:?}"
        );
        assert_eq!(closer.finish(0), HashMap::new());
    }
    assert_has(&storage, "out/a/b", true);
}

#[test]
fn a_deep_closer_deletes_in_its_directories_alone() {
    let storage = with(&["out/a/extra", "out/b/extra", "out/extra"]);
    let mut closer = Closer::of(&storage, &["a"], false);
    closer.directories(&["", "a"]);
    assert_eq!(closer.finish(0), HashMap::new());
    assert_has(&storage, "out/a/extra", false);
    assert_has(&storage, "out/b/extra", true);
    assert_has(&storage, "out/extra", true);
}
