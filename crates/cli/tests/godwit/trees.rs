//! Owns the test that random trees arrive as they are, in the eyes of rsync.
//! Does not interrupt anything.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, File, FileTimes};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::data::{Seeded, first_seed};
use super::judge::assert_identical;
use super::rig::{Rig, is_root};

const CASES: u64 = 6;

#[test]
fn random_trees_arrive_identical() {
    arrive_identical(1, false);
}

#[test]
fn random_trees_arrive_identical_without_rights() {
    arrive_identical(1001, is_root());
}

#[expect(clippy::print_stderr, reason = "a failure is repeated by its seed")]
fn arrive_identical(first: u64, give_up_rights: bool) {
    let first = first_seed(first);
    for seed in first..first + CASES {
        eprintln!("seed {seed}");
        let mut rig = Rig::for_user(give_up_rights);
        // Every second tree goes to an export where a peer may set all bits.
        let granted = seed.is_multiple_of(2);
        rig.make_dirs("granted");
        let export = format!("granted={},set-id", rig.path("granted").display());
        rig.start(&["--export", &export]);
        let mut tree = Tree {
            seeded: Seeded(seed),
            sparse: Vec::new(),
            files: Vec::new(),
            root_reads_all: !rig.unprivileged(),
            set_id: granted,
        };
        let root = rig.path("tree");
        fs::create_dir(&root).expect("made");
        tree.fill(&root, 0);
        rig.own();
        // Bits come last: a change of owner takes some away, and without rights no content could be made.
        tree.close(&root);
        let export = if granted { "granted" } else { "data" };
        let url = format!("godwit://{}/{export}/to", rig.address());
        let there = rig.path(if granted { "granted/to" } else { "export/to" });
        rig.cp(&["tree/", &url]).complete();
        assert_identical(&root, &there);
        // On this machine, such bits arrive only with their owners.
        rig.cp(&["--owner", "--group", url.as_str(), "back"])
            .complete();
        assert_identical(&root, &rig.path("back"));
        for path in &tree.sparse {
            let inside = path.strip_prefix(&root).expect("inside");
            let blocks = |path: &Path| fs::metadata(path).expect("there").blocks();
            let source = blocks(path);
            for copy in [there.clone(), rig.path("back")] {
                let copied = blocks(&copy.join(inside));
                // A file system may keep its own books in a block or two.
                assert!(
                    copied <= source + 16,
                    "{}: {copied} > {source}",
                    path.display()
                );
            }
        }
    }
}

struct Tree {
    seeded: Seeded,
    sparse: Vec<PathBuf>,
    files: Vec<PathBuf>,
    /// The reader is root, to whom the bits do not matter.
    root_reads_all: bool,
    /// Whether the tree has set-id programs.
    set_id: bool,
}

impl Tree {
    fn fill(&mut self, directory: &Path, depth: u64) {
        for number in 0..2 + self.seeded.below(12) {
            let path = directory.join(OsStr::from_bytes(&self.name(number)));
            match self.seeded.below(12) {
                0..=2 if depth < 4 => {
                    fs::create_dir(&path).expect("made");
                    if self.seeded.below(4) > 0 {
                        self.fill(&path, depth + 1);
                    }
                }
                3 => symlink(OsStr::from_bytes(&self.name(0)), &path).expect("made"),
                4 => symlink("../../nowhere/at all", &path).expect("made"),
                5 if !self.files.is_empty() => {
                    let other = self.seeded.below(self.files.len() as u64);
                    let other = usize::try_from(other).expect("an index");
                    fs::hard_link(&self.files[other], &path).expect("linked");
                }
                6 => self.make_sparse(path),
                _ => self.make_file(path),
            }
        }
    }

    /// Unlike all others in its directory by the number.
    fn name(&mut self, number: u64) -> Vec<u8> {
        let mut name = Vec::new();
        for _ in 0..self.seeded.below(20) {
            let byte = self.seeded.draw().to_le_bytes()[0];
            if byte != 0 && byte != b'/' {
                name.push(byte);
            }
        }
        name.extend(format!("~{number}").into_bytes());
        name
    }

    fn make_file(&mut self, path: PathBuf) {
        let size = match self.seeded.below(40) {
            0 => self.seeded.below(20 << 20),
            1..=4 => self.seeded.below(2 << 20),
            5..=8 => 0,
            9 => 4096 << self.seeded.below(9),
            _ => self.seeded.below(20_000),
        };
        let mut content = Vec::new();
        while (content.len() as u64) < size {
            content.extend(self.seeded.draw().to_le_bytes());
        }
        content.truncate(usize::try_from(size).expect("in memory"));
        fs::write(&path, content).expect("written");
        self.finish(&path);
        self.files.push(path);
    }

    fn make_sparse(&mut self, path: PathBuf) {
        let file = File::create(&path).expect("made");
        let size = self.seeded.below(64 << 20);
        file.set_len(size).expect("set");
        for _ in 0..self.seeded.below(4) {
            let at = self.seeded.below(size + 1);
            let block = vec![at.to_le_bytes()[0]; 5_000];
            file.write_all_at(&block, at).expect("written");
        }
        drop(file);
        self.finish(&path);
        self.files.push(path.clone());
        self.sparse.push(path);
    }

    fn finish(&mut self, path: &Path) {
        let since = Duration::new(
            self.seeded.below(1_900_000_000),
            u32::try_from(self.seeded.below(1_000_000_000)).expect("below"),
        );
        let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + since);
        let file = File::options().write(true).open(path).expect("ours");
        file.set_times(times).expect("set");
    }

    fn close(&mut self, directory: &Path) {
        let entries = fs::read_dir(directory).expect("listed");
        let mut entries: Vec<_> = entries.map(|entry| entry.expect("listed")).collect();
        // The same order each time, so that a seed means the same bits.
        entries.sort_by_key(DirEntry::file_name);
        for entry in entries {
            let kind = entry.file_type().expect("known");
            if kind.is_dir() {
                self.close(&entry.path());
            } else if kind.is_file() {
                self.set_bits(&entry.path(), 0o400);
            }
        }
        self.set_bits(directory, 0o700);
    }

    /// Sets random bits, with the needed ones for a user without root.
    fn set_bits(&mut self, path: &Path, needed: u32) {
        let mut mode = u32::try_from(self.seeded.below(0o10000)).expect("below");
        if !self.set_id {
            mode &= 0o1777;
        }
        if !self.root_reads_all {
            mode |= needed;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    }
}
