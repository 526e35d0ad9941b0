//! The first messages with an agent through a running ssh, and an explanation if they are missing.
//! Decides nothing about the transfer.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use godwit_api::login::Login;
use godwit_engine::session::Refusal;
use godwit_proto::ErrorCode;
use godwit_proto::agent::{
    AGENT_VERSION, AgentMessage as _, MessageReader, ReadError, Started, versions_meet,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::process::SshProcess;

/// Interval between looks for the user's interrupt.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Longest time from the end of the stream of ssh to the end of ssh.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// Shown bytes of the noise before a missing answer.
const NOISE_SHOWN_BYTES: usize = 500;

/// The peer, and the parts of a message to the user.
pub(super) struct Peer<'a> {
    pub(super) login: &'a Login,
    pub(super) remote_command: &'a str,
    pub(super) process: &'a SshProcess,
    pub(super) interrupted: &'a AtomicBool,
    pub(super) limit: AnswerLimit,
}

/// How long an answer may take. There is no limit while a person types a password or checks the key of a host. With a person, the time
/// counts from the first byte from the other side, because ssh has no question left then.
#[derive(Clone, Copy)]
pub(super) struct AnswerLimit {
    /// The user cannot answer a question.
    pub(super) unattended: bool,
    pub(super) patience: Duration,
}

impl AnswerLimit {
    /// Whether the time is over at `now`; `heard` is the time of the first byte.
    fn is_over(&self, begun: Instant, heard: Option<Instant>, now: Instant) -> bool {
        let since = heard.or_else(|| self.unattended.then_some(begun));
        since.is_some_and(|since| now.saturating_duration_since(since) >= self.patience)
    }
}

