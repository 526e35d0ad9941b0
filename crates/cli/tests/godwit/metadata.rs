//! Tests that random trees with owners, attributes, access lists and special files arrive as they are, in the eyes of rsync.
//! Metadata that a place cannot hold is tested in `unkept`.

use std::fs::{self, FileTimes};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use godwit_testkit::needs_root;

use super::data::{Seeded, first_seed, write_file};
use super::judge::{assert_identical_to_rsync, assert_tidy};
use super::rig::{NOBODY, Rig, is_root};
use super::ssh::far::{DAEMON, Far, Where};

const CASES: u64 = 2;

/// All that an export can grant.
pub(crate) const GRANTS: &str = "set-id,owner,security-xattrs,devices";

/// Runs a tool that prepares the test.
#[track_caller]
pub(crate) fn tool(program: &str, arguments: &[&str], path: &Path) {
    let output = Command::new(program)
        .args(arguments)
        .arg(path)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
}

/// Compares as `rsync -aHAX` does, with owners, groups, attributes, access lists, devices and FIFOs.
#[track_caller]
pub(crate) fn assert_archived(source: &Path, destination: &Path) {
    assert_identical_to_rsync("-aHAX", source, destination);
}

#[test]
fn random_metadata_arrives_identical() {
    arrives_identical(1, false);
}

#[test]
fn random_metadata_arrives_identical_without_rights() {
    arrives_identical(2001, is_root());
}

#[expect(clippy::print_stderr, reason = "a failure is repeated by its seed")]
fn arrives_identical(first: u64, give_up_rights: bool) {
    let first = first_seed(first);
    for seed in first..first + CASES {
        eprintln!("seed {seed}");
        let mut rig = Rig::for_user(give_up_rights);
        rig.make_dirs("all");
        let export = format!("all={},{GRANTS}", rig.path("all").display());
        rig.start(&["--export", &export]);
        let mut tree = Tree {
            seeded: Seeded(seed),
            privileged: !rig.unprivileged(),
            user: NOBODY,
            files: Vec::new(),
        };
        let root = rig.path("tree");
        fs::create_dir(&root).expect("made");
        tree.fill(&root, 0);
        rig.own();
        tree.close(&root);
        let url = format!("godwit://{}/all/to", rig.address());
        let pushed = rig.cp(&["-a", "--strict", "tree/", &url]);
        pushed.complete();
        assert_archived(&root, &rig.path("all/to"));
        rig.cp(&["-a", "--strict", &url, "back"]).complete();
        assert_archived(&root, &rig.path("back"));
        rig.cp(&["-a", "--strict", "tree/", "local"]).complete();
        assert_archived(&root, &rig.path("local"));
        // Into an existing tree: directories lose their old metadata, and a second run finds nothing to do.
        tool(
            "setfattr",
            &["-n", "user.extra", "-v", "1"],
            &rig.path("local"),
        );
        tool("setfacl", &["-m", "d:u:33:rwx"], &rig.path("local"));
        let again = rig.cp(&["-a", "--strict", "tree/.", "local"]);
        assert_eq!(again.complete().number("bytes"), 0, "{}", again.said());
        assert_archived(&root, &rig.path("local"));
        assert_tidy(&rig.path("all"), &rig.daemon_home);
    }
}

/// Push, pull, and from one machine straight to another: each by an agent, with the rights of the user there.
#[test]
fn random_metadata_arrives_identical_by_ssh() {
    arrives_identical_by_ssh(4001, false);
}

#[test]
fn random_metadata_arrives_identical_by_ssh_without_rights() {
    arrives_identical_by_ssh(6001, is_root());
}

