//! Owns running programs of ours, with their output and their end. Killed when dropped, by their id.
//! Does not know the commands of the programs.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use godwit_api::failure::FailureCode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// No run takes this long; a test that waits longer has found a standstill.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often a condition is looked at that sends no event: first, and once it has not come for a while. A look may be a request.
const LOOK_EVERY: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(10)];

/// A running program of ours, with its output so far.
pub(crate) struct Process {
    child: Child,
    out: Arc<Mutex<String>>,
    complaint: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// None if it was killed.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) complaint: String,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_with(command, Stdio::null())
    }

    /// Starts a program with this input. The command also holds the input open while the command lives.
    pub(crate) fn start_with(command: &mut Command, input: impl Into<Stdio>) -> Self {
        let mut child = command
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let (out, complaint) = <(Arc<Mutex<String>>, Arc<Mutex<String>>)>::default();
        let readers = vec![
            listen(child.stdout.take().expect("piped"), &out),
            listen(child.stderr.take().expect("piped"), &complaint),
        ];
        Self {
            child,
            out,
            complaint,
            readers,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The whole output so far, standard error last.
    pub(crate) fn said(&self) -> String {
        let [out, complaint] =
            [&self.out, &self.complaint].map(|said| said.lock().expect("no reader panics").clone());
        out + &complaint
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

    /// Waits until its JSON progress shows at least this many arrived bytes.
    pub(crate) fn wait_for_bytes(&mut self, bytes: u64) {
        let arrived = wait_until(|| {
            (self.progress().1 >= bytes || self.has_ended()).then(|| self.progress().1)
        });
        let arrived = arrived.unwrap_or_else(|| panic!("a standstill: {}", self.said()));
        assert!(arrived >= bytes, "it ended before: {}", self.said());
    }

    /// Number of progress events, and the bytes of the last one.
    pub(crate) fn progress(&self) -> (usize, u64) {
        let out = self.out.lock().expect("no reader panics");
        let reported = |line: &&str| line.starts_with("{\"event\":\"progress\"");
        let last = out.lines().rfind(reported).map_or(0, |line| {
            let event: Value = serde_json::from_str(line).expect("JSON");
            event["bytes"].as_u64().expect("a number")
        });
        (out.lines().filter(reported).count(), last)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        // The process may have ended, but has not been waited for, so its id is still valid.
        let _ = kill_process(Pid::from_raw(id).expect("not 0"), signal);
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_some()
    }

    /// Bytes written to files by it so far. None when it has ended.
    pub(crate) fn written(&self) -> Option<u64> {
        self.counted("wchar:")
    }

    /// Bytes read from files by it so far. None when it has ended.
    pub(crate) fn read(&self) -> Option<u64> {
        self.counted("rchar:")
    }

    fn counted(&self, name: &str) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/io", self.child.id())).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
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
        let [out, complaint] = [&self.out, &self.complaint]
            .map(|said| std::mem::take(&mut *said.lock().expect("no reader panics")));
        let outcome = Outcome {
            code: status.code(),
            out,
            complaint,
        };
        assert!(!outcome.complaint.contains("panicked"), "{outcome:?}");
        let killed = status.signal() == Some(Signal::KILL.as_raw());
        assert!(outcome.code.is_some() || killed, "{status}: {outcome:?}");
        outcome
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Outcome {
    /// The whole output, standard error last.
    pub(crate) fn said(&self) -> String {
        format!("{}{}", self.out, self.complaint)
    }

    /// The events that `--json` printed.
    pub(crate) fn events(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{self:?}"));
        self.out.lines().map(parse).collect()
    }

    /// The paths that were reported, in order.
    pub(crate) fn failed(&self) -> Vec<String> {
        let mut paths: Vec<String> = self
            .events()
            .iter()
            .filter(|event| event["event"] == "failed")
            .map(|event| event["path"].as_str().expect("text").to_owned())
            .collect();
        paths.sort();
        paths
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
            .unwrap_or_else(|| panic!("{field}: {summary}"))
    }

    #[track_caller]
    pub(crate) fn expect(&self, code: i32, status: &str) -> &Self {
        assert_eq!(self.code, Some(code), "{}", self.said());
        assert_eq!(self.summary()["status"], status, "{}", self.said());
        self
    }

    #[track_caller]
    pub(crate) fn complete(&self) -> &Self {
        self.expect(0, "complete")
    }

    /// Whether an error, a failed entry, an entry that differs, or the summary has this code.
    pub(crate) fn has(&self, code: FailureCode) -> bool {
        let has = |event: &Value| {
            let differs = event["event"] == "different" && event["kind"] == code.as_str();
            differs || event["code"] == code.as_str()
        };
        self.events().iter().any(has)
    }

    /// Asserts that an event has this code.
    #[track_caller]
    pub(crate) fn expect_code(&self, code: FailureCode) -> &Self {
        assert!(self.has(code), "no {code} in: {}", self.said());
        self
    }

    #[track_caller]
    pub(crate) fn says(&self, words: &str) -> &Self {
        let said = self.said();
        assert!(said.contains(words), "no {words:?} in: {said}");
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

/// Looks until there is an answer. None if no answer came within `PATIENCE`.
pub(crate) fn wait_until<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    let [first, later] = LOOK_EVERY;
    loop {
        let found = look();
        let waited = began.elapsed();
        if found.is_some() || waited > PATIENCE {
            return found;
        }
        std::thread::park_timeout((waited / 20).clamp(first, later));
    }
}
