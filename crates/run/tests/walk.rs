//! Tests walks of a source that is divided among nodes: no entry is found twice or missed, and each walk covers a bounded
//! part. Does not transfer data.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use godwit_api::job::{JobSpec, Rule, Selection, TypedTexts};
use godwit_proto::FaultCode;
use godwit_run::Env;
use godwit_run::local::{Access, DestinationPlace, ExportedFiles, LocalError, LocalSource};
use godwit_run::walk::{Walk, WalkLimits, Walked};
use godwit_store::{Confine, FsStorage, RelPath, StoreErrorKind, TempName};
use godwit_testkit::{Faults, HostileStorage, Operation, Rule as FaultRule, When};
use godwit_tree::TreeRoot;
use godwit_worlds::{copy, surroundings};

/// A directory as the only export.
struct One(tempfile::TempDir);

impl One {
    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("export")
    }
}

/// The path of an export, and the errors of its storage.
struct Exports(std::path::PathBuf, Faults);

impl ExportedFiles for Exports {
    fn source(&self, path: &Path, _: Access) -> Result<LocalSource, LocalError> {
        let below = path.strip_prefix("/data").unwrap_or(path);
        let start = RelPath::parse(below.as_os_str().as_encoded_bytes()).expect("a path");
        let storage = FsStorage::open(&self.0, Confine::Export, &self.0).expect("open");
        Ok(LocalSource {
            root: TreeRoot {
                storage: Arc::new(HostileStorage::new(Arc::new(storage), self.1.clone())),
                start,
            },
            name: Vec::new(),
            absolute: Vec::new(),
            shown: Vec::new(),
        })
    }

    fn destination(&self, _: &Path, _: Access) -> Result<DestinationPlace, LocalError> {
        Err(LocalError::new(FaultCode::NOT_FOUND, "none".to_owned()))
    }

    fn free_bytes(&self, _: &Path) -> Option<u64> {
        None
    }
}

impl One {
    fn new() -> Self {
        let one = Self(tempfile::tempdir().expect("a directory"));
        fs::create_dir(one.path()).expect("made");
        one
    }

    fn write(&self, name: &str, bytes: usize) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, vec![7; bytes]).expect("written");
    }

    fn walk(&self, limits: WalkLimits, rules: &[&str]) -> Walk {
        self.failing(Faults::new(1), limits, rules)
    }

    /// A walk of a job that compares by contents.
    fn comparing(&self, limits: WalkLimits) -> Walk {
        let checksum = ("checksum".to_owned(), vec!["true".into()]);
        self.opened(Faults::new(1), limits, &[], [checksum].into())
    }

    fn failing(&self, faults: Faults, limits: WalkLimits, rules: &[&str]) -> Walk {
        self.opened(faults, limits, rules, TypedTexts::default())
    }

    fn opened(
        &self,
        faults: Faults,
        limits: WalkLimits,
        rules: &[&str],
        settings: TypedTexts,
    ) -> Walk {
        let env = Env {
            exports: Some(Arc::new(Exports(self.path(), faults))),
            ..surroundings(&self.0.path().join("home"))
        };
        let rule = |pattern: &&str| Rule {
            include: false,
            pattern: (*pattern).into(),
        };
        let selection = Selection {
            rules: rules.iter().map(rule).collect(),
            ..Selection::default()
        };
        let spec = JobSpec {
            settings,
            selection: Some(selection),
            ..copy("/data", "/elsewhere", &[])
        };
        Walk::open(&spec, &env, limits).expect("a source")
    }
}

fn names(walked: &Walked) -> Vec<String> {
    let names = walked.names.split(|byte| *byte == 0);
    let names = names.filter(|name| !name.is_empty());
    names
        .map(|name| String::from_utf8(name.to_vec()).expect("text"))
        .collect()
}