#[expect(clippy::print_stderr, reason = "a failure is repeated by its seed")]
fn arrives_identical_by_ssh(first: u64, without_root: bool) {
    let first = first_seed(first);
    for seed in first..first + CASES {
        eprintln!("seed {seed}");
        let machine = || {
            Far::at(Where {
                without_root,
                ..Where::default()
            })
        };
        let (here, other) = (machine(), machine());
        here.know("other", &other);
        let root = here.home().join("tree");
        fs::create_dir(&root).expect("made");
        let mut tree = Tree {
            seeded: Seeded(seed),
            privileged: is_root() && !without_root,
            user: DAEMON,
            files: Vec::new(),
        };
        tree.fill(&root, 0);
        if without_root {
            here.hand_over("home/tree", DAEMON);
        }
        tree.close(&root);
        for (from, to, at) in [
            ("home/tree", "far:pushed", here.home().join("pushed")),
            ("far:tree", "pulled", here.path("pulled")),
            ("far:tree", "other:third", other.home().join("third")),
        ] {
            here.cp(&["-a", "--strict", from, to]).complete();
            assert_archived(&root, &at);
            // Into an existing tree: directories lose their old metadata, and no file is sent again.
            tool("setfattr", &["-n", "user.extra", "-v", "1"], &at);
            tool("setfacl", &["-m", "d:u:33:rwx"], &at);
            let again = here.run(&["sync", "--json", "-a", "--strict", from, to]);
            assert_eq!(again.complete().number("bytes"), 0, "{}", again.said());
            assert_archived(&root, &at);
        }
    }
}

struct Tree {
    seeded: Seeded,
    privileged: bool,
    /// The owner of the tree, if this process has rights and the tree belongs to a user without rights.
    user: u32,
    files: Vec<PathBuf>,
}

impl Tree {
    fn fill(&mut self, directory: &Path, depth: u64) {
        for number in 0..4 + self.seeded.below(10) {
            let path = directory.join(format!("entry {number}"));
            match self.seeded.below(12) {
                0..=2 if depth < 3 => {
                    fs::create_dir(&path).expect("made");
                    self.fill(&path, depth + 1);
                }
                3 => symlink("../nowhere", &path).expect("made"),
                4 => tool("mkfifo", &[], &path),
                5 if self.privileged => {
                    let (kind, minor) = [("c", "3"), ("b", "77")][self.choice(2)];
                    let path = path.to_str().expect("text");
                    let made = Command::new("mknod")
                        .args([path, kind, "240", minor])
                        .status();
                    assert!(made.expect("mknod runs").success(), "we are root");
                }
                6 if !self.files.is_empty() => {
                    let other = self.choice(self.files.len());
                    fs::hard_link(&self.files[other], &path).expect("linked");
                }
                7 => self.file(path, 300_000),
                _ => self.file(path, 5_000),
            }
        }
    }

    fn choice(&mut self, count: usize) -> usize {
        usize::try_from(self.seeded.below(count as u64)).expect("an index")
    }

    fn file(&mut self, path: PathBuf, bytes_max: u64) {
        let bytes = self.seeded.below(bytes_max);
        write_file(&path, bytes, &mut self.seeded);
        self.files.push(path);
    }

