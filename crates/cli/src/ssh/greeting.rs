//! The first messages with an agent through a running ssh, and an explanation if they are missing.
//! Decides nothing about the transfer.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use godwit_api::login::Login;
use godwit_engine::session::Refusal;
use godwit_proto::ErrorCode;
use godwit_proto::agent::{
    AGENT_VERSION, AgentMessage as _, MessageReader, ReadError, Started, versions_meet,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::process::{SshProcess, one_line};
use crate::output::complain;

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
    /// Whether the time is over at `now`; `first_byte` is the time of the first byte.
    fn is_over(&self, begun: Instant, first_byte: Option<Instant>, now: Instant) -> bool {
        let since = first_byte.or_else(|| self.unattended.then_some(begun));
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
        let mut first_byte = None;
        let mut refused = 0;
        while reader.body().is_none() {
            refused = self.report_refused(refused);
            if self.interrupted.load(Ordering::Relaxed) {
                self.process.terminate();
                return Err(Refusal::own(
                    ErrorCode::INTERRUPTED,
                    "interrupted by the user",
                ));
            }
            if self.limit.is_over(begun, first_byte, Instant::now()) {
                return Err(self.too_late(first_byte.is_some(), reader.noise()));
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
                    first_byte = first_byte.or_else(|| Some(Instant::now()));
                    if let Err(error) = reader.take(&buffer[..bytes]) {
                        return Err(self.no_answer(&error, reader.noise()));
                    }
                }
                Err(error) if is_later(&error) => {}
                Err(_) => return Err(self.explain(reader.noise())),
            }
        }
        let started = Started::from_body(reader.body().unwrap_or_default());
        let started = started.map_err(|error| {
            let message = format!("its agent broke the protocol: {error}");
            self.refusal(ErrorCode::PROTOCOL, false, message)
        })?;
        Ok((self.check(started)?, reader.noise().to_vec()))
    }

    /// Says at once that a password was wrong: the terminal shows the question of ssh, and not why ssh asks again.
    fn report_refused(&self, before: usize) -> usize {
        let refused = self.process.refused().max(before);
        if refused > before {
            complain(&format!(
                "{}: Permission denied: the password is wrong, and ssh asks again",
                self.login
            ));
        }
        refused
    }

    fn refusal(&self, code: ErrorCode, retryable: bool, message: String) -> Refusal {
        Refusal::Start {
            peer: self.login.to_string(),
            message,
            code,
            retryable,
        }
    }

    fn check(&self, started: Started) -> Result<Started, Refusal> {
        let no = |code, message: String| self.refusal(code, false, message);
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
        let message = format!("{what}{}", shown(noise));
        self.refusal(ErrorCode::BAD_COMMAND, false, message)
    }

    /// The refusal when ssh runs, but no answer comes.
    fn too_late(&self, first_byte: bool, noise: &[u8]) -> Refusal {
        let complaint = self.process.complaint();
        self.process.terminate();
        let what = match first_byte {
            true => "after the text that the login prints, no agent answers",
            false => "no answer comes through ssh",
        };
        let said = match complaint.as_str() {
            "" => String::new(),
            said => format!(" (it says: {said})"),
        };
        let message = format!(
            "{what}, for {} s{said}: ssh, the other machine or its shell hangs; try `ssh {} true`. --retry-for says how long to wait{}",
            self.limit.patience.as_secs(),
            self.login,
            shown(noise)
        );
        self.refusal(ErrorCode::SSH, true, message)
    }

    /// Explains why ssh ended before the other machine answered.
    fn explain(&self, noise: &[u8]) -> Refusal {
        let status = self.process.wait(END_PATIENCE);
        if status.is_none() {
            self.process.terminate();
        }
        let complaint = self.process.complaint();
        let code = status.and_then(|status| status.code());
        if let Some(denied) = denied(code, &complaint) {
            return self.refusal(
                ErrorCode::SSH_DENIED,
                false,
                format!("{denied} (ssh says: {complaint})"),
            );
        }
        let (message, code) = self.reason(code, &complaint);
        let message = format!("{message}{}", shown(noise));
        self.refusal(code, code == ErrorCode::SSH, message)
    }

    fn reason(&self, status: Option<i32>, complaint: &str) -> (String, ErrorCode) {
        let command = self.remote_command;
        let said = if complaint.is_empty() {
            String::new()
        } else {
            format!(" (it says: {complaint})")
        };
        match status {
            Some(255) if complaint.is_empty() => {
                ("ssh failed without a message".to_owned(), ErrorCode::SSH)
            }
            Some(255) => (named(complaint), ErrorCode::SSH),
            Some(127) => (
                format!(
                    "there is no `{command}`: install godwit there (--install-remote carries this one into the home of the user), or say where it is with --remote-command{said}"
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

/// Why the login was refused, if it was. A program that types the password for ssh has other exit codes than ssh.
fn denied(code: Option<i32>, complaint: &str) -> Option<&'static str> {
    let says = |words: &[&str]| words.iter().any(|words| complaint.contains(words));
    if code == Some(255) && says(&["Host key verification failed"]) {
        return Some("the key of the host is not the known one, or not known yet");
    }
    // A shell that may not run a program says the same words, and nothing in brackets.
    let is_quoted = says(&["Permission denied (", "Permission denied, please try again"]);
    let is_denied = match code {
        Some(255) => says(&["Permission denied", "Too many authentication failures"]),
        Some(126 | 127) => false,
        _ => is_quoted,
    };
    is_denied.then_some("Permission denied: the key or password of this user was not accepted")
}

/// A complaint of ssh that names ssh once: some of its complaints begin with its name.
fn named(complaint: &str) -> String {
    let what = complaint.strip_prefix("ssh: ").unwrap_or(complaint);
    format!("ssh: {what}")
}

fn shown(noise: &[u8]) -> String {
    let text = String::from_utf8_lossy(&noise[..noise.len().min(NOISE_SHOWN_BYTES)]);
    match one_line(&text).as_str() {
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
    fn a_complaint_names_ssh_once() {
        for complaint in ["ssh: no such host", "no such host"] {
            assert_eq!(named(complaint), "ssh: no such host");
        }
    }

    #[test]
    fn a_refused_login_differs_from_a_program_that_may_not_run() {
        let key = "Forbidden.; far: Permission denied (publickey).";
        let wrong = "Permission denied, please try again.";
        let shell = "bash: /x/godwit: Permission denied";
        for (code, complaint, is_denied) in [
            (255, key, true),
            (255, "Host key verification failed.", true),
            // sshpass ends with 5.
            (5, wrong, true),
            (126, shell, false),
            (1, shell, false),
            (255, "Connection refused", false),
        ] {
            let denied = denied(Some(code), complaint);
            assert_eq!(denied.is_some(), is_denied, "{code} {complaint}");
        }
    }

    #[test]
    fn a_user_who_may_be_typing_is_not_hurried() {
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
            let first_byte = Some(after(200));
            assert!(!limit(unattended).is_over(begun, first_byte, after(499)));
            assert!(limit(unattended).is_over(begun, first_byte, after(500)));
        }
    }
}