/// Walks to the end; returns all small files, all large ones, and the number of walks.
fn all(walk: &Walk) -> (BTreeSet<String>, BTreeSet<String>, usize) {
    let (mut small, mut large) = (BTreeSet::new(), BTreeSet::new());
    let mut left = vec![(Vec::new(), 0, 1)];
    let mut walks = 0;
    while let Some((path, share, shares)) = left.pop() {
        walks += 1;
        let walked = walk.walk(&path, share, shares).expect("walked");
        assert_eq!(names(&walked).len(), walked.files);
        for name in names(&walked) {
            assert!(small.insert(name.clone()), "{name} was met twice");
        }
        for file in walked.large {
            let name = String::from_utf8(file.path).expect("text");
            assert!(large.insert(name.clone()), "{name} was met twice");
        }
        for (path, shares) in walked.left {
            left.extend((0..shares).map(|share| (path.clone(), share, shares)));
        }
    }
    (small, large, walks)
}

const LIMITS: WalkLimits = WalkLimits {
    files: 20,
    bytes: 1_000,
    names: 30,
    paths: 16 << 20,
    large: 500,
    shares: 8,
};

#[test]
fn walks_meet_each_file_once_in_bounded_pieces() {
    let one = One::new();
    let (mut small, mut large) = (BTreeSet::new(), BTreeSet::new());
    let mut add = |name: String, bytes: usize| {
        one.write(&name, bytes);
        match bytes > 500 {
            true => large.insert(name),
            false => small.insert(name),
        };
    };
    for number in 0..100 {
        add(format!("huge/{number}"), 3);
        add(
            format!("d{}/e{}/{number}", number % 5, number % 7),
            number * 2,
        );
    }
    for number in 0..10 {
        add(format!("wide/{number}"), 400);
    }
    add("d1/large".to_owned(), 501);
    add("huge/below/one".to_owned(), 1);
    let walk = one.walk(LIMITS, &[]);
    let found = all(&walk);
    assert_eq!((&found.0, &found.1), (&small, &large));
    assert!(found.2 > 10, "{} walks", found.2);
    // The result is the same on every node.
    assert_eq!(all(&one.walk(LIMITS, &[])), found);
    let whole = one
        .walk(WalkLimits::default(), &[])
        .walk(b"", 0, 1)
        .expect("walked");
    assert_eq!(whole.files, small.len() + large.len());
    assert_eq!(whole.left, []);
}

/// A user of the source may give its files names of any length.
#[test]
fn walks_find_paths_of_bounded_bytes() {
    let one = One::new();
    let mut files = BTreeSet::new();
    let long = "x".repeat(200);
    for number in 0..60 {
        for name in [format!("{long}/{number}"), format!("{number}/{long}")] {
            one.write(&name, 1);
            files.insert(name);
        }
    }
    let limits = WalkLimits {
        paths: 4_000,
        ..WalkLimits::default()
    };
    let walk = one.walk(limits, &[]);
    assert_eq!(all(&walk).0, files);
    let walked = walk.walk(b"", 0, 1).expect("walked");
    assert!(walked.names.len() <= 8_000, "{}", walked.names.len());
}

#[test]
fn a_large_file_that_is_compared_by_contents_stays_whole_and_has_a_walk_to_itself() {
    let one = One::new();
    for (name, bytes) in [("d/a", 400), ("d/b", 400), ("d/large", 501), ("other", 900)] {
        one.write(name, bytes);
    }
    let walk = one.comparing(LIMITS);
    let first = walk.walk(b"", 0, 1).expect("walked");
    assert_eq!(names(&first), ["d/a", "d/b"]);
    assert_eq!(first.large, []);
    let alone = walk.walk(b"d/large", 0, 1).expect("walked");
    assert_eq!(
        (names(&alone), alone.bytes),
        (vec!["d/large".to_owned()], 501)
    );
    let (small, large, walks) = all(&walk);
    assert_eq!((small.len(), large.len(), walks), (4, 0, 3));
    assert_eq!(walk.large_file(b"other"), None);
    // A file that was removed meanwhile, or has several names now, is left to the close.
    fs::remove_file(one.path().join("other")).expect("removed");
    let gone = walk.walk(b"other", 0, 1).expect("walked");
    assert_eq!((gone.files, gone.several, gone.left.len()), (0, 0, 0));
    fs::hard_link(one.path().join("d/large"), one.path().join("twin")).expect("made");
    let twin = walk.walk(b"d/large", 0, 1).expect("walked");
    assert_eq!((twin.files, twin.several), (0, 1));
}

