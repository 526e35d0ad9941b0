//! Owns one node of a cluster under test: its home, its process, its signals, and the commands that ask it.
//! Does not know the purpose of its commands.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::network::Network;
use super::slow::Slowed;
use crate::bench::process::kernel::cpu_ticks;

/// Port of every node, in its own namespace.
pub(crate) const PORT: u16 = 7272;
/// Time in seconds within which a command of an operator must end: a stopped node never answers.
const ANSWER_SECONDS: &str = "10";
/// Time within which a node must answer after its start.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Interval between checks whether the node answers.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A node; dropping this value kills its process.
pub(crate) struct Node {
    /// Number of the node's host in the network.
    pub(crate) host: usize,
    /// Name of the node in its cluster.
    pub(crate) name: String,
    /// Identity of the node.
    pub(crate) identity: String,
    program: PathBuf,
    home: PathBuf,
    export: PathBuf,
    child: Option<Child>,
    slowed: Option<Slowed>,
}

impl Node {
    /// Makes the home of a node, with its identity.
    ///
    /// # Errors
    /// The program is missing or refuses.
    pub(crate) fn new(
        program: &Path,
        host: usize,
        name: &str,
        home: &Path,
        export: &Path,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(home)?;
        fs::create_dir_all(export)?;
        let mut node = Self {
            host,
            name: name.to_owned(),
            identity: String::new(),
            program: program.to_owned(),
            home: home.to_owned(),
            export: export.to_owned(),
            child: None,
            slowed: None,
        };
        node.ask(&["id"])?.trim().clone_into(&mut node.identity);
        Ok(node)
    }

    /// Starts the node and waits until it answers. Its output is appended to the log.
    ///
    /// # Errors
    /// The node ends, or does not answer in time.
    pub(crate) fn start(&mut self, network: &Network, more: &[&str]) -> anyhow::Result<()> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log())?;
        // The kernel kills the node when this program ends, even after a crash.
        let mut command = network.inside(self.host, "setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(&self.program);
        command.args(["serve", "--listen", &format!("0.0.0.0:{PORT}"), "--export"]);
        command.arg(format!("data={}", self.export.display()));
        let child = command
            .args(more)
            .env("GODWIT_HOME", &self.home)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start a node")?;
        self.child = Some(child);
        let until = Instant::now() + START_LIMIT;
        while self.ask(&["node", "status"]).is_err() {
            let ended = match &mut self.child {
                Some(child) => child.try_wait()?,
                None => None,
            };
            if ended.is_some() || Instant::now() > until {
                // The log would be removed with all other files of the kit.
                let said = fs::read_to_string(self.log()).unwrap_or_default();
                let last = said.lines().last().unwrap_or("it said nothing");
                bail!("{} does not serve: {last}", self.name);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Sends a signal to the node's process, if there is one.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            // The check of the job finds a process that has already ended.
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }

    /// Lets a running node run only for a small part of the time.
    pub(crate) fn slow_down(&mut self) {
        self.slowed = self
            .child
            .as_ref()
            .map(|child| Slowed::new(Pid::from_child(child)));
    }

    /// Ends `slow_down`.
    pub(crate) fn speed_up(&mut self) {
        self.slowed = None;
    }

    /// Kills the node's process, if there is one, and collects it.
    pub(crate) fn kill(&mut self) {
        // After the collection the number of the process may belong to another one.
        self.speed_up();
        if let Some(mut child) = self.child.take() {
            // SIGKILL also ends a process that SIGSTOP has stopped.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Whether the node's process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// The output of an operator's command.
    ///
    /// # Errors
    /// The command fails, or the node does not answer in time.
    pub(crate) fn ask(&self, words: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("timeout");
        command
            .args(["--signal", "KILL", ANSWER_SECONDS])
            .arg(&self.program)
            .args(words)
            .env("GODWIT_HOME", &self.home)
            .stdin(Stdio::null());
        let output = command.output().context("cannot run timeout")?;
        ensure!(
            output.status.success(),
            "{}: godwit {}: {}",
            self.name,
            words.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The document that a command of an operator prints.
    ///
    /// # Errors
    /// The command fails, or prints no document.
    pub(crate) fn document(&self, words: &[&str]) -> anyhow::Result<Value> {
        let text = self.ask(words)?;
        serde_json::from_str(text.trim()).with_context(|| format!("no document: {text}"))
    }

    /// The home directory of the node.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// The log with the node's output.
    pub(crate) fn log(&self) -> PathBuf {
        self.home.with_extension("log")
    }

    /// Processor time of the node's process, in seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let ticks = self.child.as_ref().and_then(|child| cpu_ticks(child.id()));
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let of = |number: u64| number as f64;
        of(ticks.unwrap_or(0)) / of(rustix::param::clock_ticks_per_second())
    }

    /// Writes a mark to the log, to separate later lines.
    pub(crate) fn note(&self, text: &str) {
        let log = OpenOptions::new().append(true).open(self.log());
        if let Ok(mut log) = log {
            // A missing mark affects only readers of the log.
            let _ = writeln!(log, "--- {text}");
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}
