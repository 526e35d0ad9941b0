//! Runs transfers between two other machines: an agent on each, both with the addresses of the other, and data sent directly
//! between them. Does not move data or exchange frames. Repeats the events of the sending agent.
//!
//! This machine decides which part of the sources is selected: rules, times, and the list of names, which follows the errand in
//! parts. The sending agent applies the selection.
//!
//! This machine also writes manifests and lists of failures. Their contents come from lines of the sending agent, which can
//! compute digests from its copy.
//!
//! The sending agent cannot know that the receiving one is gone. This machine sees the end of that agent's ssh and of the streams,
//! and restarts both agents.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use godwit_api::endpoint::{Endpoint, SshPlace};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::{Imposed, JOB_VERSION, JobSpec, Text};
use godwit_api::login::Login;
use godwit_api::settings::{ObeyedBy, Setting};
use godwit_engine::session::Refusal;
use godwit_proto::ErrorCode;
use godwit_proto::agent::{AgentMessage as _, Errand, capability};

use super::by_ssh::{ssh_places, ssh_target};
use super::connection::LOOK_MAX;
use super::list::ListSender;
use super::report::{Report, refusal_of, refused};
use super::retell::{AcrossAttempts, Retold};
use super::{INTERRUPTED, Job};
use crate::env::{AgentOrder, SOFTWARE, StartedAgent};

/// Interval between checks for the user's interrupt.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long to wait after an interrupt until both agents have saved the arrived data.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(20);
/// Wait between two attempts.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// Time without a connection between the two machines after which the agent whose ssh has ended counts as gone.
const APART_PATIENCE: Duration = Duration::from_secs(5);
/// The longest line: a manifest line in base64, and the text around it.
const LINE_BYTES_MAX: u64 = 2 * godwit_store::manifest::LINE_BYTES_MAX as u64;

/// A transfer between two other machines.
pub(super) struct Between<'a> {
    job: &'a Job<'a>,
    /// The sources, all on one machine.
    sources: Vec<&'a SshPlace>,
    /// The machine of the sources.
    login: &'a Login,
    destination: &'a SshPlace,
}

impl<'a> Between<'a> {
    /// A transfer with sources on one machine and the destination on another.
    pub(super) fn of(
        job: &'a Job<'a>,
        sources: &'a [Endpoint],
        destination: &'a SshPlace,
    ) -> Result<Self, Failure> {
        let sources = ssh_places(sources);
        match sources.first() {
            Some(first) => Ok(Self {
                job,
                login: &first.login,
                sources,
                destination,
            }),
            None => Err(Failure::usage("no source was named")),
        }
    }

