//! Owns one process under measurement: its start, its output, its processor time and peak memory, its end.
//! Does not know the purpose of the process.

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

/// Which end of the transfer a process belongs to.
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
    /// User and system time of all its processes, in seconds; the kernel counts in steps of 10 ms.
    pub(crate) cpu_seconds: f64,
    /// Sum of the peak resident memory of its processes, sampled every [`SAMPLE_EVERY`].
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

/// Between two looks at the memory of the processes.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);
/// How long a service may take to end after it was asked to.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// Between two looks at whether it listens.
const LISTEN_LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a service may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Lines that wait to be looked at; more are only remembered for messages.
const LINES_WAITING_MAX: usize = 64;
/// Last lines of output, quoted when the process fails.
const LINES_KEPT_MAX: usize = 12;

/// A started process; killed and collected at the latest when dropped.
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
    /// Starts `command`; its standard error, and its standard output unless the caller has placed that already
    /// (`output` is false), are read line by line.
    ///
    /// # Errors
    /// When it cannot be started.
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
        // The command holds the writing end of the pipe; with it gone, the end of the process ends the lines.
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
    /// When the process ends or stays silent for too long.
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

    /// Waits until something listens at `port` where the process is, without disturbing it by dialling.
    ///
    /// # Errors
    /// When the process ends first, or after too long.
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

    /// The last lines of its output, for messages.
    pub(crate) fn last_lines(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" | ")
    }

    /// The last line of its output that contains `needle`.
    pub(crate) fn last_line_with(&self, needle: &str) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter()
            .rev()
            .find(|line| line.contains(needle))
            .cloned()
    }

    /// After the end of a process that leaves no descendants: its last lines are all there.
    pub(crate) fn settle(&mut self) {
        if let Some(reader) = self.reader.take() {
            // A reader cannot fail; should it have panicked, some lines are missing in a message.
            let _ = reader.join();
        }
    }

    /// The process id, which belongs to the program even if it was started in another namespace.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// When the kernel gives no answer.
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

    /// Waits until it has ended, without collecting it; `false` when `limit` was over first.
    pub(crate) fn wait(&self, limit: Duration) -> anyhow::Result<bool> {
        let mut watched = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let limit = Timespec::try_from(limit).context("a time too long to wait")?;
        Ok(poll(&mut watched, Some(&limit)).context("cannot wait for a process")? > 0)
    }

    /// Collects a process that has ended. A process that must be stopped first is asked, then killed, with all processes that it has
    /// started.
    pub(crate) fn collect(&mut self) -> anyhow::Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        if !self.wait(Duration::ZERO)? {
            // Found while they are still its descendants; afterwards they are nobody's.
            let others = handles(family(self.child.id()).into_iter().skip(1));
            // It may end between the look and the signal.
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

/// Hold on processes, so that a number that is used again is never taken for them.
fn handles(pids: impl Iterator<Item = u32>) -> Vec<OwnedFd> {
    pids.filter_map(|pid| {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        pidfd_open(pid, PidfdFlags::empty()).ok()
    })
    .collect()
}

/// Ends processes that are not our children: asked first, killed where that does not help.
fn stop(processes: &[OwnedFd]) -> anyhow::Result<()> {
    for (signal, limit) in [(Signal::TERM, STOP_LIMIT), (Signal::KILL, STOP_LIMIT)] {
        let deadline = Instant::now() + limit;
        for process in processes {
            // Most have ended with their parent.
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
        // Nothing more can be done about a process that resists even this.
        let _ = self.collect();
    }
}

/// Waits until all of `foreground` have ended well, sampling them and `background`; then stops the latter. Returns the time since `started`
/// and the resources of each side.
///
/// # Errors
/// When one of them fails, when `interrupted` is set, or after `limit`.
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
        // The receiver may be gone: messages still use the kept lines.
        let _ = sender.try_send(line);
    }
}

/// Runs a command to its end.
///
/// # Errors
/// It cannot be run, or fails.
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
    fn what_a_service_has_started_ends_with_it() {
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
    fn who_takes_too_long_is_told_from_who_fails() {
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
