//! Owns one measured process: start, output, processor time, peak memory and end. Does not know the purpose of the process.

pub(crate) mod kernel;

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use kernel::{cpu_ticks, family, listens, peak_rss};

/// The end of the transfer to which a process belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Side {
    Source,
    Destination,
}

impl Side {
    /// The other end.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Source => Self::Destination,
            Self::Destination => Self::Source,
        }
    }
}

/// Resources that the processes of one side used.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Usage {
    /// User and system time of all processes of the side, in seconds; the kernel counts in steps of 10 ms.
    pub(crate) cpu_seconds: f64,
    /// Sum of the peak resident memory of the side's processes, sampled every [`SAMPLE_EVERY`].
    pub(crate) peak_rss_bytes: u64,
}

/// Error of a process that exceeded its time limit.
#[derive(Debug)]
pub(crate) struct TooLong(Duration);

impl std::error::Error for TooLong {}

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not done after {} s", self.0.as_secs())
    }
}

/// Interval between samples of the processes' memory.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);
/// Time within which a service must end after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// Interval between checks whether a service listens.
const LISTEN_LOOK_EVERY: Duration = Duration::from_millis(5);
/// Time within which a service must listen.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Largest number of lines that wait for a reader; later lines are only kept for error messages.
const LINES_WAITING_MAX: usize = 64;
/// Number of last output lines that are quoted if the process fails.
const LINES_KEPT_MAX: usize = 12;

/// A started process; it is killed and collected when this value is dropped, at the latest.
pub(crate) struct Process {
    label: String,
    side: Side,
    child: Child,
    pid: Pid,
    pidfd: OwnedFd,
    /// Peak resident bytes of the process and its descendants, by process id.
    peaks: BTreeMap<u32, u64>,
    lines: Receiver<String>,
    kept: Arc<Mutex<VecDeque<String>>>,
    reader: Option<JoinHandle<()>>,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `command` and reads its standard error line by line; its standard output too if `output` is true.
    ///
    /// # Errors
    /// The process cannot be started.
    pub(crate) fn start(
        label: &str,
        side: Side,
        mut command: Command,
        output: bool,
    ) -> anyhow::Result<Self> {
        let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
        if output {
            command.stdout(writer.try_clone()?);
        }
        command.stderr(writer);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {label}"))?;
        // The command has the writing end of the pipe; after the drop, the lines end with the process.
        drop(command);
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).context("cannot watch a process")?;
        let (sender, lines) = sync_channel(LINES_WAITING_MAX);
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let keeper = Arc::clone(&kept);
        let reader = std::thread::spawn(move || read_lines(reader, &sender, &keeper));
        let label = label.to_owned();
        let peaks = BTreeMap::new();
        let mut process = Self {
            label,
            side,
            child,
            pid,
            pidfd,
            peaks,
            lines,
            kept,
            reader: Some(reader),
            ended: None,
        };
        process.sample();
        Ok(process)
    }

    /// Waits for a line that contains `needle` and returns the rest of the line.
    ///
    /// # Errors
    /// The process ends, or is silent for too long.
    pub(crate) fn line_after(&self, needle: &str) -> anyhow::Result<String> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                bail!(
                    "{} did not say `{needle}`: {}",
                    self.label,
                    self.last_lines()
                );
            };
            if let Some(at) = line.find(needle) {
                return Ok(line[at + needle.len()..].trim().to_owned());
            }
        }
    }

    /// Waits until a socket listens at `port` in the namespace of the process, without connecting to it.
    ///
    /// # Errors
    /// The process ends first, or does not listen in time.
    pub(crate) fn wait_until_it_listens(&self, port: u16) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        let pid = self.child.id();
        while !listens(pid, port) {
            if self.wait(LISTEN_LOOK_EVERY)? || Instant::now() > deadline {
                bail!(
                    "{} does not listen at port {port}: {}",
                    self.label,
                    self.last_lines()
                );
            }
        }
        Ok(())
    }

    /// The last lines of the process's output, for messages.
    pub(crate) fn last_lines(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" | ")
    }

    /// The last line of the process's output that contains `needle`.
    pub(crate) fn last_line_with(&self, needle: &str) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter()
            .rev()
            .find(|line| line.contains(needle))
            .cloned()
    }

    /// Waits for all output lines after the end of a process without remaining descendants.
    pub(crate) fn settle(&mut self) {
        if let Some(reader) = self.reader.take() {
            // If the reader panicked, only some lines are missing in a message.
            let _ = reader.join();
        }
    }

    /// The process id of the program, even if it was started in another namespace.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process has ended.
    ///
    /// # Errors
    /// The kernel gives no answer.
    pub(crate) fn has_ended(&self) -> anyhow::Result<bool> {
        self.wait(Duration::ZERO)
    }

    /// Measures the memory of the process and its descendants.
    pub(crate) fn sample(&mut self) {
        for pid in family(self.child.id()) {
            if let Some(bytes) = peak_rss(pid) {
                let peak = self.peaks.entry(pid).or_default();
                *peak = bytes.max(*peak);
            }
        }
    }

    /// Resources that the process has used so far.
    pub(crate) fn usage(&self) -> Usage {
        let ticks: u64 = family(self.child.id())
            .into_iter()
            .filter_map(cpu_ticks)
            .sum();
        let per_second = rustix::param::clock_ticks_per_second();
        #[expect(
            clippy::cast_precision_loss,
            reason = "ticks of one run are far below 2^52"
        )]
        let cpu_seconds = ticks as f64 / per_second as f64;
        Usage {
            cpu_seconds,
            peak_rss_bytes: self.peaks.values().sum(),
        }
    }

    /// Waits until the process has ended, without collecting it; `false` if it has not ended within `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> anyhow::Result<bool> {
        let mut watched = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let limit = Timespec::try_from(limit).context("a time too long to wait")?;
        Ok(poll(&mut watched, Some(&limit)).context("cannot wait for a process")? > 0)
    }

    /// Collects a process that has ended. A process that must be stopped gets SIGTERM, and later SIGKILL, with all its descendants.
    pub(crate) fn collect(&mut self) -> anyhow::Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        if !self.wait(Duration::ZERO)? {
            // The descendants must be found before their parent ends; later the kernel does not show whose they were.
            let others = handles(family(self.child.id()).into_iter().skip(1));
            // The process may end between the check and the signal.
            let _ = kill_process(self.pid, Signal::TERM);
            if !self.wait(STOP_LIMIT)? {
                self.child.kill().context("cannot kill a process")?;
            }
            stop(&others)?;
        }
        let status = self.child.wait().context("cannot collect a process")?;
        self.ended = Some(status);
        Ok(status)
    }
}

