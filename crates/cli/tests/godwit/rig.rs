//! Owns a small world for a test: a daemon with an export and a client that it knows, both run by one user.
//! Does not know the tests. Dropping it removes all files, and ends processes by their id.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use godwit_store::journal::{Recovered, replay};
use rustix::process::Signal;
use tempfile::TempDir;

use super::process::{Outcome, Process};

/// The user without rights.
pub(crate) const NOBODY: u32 = 65_534;

/// Two homes, an export named `data`, a place for sources, and a daemon between its kills.
pub(crate) struct Rig {
    directory: TempDir,
    binary: PathBuf,
    unprivileged_by_us: bool,
    address: String,
    pub(crate) identity: String,
    pub(crate) export: PathBuf,
    pub(crate) daemon_home: PathBuf,
    daemon: Option<Process>,
    daemon_wrapper: Vec<OsString>,
    client_wrapper: Vec<OsString>,
}

/// The two ends of a transfer in one direction, of a tree `run42` into a directory `to`. The same command always names the same
/// destination, whatever exists there.
pub(crate) struct Ends {
    pub(crate) source: PathBuf,
    pub(crate) destination: PathBuf,
    pub(crate) receiver_home: PathBuf,
    /// The name of the source in reports: a place of the machine that the client runs on.
    reported: &'static str,
    pub(crate) arguments: [String; 2],
}

