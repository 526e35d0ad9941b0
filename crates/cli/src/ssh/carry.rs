//! Carries this program to a machine that has none: through ssh, into the home of the user there.
//! Does not ask the user (`connector`), and starts no agent (`start`).
//!
//! The bytes of the program are the standard input of one constant command, so the shell there sees none of them. The new file is
//! whole, has run once, and only then gets its name.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{Context, SHA256};
use godwit_api::units::human_size;
use godwit_engine::session::Refusal;
use godwit_proto::ErrorCode;

use super::command::CARRIED;
use super::connector::SshOptions;
use super::process::{SshProcess, one_line};
use crate::output::complain;

/// Bytes that are sent at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Most bytes of an answer that are kept.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// How often the loop checks for an interrupt of the user.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long ssh may take to end once its answer has ended.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// A new file that was not written for this time was left by a run that is gone. A transfer that stands still ends much earlier.
const LEFT_AFTER_MINUTES: u32 = 60;

/// How this program says who it is.
const VERSION: &str = concat!("godwit ", env!("CARGO_PKG_VERSION"));

/// Carries this program there.
pub(super) fn carry(options: &SshOptions) -> Result<(), Refusal> {
    let errand = Errand { options };
    let theirs = errand.run("uname -sm", None)?.text;
    errand.suits(&theirs)?;
    let own = |error: io::Error| {
        Refusal::own(
            ErrorCode::RESOURCES,
            format!("this program cannot be read: {error}"),
        )
    };
    let mut program = File::open("/proc/self/exe").map_err(own)?;
    let bytes = program.metadata().map_err(own)?.len();
    let digest = digest(&mut program).map_err(own)?;
    complain(&format!(
        "carrying this program ({}) to {}, as {CARRIED}",
        human_size(bytes),
        options.login
    ));
    let answer = errand.run(&script(bytes, &digest, &nonce()), Some(program))?;
    // A shell may print more before it.
    if answer.code == Some(0) && answer.text.lines().next_back() == Some(VERSION) {
        return Ok(());
    }
    Err(errand.refuse(
        ErrorCode::BAD_COMMAND,
        format!(
            "this program was carried there and came damaged or does not run there, so it was removed: install a godwit for that machine, or name one with --remote-command (it says: {})",
            one_line(&format!("{}\n{}", answer.text, answer.complaint))
        ),
    ))
}

/// The shell script that receives the program on the remote machine. The script contains no text from the user.
/// A cut connection looks like the end of the input, so the script compares the size.
/// The script also compares the digest if the machine has `sha256sum`, and removes old partial files that killed runs left.
fn script(bytes: u64, digest: &str, nonce: &str) -> String {
    let (directory, name) = CARRIED.rsplit_once('/').unwrap_or_default();
    let below = directory.trim_start_matches("~/");
    [
        "sh -c 'umask 077",
        &format!("; d=\"${{HOME:?}}/{below}\"; t=\"$d/.new-{nonce}\""),
        "; mkdir -p \"$d\"",
        &format!(
            " && {{ find \"$d\" -name \".new-*\" -mmin +{LEFT_AFTER_MINUTES} -exec rm -f {{}} + </dev/null >/dev/null 2>&1"
        ),
        "; cat >\"$t\"; }",
        &format!(" && test $(wc -c <\"$t\") -eq {bytes}"),
        " && { s=$(sha256sum <\"$t\" 2>/dev/null)",
        &format!("; case \"$s\" in {digest}*|\"\") ;; *) echo \"another digest\"; false ;; esac; }}"),
        " && chmod 700 \"$t\" && v=$(\"$t\" --version)",
        &format!(" && test \"$v\" = \"{VERSION}\" && mv -f \"$t\" \"$d/{name}\" && echo \"$v\""),
        " || { rm -f \"$t\"; exit 1; }'",
    ]
    .concat()
}

/// SHA-256 of the program, in the form of `sha256sum`. The next read begins at the start again.
fn digest(program: &mut File) -> io::Result<String> {
    let mut sum = Context::new(&SHA256);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match program.read(&mut piece)? {
            0 => break,
            bytes => sum.update(&piece[..bytes]),
        }
    }
    program.rewind()?;
    let digits = sum.finish();
    Ok(digits
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// Digits that no other run has at the same time.
fn nonce() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = now.unwrap_or_default().as_nanos();
    format!("{:x}-{nanos:x}", std::process::id())
}

/// The machines that this program runs on, in the words of `uname -sm`.
fn ours() -> String {
    format!("Linux {}", std::env::consts::ARCH)
}

/// Commands on the other machine.
struct Errand<'a> {
    options: &'a SshOptions,
}

