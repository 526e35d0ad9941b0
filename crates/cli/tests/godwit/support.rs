//! Owns a small world for a test: a daemon with an export, a client that it knows, both run by one user.
//! Does not know what is tested. Everything goes away when dropped, processes by their id.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const NOBODY: u32 = 65_534;

/// Two homes, an export named `data`, and a place for sources.
pub(crate) struct World {
    directory: TempDir,
    binary: PathBuf,
    unprivileged_by_us: bool,
    daemon: Option<Child>,
    address: String,
    pub(crate) identity: String,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) complaint: String,
}

/// Runs the test as each user that we can be: as the one we are, and if that is root, as one without rights.
pub(crate) fn as_each_user(test: impl Fn(&mut World)) {
    test(&mut World::new(false));
    if is_root() {
        test(&mut World::new(true));
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl World {
    /// `give_up_rights` is for root only.
    pub(crate) fn new(give_up_rights: bool) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut binary = PathBuf::from(env!("CARGO_BIN_EXE_godwit"));
        if give_up_rights {
            // The way to the original may be closed to others.
            let copy = directory.path().join("godwit");
            // By a process of its own: what we hold open for writing, a child forked meanwhile by another test holds
            // too, and then it cannot be run.
            let copied = Command::new("cp").args([&binary, &copy]).status();
            assert!(copied.expect("cp runs").success(), "copied");
            binary = copy;
        }
        let world = Self {
            directory,
            binary,
            unprivileged_by_us: give_up_rights,
            daemon: None,
            address: String::new(),
            identity: String::new(),
        };
        world.make_dirs("export");
        world.own();
        world
    }

    /// Whether permissions hold for whoever runs the binary.
    pub(crate) fn unprivileged(&self) -> bool {
        self.unprivileged_by_us || !is_root()
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn make_dirs(&self, name: &str) {
        fs::create_dir_all(self.path(name)).expect("made");
    }

    /// A file with the directories above it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("in the world")).expect("made");
        fs::write(path, content).expect("written");
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Hands everything to the user that the binary runs as.
    pub(crate) fn own(&self) {
        if self.unprivileged_by_us {
            hand_over(self.directory.path());
        }
    }

    /// A command as that user, in the world's directory.
    pub(crate) fn command(&self, home: &str) -> Command {
        let mut command = if self.unprivileged_by_us {
            let mut command = Command::new("setpriv");
            let id = NOBODY.to_string();
            command
                .args([format!("--reuid={id}"), format!("--regid={id}")])
                .args(["--clear-groups", "--"])
                .arg(&self.binary);
            command
        } else {
            Command::new(&self.binary)
        };
        command
            .env("GODWIT_HOME", self.path(home))
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, home: &str, line: &[S]) -> Outcome {
        self.own();
        let output = self.command(home).args(line).output().expect("it runs");
        let outcome = Outcome {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("text"),
            complaint: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        assert!(!outcome.complaint.contains("panicked"), "{outcome:?}");
        assert!(outcome.code.is_some(), "{outcome:?}");
        outcome
    }

    /// Starts the daemon, with a client that may do everything.
    pub(crate) fn start(&mut self, more: &[&str]) {
        self.serve(more);
        let us = self.run("client", &["id"]).out;
        let line = ["authorize", us.trim(), "--read", "--write"];
        assert_eq!(self.run("daemon", &line).code, Some(0));
        let line = ["trust", &self.address, &self.identity];
        assert_eq!(self.run("client", &line).code, Some(0));
    }

    /// Starts the daemon, which knows nobody.
    pub(crate) fn serve(&mut self, more: &[&str]) {
        self.own();
        let mut export = OsString::from("data=");
        export.push(self.path("export"));
        let mut daemon = self
            .command("daemon")
            .args(["serve", "--listen", "127.0.0.1:0", "--export"])
            .arg(export)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the daemon starts");
        let mut line = String::new();
        BufReader::new(daemon.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("a line");
        self.daemon = Some(daemon);
        let mut words = line.split_whitespace().skip(2);
        self.address = words.next().expect("an address").to_owned();
        self.identity = words.nth(1).expect("an identity").to_owned();
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("godwit://{}/data/{path}", self.address)
    }

    /// A run of `cp --json`.
    pub(crate) fn cp<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Outcome {
        let mut line: Vec<&OsStr> = vec!["cp".as_ref(), "--json".as_ref()];
        line.extend(arguments.iter().map(AsRef::as_ref));
        self.run("client", &line)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // It may have ended of itself.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        open_up(self.directory.path());
    }
}

impl Outcome {
    pub(crate) fn events(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{self:?}"));
        self.out.lines().map(parse).collect()
    }

    /// The last event.
    pub(crate) fn summary(&self) -> Value {
        let last = self.events().pop().unwrap_or_else(|| panic!("{self:?}"));
        assert_eq!(last["event"], "summary", "{self:?}");
        last
    }

    #[track_caller]
    pub(crate) fn number(&self, field: &str) -> u64 {
        let summary = self.summary();
        summary[field]
            .as_u64()
            .unwrap_or_else(|| panic!("{summary}"))
    }

    #[track_caller]
    pub(crate) fn expect(&self, code: i32, status: &str) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.summary()["status"], status, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn complete(&self) -> &Self {
        self.expect(0, "complete")
    }

    #[track_caller]
    pub(crate) fn says(&self, words: &str) -> &Self {
        let said = self.out.contains(words) || self.complaint.contains(words);
        assert!(said, "no {words:?} in {self:?}");
        self
    }
}

/// By a program that goes deeper than a path may be long. What was handed over before keeps its set-id bits.
fn hand_over(path: &Path) {
    let changed = Command::new("chown")
        .args(["-R", "-h", "--from=0"])
        .arg(format!("{NOBODY}:{NOBODY}"))
        .arg(path)
        .status();
    assert!(changed.expect("chown runs").success(), "we are root");
}

/// So that everything can be removed without rights.
fn open_up(path: &Path) {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return;
    };
    if meta.is_dir() {
        // What cannot be removed stays; the test has a verdict already.
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            open_up(&entry.path());
        }
    }
}
