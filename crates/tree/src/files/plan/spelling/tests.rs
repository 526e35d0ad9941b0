//! Tests entries whose names differ only in spelling, in a storage that treats the names as equal. Tests of
//! the binary cover whole transfers into a file system of that kind.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use godwit_engine::{Acks, Counters, Ending, Observer, Sink};
use godwit_proto::{Comparison, EntryKind, Generation, Record, Seq, TransferId, Verdict};
use godwit_store::{Confine, FinalMeta, FsStorage, Replace, Timestamp};
use godwit_testkit::{Faults, HostileStorage, MemoryStorage, Operation};

use super::*;
use crate::{DestinationPlace, DestinationRequest, TreeSink};

const MTIME: i64 = 1000;

/// Reported faults, by the entry that they concern.
#[derive(Default)]
struct FailedEntries(Mutex<HashMap<String, Fault>>);

impl Observer for FailedEntries {
    fn entry_failed(&self, failed: &godwit_engine::FailedEntry<'_>) {
        let path = String::from_utf8_lossy(failed.shown).into_owned();
        lock(&self.0).insert(path, failed.fault.clone());
    }
}

/// A transfer into one destination, driven step by step.
pub(crate) struct Run {
    pub(crate) sink: Arc<TreeSink>,
    reported: Arc<FailedEntries>,
    next: u64,
    _journals: tempfile::TempDir,
}

impl Run {
    fn new(storage: Arc<dyn Storage>) -> Self {
        Self::to(storage, "out", &[""], None)
    }

    pub(crate) fn to(
        storage: Arc<dyn Storage>,
        base: &str,
        names: &[&str],
        comparison: Option<Comparison>,
    ) -> Self {
        Self::of((base, names), storage, comparison, false)
    }

    pub(crate) fn blind(storage: Arc<dyn Storage>, comparison: Option<Comparison>) -> Self {
        Self::of(("out", &[""]), storage, comparison, true)
    }

    fn of(
        (base, names): (&str, &[&str]),
        storage: Arc<dyn Storage>,
        comparison: Option<Comparison>,
        is_blind: bool,
    ) -> Self {
        let journals = tempfile::tempdir().unwrap();
        let names: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        let request = DestinationRequest {
            comparison,
            ..DestinationRequest::new(
                DestinationPlace {
                    storage,
                    storage_path: b"/target".to_vec(),
                    base: at(base),
                    is_directory: false,
                    display: Vec::new(),
                },
                b"me".to_vec(),
                names.clone(),
                names,
                journals.path().to_owned(),
            )
        };
        let mut prepared = request.prepare().unwrap();
        prepared.config.hides_contents = is_blind;
        let counters = Arc::new(Counters::default());
        let reported = Arc::new(FailedEntries::default());
        let acks = Arc::new(Acks::new(
            TransferId([0; 16]),
            Arc::clone(&reported) as Arc<dyn Observer>,
            Arc::clone(&counters),
        ));
        let sink = TreeSink::start(
            prepared.config,
            prepared.journal,
            prepared.recovered,
            acks,
            counters,
        );
        Self {
            sink: sink.unwrap(),
            reported,
            next: 1,
            _journals: journals,
        }
    }

    pub(crate) fn record(&mut self, kind: EntryKind, path: &str, target: &str) -> Record {
        self.next += 1;
        Record {
            id: EntryId(self.next),
            kind,
            generation: Generation(1),
            mode: 0o644,
            mtime_seconds: MTIME,
            path: path.as_bytes().to_vec(),
            bytes: if kind == EntryKind::FILE {
                target.len() as u64
            } else {
                0
            },
            target: if kind == EntryKind::FILE {
                Vec::new()
            } else {
                target.as_bytes().to_vec()
            },
            ..Record::default()
        }
    }

    pub(crate) fn plan(&self, record: &Record) -> Verdict {
        self.sink.plan(std::slice::from_ref(record)).remove(0)
    }