/// Output and exit code of a command.
struct Answer {
    text: String,
    complaint: String,
    code: Option<i32>,
}

impl Errand<'_> {
    fn refuse(&self, code: ErrorCode, message: String) -> Refusal {
        Refusal::Start {
            peer: self.options.login.to_string(),
            message,
            code,
            retryable: false,
        }
    }

    fn lost(&self, what: &str) -> Refusal {
        self.refuse(ErrorCode::SSH, format!("ssh: {what}"))
    }

    /// Refuses a machine that this program cannot run on.
    fn suits(&self, theirs: &str) -> Result<(), Refusal> {
        let theirs = theirs.lines().next_back().unwrap_or_default().trim();
        if theirs == ours() {
            return Ok(());
        }
        let theirs: String = theirs.chars().take(80).collect();
        Err(self.refuse(
            ErrorCode::BAD_COMMAND,
            format!(
                "the machine there is `{}`, and this program runs on `{}`: install a godwit for that machine there, or name one with --remote-command",
                theirs.escape_default(),
                ours()
            ),
        ))
    }

    /// Runs one command there with this input.
    fn run(&self, command: &str, input: Option<File>) -> Result<Answer, Refusal> {
        let options = self.options;
        let line = options.rsh.line_of(&options.login, command.into());
        let (process, socket) = SshProcess::start(&line)
            .map_err(|error| self.lost(&format!("it cannot be started: {error}")))?;
        let text = self.exchange(&process, socket, input)?;
        let code = process.wait(END_PATIENCE).and_then(|status| status.code());
        let complaint = process.complaint();
        if code == Some(255) {
            return Err(self.lost(&complaint));
        }
        Ok(Answer {
            text: String::from_utf8_lossy(&text).trim().to_owned(),
            complaint,
            code,
        })
    }

    /// Sends the input, and reads the answer to its end.
    fn exchange(
        &self,
        process: &SshProcess,
        mut socket: UnixStream,
        input: Option<File>,
    ) -> Result<Vec<u8>, Refusal> {
        let lost = |error: io::Error| self.lost(&error.to_string());
        socket.set_read_timeout(Some(LOOK_EVERY)).map_err(lost)?;
        socket.set_write_timeout(Some(LOOK_EVERY)).map_err(lost)?;
        if let Some(mut input) = input {
            let mut piece = vec![0; PIECE_BYTES];
            loop {
                let bytes = input.read(&mut piece).map_err(lost)?;
                // A command that takes no more has its reason in its answer.
                if bytes == 0 || !self.send(process, &mut socket, &piece[..bytes])? {
                    break;
                }
            }
        }
        // The other side may be gone.
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let mut moved = Instant::now();
        loop {
            let before = answer.len();
            let room = ANSWER_BYTES_MAX.saturating_sub(answer.len() as u64);
            match (&socket).take(room).read_to_end(&mut answer) {
                Ok(_) => return Ok(answer),
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(lost(error)),
            }
            if answer.len() > before {
                moved = Instant::now();
            }
            self.look(process, moved)?;
        }
    }

    /// Sends all of it; returns whether the command takes more.
    fn send(
        &self,
        process: &SshProcess,
        socket: &mut UnixStream,
        mut bytes: &[u8],
    ) -> Result<bool, Refusal> {
        let mut moved = Instant::now();
        while !bytes.is_empty() {
            match socket.write(bytes) {
                Ok(sent) => {
                    bytes = &bytes[sent..];
                    moved = Instant::now();
                }
                Err(error) if is_later(&error) => self.look(process, moved)?,
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Ends an ssh that the user has interrupted, or that stands still.
    fn look(&self, process: &SshProcess, moved: Instant) -> Result<(), Refusal> {
        if self.options.interrupted.load(Ordering::Relaxed) {
            process.terminate();
            return Err(Refusal::own(
                ErrorCode::INTERRUPTED,
                "interrupted by the user",
            ));
        }
        if moved.elapsed() >= self.options.stall_limit {
            process.terminate();
            return Err(self.lost("it stands still"));
        }
        Ok(())
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_has_nothing_that_a_shell_could_misread() {
        let script = script(1_234, "ab12", &nonce());
        let inner = script
            .strip_prefix("sh -c '")
            .and_then(|rest| rest.strip_suffix('\''));
        let inner = inner.expect("one quoted word");
        assert!(!inner.contains(['\'', '!', '\\', '\n']), "{inner}");
        assert!(inner.contains("-eq 1234 "), "{inner}");
        assert!(inner.contains(" in ab12*|"), "{inner}");
    }
}
