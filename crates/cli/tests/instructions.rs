//! Counts the instructions of three fixed workloads under valgrind, and compares the counts with the committed ones.
//! Measures no time: the counts are the same on a busy machine, and nearly so on another one.
//!
//! Each workload is a copy or a second run on this machine: both ends of a transfer in one process, on one processor.
//! The binary is that of the tests, not the released one, because the test compares this tree with an earlier one.
//! After an intended change of the counts: `GODWIT_BLESS=1 cargo test -p godwit --test instructions`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Largest accepted increase of a count. Runs of the same tree differ by less than one in a hundred.
const MORE_MAX: f64 = 0.05;
const GODWIT: &str = env!("CARGO_BIN_EXE_godwit");

/// A directory with a data set `set` and separate homes.
struct Place(TempDir);

impl Place {
    fn new(spec: &str) -> Self {
        let place = Self(tempfile::tempdir().expect("make a directory"));
        place.run(place.godwit().args(["gen", spec, "set"]));
        fs::create_dir(place.path().join("into")).expect("make a directory");
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn at_home(&self, mut command: Command) -> Command {
        command
            .current_dir(self.path())
            .env("GODWIT_HOME", self.path().join("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    fn godwit(&self) -> Command {
        self.at_home(Command::new(GODWIT))
    }

    fn run(&self, command: &mut Command) {
        let output = command
            .output()
            .expect("run it; scripts/setup.sh installs valgrind");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {error}");
    }

    /// The instructions of one command, over all its threads.
    fn count(&self, args: &[&str]) -> u64 {
        let log = self.path().join("log");
        let mut command = Command::new("taskset");
        command
            .args(["--cpu-list", &first_processor()])
            .args(["valgrind", "--tool=cachegrind", "--cache-sim=no"])
            .arg("--cachegrind-out-file=/dev/null")
            .arg(format!("--log-file={}", log.display()))
            .arg(GODWIT)
            .args(args);
        self.run(&mut self.at_home(command));
        let log = fs::read_to_string(log).expect("read what valgrind says");
        let count = log
            .lines()
            .find_map(|line| line.split_once("I ").map(|(_, rest)| rest));
        let count = count.unwrap_or_else(|| panic!("valgrind counts nothing: {log}"));
        let digits: String = count.chars().filter(char::is_ascii_digit).collect();
        digits.parse().expect("a count")
    }
}

/// A processor that this process may use.
fn first_processor() -> String {
    let status = fs::read_to_string("/proc/self/status").expect("read our status");
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .expect("the processors that we may use");
    let first = allowed.trim().split(['-', ',']).next();
    first.expect("a processor").to_owned()
}

fn baseline_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/instructions.json")
}

/// Runs all three one after the other, because they share a processor.
#[test]
fn no_workload_takes_more_instructions_than_before() {
    let mut counts = BTreeMap::new();
    let large = Place::new("1x32MiB");
    counts.insert("large", large.count(&["cp", "set", "into/"]));
    let small = Place::new("1500x8KiB/100");
    // How threads meet makes up to three in a hundred of a count. The least of three is steady.
    let into = ["into/", "into2/", "into3/"];
    let copies = into.map(|into| small.count(&["cp", "set", into]));
    counts.insert("small", copies.into_iter().min().expect("three counts"));
    let again = (0..3).map(|_| small.count(&["sync", "set", "into/set"]));
    counts.insert("again", again.min().expect("three counts"));
    for name in ["00/d000000/f00000000", "00/d000014/f00001499"] {
        let copy = fs::read(small.path().join("into/set").join(name)).expect("read the copy");
        assert_eq!(copy.len(), 8192, "{name}");
    }

    if std::env::var_os("GODWIT_BLESS").is_some() {
        let text = serde_json::to_string_pretty(&counts).expect("write the counts");
        fs::write(baseline_path(), text + "\n").expect("write the counts");
        return;
    }
    let text = fs::read_to_string(baseline_path()).expect("read the committed counts");
    let baseline: BTreeMap<String, u64> = serde_json::from_str(&text).expect("parse them");
    let mut too_many = Vec::new();
    for (name, count) in &counts {
        let before = baseline[*name];
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio = *count as f64 / before as f64;
        let line = format!("{name}: {count} instructions, {ratio:.3} × the committed {before}");
        println!("{line}");
        if ratio > 1.0 + MORE_MAX {
            too_many.push(line);
        }
    }
    assert!(too_many.is_empty(), "{}", too_many.join("; "));
}