/// References to processes, which stay valid even if the kernel uses a process id again.
fn handles(pids: impl Iterator<Item = u32>) -> Vec<OwnedFd> {
    pids.filter_map(|pid| {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        pidfd_open(pid, PidfdFlags::empty()).ok()
    })
    .collect()
}

/// Ends processes that are not our children: SIGTERM first, SIGKILL if they do not end.
fn stop(processes: &[OwnedFd]) -> anyhow::Result<()> {
    for (signal, limit) in [(Signal::TERM, STOP_LIMIT), (Signal::KILL, STOP_LIMIT)] {
        let deadline = Instant::now() + limit;
        for process in processes {
            // Most of them have ended with their parent.
            let _ = pidfd_send_signal(process, signal);
        }
        let mut left = 0;
        for process in processes {
            let rest = deadline.saturating_duration_since(Instant::now());
            let mut watched = [PollFd::new(process, PollFlags::IN)];
            left += usize::from(poll(&mut watched, Some(&Timespec::try_from(rest)?))? == 0);
        }
        if left == 0 {
            break;
        }
    }
    Ok(())
}

impl Drop for Process {
    fn drop(&mut self) {
        // No other way is left to end a process that survives SIGKILL.
        let _ = self.collect();
    }
}

/// Waits until all of `foreground` have succeeded, and samples them and `background`; then stops `background`. Returns the time since
/// `started` and the resources of each side.
///
/// # Errors
/// A process fails, `interrupted` is set, or `limit` is over.
pub(crate) fn conduct(
    started: Instant,
    foreground: &mut [Process],
    background: &mut [Process],
    limit: Duration,
    interrupted: &dyn Fn() -> bool,
) -> anyhow::Result<(Duration, Usage, Usage)> {
    let mut running = foreground.len();
    while running > 0 {
        let mut watched: Vec<_> = Vec::with_capacity(foreground.len());
        for process in &*foreground {
            if !process.wait(Duration::ZERO)? {
                watched.push(PollFd::new(&process.pidfd, PollFlags::IN));
            }
        }
        running = watched.len();
        if running > 0 {
            poll(&mut watched, Some(&Timespec::try_from(SAMPLE_EVERY)?))?;
        }
        drop(watched);
        if interrupted() {
            bail!("interrupted");
        }
        if started.elapsed() > limit {
            return Err(TooLong(limit).into());
        }
        if running > 0 {
            foreground
                .iter_mut()
                .chain(background.iter_mut())
                .for_each(Process::sample);
        }
    }
    let seconds = started.elapsed();
    let (mut source, mut destination) = (Usage::default(), Usage::default());
    background.iter_mut().for_each(Process::sample);
    for process in foreground.iter().chain(background.iter()) {
        let usage = process.usage();
        let side = if process.side == Side::Source {
            &mut source
        } else {
            &mut destination
        };
        side.cpu_seconds += usage.cpu_seconds;
        side.peak_rss_bytes += usage.peak_rss_bytes;
    }
    for process in foreground {
        let status = process.collect()?;
        process.settle();
        if !status.success() {
            let how = status.signal().map_or_else(
                || format!("exit code {}", status.code().unwrap_or(-1)),
                |signal| format!("signal {signal}"),
            );
            bail!(
                "{} ended with {how}: {}",
                process.label,
                process.last_lines()
            );
        }
    }
    for process in background {
        process.collect()?;
    }
    Ok((seconds, source, destination))
}

