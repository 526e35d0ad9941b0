//! Owns a daemon and a client that tests kill and start again, and the data that goes between them.
//! Does not know what is tested. Everything goes away when dropped, processes by their id.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use godwit_store::journal::{Recovered, replay};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// No run takes this long; a test that waits longer has found a standstill.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often a condition is looked at that sends no event.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Two homes, an export, a place for sources, and a daemon between its kills.
pub(crate) struct Rig {
    directory: TempDir,
    address: String,
    pub(crate) export: PathBuf,
    pub(crate) daemon_home: PathBuf,
    daemon: Option<Process>,
    wrapper: Vec<OsString>,
}

/// A program of ours that runs, with what it has said so far.
pub(crate) struct Process {
    child: Child,
    said: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

/// How a run of `cp` ended.
pub(crate) struct Outcome {
    /// None if it was killed.
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
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

impl Process {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let said = Arc::new(Mutex::new(String::new()));
        let readers = vec![
            listen(child.stdout.take().expect("piped"), &said),
            listen(child.stderr.take().expect("piped"), &said),
        ];
        Self {
            child,
            said,
            readers,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().expect("no reader panics").clone()
    }

    /// The first line with these words.
    pub(crate) fn wait_for(&self, words: &str) -> String {
        let find = || {
            let said = self.said();
            let at = said.find(words)?;
            let end = at + said[at..].find('\n')?;
            let start = said[..at].rfind('\n').map_or(0, |before| before + 1);
            Some(said[start..end].to_owned())
        };
        wait_until(find).unwrap_or_else(|| panic!("no {words:?} in: {}", self.said()))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        // It may have ended of itself; it has not been waited for, so the id is still its own.
        let _ = kill_process(Pid::from_raw(id).expect("not 0"), signal);
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_some()
    }

    /// Bytes written to files by it so far. None when it has ended.
    pub(crate) fn written(&self) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/io", self.child.id())).ok()?;
        let line = text.lines().find(|line| line.starts_with("wchar:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> Outcome {
        let end = wait_until(|| self.child.try_wait().expect("our child"));
        let Some(status) = end else {
            let said = self.said();
            self.signal(Signal::KILL);
            panic!("it does not end: {said}");
        };
        for reader in self.readers.drain(..) {
            reader.join().expect("reads to the end");
        }
        let said = self.said();
        assert!(!said.contains("panicked"), "{said}");
        let killed = status.signal() == Some(Signal::KILL.as_raw());
        assert!(status.code().is_some() || killed, "{status}: {said}");
        Outcome {
            code: status.code(),
            said,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Outcome {
    /// The last event.
    pub(crate) fn summary(&self) -> Value {
        let last = self
            .said
            .lines()
            .rfind(|line| line.starts_with("{\"event\":\"summary\""))
            .unwrap_or_else(|| panic!("no summary in: {}", self.said));
        serde_json::from_str(last).expect("JSON")
    }

    pub(crate) fn number(&self, field: &str) -> u64 {
        let summary = self.summary();
        summary[field]
            .as_u64()
            .unwrap_or_else(|| panic!("{field}: {summary}"))
    }

    #[track_caller]
    pub(crate) fn expect(&self, code: i32, status: &str) -> &Self {
        assert_eq!(self.code, Some(code), "{}", self.said);
        assert_eq!(self.summary()["status"], status, "{}", self.said);
        self
    }

    #[track_caller]
    pub(crate) fn complete(&self) -> &Self {
        self.expect(0, "complete")
    }

    #[track_caller]
    pub(crate) fn says(&self, words: &str) -> &Self {
        assert!(self.said.contains(words), "no {words:?} in: {}", self.said);
        self
    }
}

fn listen(from: impl std::io::Read + Send + 'static, said: &Arc<Mutex<String>>) -> JoinHandle<()> {
    let said = Arc::clone(said);
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n') {
            let Ok(line) = line else { return };
            let mut said = said.lock().expect("no reader panics");
            said.push_str(&String::from_utf8_lossy(&line));
            said.push('\n');
        }
    })
}

/// Looks until there is an answer. None when there was none for far too long.
pub(crate) fn wait_until<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        let found = look();
        if found.is_some() || Instant::now() > until {
            return found;
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
}