    pub(crate) fn write(&mut self, record: &Record, content: &str) -> Vec<Fault> {
        self.next += 1;
        let records = std::slice::from_ref(record);
        let seq = Seq(self.next);
        self.sink.write_bundle(seq, records, &[content.as_bytes()])
    }

    /// Announces a file, and sends it if it is requested.
    pub(crate) fn file(&mut self, path: &str, content: &str) -> Verdict {
        let record = self.record(EntryKind::FILE, path, content);
        let verdict = self.plan(&record);
        if verdict == Verdict::Send {
            assert_eq!(self.write(&record, content), [], "{path}");
        }
        verdict
    }

    fn directory(&mut self, path: &str) -> Verdict {
        let mut record = self.record(EntryKind::DIRECTORY, path, "");
        record.mode = 0o755;
        self.plan(&record)
    }

    /// Ends the run; returns the reported faults of single entries.
    pub(crate) fn finish(self) -> HashMap<String, Fault> {
        let mut ending = Ending {
            failed: 0,
            scan_faults: 0,
            say: &mut |_| {},
            goes_on: &|| true,
        };
        self.sink.finish(&mut ending).unwrap();
        std::mem::take(&mut *lock(&self.reported.0))
    }
}

pub(crate) fn at(path: &str) -> RelPath {
    RelPath::parse(path.as_bytes()).unwrap()
}

pub(crate) fn put(storage: &MemoryStorage, path: &str, content: &str) {
    let meta = FinalMeta {
        mode: 0o644,
        mtime: Timestamp {
            seconds: MTIME,
            nanoseconds: 0,
        },
        ..FinalMeta::default()
    };
    storage.put(&at(path), &meta, content.as_bytes()).unwrap();
}

#[track_caller]
fn refused(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Failed(fault) if fault.code == FaultCode::COLLISION => fault.message.clone(),
        other => panic!("no collision but {other:?}"),
    }
}

#[track_caller]
fn has(storage: &MemoryStorage, path: &str, content: &str) {
    let stored = storage.paths().contains(&at(path));
    let there = storage.content(&at(path));
    assert!(stored, "{path} is not among {:?}", storage.paths());
    assert_eq!(there.as_deref(), Some(content.as_bytes()), "{path}");
}

#[test]
fn of_two_new_files_the_first_keeps_the_name_and_every_later_run_names_the_other() {
    let storage = MemoryStorage::folding();
    let mut run = Run::new(Arc::new(storage.clone()));
    run.file("README", "bigger");
    run.file("readme", "x");
    run.file("other", "small");
    let reported = run.finish();
    assert_eq!(reported.len(), 1, "{reported:?}");
    let fault = &reported["out/readme"];
    assert_eq!(fault.code, FaultCode::COLLISION);
    let words = "another entry already has this name at the destination";
    assert!(fault.message.contains(words), "{}", fault.message);
    for comparison in [
        None,
        Some(Comparison {
            ignore_existing: true,
            ..Comparison::default()
        }),
        Some(Comparison {
            update: true,
            ..Comparison::default()
        }),
    ] {
        let target = Arc::new(storage.clone());
        let mut run = Run::to(target, "out", &[""], comparison);
        assert_eq!(run.file("README", "bigger"), Verdict::Skip);
        assert!(refused(&run.file("readme", "x")).contains(words));
        assert_eq!(run.file("other", "small"), Verdict::Skip);
        run.finish();
        has(&storage, "out/README", "bigger");
    }
}

