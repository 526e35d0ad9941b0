//! Owns a daemon and a client that tests kill and start again, and the data that goes between them.
//! Does not know what is tested. Everything goes away when dropped, processes by their id.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use godwit_store::journal::{Recovered, replay};
use rustix::process::Signal;
use tempfile::TempDir;

use super::process::Process;

/// Two homes, an export, a place for sources, and a daemon between its kills.
pub(crate) struct Rig {
    directory: TempDir,
    address: String,
    pub(crate) export: PathBuf,
    pub(crate) daemon_home: PathBuf,
    daemon: Option<Process>,
    wrapper: Vec<OsString>,
}

impl Rig {
    /// In memory where there is some, so that many tests do not wait for one disk.
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let directory = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir());
        Self::with(directory.expect("a temporary directory"), None, None)
    }

    /// With an export, and perhaps a daemon's home, elsewhere.
    pub(crate) fn with(directory: TempDir, export: Option<&Path>, home: Option<&Path>) -> Self {
        // An address of its own: what others connect from can then not take a port that is free between two lives of the daemon.
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let rig = Self {
            address: format!("127.{}.{high}.{low}:0", 1 + count % 250),
            export: export.map_or_else(|| directory.path().join("export"), Path::to_owned),
            daemon_home: home.map_or_else(|| directory.path().join("daemon"), Path::to_owned),
            directory,
            daemon: None,
            wrapper: Vec::new(),
        };
        fs::create_dir_all(&rig.export).expect("made");
        fs::create_dir_all(rig.path("away/deep")).expect("made");
        rig
    }

    /// The daemon runs by this command, which must end in replacing itself.
    pub(crate) fn wrap(&mut self, wrapper: &[&str]) {
        self.wrapper = wrapper.iter().map(OsString::from).collect();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn client_home(&self) -> PathBuf {
        self.path("client")
    }

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The export in a URL, by way of `address`.
    pub(crate) fn url_by(address: &str, path: &str) -> String {
        format!("godwit://{address}/data/{path}")
    }

    pub(crate) fn url(&self, path: &str) -> String {
        Self::url_by(&self.address, path)
    }

    /// Starts the daemon, the first time with a client that may do everything.
    pub(crate) fn start(&mut self) {
        let mut command = match self.wrapper.split_first() {
            Some((program, rest)) => {
                let mut command = Command::new(program);
                command.args(rest).arg(env!("CARGO_BIN_EXE_godwit"));
                command
            }
            None => Command::new(env!("CARGO_BIN_EXE_godwit")),
        };
        let mut export = OsString::from("data=");
        export.push(&self.export);
        command
            .args(["serve", "--listen", &self.address, "--export"])
            .arg(export)
            .env("GODWIT_HOME", &self.daemon_home);
        let daemon = Process::start(&mut command);
        let line = daemon.wait_for("listening on ");
        let mut words = line.split_whitespace().skip(2);
        let address = words.next().expect("an address").to_owned();
        let identity = words.nth(1).expect("an identity").to_owned();
        let first = self.address.ends_with(":0");
        self.address = address;
        self.daemon = Some(daemon);
        if first {
            let us = run(&self.client_home(), &["id"]);
            run(
                &self.daemon_home,
                &["authorize", us.trim(), "--read", "--write"],
            );
            self.trust(&self.address, &identity);
        }
    }

    /// Has the client take whoever listens there for our daemon.
    pub(crate) fn trust(&self, address: &str, identity: &str) {
        run(&self.client_home(), &["trust", address, identity]);
    }

    pub(crate) fn identity(&self) -> String {
        run(&self.daemon_home, &["id"]).trim().to_owned()
    }

    pub(crate) fn daemon(&self) -> &Process {
        self.daemon.as_ref().expect("the daemon runs")
    }

    pub(crate) fn kill_daemon(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.signal(Signal::KILL);
            daemon.wait();
        }
    }

    /// A run of `cp` from the working directory `from`, not yet waited for.
    pub(crate) fn cp<S: AsRef<OsStr>>(&self, from: &Path, arguments: &[S]) -> Process {
        Process::start(
            Command::new(env!("CARGO_BIN_EXE_godwit"))
                .args(["cp", "--json"])
                .args(arguments)
                .current_dir(from)
                .env("GODWIT_HOME", self.client_home()),
        )
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

    /// What the only journal in a home knows, if there is one with something in it.
    pub(crate) fn recovered(home: &Path) -> Option<Recovered> {
        let journals = Self::journals(home);
        assert!(journals.len() <= 1, "{journals:?}");
        let file = File::open(journals.first()?).expect("ours to read");
        replay(BufReader::new(file)).ok()
    }
}

/// Runs a command that moves no data.
fn run(home: &Path, line: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_godwit"))
        .args(line)
        .env("GODWIT_HOME", home)
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{line:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}