fn read_lines(reader: PipeReader, sender: &SyncSender<String>, kept: &Mutex<VecDeque<String>>) {
    for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == LINES_KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(line.clone());
        drop(kept);
        // The receiver may be dropped: messages still use the kept lines.
        let _ = sender.try_send(line);
    }
}

/// Runs a command until it ends.
///
/// # Errors
/// The command cannot be run, or fails.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start("sh", Side::Source, command, true).expect("start a shell")
    }

    #[test]
    fn a_run_ends_with_its_foreground_and_stops_the_background() {
        let background = shell("echo ready on here; exec sleep 600");
        assert_eq!(background.line_after("ready on ").expect("a line"), "here");
        let mut background = [background];
        let mut foreground = [shell("exit 0"), shell("exit 0")];
        let limit = Duration::from_secs(60);
        conduct(
            Instant::now(),
            &mut foreground,
            &mut background,
            limit,
            &|| false,
        )
        .expect("a good end");
        let [background] = &mut background;
        assert_eq!(background.collect().expect("its end").signal(), Some(15));
    }

    #[test]
    fn children_of_a_service_end_with_it() {
        let service = shell("sleep 600 & echo child $!; trap '' TERM; echo ready; wait; wait");
        let child: u32 = service
            .line_after("child ")
            .expect("a line")
            .parse()
            .expect("a number");
        service.line_after("ready").expect("a line");
        let [child] = &handles(std::iter::once(child))[..] else {
            panic!("the child is not there");
        };
        drop(service);
        let mut watched = [PollFd::new(child, PollFlags::IN)];
        assert_eq!(
            poll(&mut watched, Some(&Timespec::default())).expect("look"),
            1
        );
    }

    #[test]
    fn a_failure_quotes_the_last_lines() {
        let mut foreground = [shell("echo what was wrong >&2; exit 3")];
        let limit = Duration::from_secs(60);
        let failure = conduct(Instant::now(), &mut foreground, &mut [], limit, &|| false)
            .expect_err("a failure")
            .to_string();
        assert_eq!(failure, "sh ended with exit code 3: what was wrong");
    }

    #[test]
    fn a_timeout_is_a_different_error_from_a_failure() {
        let mut foreground = [shell("exec sleep 600")];
        let limit = Duration::from_millis(1);
        let failure = conduct(Instant::now(), &mut foreground, &mut [], limit, &|| false);
        assert!(failure.expect_err("too long").is::<TooLong>());
    }

    #[test]
    fn an_interruption_ends_the_wait() {
        let mut foreground = [shell("exec sleep 600")];
        let limit = Duration::from_secs(60);
        assert!(conduct(Instant::now(), &mut foreground, &mut [], limit, &|| true).is_err());
    }
}