    /// Runs the transfer to its end, in as many attempts as needed.
    pub(super) fn run(&self) -> Result<Report, Failure> {
        let (job, destination) = (self.job, self.destination);
        let first = self.sources[0];
        let by_way = format!(
            "to copy through this machine: godwit cp {first} DIR, then godwit cp DIR/NAME {destination}"
        );
        if job.settings.via_ssh {
            return Err(Failure::usage(format!(
                "--via-ssh: data between two other machines goes directly between them; {by_way}"
            )));
        }
        if !job.settings.channels.is_empty() {
            return Err(Failure::usage(format!(
                "--channel names paths of this machine, but data between two other machines does not pass through this machine; run godwit on one of them, or {by_way}"
            )));
        }
        let order = self.order().to_json();
        let mut began = false;
        let mut alive = Instant::now();
        let mut backoff = BACKOFF_FIRST;
        let mut across = AcrossAttempts::new(job.settings.retry_for);
        let mut lost: Option<Instant> = None;
        loop {
            let why = match self.attempt(&order, &mut across) {
                Ok(Ended::With(report, unreachable)) => {
                    if unreachable {
                        job.run.events.note(&by_way);
                    }
                    return Ok(*report);
                }
                Ok(Ended::Lost { moved, peer }) => {
                    if moved || !began {
                        alive = Instant::now();
                        backoff = BACKOFF_FIRST;
                        lost = None;
                    }
                    began = true;
                    format!("the connection to {peer} was lost")
                }
                Ok(Ended::Failed(failure)) => return Err(failure),
                Err(refusal) if job.run.goes_on() && !(began && refusal.is_retryable()) => {
                    return Err(refused(&refusal));
                }
                Err(refusal) => refusal.to_string(),
            };
            let interrupted = !job.run.goes_on();
            if interrupted || alive.elapsed() >= job.settings.retry_for {
                return Err(match interrupted {
                    true => Failure::new(FailureCode::Cancelled, INTERRUPTED),
                    false => Failure::new(FailureCode::ConnectionLost, why),
                });
            }
            let since = *lost.get_or_insert_with(Instant::now);
            across.note_loss(&*job.run.events, since, job.env.started, &why);
            let until = Instant::now() + backoff;
            while job.run.goes_on() && Instant::now() < until {
                std::thread::park_timeout(LOOK_EVERY);
            }
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    /// The job for the sending agent.
    fn order(&self) -> JobSpec {
        let (spec, to) = (self.job.spec, self.destination);
        let sources = self.sources.iter();
        JobSpec {
            version: JOB_VERSION,
            kind: spec.kind,
            sources: sources.map(|place| source_there(&place.path)).collect(),
            destination: Endpoint::Ssh(to.clone()),
            settings: settings_for_others(spec),
            selection: spec.selection.clone(),
            member: None,
            items: Vec::new(),
            imposed: Imposed::default(),
        }
    }

    /// Makes one attempt: runs both agents from start to end.
    fn attempt(&self, order: &str, across: &mut AcrossAttempts) -> Result<Ended, Refusal> {
        let (job, login, destination) = (self.job, self.login, self.destination);
        let known = job.env.home.identity().map_err(refusal_of)?;
        let sender = format!("{} {login}", known.id());
        let connectors = &job.env.connectors;
        let carries = AgentOrder {
            client: None,
            sender: sender.clone(),
            targets: Vec::new(),
        };
        let mut carrier = connectors.start_agent(ssh_target(job, login), &carries)?;
        if carrier.capabilities & capability::JOB == 0 {
            return Err(Refusal::own(
                ErrorCode::VERSION,
                format!(
                    "{login}: the godwit there is too old for a transfer to another machine started from here; install this version there ({SOFTWARE}), or name it with --remote-command"
                ),
            ));
        }
        let takes = AgentOrder {
            client: Some(carrier.identity),
            sender: sender.clone(),
            targets: carrier.targets.clone(),
        };
        // The agent exists as long as this attempt.
        let taker = connectors.start_agent(ssh_target(job, &destination.login), &takes)?;
        let errand = Errand {
            job: order.to_owned(),
            peer: destination.login.to_string(),
            identity: taker.identity.to_string(),
            addresses: taker.targets.iter().map(ToString::to_string).collect(),
            sender,
            entries_wanted: job.run.reports.wants_entries(),
            faults_wanted: job.run.reports.wants_faults(),
        };
        let words = errand
            .to_bytes()
            .map_err(|error| Refusal::own(ErrorCode::INTERNAL, error))?;
        let io =
            |error: std::io::Error| Refusal::own(ErrorCode::SSH, format!("{login}: ssh: {error}"));
        carrier.socket.set_nonblocking(false).map_err(io)?;
        carrier.socket.write_all(&words).map_err(io)?;
        carrier
            .socket
            .set_read_timeout(Some(LOOK_EVERY))
            .map_err(io)?;
        let list = match job.chosen.list() {
            Some(list) => Some(ListSender::start(list, &carrier.socket).map_err(io)?),
            None => None,
        };
        let mut retold = Retold::new(
            &login.to_string(),
            &*job.run.events,
            job.env.started,
            &job.run.reports,
            job.settings.digest,
            across,
        );
        let lost = self.retell(&carrier, &taker, &mut retold).map_err(io)?;
        // This ends every thread that writes to the socket.
        let _ = carrier.socket.shutdown(Shutdown::Both);
        if let Some(error) = list.and_then(ListSender::end) {
            return Ok(Ended::Failed(Failure::new(
                FailureCode::InputUnusable,
                format!("--files-from: {error}"),
            )));
        }
        if let Some(failure) = retold.failure() {
            return Ok(Ended::Failed(failure));
        }
        let peer = match lost {
            Lost::Nothing => login,
            Lost::Taker => &destination.login,
        };
        Ok(ended(&carrier, retold, peer))
    }

    /// Repeats the events of the agent, until it hangs up or the receiving agent is gone.
    fn retell(
        &self,
        carrier: &StartedAgent,
        taker: &StartedAgent,
        retold: &mut Retold<'_>,
    ) -> std::io::Result<Lost> {
        let mut input = BufReader::new(carrier.socket.try_clone()?);
        let mut line = Vec::new();
        let mut goodbye: Option<Instant> = None;
        let mut looked = Instant::now();
        let mut quiet = Duration::ZERO;
        loop {
            // This process may have been suspended, too. Such a time does not count as silence of the other machine.
            let now = Instant::now();
            quiet += now.duration_since(looked).min(LOOK_MAX);
            looked = now;
            retold.quiet(quiet);
            if !self.job.run.goes_on() && goodbye.is_none() {
                // At the end of its input, the agent stops all work.
                let _ = carrier.socket.shutdown(Shutdown::Write);
                goodbye = Some(Instant::now());
            }
            if goodbye.is_some_and(|since| since.elapsed() > GOODBYE_PATIENCE) {
                return Ok(Lost::Nothing);
            }
            if retold.apart_for() > APART_PATIENCE && taker.process.ended().is_some() {
                return Ok(Lost::Taker);
            }
            let room = LINE_BYTES_MAX.saturating_sub(line.len() as u64);
            match std::io::Read::take(&mut input, room).read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => {
                    retold.take(&line);
                    line.clear();
                    quiet = Duration::ZERO;
                }
                // The output has ended, or contains a line that no agent writes.
                Ok(_) => return Ok(Lost::Nothing),
                Err(error) if is_later(&error) => {}
                Err(_) => return Ok(Lost::Nothing),
            }
        }
    }
}

/// The settings of this job that concern the agents.
fn settings_for_others(spec: &JobSpec) -> BTreeMap<String, Vec<Text>> {
    let is_theirs = |name: &str| {
        let setting = Setting::find(spec.scope(), name);
        // Figures are counted there and printed here.
        name == "stats" || setting.is_some_and(|found| found.obeyed_by == ObeyedBy::Sender)
    };
    let settings = spec.settings.iter();
    settings
        .filter(|(name, _)| is_theirs(name))
        .map(|(name, texts)| (name.clone(), texts.clone()))
        .collect()
}

/// A source on the other machine, as an endpoint for the agent. Relative paths, and those that begin with a tilde, start at the
/// home directory.
fn source_there(path: &[u8]) -> Endpoint {
    let below = match path {
        b"" | b"~" | b"~/" => b"./",
        _ => path.strip_prefix(b"~/").unwrap_or(path),
    };
    Endpoint::Local(PathBuf::from(OsString::from_vec(below.to_vec())))
}

/// The agent that is gone.
enum Lost {
    /// No agent is gone, or the sending one is.
    Nothing,
    /// The receiving agent: its ssh has ended, and the other machine has no connection to it.
    Taker,
}

/// How an attempt ended.
enum Ended {
    /// The agent has reported its end. The flag is true if the two machines could not reach each other.
    With(Box<Report>, bool),
    /// The agent has not reported its end; `moved` is true if bytes had moved.
    Lost { moved: bool, peer: Login },
    /// A failure on this machine.
    Failed(Failure),
}

fn ended(carrier: &StartedAgent, mut retold: Retold<'_>, peer: &Login) -> Ended {
    let (moved, unreachable) = (retold.moved(), retold.unreachable());
    let error = retold.error();
    let Some((summary, end_counters)) = retold.summary() else {
        let peer = peer.clone();
        return Ended::Lost { moved, peer };
    };
    let code = carrier
        .process
        .wait(Duration::from_secs(2))
        .and_then(|status| status.code());
    let report = Report::retold(summary, end_counters, code, error);
    Ended::With(Box::new(report), unreachable)
}

fn is_later(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::WouldBlock
            | std::io::ErrorKind::TimedOut
            | std::io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_of_another_machine_is_a_path_there() {
        for (path, text) in [
            ("", "./"),
            ("~", "./"),
            ("~/a b", "a b"),
            ("data/x/", "data/x/"),
            ("/data", "/data"),
            ("-", "./-"),
            ("a:b", "./a:b"),
            ("null:", "./null:"),
        ] {
            let there = source_there(path.as_bytes()).to_text();
            assert_eq!(there, text.as_bytes(), "{path}");
        }
    }
}