#[test]
fn a_name_that_was_there_before_is_not_taken_for_another_spelling_of_it() {
    let storage = MemoryStorage::folding();
    put(&storage, "out/Makefile", "theirs");
    put(&storage, "out/caf\u{e9}", "composed");
    put(&storage, "out/\u{e9}", "composed");
    let mut run = Run::new(Arc::new(storage.clone()));
    for other in ["makefile", "cafe\u{301}", "e\u{301}", "\u{c9}"] {
        refused(&run.file(other, "ours"));
    }
    assert_eq!(run.file("Makefile", "newer"), Verdict::Send);
    assert_eq!(run.file("\u{e9}", "newer"), Verdict::Send);
    assert_eq!(run.file("e\u{300}", "new"), Verdict::Send);
    assert!(run.finish().is_empty());
    has(&storage, "out/Makefile", "newer");
    has(&storage, "out/caf\u{e9}", "composed");
    has(&storage, "out/\u{e9}", "newer");
}

#[test]
fn a_directory_is_not_mixed_with_one_of_another_spelling() {
    let storage = MemoryStorage::folding();
    put(&storage, "out/Sub/f", "theirs");
    let mut run = Run::new(Arc::new(storage.clone()));
    // Contents may be planned before their directory.
    for path in ["sub/f", "sub/new"] {
        let message = refused(&run.file(path, "ours"));
        assert!(message.contains("its directory"), "{message}");
    }
    refused(&run.directory("sub"));
    refused(&run.directory("sub/deep"));
    refused(&run.file("sub/deep/f", "ours"));
    assert_eq!(run.directory("Sub"), Verdict::Done);
    assert_eq!(run.file("Sub/f", "theirs"), Verdict::Skip);
    assert_eq!(run.file("Sub/new", "theirs too"), Verdict::Send);
    run.finish();
    has(&storage, "out/Sub/new", "theirs too");
    assert_eq!(storage.paths().len(), 5, "{:?}", storage.paths());
}

#[test]
fn a_planned_file_is_not_written_into_a_directory_that_collides_later() {
    let storage = MemoryStorage::folding();
    let mut run = Run::new(Arc::new(storage.clone()));
    let record = run.record(EntryKind::FILE, "sub/f", "ours");
    assert_eq!(run.plan(&record), Verdict::Send);
    assert_eq!(run.directory("Sub"), Verdict::Done);
    // In a directory that this transfer made there is no search: making the entry shows the conflict.
    assert_eq!(run.directory("Sub/In"), Verdict::Done);
    refused(&run.directory("Sub/in"));
    refused(&run.directory("sub"));
    let faults = run.write(&record, "ours");
    assert_eq!(faults[0].code, FaultCode::COLLISION);
    run.finish();
    assert_eq!(storage.content(&at("out/Sub/f")), None);
}

#[test]
fn links_and_special_names_keep_to_their_spelling() {
    let storage = MemoryStorage::folding();
    let mut run = Run::new(Arc::new(storage.clone()));
    assert_eq!(run.directory("d"), Verdict::Done);
    let link = run.record(EntryKind::SYMLINK, "d/Link", "x");
    let other = run.record(EntryKind::SYMLINK, "d/link", "x");
    assert_eq!(run.plan(&link), Verdict::Done);
    refused(&run.plan(&other));
    // The link is planned again, as after the loss of a stream.
    assert_eq!(run.plan(&link), Verdict::Done);
    run.finish();
    let run = Run::new(Arc::new(storage.clone()));
    assert_eq!(run.plan(&link), Verdict::Skip);
    refused(&run.plan(&other));
    run.finish();
}

#[test]
fn a_further_name_replaces_nothing_of_another_spelling() {
    for comparison in [None, Some(Comparison::default())] {
        let storage = MemoryStorage::folding();
        put(&storage, "out/Taken", "theirs");
        let target = Arc::new(storage.clone());
        let mut run = Run::to(target, "out", &[""], comparison);
        assert_eq!(run.file("file", "one"), Verdict::Send);
        let links: Vec<Record> = [("taken", "file"), ("FILE", "file"), ("wrong", "TAKEN")]
            .map(|(name, first)| run.record(EntryKind::HARD_LINK, name, first))
            .to_vec();
        let fine = run.record(EntryKind::HARD_LINK, "fine", "file");
        // A taken name is reported at once, the other names when they are made.
        refused(&run.plan(&links[0]));
        for link in [&links[1], &links[2], &fine] {
            assert_eq!(run.plan(link), Verdict::Done);
        }
        let reported = run.finish();
        for name in ["out/FILE", "out/wrong"] {
            assert_eq!(
                reported[name].code,
                FaultCode::COLLISION,
                "{name}: {reported:?}"
            );
        }
        has(&storage, "out/Taken", "theirs");
        has(&storage, "out/fine", "one");
        assert_eq!(storage.content(&at("out/wrong")), None);
    }
}

