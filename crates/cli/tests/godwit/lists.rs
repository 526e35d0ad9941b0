//! Owns the tests of lists of names: the entries of each name, refusals by name, lists that are long, slow, or read again.
//! Rules are tested in `filters`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::data::{Seeded, first_seed};
use super::judge::assert_no_temporaries;
use super::process::wait_until;
use super::rig::{Rig, as_each_user};

/// Three directions: on this machine, to a node, from a node. Each gets the same tree as `tree` and `export/tree`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Direction {
    Local,
    Push,
    Pull,
}

const DIRECTIONS: [Direction; 3] = [Direction::Local, Direction::Push, Direction::Pull];

impl Direction {
    fn ends(self, rig: &Rig, to: &str) -> (String, String, PathBuf) {
        match self {
            Self::Local => ("tree".to_owned(), to.to_owned(), rig.path(to)),
            Self::Push => ("tree".to_owned(), rig.url(to), rig.path("export").join(to)),
            Self::Pull => (rig.url("tree"), to.to_owned(), rig.path(to)),
        }
    }
}

/// The entries below a directory: kind, mode, time and content or target of each path.
fn listing(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).expect("listed") {
            let path = entry.expect("listed").path();
            let meta = path.symlink_metadata().expect("there");
            let content = if meta.is_dir() {
                waiting.push(path.clone());
                "/".to_owned()
            } else if meta.is_symlink() {
                format!("{:?}", fs::read_link(&path).expect("a link"))
            } else {
                format!("{} {:?}", meta.nlink(), fs::read(&path).expect("read"))
            };
            let name = path.strip_prefix(root).expect("below").to_owned();
            let time = (meta.mtime(), meta.mtime_nsec());
            found.insert(name, format!("{:o} {time:?} {content}", meta.mode()));
        }
    }
    found
}

fn copy_tree(rig: &Rig) {
    let copied = Command::new("cp")
        .arg("-a")
        .args([rig.path("tree"), rig.path("export/tree")])
        .status();
    assert!(copied.expect("cp runs").success());
}

#[test]
fn a_list_brings_what_it_names_and_the_directories_that_lead_there() {
    as_each_user(|rig| {
        let odd = |name: &[u8]| PathBuf::from(OsStr::from_bytes(name));
        rig.write("tree/a/b/file", "file");
        rig.write("tree/a/other", "not named");
        rig.write("tree/-rf", "dash");
        rig.write("tree/dir/sub/file", "in dir");
        rig.write("tree/dir/direct", "in dir");
        fs::create_dir(rig.path("tree").join(odd(b"new\nline"))).expect("made");
        let names = [odd(b"new\nline/caf\xe9"), odd(b"\xff")];
        for name in &names {
            fs::write(rig.path("tree").join(name), "odd").expect("written");
        }
        symlink("/nowhere", rig.path("tree/a/link")).expect("made");
        copy_tree(rig);
        let list = b"a/b/file\0-rf\0new\nline/caf\xe9\0./\xff\0a//b/./file\0a/link\0dir/\0";
        fs::write(rig.path("list"), list).expect("written");
        rig.start(&[]);
        for way in DIRECTIONS {
            let (from, to, at) = way.ends(rig, &format!("to-{way:?}"));
            let line = ["--files-from=list", "--from0", &from, &to];
            let outcome = rig.cp(&line);
            outcome.complete();
            let mut expected = listing(&rig.path("tree"));
            expected
                .retain(|path, _| *path != odd(b"a/other") && !path.starts_with("dir/sub/file"));
            assert_eq!(listing(&at), expected, "{way:?}");
            assert_eq!(outcome.number("files"), 6, "{way:?}");
            rig.cp(&["--files-from=list", "--from0", "--recursive", &from, &to])
                .complete();
            assert_eq!(fs::read(at.join("dir/sub/file")).expect("there"), b"in dir");
            assert!(!at.join("a/other").exists());
            assert_no_temporaries(&at);
        }
    });
}