impl Peer<'_> {
    /// Sends `words` and waits for the agent's answer; takes no byte after the answer. Also returns the noise before the answer.
    pub(super) fn greet(
        &self,
        socket: &mut UnixStream,
        words: &[u8],
    ) -> Result<(Started, Vec<u8>), Refusal> {
        let own = |error: std::io::Error| {
            Refusal::own(ErrorCode::SSH, format!("{}: ssh: {error}", self.login))
        };
        socket.set_nonblocking(true).map_err(own)?;
        let mut unsent = words;
        let mut reader = MessageReader::default();
        let mut buffer = [0; 4096];
        let begun = Instant::now();
        let mut heard = None;
        while reader.body().is_none() {
            if self.interrupted.load(Ordering::Relaxed) {
                self.process.terminate();
                return Err(Refusal::own(
                    ErrorCode::INTERRUPTED,
                    "interrupted by the user",
                ));
            }
            if self.limit.is_over(begun, heard, Instant::now()) {
                return Err(self.too_late(heard.is_some(), reader.noise()));
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
                    // A peer that does not listen has given its reason, or has ended.
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
                    heard = heard.or_else(|| Some(Instant::now()));
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
            code: ErrorCode::PROTOCOL,
            retryable: false,
        })?;
        Ok((self.check(started)?, reader.noise().to_vec()))
    }

    fn check(&self, started: Started) -> Result<Started, Refusal> {
        let no = |code, message: String| Refusal::Start {
            message: format!("{}: {message}", self.login),
            code,
            retryable: false,
        };
        let theirs = (started.version_min, started.version_max);
        if !versions_meet((AGENT_VERSION, AGENT_VERSION), theirs) {
            let (older, remedy) = if theirs.1 < AGENT_VERSION {
                (
                    "older",
                    "install this version on that machine, or name another program with --remote-command",
                )
            } else {
                (
                    "newer",
                    "update godwit on this machine, or name another program there with --remote-command",
                )
            };
            return Err(no(
                ErrorCode::VERSION,
                format!(
                    "the godwit there ({}) is too much {older} than this one ({}); {remedy}",
                    started.software.escape_default(),
                    super::SOFTWARE
                ),
            ));
        }
        if !started.problem.is_empty() {
            return Err(no(ErrorCode::AGENT, started.problem));
        }
        Ok(started)
    }

    fn no_answer(&self, error: &ReadError, noise: &[u8]) -> Refusal {
        let what = match error {
            ReadError::Noise => "the login prints much text, and no agent answers",
            ReadError::TooLong => "its agent broke the protocol",
        };
        self.process.terminate();
        Refusal::Start {
            message: format!("{}: {what}{}", self.login, shown(noise)),
            code: ErrorCode::BAD_COMMAND,
            retryable: false,
        }
    }

    /// The refusal when ssh runs, but no answer comes.
    fn too_late(&self, heard: bool, noise: &[u8]) -> Refusal {
        let complaint = self.process.complaint();
        self.process.terminate();
        let what = match heard {
            true => "after the text that the login prints, no agent answers",
            false => "no answer comes through ssh",
        };
        let said = match complaint.as_str() {
            "" => String::new(),
            said => format!(" (it says: {said})"),
        };
        Refusal::Start {
            message: format!(
                "{}: {what}, for {} s{said}: ssh, the other machine or its shell hangs; try `ssh {} true`. --retry-for says how long to wait{}",
                self.login,
                self.limit.patience.as_secs(),
                self.login.host,
                shown(noise)
            ),
            code: ErrorCode::SSH,
            retryable: true,
        }
    }

    /// Explains the end of ssh without an answer.
    fn explain(&self, noise: &[u8]) -> Refusal {
        let status = self.process.wait(END_PATIENCE);
        if status.is_none() {
            self.process.terminate();
        }
        let complaint = self.process.complaint();
        let (message, code) = self.reason(status, &complaint);
        let authentication = status.and_then(|status| status.code()) == Some(255)
            && AUTHENTICATION_WORDS
                .iter()
                .any(|words| complaint.contains(words));
        Refusal::Start {
            message: format!("{}: {message}{}", self.login, shown(noise)),
            code: if authentication {
                ErrorCode::SSH_DENIED
            } else {
                code
            },
            retryable: code == ErrorCode::SSH && !authentication,
        }
    }

    fn reason(&self, status: Option<ExitStatus>, complaint: &str) -> (String, ErrorCode) {
        let command = self.remote_command;
        let said = if complaint.is_empty() {
            String::new()
        } else {
            format!(" (it says: {complaint})")
        };
        match status.and_then(|status| status.code()) {
            Some(255) if complaint.is_empty() => {
                ("ssh failed without a message".to_owned(), ErrorCode::SSH)
            }
            Some(255) => (format!("ssh: {complaint}"), ErrorCode::SSH),
            Some(127) => (
                format!(
                    "there is no `{command}`: install godwit there, or say where it is with --remote-command{said}"
                ),
                ErrorCode::NO_COMMAND,
            ),
            Some(126) => (
                format!(
                    "`{command}` cannot run there: install a godwit built for that machine, or name another program with --remote-command{said}"
                ),
                ErrorCode::BAD_COMMAND,
            ),
            Some(code) => (
                format!(
                    "`{command}` there ended with code {code} and did not answer as an agent: it is another program, or a godwit too old for this one ({}); install this version there, or name it with --remote-command{said}",
                    super::SOFTWARE
                ),
                ErrorCode::BAD_COMMAND,
            ),
            None => (format!("ssh was ended{said}"), ErrorCode::SSH),
        }
    }
}

/// Phrases of OpenSSH's client when it refuses the user or the host key.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_who_may_be_typing_is_hurried() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let limit = |unattended| AnswerLimit {
            unattended,
            patience: Duration::from_secs(300),
        };
        assert!(!limit(true).is_over(begun, None, after(299)));
        assert!(limit(true).is_over(begun, None, after(300)));
        assert!(!limit(false).is_over(begun, None, after(86_400)));
        // The login took its time, and the shell there has begun to speak.
        for unattended in [false, true] {
            let heard = Some(after(200));
            assert!(!limit(unattended).is_over(begun, heard, after(499)));
            assert!(limit(unattended).is_over(begun, heard, after(500)));
        }
    }
}