    /// Owners, attributes, lists, modes and times, from the inside out.
    fn close(&mut self, path: &Path) {
        let meta = fs::symlink_metadata(path).expect("there");
        if meta.is_dir() {
            let mut names: Vec<_> = fs::read_dir(path)
                .expect("listed")
                .map(|entry| entry.expect("listed").path())
                .collect();
            names.sort();
            names.iter().for_each(|name| self.close(name));
        }
        let path_text = path.to_str().expect("text");
        if self.privileged {
            let ids = ["0", "1", "33", "65534", "54321"];
            let owner = format!("{}:{}", ids[self.choice(5)], ids[self.choice(5)]);
            tool("chown", &["-h", &owner], path);
        }
        if meta.file_type().is_symlink() {
            if self.privileged && self.seeded.below(2) == 0 {
                tool(
                    "setfattr",
                    &["-h", "-n", "trusted.of-link", "-v", "1"],
                    path,
                );
            }
            return;
        }
        let may_hold = meta.is_dir() || meta.is_file();
        for number in 0..self.seeded.below(4) {
            let value = "v".repeat(self.choice(200));
            let name = match self.seeded.below(4) {
                0 if self.privileged => format!("trusted.t{number}"),
                1 if self.privileged => format!("security.s{number}"),
                _ if !may_hold => continue,
                _ => format!("user.u{number} ä"),
            };
            tool("setfattr", &["-h", "-n", &name, "-v", &value], path);
        }
        let bits = [0o640, 0o604, 0o755, 0o2755, 0o4711, 0o1777, 0o500, 0o400];
        let mode = bits[self.choice(if self.privileged { 8 } else { 3 })] | 0o400;
        let mode = if meta.is_dir() { mode | 0o500 } else { mode };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
        if self.seeded.below(2) == 0 {
            let list = ["u:1:rw", "g:33:r-x,u:54321:---", "m::r,g:1:rwx"][self.choice(3)];
            tool("setfacl", &["-m", list], path);
        }
        if meta.is_dir() && self.seeded.below(3) == 0 {
            tool("setfacl", &["-d", "-m", "u:65534:rwx,g:54321:r-x"], path);
        }
        if meta.is_dir() || meta.is_file() {
            let seconds = self.seeded.below(2_000_000_000);
            let nanoseconds = self.seeded.below(1_000_000_000);
            let time = SystemTime::UNIX_EPOCH
                + Duration::from_secs(seconds)
                + Duration::from_nanos(nanoseconds);
            let file = fs::File::open(path_text).expect("readable");
            let times = FileTimes::new().set_modified(time);
            file.set_times(times).expect("ours");
        }
        let unprivileged_by_us = is_root() && !self.privileged;
        if unprivileged_by_us {
            tool("chown", &["-h", &format!("{0}:{0}", self.user)], path);
        }
    }
}

/// A directory without write permission, and later changes in it.
#[test]
fn closed_directories_are_filled_and_closed_again() {
    super::rig::as_each_user(|rig| {
        rig.start(&[]);
        for ends in rig.push_and_pull() {
            let at = |name: &str| ends.source.join(name);
            fs::create_dir_all(at("d/e")).expect("made");
            fs::create_dir_all(ends.destination.parent().expect("has one")).expect("made");
            fs::write(at("d/e/one"), "1").expect("written");
            let set = |mode| {
                for name in ["d/e", "d"] {
                    fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).expect("ours");
                }
            };
            rig.own();
            set(0o555);
            rig.cp(&ends.line(&["-a"])).complete();
            assert_archived(&ends.source, &ends.destination);
            set(0o755);
            fs::write(at("d/e/two"), "2").expect("written");
            rig.own();
            set(0o555);
            rig.cp(&ends.line(&["-a"])).complete();
            assert_archived(&ends.source, &ends.destination);
            set(0o755);
        }
    });
}