#[test]
fn only_an_entry_with_the_exact_name_is_replaced_by_a_directory() {
    let storage = MemoryStorage::folding();
    put(&storage, "out/SUB", "a file");
    let comparison = Comparison {
        delete: true,
        counterpart: true,
        ..Comparison::default()
    };
    let target = Arc::new(storage.clone());
    let mut run = Run::to(target, "out", &[""], Some(comparison));
    let record = run.record(EntryKind::FILE, "sub/f", "ours");
    let faults = run.write(&record, "ours");
    assert_eq!(faults[0].code, FaultCode::COLLISION, "{faults:?}");
    refused(&run.plan(&record));
    refused(&run.directory("sub"));
    assert_eq!(run.file("SUB", "a file"), Verdict::Skip);
    run.sink.suspend();
    has(&storage, "out/SUB", "a file");
}

#[test]
fn a_named_destination_may_have_any_spelling() {
    let storage = MemoryStorage::folding();
    put(&storage, "in/README", "old");
    put(&storage, "in/Dir/f", "old");
    // One file over an existing name, as in cp.
    let mut run = Run::to(Arc::new(storage.clone()), "in/readme", &["x"], None);
    assert_eq!(run.file("", "newer"), Verdict::Send);
    assert!(run.finish().is_empty());
    has(&storage, "in/README", "newer");
    // One directory is copied into another one.
    let mut run = Run::to(Arc::new(storage.clone()), "IN", &["dir"], None);
    assert_eq!(run.directory(""), Verdict::Done);
    assert_eq!(run.file("f", "newer"), Verdict::Send);
    refused(&run.file("F", "other"));
    assert!(run.finish().is_empty());
    has(&storage, "in/Dir/f", "newer");
    // Several sources keep their own names.
    let mut run = Run::to(Arc::new(storage.clone()), "IN", &["new", "readme"], None);
    assert_eq!(run.file("", "one"), Verdict::Send);
    let mut record = run.record(EntryKind::FILE, "", "two");
    record.root = 1;
    refused(&run.plan(&record));
    run.finish();
    has(&storage, "in/README", "newer");
    has(&storage, "in/new", "one");
}

/// A second run over existing files; returns the number of looks at entries and of listings.
fn second_run(storage: &MemoryStorage, names: &[String]) -> [u64; 2] {
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let counting = Arc::clone(&counts);
    let mut faults = Faults::new(1);
    faults.hook = Some(Arc::new(move |operation, _| {
        let at = match operation {
            Operation::Stat => 0,
            Operation::Scan => 1,
            _ => return,
        };
        counting[at].fetch_add(1, Ordering::Relaxed);
    }));
    for name in names {
        put(storage, &format!("out/{name}"), name);
    }
    let hostile = HostileStorage::new(Arc::new(storage.clone()), faults);
    let mut run = Run::new(Arc::new(hostile));
    let records: Vec<Record> = names
        .iter()
        .map(|name| run.record(EntryKind::FILE, name, name))
        .collect();
    let verdicts = run.sink.plan(&records);
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Skip));
    run.sink.suspend();
    [0, 1].map(|at| counts[at].load(Ordering::Relaxed))
}