/// Runs the test as the current user, and, if that is root, also as a user without rights.
pub(crate) fn as_each_user(test: impl Fn(&mut Rig)) {
    test(&mut Rig::for_user(false));
    if is_root() {
        test(&mut Rig::for_user(true));
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Rig {
    /// In memory if possible, so that many tests do not wait for one disk.
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let directory = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir());
        Self::with(directory.expect("a temporary directory"), None, None)
    }

    /// Where temporary files are, on a disk as a rule. `give_up_rights` is for root only.
    pub(crate) fn for_user(give_up_rights: bool) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut rig = Self::with(directory, None, None);
        if give_up_rights {
            // Other users may not be able to reach the original.
            let copy = rig.path("godwit");
            // A child process copies the file. A file that this process holds open for writing may also be open in a child that
            // another test forks meanwhile, and such a file cannot be run.
            let copied = Command::new("cp").args([&rig.binary, &copy]).status();
            assert!(copied.expect("cp runs").success(), "copied");
            rig.binary = copy;
            rig.unprivileged_by_us = true;
        }
        rig
    }

    /// A rig with an export, and perhaps a daemon's home, elsewhere.
    pub(crate) fn with(directory: TempDir, export: Option<&Path>, home: Option<&Path>) -> Self {
        // A separate address: outgoing connections of other tests then cannot take a port that is free between two lives of the daemon.
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let rig = Self {
            binary: PathBuf::from(env!("CARGO_BIN_EXE_godwit")),
            unprivileged_by_us: false,
            address: format!("127.{}.{high}.{low}:0", 1 + count % 250),
            identity: String::new(),
            export: export.map_or_else(|| directory.path().join("export"), Path::to_owned),
            daemon_home: home.map_or_else(|| directory.path().join("daemon"), Path::to_owned),
            directory,
            daemon: None,
            daemon_wrapper: Vec::new(),
            client_wrapper: Vec::new(),
        };
        fs::create_dir_all(&rig.export).expect("made");
        rig
    }

    /// The daemon runs by this command, which must end with `exec`.
    pub(crate) fn wrap_daemon<S: AsRef<OsStr>>(&mut self, wrapper: impl IntoIterator<Item = S>) {
        self.daemon_wrapper = wrapper
            .into_iter()
            .map(|word| word.as_ref().into())
            .collect();
    }

    /// Clients run by this command, which must end with `exec`.
    pub(crate) fn wrap_client<S: AsRef<OsStr>>(&mut self, wrapper: impl IntoIterator<Item = S>) {
        self.client_wrapper = wrapper
            .into_iter()
            .map(|word| word.as_ref().into())
            .collect();
    }

    /// The daemon listens here from its next start on. Port 0 is any.
    pub(crate) fn listen(&mut self, address: &str) {
        address.clone_into(&mut self.address);
    }

    /// Whether permissions bind the user that runs the binary.
    pub(crate) fn unprivileged(&self) -> bool {
        self.unprivileged_by_us || !is_root()
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn client_home(&self) -> PathBuf {
        self.path("client")
    }

    pub(crate) fn make_dirs(&self, name: &str) {
        fs::create_dir_all(self.path(name)).expect("made");
    }

    /// A file with the directories above it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("in the rig")).expect("made");
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

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The export in a URL with `address`.
    pub(crate) fn url_by(address: &str, path: &str) -> String {
        format!("godwit://{address}/data/{path}")
    }

    pub(crate) fn url(&self, path: &str) -> String {
        Self::url_by(&self.address, path)
    }

    /// Starts the daemon, the first time with a client that may do everything.
    pub(crate) fn start(&mut self, more: &[&str]) {
        let known = !self.identity.is_empty();
        self.serve(more);
        if !known {
            let us = self.client(&["id"]).out;
            let outcome = self.admin(&[
                "access",
                "allow",
                us.trim(),
                "--all-exports",
                "--read",
                "--write",
            ]);
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            self.trust(&self.address, &self.identity);
        }
    }

    /// Starts the daemon. At first it knows no client.
    pub(crate) fn serve(&mut self, more: &[&str]) {
        let daemon = self.launch(more);
        let line = daemon.wait_for("listening on ");
        let mut words = line.split_whitespace().skip(2);
        self.address = words.next().expect("an address").to_owned();
        self.identity = words.nth(1).expect("an identity").to_owned();
        self.daemon = Some(daemon);
    }

    /// The process of a daemon that may end before it listens.
    pub(crate) fn launch(&self, more: &[&str]) -> Process {
        self.own();
        let mut export = OsString::from("data=");
        export.push(&self.export);
        let mut command = self.command(&self.daemon_wrapper, &self.daemon_home);
        command
            .args(["serve", "--listen", &self.address, "--export"])
            .arg(export)
            .args(more);
        Process::start(&mut command)
    }

    /// Runs the daemon to its end, because it refuses to start.
    pub(crate) fn refused_daemon(&self) -> Outcome {
        let mut command = self.command(&self.daemon_wrapper, &self.daemon_home);
        Process::start(command.args(["serve", "--listen", &self.address])).wait()
    }

    /// Has the client trust the process at `address` as our daemon.
    pub(crate) fn trust(&self, address: &str, identity: &str) {
        let outcome = self.client(&["trust", address, identity]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }

    pub(crate) fn daemon(&self) -> &Process {
        self.daemon.as_ref().expect("the daemon runs")
    }

    pub(crate) fn kill_daemon(&mut self) {
        self.end_daemon(Signal::KILL);
    }

    pub(crate) fn end_daemon(&mut self, signal: Signal) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.signal(signal);
            daemon.wait();
        }
    }

    /// Ends the daemon by the signal; returns its outcome.
    pub(crate) fn stop_daemon(&mut self, signal: Signal) -> Outcome {
        let mut daemon = self.daemon.take().expect("the daemon runs");
        daemon.signal(signal);
        daemon.wait()
    }

    /// Runs a command with the client's home to its end.
    pub(crate) fn client<S: AsRef<OsStr>>(&self, line: &[S]) -> Outcome {
        self.begin(line).wait()
    }

    /// A command with the client's home, not yet waited for.
    pub(crate) fn begin<S: AsRef<OsStr>>(&self, line: &[S]) -> Process {
        self.own();
        let mut command = self.command(&self.client_wrapper, &self.client_home());
        Process::start(command.args(line))
    }

    /// A command with the client's home, to be run otherwise than to its end.
    pub(crate) fn client_command(&self) -> Command {
        self.own();
        self.command(&self.client_wrapper, &self.client_home())
    }

    /// Runs a command with the daemon's home to its end.
    pub(crate) fn admin<S: AsRef<OsStr>>(&self, line: &[S]) -> Outcome {
        self.own();
        let mut command = self.command(&[], &self.daemon_home);
        Process::start(command.args(line)).wait()
    }

    /// A run of `cp --json` to its end.
    pub(crate) fn cp<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Outcome {
        self.begin_cp(self.directory.path(), arguments).wait()
    }

    /// A run of `cp --json` from the working directory `from`, not yet waited for.
    pub(crate) fn begin_cp<S: AsRef<OsStr>>(&self, from: &Path, arguments: &[S]) -> Process {
        self.own();
        Process::start(
            self.command(&self.client_wrapper, &self.client_home())
                .args(["cp", "--json"])
                .args(arguments)
                .current_dir(from),
        )
    }

    /// A push and a pull. Nothing is at their ends yet but the directories above.
    pub(crate) fn push_and_pull(&self) -> [Ends; 2] {
        let push = Ends {
            source: self.path("run42"),
            destination: self.export.join("to/run42"),
            receiver_home: self.daemon_home.clone(),
            reported: "run42",
            arguments: ["run42".to_owned(), self.url("to/")],
        };
        let pull = Ends {
            source: self.export.join("run42"),
            destination: self.path("to/run42"),
            receiver_home: self.client_home(),
            reported: "to/run42",
            arguments: [self.url("run42"), "to/".to_owned()],
        };
        [push, pull]
    }

    /// The binary as the user of this rig, in the rig's directory.
    fn command(&self, wrapper: &[OsString], home: &Path) -> Command {
        let mut line = wrapper.to_vec();
        if self.unprivileged_by_us {
            let words = [
                "setpriv".to_owned(),
                format!("--reuid={NOBODY}"),
                format!("--regid={NOBODY}"),
                "--clear-groups".to_owned(),
                "--".to_owned(),
            ];
            line.extend(words.map(OsString::from));
        }
        line.push(self.binary.clone().into());
        let mut command = Command::new(&line[0]);
        if !is_root() {
            // Judges look into /proc as the same user.
            command.env("GODWIT_ALLOW_DUMPS", "1");
        }
        command
            .args(&line[1..])
            .env("GODWIT_HOME", home)
            .current_dir(self.directory.path());
        command
    }

    /// The names of the journals in a home.
    pub(crate) fn journals(home: &Path) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(home.join("journals")) else {
            return Vec::new();
        };
        entries
            .map(|entry| entry.expect("read").path())
            .filter(|path| path.extension() == Some(OsStr::new("journal")))
            .collect()
    }

    /// The entries of the only journal in a home, if there is one with contents.
    pub(crate) fn recovered(home: &Path) -> Option<Recovered> {
        let journals = Self::journals(home);
        assert!(journals.len() <= 1, "{journals:?}");
        let file = File::open(journals.first()?).expect("ours to read");
        replay(BufReader::new(file)).ok()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.daemon = None;
        if !is_root() {
            open_up(self.directory.path());
        }
    }
}

impl Ends {
    /// The arguments of `cp`.
    pub(crate) fn line<'a>(&'a self, flags: &[&'a str]) -> Vec<&'a str> {
        let mut line = flags.to_vec();
        line.extend(self.arguments.iter().map(String::as_str));
        line
    }

    /// How something below the source is called when it is reported.
    pub(crate) fn reported(&self, below: &str) -> String {
        format!("{}/{below}", self.reported)
    }
}

/// Changes the owner by a program that goes deeper than the longest path. Files handed over before keep their set-id bits.
fn hand_over(path: &Path) {
    let changed = Command::new("chown")
        .args(["-R", "-h", "--from=0"])
        .arg(format!("{NOBODY}:{NOBODY}"))
        .arg(path)
        .status();
    assert!(changed.expect("chown runs").success(), "we are root");
}

/// Opens all directories, so that everything can be removed without rights.
fn open_up(path: &Path) {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return;
    };
    if meta.is_dir() {
        // Failures are ignored; the test has a verdict already.
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            open_up(&entry.path());
        }
    }
}