#[test]
fn forbidden_names_in_a_list_are_refused_by_name() {
    as_each_user(|rig| {
        rig.write("tree/good", "good");
        rig.write("tree/file", "file");
        rig.write("secret", "secret");
        symlink("..", rig.path("tree/up")).expect("made");
        copy_tree(rig);
        let names = [
            "../secret",
            "/etc/passwd",
            "good/../../secret",
            "up/secret",
            "missing",
            "missing/below",
            "file/",
            "file/below",
            &"n".repeat(300),
        ];
        fs::write(rig.path("list"), format!("good\n{}\n", names.join("\n"))).expect("written");
        rig.start(&[]);
        for way in DIRECTIONS {
            let (from, to, at) = way.ends(rig, &format!("to-{way:?}"));
            let outcome = rig.cp(&["--files-from=list", "--failed=failed", &from, &to]);
            outcome.expect(3, "partial");
            assert_eq!(outcome.number("failed"), names.len() as u64, "{outcome:?}");
            let mut failed: Vec<String> = rig
                .read("failed")
                .split(|byte| *byte == 0)
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .filter(|name| !name.is_empty())
                .collect();
            let mut written = names.map(|name| name.trim_end_matches('/').to_owned());
            failed.sort_unstable();
            written.sort_unstable();
            assert_eq!(failed, written, "{way:?}");
            for name in names {
                outcome.says(&name[..name.len().min(200)]);
            }
            assert_eq!(listing(&at).len(), 1, "{way:?}");
            assert_eq!(fs::read(at.join("good")).expect("there"), b"good");
        }
    });
}

#[test]
fn random_lists_bring_what_they_bring_to_rsync() {
    let first = first_seed(1);
    let mut rig = Rig::new();
    rig.start(&[]);
    let tree = rig.path("tree");
    fs::create_dir(&tree).expect("made");
    let mut paths = vec![Vec::new()];
    let mut seeded = Seeded(first);
    for number in 0..60 {
        let parent = &paths[usize::try_from(seeded.below(paths.len() as u64)).expect("an index")];
        let path = [parent, format!("n{number}").as_bytes()].concat();
        let at = tree.join(OsStr::from_bytes(&path));
        match seeded.below(4) {
            0 => fs::write(at, "x").expect("written"),
            1 => symlink("n1", at).expect("made"),
            _ => {
                fs::create_dir(at).expect("made");
                paths.push([&path[..], b"/"].concat());
            }
        }
    }
    // rsync treats times within one second as equal.
    let old = Command::new("find")
        .arg(&tree)
        .args("-exec touch -h -d 2001-02-03T04:05:06.789 {} ;".split(' '))
        .status();
    assert!(old.expect("find runs").success());
    copy_tree(&rig);
    let everything: Vec<Vec<u8>> = listing(&tree)
        .into_keys()
        .map(|path| path.into_os_string().into_vec())
        .collect();
    for seed in first..first + 8 {
        eprintln!("GODWIT_TEST_SEED={seed}");
        let mut seeded = Seeded(seed);
        let mut list = Vec::new();
        for _ in 0..1 + seeded.below(12) {
            let at = usize::try_from(seeded.below(everything.len() as u64)).expect("an index");
            let name = &everything[at];
            let is_directory = paths.contains(&[&name[..], b"/"].concat());
            list.extend([b"", &b"./"[..]][usize::from(seeded.below(4) == 0)]);
            list.extend(name);
            if is_directory && seeded.below(3) == 0 {
                list.push(b'/');
            }
            list.push(b'\n');
        }
        if seeded.below(4) == 0 {
            list.extend(b".\n");
        }
        fs::write(rig.path("list"), &list).expect("written");
        let rules = ["--exclude=n7", "--exclude=n1*/"];
        let rules = &rules[..usize::try_from(seeded.below(3)).expect("few")];
        let recursive = seeded.below(2) == 0;
        let theirs = rig.path(format!("rsync-{seed}"));
        fs::create_dir(&theirs).expect("made");
        let mut rsync = Command::new("rsync");
        rsync
            .arg("-a")
            .args(rules)
            .arg("--files-from")
            .arg(rig.path("list"));
        if recursive {
            rsync.arg("-r");
        }
        let status = rsync.args([tree.join(""), theirs.clone()]).status();
        assert!(status.expect("rsync runs").success());
        for way in DIRECTIONS {
            let (from, to, at) = way.ends(&rig, &format!("to-{seed}-{way:?}"));
            let mut line = vec!["--no-sync", "--files-from=list", &from, &to];
            line.extend(rules);
            if recursive {
                line.push("--recursive");
            }
            rig.cp(&line).complete();
            let shown = String::from_utf8_lossy(&list);
            assert_eq!(
                listing(&at),
                listing(&theirs),
                "{way:?} {rules:?} {recursive} {shown}"
            );
        }
    }
}