/// The machine of the daemon gives the same users other numbers.
#[test]
fn users_are_who_they_are_called() {
    if !needs_root() {
        // Only a superuser gives files away. The note for other users is tested elsewhere.
        return;
    }
    let mut rig = Rig::for_user(false);
    rig.make_dirs("all");
    rig.write(
        "passwd",
        "root:x:0:0::/:/bin/sh\ndaemon:x:4242:4343::/:/bin/sh\n",
    );
    rig.write("group", "root:x:0:\ndaemon:x:4343:\n");
    let script = format!(
        "mount --bind '{}' /etc/passwd && mount --bind '{}' /etc/group && exec \"$@\"",
        rig.path("passwd").display(),
        rig.path("group").display()
    );
    rig.wrap_daemon([
        "unshare",
        "--mount",
        "--propagation=slave",
        "sh",
        "-c",
        &script,
        "sh",
    ]);
    let export = format!("all={},{GRANTS}", rig.path("all").display());
    rig.start(&["--export", &export]);
    rig.write("run/file", "x");
    for name in ["run/file", "run"] {
        tool("chown", &["daemon:daemon"], &rig.path(name));
        tool("setfacl", &["-m", "u:daemon:rw,g:54321:r"], &rig.path(name));
    }
    let numbers = |name: &str| {
        let output = Command::new("getfacl")
            .args(["--numeric", "--absolute-names", "--omit-header"])
            .arg(rig.path(name))
            .output()
            .expect("getfacl runs");
        let meta = fs::metadata(rig.path(name)).expect("there");
        use std::os::unix::fs::MetadataExt as _;
        let list = String::from_utf8(output.stdout).expect("text");
        (meta.uid(), meta.gid(), list)
    };
    let url = |name: &str| format!("godwit://{}/all/{name}", rig.address());
    rig.cp(&["-a", "run/", &url("named")]).complete();
    let (uid, gid, list) = numbers("all/named/file");
    assert_eq!((uid, gid), (4242, 4343));
    assert!(
        list.contains("user:4242:rw-\n") && list.contains("group:54321:r--\n"),
        "{list}"
    );
    rig.cp(&["-a", "--numeric-ids", "run/", &url("numbered")])
        .complete();
    assert_archived(&rig.path("run"), &rig.path("all/numbered"));
    // And back: the names are this machine's again.
    rig.cp(&["-a", &url("named"), "back"]).complete();
    assert_archived(&rig.path("run"), &rig.path("back"));
}

/// Names of a list are looked up one by one, so their metadata takes another path through the code than in a scan.
#[test]
fn metadata_of_listed_entries_arrives() {
    let mut rig = Rig::for_user(false);
    for name in ["tree/parent/named", "tree/contents/in it", "tree/one"] {
        rig.write(name, name);
    }
    let tree = rig.path("tree");
    fs::hard_link(tree.join("one"), tree.join("two")).expect("linked");
    for name in [
        "parent",
        "parent/named",
        "contents",
        "contents/in it",
        "one",
    ] {
        let value = ["-n", "user.named", "-v", name];
        tool("setfattr", &value, &tree.join(name));
    }
    tool("setfacl", &["-m", "d:u:33:rwx"], &tree.join("parent"));
    tool("setfacl", &["-m", "u:33:rw"], &tree.join("parent/named"));
    tool("mkfifo", &[], &tree.join("fifo"));
    let list = "parent/named\ncontents/\ntwo\none\nfifo\n.\n";
    fs::write(rig.path("list"), list).expect("written");
    rig.start(&[]);
    let (there, back) = (rig.url("there"), "back".to_owned());
    let exported = rig.export.join("there");
    for (from, to, at) in [
        ("tree", "here", rig.path("here")),
        ("tree", &there, exported),
        (&there, &back, rig.path("back")),
    ] {
        let kept = ["--xattrs", "--acls", "--specials", "--strict"];
        rig.cp(&[&kept[..], &["--files-from=list", from, to]].concat())
            .complete();
        assert_archived(&tree, &at);
    }
}

/// The same as rsync. Labels of security modules belong to each machine.
#[test]
fn security_attributes_that_only_the_destination_has_go() {
    if !needs_root() {
        return;
    }
    let rig = Rig::for_user(false);
    rig.write("src/f", "f");
    let run = || {
        let outcome = rig.client(&["sync", "--json", "--archive", "src", "dst"]);
        outcome.complete().number("adjusted")
    };
    run();
    for path in ["dst/f", "dst"] {
        for name in ["security.other", "security.SMACK64TEST"] {
            let path = rig.path(path);
            let set = rustix::fs::setxattr(&path, name, b"x", rustix::fs::XattrFlags::empty());
            set.expect("root may");
        }
    }
    assert_eq!(run(), 2);
    let mut list = [0; 512];
    let bytes = rustix::fs::listxattr(rig.path("dst/f"), &mut list[..]).expect("there");
    let list = String::from_utf8_lossy(&list[..bytes]).into_owned();
    assert!(!list.contains("security.other"), "{list}");
    assert!(list.contains("security.SMACK64TEST"), "{list}");
    assert_eq!(run(), 0);
}
