//! The first words with an agent through a running ssh, and an explanation where they do not come.
//! Decides nothing about the transfer.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use godwit_api::login::Login;
use godwit_engine::session::Refusal;
use godwit_proto::agent::{
    AGENT_VERSION, AgentMessage as _, MessageReader, ReadError, Started, versions_meet,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::process::SshProcess;

/// How often the user's interrupt is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// From the end of what ssh carries to its own end.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// What is shown of noise before an answer that never came.
const NOISE_SHOWN_BYTES: usize = 500;

/// Who is spoken with, and what a message to the user needs.
pub(super) struct Peer<'a> {
    pub(super) login: &'a Login,
    pub(super) remote_command: &'a str,
    pub(super) process: &'a SshProcess,
    pub(super) interrupted: &'a AtomicBool,
}

impl Peer<'_> {
    /// Sends `words` and waits for the agent's answer; nothing behind it is taken. Gives what stood before it, too.
    pub(super) fn greet(
        &self,
        socket: &mut UnixStream,
        words: &[u8],
    ) -> Result<(Started, Vec<u8>), Refusal> {
        let own = |error: std::io::Error| Refusal::Own(format!("{}: ssh: {error}", self.login));
        socket.set_nonblocking(true).map_err(own)?;
        let mut unsent = words;
        let mut reader = MessageReader::default();
        let mut buffer = [0; 4096];
        while reader.body().is_none() {
            if self.interrupted.load(Ordering::Relaxed) {
                self.process.terminate();
                return Err(Refusal::Own("interrupted by the user".to_owned()));
            }
            let mut want = PollFlags::IN;
            want.set(PollFlags::OUT, !unsent.is_empty());
            let timeout = Timespec::try_from(LOOK_EVERY).ok();
            let mut fds = [PollFd::new(&*socket, want)];
            if !matches!(poll(&mut fds, timeout.as_ref()), Ok(1..)) {
                continue;
            }
            let ready = fds[0].revents();
            if ready.contains(PollFlags::OUT) {
                match socket.write(unsent) {
                    Ok(sent) => unsent = &unsent[sent..],
                    Err(error) if is_later(&error) => {}
                    // Who does not listen has said why, or will have ended.
                    Err(_) => unsent = &[],
                }
            }
            if !ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                continue;
            }
            let room = reader.wants().min(buffer.len());
            match socket.read(&mut buffer[..room]) {
                Ok(0) => return Err(self.explain(reader.noise())),
                Ok(bytes) => {
                    if let Err(error) = reader.take(&buffer[..bytes]) {
                        return Err(self.no_answer(&error, reader.noise()));
                    }
                }
                Err(error) if is_later(&error) => {}
                Err(_) => return Err(self.explain(reader.noise())),
            }
        }
        let started = Started::from_body(reader.body().unwrap_or_default());
        let started = started.map_err(|error| Refusal::Start {
            message: format!("{}: its agent broke the protocol: {error}", self.login),
            retryable: false,
            authentication: false,
        })?;
        Ok((self.check(started)?, reader.noise().to_vec()))
    }

    fn check(&self, started: Started) -> Result<Started, Refusal> {
        let no = |message: String| Refusal::Start {
            message: format!("{}: {message}", self.login),
            retryable: false,
            authentication: false,
        };
        let theirs = (started.version_min, started.version_max);
        if !versions_meet((AGENT_VERSION, AGENT_VERSION), theirs) {
            let (older, remedy) = if theirs.1 < AGENT_VERSION {
                (
                    "older",
                    "install this version there, or name another one with --remote-command",
                )
            } else {
                (
                    "newer",
                    "update this machine's, or name another one with --remote-command",
                )
            };
            return Err(no(format!(
                "its godwit ({}) is too much {older} than this one ({}); {remedy}",
                started.software.escape_default(),
                super::SOFTWARE
            )));
        }
        if !started.problem.is_empty() {
            return Err(no(started.problem));
        }
        Ok(started)
    }

    fn no_answer(&self, error: &ReadError, noise: &[u8]) -> Refusal {
        let what = match error {
            ReadError::Noise => "it prints much and no agent answers",
            ReadError::TooLong => "its agent broke the protocol",
        };
        self.process.terminate();
        Refusal::Start {
            message: format!("{}: {what}{}", self.login, shown(noise)),
            retryable: false,
            authentication: false,
        }
    }

    /// Why ssh ended without an answer.
    fn explain(&self, noise: &[u8]) -> Refusal {
        let status = self.process.wait(END_PATIENCE);
        if status.is_none() {
            self.process.terminate();
        }
        let complaint = self.process.complaint();
        let (message, retryable) = self.reason(status, &complaint);
        let authentication = status.and_then(|status| status.code()) == Some(255)
            && AUTHENTICATION_WORDS
                .iter()
                .any(|words| complaint.contains(words));
        Refusal::Start {
            message: format!("{}: {message}{}", self.login, shown(noise)),
            retryable: retryable && !authentication,
            authentication,
        }
    }

    fn reason(&self, status: Option<ExitStatus>, complaint: &str) -> (String, bool) {
        let command = self.remote_command;
        let said = if complaint.is_empty() {
            String::new()
        } else {
            format!(" (it says: {complaint})")
        };
        match status.and_then(|status| status.code()) {
            Some(255) if complaint.is_empty() => {
                ("ssh failed and did not say why".to_owned(), true)
            }
            Some(255) => (format!("ssh: {complaint}"), true),
            Some(127) => (
                format!(
                    "there is no `{command}`: install godwit there, or say where it is with --remote-command{said}"
                ),
                false,
            ),
            Some(126) => (
                format!(
                    "`{command}` cannot be run there: install a godwit for that machine, or name another one with --remote-command{said}"
                ),
                false,
            ),
            Some(code) => (
                format!(
                    "`{command}` there ended with code {code} and did not answer as an agent: it is another program, or a godwit too old for this one ({}); install this version there, or name it with --remote-command{said}",
                    super::SOFTWARE
                ),
                false,
            ),
            None => (format!("ssh was ended{said}"), true),
        }
    }
}

/// In what OpenSSH's client says when it does not let the user, or this machine the other one, through.
const AUTHENTICATION_WORDS: [&str; 3] = [
    "Permission denied",
    "Host key verification failed",
    "Too many authentication failures",
];

fn shown(noise: &[u8]) -> String {
    let text = String::from_utf8_lossy(&noise[..noise.len().min(NOISE_SHOWN_BYTES)]);
    match text.trim() {
        "" => String::new(),
        text => format!("; before that it printed: {text}"),
    }
}

fn is_later(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
    )
}