#[test]
fn several_names_of_one_file_stay_one_file() {
    let mut rig = Rig::new();
    rig.write("tree/d/one", "content");
    fs::hard_link(rig.path("tree/d/one"), rig.path("tree/two")).expect("linked");
    fs::hard_link(rig.path("tree/d/one"), rig.path("tree/unnamed")).expect("linked");
    copy_tree(&rig);
    fs::write(rig.path("list"), "two\nd/one\ntwo\n").expect("written");
    rig.start(&[]);
    for way in DIRECTIONS {
        let (from, to, at) = way.ends(&rig, &format!("to-{way:?}"));
        rig.cp(&["--files-from=list", &from, &to]).complete();
        let inode = |name: &str| fs::metadata(at.join(name)).expect("there").ino();
        assert_eq!(inode("two"), inode("d/one"), "{way:?}");
        assert!(!at.join("unnamed").exists());
    }
}

/// A run with standard input from the test.
struct Fed {
    child: Child,
    input: BufWriter<std::process::ChildStdin>,
}

impl Fed {
    fn start(mut command: Command, line: &[&str]) -> Self {
        let mut child = command
            .args(["cp", "--json", "--files-from=-"])
            .args(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("it runs");
        let input = BufWriter::new(child.stdin.take().expect("piped"));
        Self { child, input }
    }

    fn name(&mut self, name: &str) {
        writeln!(self.input, "{name}")
            .and_then(|()| self.input.flush())
            .expect("it reads");
    }

    /// Ends the list and waits. Returns the exit code and the summary.
    fn end(self) -> (Option<i32>, Value) {
        drop(self.input);
        let output = self.child.wait_with_output().expect("it ends");
        let text = String::from_utf8(output.stdout).expect("text");
        let last = text.lines().next_back().unwrap_or_default();
        (
            output.status.code(),
            serde_json::from_str(last).expect("JSON"),
        )
    }
}

#[test]
fn a_slow_list_is_followed_as_it_comes() {
    let mut rig = Rig::new();
    for number in 0..5 {
        rig.write(&format!("tree/d{number}/file"), format!("{number}"));
    }
    copy_tree(&rig);
    rig.start(&[]);
    for way in DIRECTIONS {
        let (from, to, at) = way.ends(&rig, &format!("to-{way:?}"));
        let mut run = Fed::start(rig.client_command(), &[&from, &to]);
        for number in 0..5 {
            let name = format!("d{number}/file");
            run.name(&name);
            // The list is still open. Entries named so far must arrive all the same.
            let come = wait_until(|| fs::read(at.join(&name)).ok());
            assert_eq!(come, Some(format!("{number}").into_bytes()), "{way:?}");
        }
        let (code, summary) = run.end();
        assert_eq!((code, &summary["files"]), (Some(0), &5.into()), "{summary}");
    }
}

#[test]
fn a_list_that_came_by_a_pipe_is_read_again_when_the_node_comes_back() {
    for pull in [true, false] {
        let mut rig = Rig::new();
        let tree = if pull {
            rig.export.join("tree")
        } else {
            rig.path("tree")
        };
        fs::create_dir(&tree).expect("made");
        for name in ["one", "two"] {
            fs::write(tree.join(name), name).expect("written");
        }
        rig.start(&[]);
        let here = tree.to_str().expect("text").to_owned();
        let (from, to, at) = match pull {
            true => (
                rig.url("tree"),
                rig.path("to").to_str().expect("text").to_owned(),
                rig.path("to"),
            ),
            false => (here, rig.url("to"), rig.export.join("to")),
        };
        let mut run = Fed::start(rig.client_command(), &[&from, &to]);
        run.name("one");
        assert!(wait_until(|| at.join("one").exists().then_some(())).is_some());
        rig.kill_daemon();
        rig.start(&[]);
        run.name("two");
        assert!(
            wait_until(|| at.join("two").exists().then_some(())).is_some(),
            "{pull}"
        );
        let (code, summary) = run.end();
        assert_eq!(code, Some(0), "{summary}");
    }
}

#[test]
fn an_interrupt_is_obeyed_while_a_list_is_waited_for() {
    let mut rig = Rig::new();
    rig.write("tree/file", "x");
    copy_tree(&rig);
    rig.start(&[]);
    for way in DIRECTIONS {
        let (from, to, at) = way.ends(&rig, &format!("to-{way:?}"));
        let mut run = Fed::start(rig.client_command(), &[&from, &to]);
        run.name("file");
        assert!(wait_until(|| at.join("file").exists().then_some(())).is_some());
        let id = i32::try_from(run.child.id()).expect("an id");
        let id = rustix::process::Pid::from_raw(id).expect("not 0");
        rustix::process::kill_process(id, rustix::process::Signal::INT).expect("ours");
        let ended = wait_until(|| run.child.try_wait().expect("ours"));
        assert_eq!(ended.expect("it ends").code(), Some(5), "{way:?}");
    }
}

/// Lines of the long list, and existing files.
const LINES: u64 = 1_000_000;
const FILES: u64 = 2_000;

/// Every tenth line names an existing file, most files several times. The other lines name nothing.
#[test]
fn a_million_names_take_bounded_memory() {
    let mut rig = Rig::new();
    for number in 0..FILES {
        rig.write(
            &format!("tree/d{}/f{number}", number % 50),
            number.to_le_bytes(),
        );
    }
    copy_tree(&rig);
    let list = fs::File::create(rig.path("list")).expect("made");
    let mut list = BufWriter::new(list);
    let mut missing = 0;
    for line in 0..LINES {
        let number = line / 10 % FILES;
        if line % 10 == 0 {
            writeln!(list, "d{}/f{number}", number % 50).expect("written");
        } else if line % 10 < 4 {
            missing += 1;
            writeln!(list, "d{}/missing-{line}", line % 60).expect("written");
        } else {
            writeln!(list, "d{}", line % 50).expect("written");
        }
    }
    drop(list.into_inner().expect("written"));
    rig.start(&[]);
    for way in [Direction::Pull, Direction::Push] {
        let (from, to, at) = way.ends(&rig, &format!("to-{way:?}"));
        let mut child = rig
            .client_command()
            .args([
                "cp",
                "--json",
                "--memory=8MiB",
                "--files-from=list",
                &from,
                &to,
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it runs");
        let mut failed = 0;
        let mut last = String::new();
        for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
            last = line.expect("text");
            failed += u64::from(last.starts_with("{\"event\":\"failed\""));
        }
        assert_eq!(child.wait().expect("it ends").code(), Some(3), "{last}");
        let summary: Value = serde_json::from_str(&last).expect("JSON");
        assert_eq!(failed, missing, "{way:?} {summary}");
        assert_eq!(summary["failed"], missing, "{summary}");
        assert_eq!(summary["files"], FILES, "{summary}");
        assert_eq!(listing(&at).len() as u64, FILES + 50);
        for side in ["source", "destination"] {
            let bytes = summary["max_rss_bytes"][side].as_u64().expect("known");
            assert!(bytes < 192 << 20, "{way:?} {side}: {summary}");
        }
    }
}

#[test]
fn a_list_that_cannot_be_used_is_reported() {
    let mut rig = Rig::new();
    rig.write("tree/a", "a");
    rig.write("file", "f");
    copy_tree(&rig);
    rig.write("zeros", b"a\0missing\0");
    rig.start(&[]);
    let to = rig.url("to");
    for line in [
        &["--files-from=list", "tree", &to][..],
        &["--files-from=.", "tree", &to],
        &["--files-from=zeros", "tree", "tree", &to],
        &["--files-from=zeros", "file", &to],
        &["--files-from=zeros", "mem:1", &to],
    ] {
        let outcome = rig.cp(line);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        outcome.says("--files-from");
    }
    for way in DIRECTIONS {
        let (from, to, _) = way.ends(&rig, &format!("to-{way:?}"));
        let outcome = rig.cp(&["--files-from=zeros", &from, &to]);
        outcome.expect(3, "partial").says("--from0");
        assert_eq!(outcome.number("failed"), 1, "{outcome:?}");
    }
    let name = rig.url("tree/a");
    let outcome = rig.cp(&["--files-from=zeros", &name, "to"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    outcome.says("not a directory");
    let pattern = OsString::from("--files-from=zeros");
    let outcome = rig.cp(&[pattern, "--from0".into(), "tree".into(), "null:".into()]);
    outcome.expect(3, "partial").says("missing");
}
