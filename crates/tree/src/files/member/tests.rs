//! Tests a closer while calls of another node may take effect late. Does not test the fences of a node
//! (`godwit_data_port`).

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use godwit_engine::{Acks, Counters, Ending, Observer, Sink};
use godwit_proto::{Comparison, EntryId, EntryKind, Generation, Seq, TransferId, Verdict};
use godwit_store::{Confine, FsStorage};

use super::*;
use crate::{DestinationPlace, DestinationRequest, TreeSink};

struct Deaf;

impl Observer for Deaf {
    fn entry_failed(&self, _failed: &godwit_engine::FailedEntry<'_>) {}
}

/// A fence that reports whether calls of others may be late.
struct Late(bool);

impl Fence for Late {
    fn holds(&self) -> bool {
        true
    }

    fn copies(&self) -> bool {
        self.0
    }
}

/// Lets a member of a claim receive into `out` of a tree, after `prepare` has changed the tree.
fn receive<T>(
    is_late: bool,
    closer: bool,
    prepare: impl FnOnce(&Path, u64) -> T,
    act: impl FnOnce(&Path, &TreeSink, T),
) {
    receive_by(None, (is_late, closer), prepare, act);
}

/// The same with a comparison.
fn receive_by<T>(
    comparison: Option<Comparison>,
    (is_late, closer): (bool, bool),
    prepare: impl FnOnce(&Path, u64) -> T,
    act: impl FnOnce(&Path, &TreeSink, T),
) {
    let place = tempfile::tempdir().unwrap();
    let tree = place.path().join("tree");
    std::fs::create_dir_all(tree.join("out/d")).unwrap();
    std::fs::create_dir(place.path().join("journals")).unwrap();
    let storage = FsStorage::open(&tree, Confine::Local, place.path()).unwrap();
    let member = Membership {
        claim: [1; CLAIM_BYTES],
        node: b"node".to_vec(),
        epoch: 1,
        closer,
        lane: 0,
        fence: Arc::new(Late(is_late)),
        since: None,
        part_bytes_min: 4096,
        region: Region::default(),
    };
    let request = DestinationRequest {
        member: Some(member),
        comparison,
        ..DestinationRequest::new(
            DestinationPlace {
                storage: Arc::new(storage),
                storage_path: b"/target".to_vec(),
                base: RelPath::parse(b"out").unwrap(),
                is_directory: true,
                display: Vec::new(),
            },
            b"me".to_vec(),
            vec![b"/src/.".to_vec()],
            vec![Vec::new()],
            place.path().join("journals"),
        )
    };
    let prepared = request.prepare().unwrap();
    let tag = prepared.config.tag;
    let prepared_by_test = prepare(&tree, tag);
    let counters = Arc::new(Counters::default());
    let acks = Acks::new(TransferId([0; 16]), Arc::new(Deaf), Arc::clone(&counters));
    let (config, journal) = (prepared.config, prepared.journal);
    let sink = TreeSink::start(
        config,
        journal,
        prepared.recovered,
        Arc::new(acks),
        counters,
    );
    let sink = sink.unwrap();
    act(&tree, &sink, prepared_by_test);
    sink.suspend();
}

fn directory(id: u64, path: &[u8]) -> Record {
    Record {
        id: EntryId(id),
        kind: EntryKind::DIRECTORY,
        generation: Generation(1),
        path: path.to_vec(),
        mode: 0o755,
        ..Record::default()
    }
}

/// The names of the claim's files that remain after a member has looked at the tree.
fn left(is_late: bool, closer: bool) -> Vec<String> {
    let mut left = Vec::new();
    let prepare = |tree: &Path, tag| {
        let path = |path: &[u8]| RelPath::parse(path).unwrap();
        let put = |directory: &str, temp: TempName| {
            let name = temp.to_string();
            std::fs::write(tree.join(directory).join(&name), "late").unwrap();
            name
        };
        let aside = || {
            let name = TempName::of_member(tag, b"", b"aside");
            let aside = tree.join("out").join(name.to_string());
            std::fs::create_dir_all(aside.join("directory")).unwrap();
            std::fs::write(aside.join("file"), "removed").unwrap();
            name.to_string()
        };
        [
            ("mark", put("out", TempName::of_mark(tag, &path(b"out")))),
            ("late", put("out", TempName::new(tag, &path(b"out/f")))),
            ("deep", put("out/d", TempName::new(tag, &path(b"out/d/f")))),
            (
                "other",
                put("out/d", TempName::new(!tag, &path(b"out/d/f"))),
            ),
            ("aside", aside()),
        ]
    };
    receive(is_late, closer, prepare, |tree, sink, named| {
        sink.plan(&[directory(1, b""), directory(2, b"d")]);
        let is_left = |name: &str| {
            ["out", "out/d"]
                .iter()
                .any(|at| tree.join(at).join(name).exists())
        };
        let named = named.iter().filter(|(_, name)| is_left(name));
        left = named.map(|(what, _)| (*what).to_owned()).collect();
    });
    left
}

#[test]
fn a_closer_takes_away_what_could_be_renamed_late_before_it_looks() {
    assert_eq!(left(true, true), ["mark", "other"]);
    let all = ["mark", "late", "deep", "other", "aside"];
    assert_eq!(left(false, true), all);
    assert_eq!(left(true, false), all, "members may be writing");
}

/// A call that hangs has the file open, and would set old attributes after the right ones were set.
#[test]
fn an_entry_without_its_attributes_gets_a_new_inode_if_a_late_call_may_exist() {
    for is_late in [true, false] {
        let time = 1 << 30;
        let prepare = |tree: &Path, _| {
            let path = tree.join("out/f");
            std::fs::write(&path, "content").unwrap();
            let hung = std::fs::File::open(&path).unwrap();
            let at = UNIX_EPOCH + Duration::from_secs(time);
            hung.set_modified(at).unwrap();
            hung.set_permissions(Permissions::from_mode(0o600)).unwrap();
            std::os::unix::fs::symlink("target", tree.join("out/l")).unwrap();
            let link = tree.join("out/l").symlink_metadata().unwrap().ino();
            (hung, link)
        };
        receive(is_late, true, prepare, |tree, sink, (hung, link)| {
            let file = Record {
                kind: EntryKind::FILE,
                mode: 0o640,
                bytes: 7,
                mtime_seconds: time.cast_signed(),
                ..directory(2, b"f")
            };
            let target = Record {
                kind: EntryKind::SYMLINK,
                target: b"target".to_vec(),
                mtime_seconds: time.cast_signed(),
                ..directory(3, b"l")
            };
            sink.plan(&[directory(1, b""), file, target]);
            let at = |name: &str| tree.join("out").join(name).symlink_metadata().unwrap();
            assert_eq!(at("f").mode() & 0o777, 0o640);
            assert_eq!(at("f").mtime(), time.cast_signed());
            assert_eq!(at("l").mtime(), time.cast_signed());
            hung.set_permissions(Permissions::from_mode(0o666)).unwrap();
            let mode = if is_late { 0o640 } else { 0o666 };
            assert_eq!(at("f").mode() & 0o777, mode, "late: {is_late}");
            assert_eq!(at("l").ino() != link, is_late);
            assert_eq!(std::fs::read(tree.join("out/f")).unwrap(), b"content");
            assert_eq!(std::fs::read_dir(tree.join("out")).unwrap().count(), 3);
        });
    }
}

/// A file that appears after the plan is another member's delivery, or a file of others: only the closer can tell.
#[test]
fn a_member_that_may_replace_nothing_leaves_a_file_that_appears_late() {
    for no_replace in [true, false] {
        let comparison = Comparison {
            no_replace,
            ..Comparison::default()
        };
        let both = (false, false);
        receive_by(
            Some(comparison),
            both,
            |_, _| (),
            |tree, sink, ()| {
                let file = Record {
                    kind: EntryKind::FILE,
                    bytes: 3,
                    mtime_seconds: 5,
                    ..directory(2, b"f")
                };
                let verdicts = sink.plan(&[directory(1, b""), file.clone()]);
                assert_eq!(verdicts[1], Verdict::Send);
                std::fs::write(tree.join("out/f"), "of others").unwrap();
                let faults = sink.write_bundle(Seq(1), &[file], &[b"new"]);
                assert!(
                    faults
                        .iter()
                        .all(|fault| fault.code == FaultCode::COLLISION)
                );
                let mut ending = Ending {
                    failed: 0,
                    scan_faults: 0,
                    say: &mut |_| {},
                    goes_on: &|| true,
                };
                sink.finish(&mut ending).unwrap();
                let there = std::fs::read(tree.join("out/f")).unwrap();
                let expected: &[u8] = if no_replace { b"of others" } else { b"new" };
                assert_eq!(there, expected, "no_replace: {no_replace}");
            },
        );
    }
}

/// Each name of a mark is a hash, and a closer may have 65,535 destinations, with 32,000 directories above them.
#[test]
fn the_names_of_marks_are_made_once_for_each_path() {
    let base = "1/".repeat(1_000);
    let path = |number: u32| RelPath::parse(format!("{base}{number}").as_bytes()).unwrap();
    let paths: Vec<RelPath> = (0..500).map(path).collect();
    let marks = marks_above(7, &paths);
    // The root is above all of them.
    assert_eq!(marks.len(), 500 + 1_000 + 1);
    for at in [
        paths[499].clone(),
        paths[0].parent().unwrap(),
        RelPath::root(),
    ] {
        assert!(is_among(&marks, TempName::of_mark(7, &at).as_bytes()));
    }
}
