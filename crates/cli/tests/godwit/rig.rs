//! Owns a daemon and a client that tests kill and start again, and the data that goes between them.
//! Does not know what is tested. Everything goes away when dropped, processes by their id.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
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

/// Numbers from a seed (SplitMix64).
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// The first seed of a test, or that in `GODWIT_TEST_SEED`, to see a failure again or to look for others.
pub(crate) fn first_seed(otherwise: u64) -> u64 {
    std::env::var("GODWIT_TEST_SEED").map_or(otherwise, |seed| seed.parse().expect("a number"))
}

/// Writes `bytes` of content of which no 4 KiB are found twice.
pub(crate) fn write_file(path: &Path, bytes: u64, seeded: &mut Seeded) {
    let mut file = File::create(path).expect("made");
    let mut block = vec![0; 1 << 20];
    let mut left = bytes;
    for chunk in block.chunks_mut(8) {
        chunk.copy_from_slice(&seeded.next().to_le_bytes());
    }
    while left > 0 {
        for page in block.chunks_mut(4096) {
            page[..8].copy_from_slice(&seeded.next().to_le_bytes());
        }
        let now = left.min(block.len() as u64);
        file.write_all(&block[..usize::try_from(now).expect("a block")])
            .expect("written");
        left -= now;
    }
}

/// A tree with something of each kind: about `megabytes` of content, most of it in a few large files.
pub(crate) fn make_tree(root: &Path, megabytes: u64, seeded: &mut Seeded) -> u64 {
    fs::create_dir_all(root.join("empty")).expect("made");
    let mut total = 0;
    let mut add = |path: &Path, bytes: u64| {
        write_file(path, bytes, seeded);
        total += bytes;
        seeded.below(1000)
    };
    for number in 0..3 {
        add(
            &root.join(format!("large-{number}")),
            (megabytes << 18) + 12_345 * number,
        );
    }
    for number in 0..megabytes / 8 {
        add(
            &root.join(format!("medium-{number}")),
            (900 << 10) + 31 * number,
        );
    }
    for number in 0..megabytes * 12 {
        let directory = root.join(format!("d{}/e{}", number % 7, number % 31));
        fs::create_dir_all(&directory).expect("made");
        let path = directory.join(format!("small-{number}"));
        let bits = add(&path, number * 97 % 17_000);
        let mode = if bits % 3 == 0 { 0o640 } else { 0o755 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
    }
    symlink("large-0", root.join("link")).expect("made");
    fs::hard_link(root.join("large-1"), root.join("d0/twin")).expect("made");
    fs::hard_link(root.join("d0/e0/small-0"), root.join("d1/small-twin")).expect("made");
    let sparse = File::create(root.join("sparse")).expect("made");
    sparse.set_len(8 << 20).expect("set");
    total
}

/// The judge is another program: nothing to change means that both are the same.
#[track_caller]
pub(crate) fn assert_identical(source: &Path, destination: &Path) {
    let slash = |path: &Path| {
        let mut path = path.as_os_str().to_owned();
        path.push("/");
        path
    };
    let output = Command::new("rsync")
        .args(["-aHi", "--checksum", "--delete", "--dry-run"])
        .arg(slash(source))
        .arg(slash(destination))
        .output()
        .expect("rsync runs");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.is_empty(), "{said}");
}

/// Every file below `root`, with its path from there.
pub(crate) fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("ours to read") {
            let entry = entry.expect("read");
            if entry.file_type().expect("read").is_dir() {
                directories.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(root).expect("below").to_owned());
            }
        }
    }
    found
}

pub(crate) fn is_temporary(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(".godwit-"))
}

/// Nothing of the transfer is left but what was asked for.
#[track_caller]
pub(crate) fn assert_tidy(destination: &Path, home: &Path) {
    let left: Vec<_> = files_below(destination)
        .into_iter()
        .filter(|path| is_temporary(path))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let journals = Rig::journals(home);
    assert!(journals.is_empty(), "{journals:?}");
}

/// Whatever has its final name must be whole, however the transfer ended. Returns how many there are.
#[track_caller]
pub(crate) fn assert_finals_whole(source: &Path, destination: &Path) -> usize {
    let mut finals = 0;
    if !destination.exists() {
        return finals;
    }
    for path in files_below(destination) {
        // Those may be given their final names at this moment.
        if is_temporary(&path) {
            continue;
        }
        let (there, here) = (destination.join(&path), source.join(&path));
        let meta = there.symlink_metadata().expect("final names stay");
        if !meta.is_file() {
            continue;
        }
        finals += 1;
        assert_eq!(
            meta.len(),
            here.metadata().expect("the source").size(),
            "{}",
            path.display()
        );
        let (mut one, mut other) = (
            File::open(&there).expect("opened"),
            File::open(&here).expect("opened"),
        );
        let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
        for offset in (0..meta.len()).step_by(1 << 20) {
            let bytes = usize::try_from((meta.len() - offset).min(1 << 20)).expect("a block");
            one.read_exact(&mut left[..bytes]).expect("read");
            other.read_exact(&mut right[..bytes]).expect("read");
            assert!(
                left[..bytes] == right[..bytes],
                "{} differs in the MiB at {offset}",
                path.display()
            );
        }
    }
    finals
}