#[test]
fn settings_that_need_the_whole_tree_are_ignored() {
    let one = One::new();
    for name in ["a", "twin", "left/out", "kept/in"] {
        one.write(name, 1);
    }
    let path = RelPath::parse(b"x").expect("a path");
    one.write(&TempName::new(1, &path).to_string(), 1);
    fs::hard_link(one.path().join("twin"), one.path().join("other")).expect("made");
    symlink("a", one.path().join("link")).expect("made");
    fs::create_dir(one.path().join("empty")).expect("made");
    let walked = one
        .walk(LIMITS, &["left/"])
        .walk(b"", 0, 1)
        .expect("walked");
    assert_eq!(names(&walked), ["a", "kept/in"]);
    // A removed directory has no entries.
    let gone = one.walk(LIMITS, &[]).walk(b"gone", 0, 1).expect("walked");
    assert_eq!((gone.files, gone.left.len()), (0, 0));
}

/// Makes the operation with this number fail. The first operation is at the source itself.
fn stale(operation: Operation, number: u64) -> Faults {
    let mut faults = Faults::new(1);
    faults.rules.push(FaultRule {
        operation,
        when: When::Nth(number),
        error: StoreErrorKind::Io,
    });
    faults
}

#[test]
fn an_entry_that_cannot_be_looked_at_does_not_pass_for_one_that_is_gone() {
    let one = One::new();
    for name in ["a/in", "b/in", "c/in", "file"] {
        one.write(name, 1);
    }
    let fails = |operation, number| one.failing(stale(operation, number), LIMITS, &[]);
    let unread = fails(Operation::Stat, 2).has_directory(b"a");
    assert_eq!(unread.map_err(|unread| unread.path), Err(b"a".to_vec()));
    let walk = one.walk(LIMITS, &[]);
    for (path, is) in [
        ("a", true),
        ("gone", false),
        ("file", false),
        ("file/below", false),
    ] {
        assert_eq!(walk.has_directory(path.as_bytes()), Ok(is), "{path}");
    }

    let tally = fails(Operation::Stat, 3).tally(b"", (0, 1), 100);
    let tally = tally.expect("counted");
    assert_eq!(tally.directories, [b"a", b"c"]);
    let unread: Vec<_> = tally.unread.iter().map(|one| one.path.as_slice()).collect();
    assert_eq!(unread, [b"b"]);
    let unread = fails(Operation::Scan, 1).tally(b"", (0, 1), 100);
    assert!(unread.is_err());
    let tally = walk.tally(b"", (0, 1), 100).expect("counted");
    assert_eq!((tally.directories.len(), tally.unread.len()), (3, 0));
}

/// A user of the source may make any number of names in one directory.
#[test]
fn a_directory_with_very_many_names_is_not_counted() {
    let one = One::new();
    for number in 0..120 {
        one.write(&format!("{number}/file"), 1);
    }
    let tally = |names| {
        let limits = WalkLimits { names, ..LIMITS };
        let walk = one.walk(limits, &[]);
        walk.tally(b"", (0, 1), 10).expect("counted")
    };
    let counted = tally(2);
    assert!(counted.is_large && counted.directories.len() == 120);
    let not_counted = tally(1);
    assert!(!not_counted.is_large && not_counted.directories.is_empty());
}
