//! Running transfers of this user, for other commands to find and to steer: a private socket each, below `running` of the home.
//! Moves no data. File permissions and the kernel's peer credentials decide on access.
//!
//! One line of JSON each way: a question, `{}` or `{"limit":BYTES_PER_SECOND}`, and the answer, the state of the transfer or an `error`.

mod full;
mod listener;
mod state;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::exit::{Failure, FailureCode};
use crate::home::Home;
pub(crate) use full::StopsWhenFull;
pub(crate) use state::Steered;

/// Longest line in either direction.
const LINE_BYTES_MAX: u64 = 256 << 10;

/// Longest wait for the sending end to confirm a change.
const CONFIRM_DEADLINE: Duration = Duration::from_secs(10);

/// Longest wait for the other side of a socket; longer than a confirmation.
const ANSWER_DEADLINE: Duration = Duration::from_secs(15);

/// A question to a transfer.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Question {
    /// The new limit in bytes a second, 0 for none; absent in a plain question.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
}

/// The answer of a transfer.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct TransferStatus {
    /// In hexadecimal digits.
    pub(crate) transfer: String,
    pub(crate) pid: u32,
    pub(crate) sources: Vec<String>,
    pub(crate) destination: String,
    /// The limit that the sending end obeys, in bytes a second; 0 is none, null not known yet.
    pub(crate) limit: Option<u64>,
    /// Contents delivered.
    pub(crate) bytes: u64,
    /// Seconds without a connection, or without an answer; null while the other end is reached.
    #[serde(default)]
    pub(crate) lost_seconds: Option<f64>,
    /// `lost_seconds` counts a time without an answer, over connections that are open.
    #[serde(default)]
    pub(crate) silent: bool,
    /// The reason why the question could not be obeyed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// A transfer that was found.
pub(crate) struct Found {
    pub(crate) running: TransferStatus,
    name: std::ffi::OsString,
}

/// All transfers that run with this home, by their beginning. Removes the sockets of killed processes.
pub(crate) fn find(home: &Home) -> Result<Vec<Found>, Failure> {
    let directory = home.running()?;
    let read = |error: std::io::Error| {
        Failure::new(
            FailureCode::HomeUnusable,
            format!("{}: {error}", directory.display()),
        )
    };
    let mut found = Vec::new();
    let here = listener::here();
    for entry in std::fs::read_dir(&directory).map_err(read)? {
        let name = entry.map_err(read)?.file_name();
        let Some(process) = name.to_str().and_then(|name| name.strip_prefix(&here)) else {
            continue;
        };
        let process = process.split('-').next().unwrap_or(process);
        let is_alive = Path::new("/proc").join(process).exists();
        match ask(&directory, &name, &Question::default()) {
            Ok(running) if !running.transfer.is_empty() => found.push(Found { running, name }),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused && !is_alive => {
                // The process of this name is dead, and no other process takes the name.
                let _ = std::fs::remove_file(directory.join(&name));
            }
            // The transfer has ended meanwhile, or belongs to another user.
            Err(_) => {}
        }
    }
    found.sort_by_key(|one| one.running.pid);
    Ok(found)
}

/// Sets the limit of a transfer; returns its state once the sending end obeys.
pub(crate) fn set_limit(home: &Home, found: &Found, limit: u64) -> Result<TransferStatus, Failure> {
    let question = Question { limit: Some(limit) };
    let answered = ask(&home.running()?, &found.name, &question).map_err(|error| {
        Failure::new(
            FailureCode::NoSuchTransfer,
            format!("the transfer does not answer: {error}; perhaps the transfer has ended"),
        )
    })?;
    match answered.error {
        Some(error) => Err(Failure::new(FailureCode::NoSuchTransfer, error)),
        None => Ok(answered),
    }
}

fn ask(
    directory: &Path,
    name: &std::ffi::OsStr,
    question: &Question,
) -> std::io::Result<TransferStatus> {
    let mut socket = UnixStream::connect(listener::short(directory)?.path(name))?;
    socket.set_read_timeout(Some(ANSWER_DEADLINE))?;
    socket.set_write_timeout(Some(ANSWER_DEADLINE))?;
    write_line(&mut socket, question)?;
    read_line(&socket)
}

fn write_line(socket: &mut UnixStream, said: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(said)?;
    line.push(b'\n');
    socket.write_all(&line)
}

fn read_line<T: for<'a> Deserialize<'a>>(socket: &UnixStream) -> std::io::Result<T> {
    let mut line = Vec::new();
    BufReader::new(socket.take(LINE_BYTES_MAX)).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line)?)
}
