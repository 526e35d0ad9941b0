//! Tests walks of a source that is divided among nodes: no entry is found twice or missed, and each walk covers a bounded
//! part. Does not transfer data.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use godwit_api::failure::Failure;
use godwit_api::job::{JOB_VERSION, JobKind, JobSpec, Rule, Selection};
use godwit_engine::session::{Connector, Refusal};
use godwit_net::{IdentityId, PeerAddress};
use godwit_proto::FaultCode;
use godwit_run::local::{Access, DestinationPlace, ExportedFiles, LocalError, LocalSource};
use godwit_run::walk::{Walk, WalkLimits, Walked};
use godwit_run::{
    AgentOrder, Connectors, Env, Home, Process, SshClient, SshWay, StartedAgent, refusal_of,
};
use godwit_store::{Confine, FsStorage, RelPath, StoreErrorKind, TempName};
use godwit_testkit::{Faults, HostileStorage, Operation, Rule as FaultRule, When};
use godwit_tree::TreeRoot;

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

struct Nowhere;

impl Connectors for Nowhere {
    fn by_ssh(&self, _: SshWay<'_>, _: SshClient) -> Result<Arc<dyn Connector>, Failure> {
        Err(Failure::usage("no ssh here"))
    }

    fn start_agent(&self, _: SshWay<'_>, _: &AgentOrder) -> Result<StartedAgent, Refusal> {
        Err(refusal_of(Failure::usage("no ssh here")))
    }

    fn trusts(&self, _: &PeerAddress, _: &IdentityId) -> Result<bool, Failure> {
        Ok(false)
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

    fn failing(&self, faults: Faults, limits: WalkLimits, rules: &[&str]) -> Walk {
        let env = Env {
            process: Process::default(),
            home: Home::at(self.0.path().join("home")),
            base: None,
            exports: Some(Arc::new(Exports(self.path(), faults))),
            umask: 0o077,
            started: Instant::now(),
            alone: false,
            retries_first: false,
            connectors: Arc::new(Nowhere),
            input: None,
            output: None,
            list: None,
            kept_out: Vec::new(),
            tells: None,
            label: None,
            mandate: None,
            hides_names: false,
            hides_contents: false,
            attempts: None,
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
            version: JOB_VERSION,
            kind: JobKind::Copy,
            sources: vec!["/data".parse().expect("an endpoint")],
            destination: "/elsewhere".parse().expect("an endpoint"),
            settings: Default::default(),
            selection: Some(selection),
            member: None,
            items: Vec::new(),
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

#[test]
fn what_needs_the_whole_tree_is_passed_over() {
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

/// Makes the look of this number fail; the first one is at the source itself.
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
