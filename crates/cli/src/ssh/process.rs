//! One running ssh: its input and output as a socket, its errors, its end.
//! Does not know the data that goes through ssh.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// Kept bytes of the errors of ssh: the last ones, which hold the reason.
const COMPLAINT_BYTES_MAX: usize = 8 << 10;

/// How long an idle ssh may take to end before the first signal, and then before the kill.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// The words of OpenSSH's client when a password was wrong and it asks for another.
const ASKS_AGAIN: &str = "Permission denied, please try again";

/// Signals of the terminal must not end ssh before this program has ended the session through it.
const WRAPPER: &str = "trap '' INT HUP QUIT; exec \"$@\"";

/// A running ssh. Dropping it ends ssh, unless `leave` was called.
pub(crate) struct SshProcess {
    child: Mutex<Child>,
    pid: Pid,
    complaint: Arc<Mutex<Vec<u8>>>,
    reader: Mutex<Option<JoinHandle<()>>>,
    left: AtomicBool,
}

impl godwit_run::AgentProcess for SshProcess {
    fn ended(&self) -> Option<ExitStatus> {
        self.ended()
    }

    fn wait(&self, timeout: Duration) -> Option<ExitStatus> {
        self.wait(timeout)
    }
}

impl SshProcess {
    /// Runs ssh; returns the other end of its standard input and output.
    pub(crate) fn start(line: &[OsString]) -> io::Result<(Self, UnixStream)> {
        let (near, far) = UnixStream::pair()?;
        let input: OwnedFd = far.try_clone()?.into();
        let output: OwnedFd = far.into();
        let mut child = Command::new("/bin/sh")
            .args(["-c", WRAPPER, "sh"])
            .args(line)
            .stdin(input)
            .stdout(output)
            .stderr(Stdio::piped())
            .spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("a process without an id"))?;
        let complaint = Arc::new(Mutex::new(Vec::new()));
        let (kept, stderr) = (Arc::clone(&complaint), child.stderr.take());
        let body = move || {
            let Some(mut stderr) = stderr else { return };
            let mut piece = [0; 1024];
            while let Ok(bytes @ 1..) = stderr.read(&mut piece) {
                let mut kept = locked(&kept);
                kept.extend_from_slice(&piece[..bytes]);
                let excess = kept.len().saturating_sub(COMPLAINT_BYTES_MAX);
                kept.drain(..excess);
            }
        };
        let reader = std::thread::Builder::new()
            .name("gw-ssh".to_owned())
            .spawn(body)?;
        let process = Self {
            child: Mutex::new(child),
            pid,
            complaint,
            reader: Mutex::new(Some(reader)),
            left: AtomicBool::new(false),
        };
        Ok((process, near))
    }

    /// The exit status, if ssh has ended.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        locked(&self.child).try_wait().ok().flatten()
    }

    /// Waits for the end of ssh.
    pub(crate) fn wait(&self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let timeout = Timespec::try_from(left.min(END_PATIENCE)).ok();
            // The process has not been waited for, so its id is still valid.
            match pidfd_open(self.pid, PidfdFlags::empty()) {
                Ok(process) => {
                    let _ = poll(
                        &mut [PollFd::new(&process, PollFlags::IN)],
                        timeout.as_ref(),
                    );
                }
                Err(_) => std::thread::park_timeout(Duration::from_millis(10).min(left)),
            }
        }
    }

    /// How often ssh has refused a password so far and asked again.
    pub(crate) fn refused(&self) -> usize {
        let kept = locked(&self.complaint);
        String::from_utf8_lossy(&kept).matches(ASKS_AGAIN).count()
    }

    /// The end of the standard error of ssh as one line; complete once ssh has ended.
    pub(crate) fn complaint(&self) -> String {
        if self.ended().is_some()
            && let Some(reader) = locked(&self.reader).take()
        {
            // A child of ssh may hold standard error open for long. The lines that count came before.
            let until = Instant::now() + Duration::from_millis(200);
            while !reader.is_finished() && Instant::now() < until {
                std::thread::park_timeout(Duration::from_millis(5));
            }
        }
        one_line(&String::from_utf8_lossy(&locked(&self.complaint)))
    }

    /// Sends a signal to end ssh.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Lets ssh end when it is finished. ssh loses no data.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Waits a moment for the end of ssh, and then ends it, because it is idle. If other ssh processes share the connection,
    /// ssh keeps it open for them.
    pub(crate) fn end(&self) {
        self.end_after(END_PATIENCE);
    }

    /// The same with another patience, because the last data may still be on the network.
    pub(crate) fn end_after(&self, mut patience: Duration) {
        for signal in [Signal::TERM, Signal::KILL] {
            if self.wait(patience).is_some() || serves_others(self.pid) {
                return;
            }
            self.signal(signal);
            patience = END_PATIENCE;
        }
        let _ = self.wait(END_PATIENCE);
    }

    fn signal(&self, signal: Signal) {
        if self.ended().is_none() && !serves_others(self.pid) {
            // The process may end at this moment. Its id stays valid until it is waited for.
            let _ = kill_process(self.pid, signal);
        }
    }
}

impl Drop for SshProcess {
    fn drop(&mut self) {
        if !self.left.load(Ordering::Relaxed) {
            self.end();
        }
    }
}

/// The lines of a text in one line, each of them once.
pub(super) fn one_line(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join("; ")
}

/// Whether the process listens on a socket of this machine, as an ssh does that shares its connection (`ControlMaster`).
/// False if that cannot be seen.
fn serves_others(process: Pid) -> bool {
    let of = |name: &str| format!("/proc/{}/{name}", process.as_raw_nonzero());
    let Ok(table) = std::fs::read_to_string(of("net/unix")) else {
        return false;
    };
    // Number, references, protocol, flags, type, state, inode, and a path if it has a name.
    let listening: HashSet<String> = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| fields.get(3) == Some(&LISTENING))
        .filter_map(|fields| fields.get(6).map(|inode| format!("socket:[{inode}]")))
        .collect();
    std::fs::read_dir(of("fd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|file| std::fs::read_link(file.path()).ok())
        .any(|target| target.to_str().is_some_and(|name| listening.contains(name)))
}

/// The state of a listening socket in the kernel's table.
const LISTENING: &str = "00010000";

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