#[test]
fn existing_names_cost_one_more_look_for_each_directory() {
    let names: Vec<String> = (0..1000)
        .map(|number| format!("d{}/file{number}", number / 100))
        .collect();
    let [plain, folding] = [MemoryStorage::new(), MemoryStorage::folding()];
    let [looks, listings] = second_run(&plain, &names);
    // One look at the base, at each of ten directories, and at the destination itself.
    assert!(looks <= 1000 + 10 + 3, "{looks} looks");
    assert_eq!(listings, 0);
    // Each directory that folds case is listed once.
    let [looks, listings] = second_run(&folding, &names);
    assert!(looks <= 1000 + 2 * 11 + 2, "{looks} looks");
    assert_eq!(listings, 11);
    // Names with several possible spellings are compared with one listing of their directory.
    let names: Vec<String> = (0..100).map(|number| format!("d/\u{e9}{number}")).collect();
    assert_eq!(second_run(&plain, &names)[1], 1);
    // Digits have no case.
    let names: Vec<String> = (0..100).map(|number| format!("7/{number}")).collect();
    assert_eq!(second_run(&MemoryStorage::folding(), &names), [101, 0]);
}

#[test]
fn names_that_differ_in_case_only_are_two_where_they_are_two() {
    let storage = MemoryStorage::new();
    for name in ["out/a", "out/A", "out/B/f", "out/b/f"] {
        put(&storage, name, name);
    }
    let mut run = Run::new(Arc::new(storage.clone()));
    assert_eq!(run.file("a", "out/a"), Verdict::Skip);
    assert_eq!(run.file("A", "changed"), Verdict::Send);
    assert_eq!(run.file("b/f", "changed more"), Verdict::Send);
    assert_eq!(run.file("B/F", "new"), Verdict::Send);
    assert!(run.finish().is_empty());
    has(&storage, "out/a", "out/a");
    has(&storage, "out/A", "changed");
    has(&storage, "out/B/f", "out/B/f");
}

#[test]
fn a_name_that_came_after_a_listing_is_found_by_another_one() {
    let storage = MemoryStorage::folding();
    put(&storage, "out/first", "1");
    let run = Run::new(Arc::new(storage.clone()));
    let mut last = LastDirectory::default();
    let spelling = &run.sink.planner.directories.spelling;
    let mut suits = |path: &str| spelling.suits(&at(path), true, &mut last).unwrap();
    assert!(suits("out/first"));
    put(&storage, "out/Second", "2");
    assert!(suits("out/Second"));
    assert!(!suits("out/second"));
    // A missing directory suits too; once it exists, it is examined again.
    assert!(spelling.suits(&at("out/D/f"), false, &mut last).unwrap());
    put(&storage, "out/d/f", "3");
    assert!(!spelling.suits(&at("out/D/f"), true, &mut last).unwrap());
    let temp = TempName::new(1, &at("out/x"));
    storage
        .write_whole(&at("out/x"), &temp, &FinalMeta::default(), b"")
        .unwrap();
    storage.commit(&at("out/x"), &temp, Replace::Never).unwrap();
    run.sink.suspend();
}

/// A manifest may arrive before the manifest of its directories.
#[test]
fn a_file_to_be_replaced_by_a_directory_is_not_a_fault() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("out/d");
    std::fs::create_dir(place.path().join("out")).unwrap();
    std::fs::write(&file, "a file").unwrap();
    let spill = tempfile::tempdir().unwrap();
    let storage = FsStorage::open(place.path(), Confine::Local, spill.path());
    let comparison = Comparison {
        delete: true,
        ..Comparison::default()
    };
    let storage = Arc::new(storage.unwrap());
    let mut run = Run::to(storage, "out", &[""], Some(comparison));
    let record = run.record(EntryKind::FILE, "d/e/f", "new");
    assert_eq!(run.plan(&record), Verdict::Send);
    assert_eq!(run.directory("d"), Verdict::Done);
    assert_eq!(run.directory("d/e"), Verdict::Done);
    assert_eq!(run.write(&record, "new"), []);
    assert_eq!(run.finish().len(), 0);
    assert_eq!(std::fs::read(file.join("e/f")).unwrap(), b"new");
}
