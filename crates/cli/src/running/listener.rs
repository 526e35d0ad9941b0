//! The socket of one transfer, for as long as it runs.
//! Does not interpret the questions.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::{Shutdown, sockopt};

/// Deadline for a question after a connection.
const ASK_DEADLINE: Duration = Duration::from_secs(2);

/// Most questions answered at one time; no user has as many.
const ANSWERING_MAX: usize = 16;

/// Wait after a failed accept.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// A directory by a short name, whatever its path: names of sockets end at 108 bytes.
pub(super) struct Short(File);

impl Short {
    pub(super) fn path(&self, name: &OsStr) -> PathBuf {
        Path::new("/proc/self/fd")
            .join(self.0.as_raw_fd().to_string())
            .join(name)
    }
}

pub(super) fn short(directory: &Path) -> std::io::Result<Short> {
    File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::DIRECTORY.bits().cast_signed())
        .open(directory)
        .map(Short)
}

/// Prefix of the names of this machine's sockets. Other machines and containers may share a home and have processes of the same
/// numbers. Their sockets refuse a connection from here, as the socket of a dead process does.
pub(super) fn here() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let numbers = std::fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino());
    let boot: String = boot.chars().take(8).collect();
    format!("{boot}-{numbers}-")
}

/// A listening socket. Dropping it removes the socket.
pub(super) struct Listener {
    socket: UnixListener,
    path: PathBuf,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Listens below `directory`, and passes each connection of this user or the superuser to `answer`, several at once. A waiting
    /// connection does not delay others. `number` distinguishes the transfers of this process.
    pub(super) fn start(
        directory: &Path,
        number: Option<usize>,
        answer: impl Fn(UnixStream) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let number = number.map_or_else(String::new, |number| format!("-{number}"));
        let name = format!("{}{}{number}", here(), std::process::id());
        let path = directory.join(&name);
        // Removes the socket of an earlier process of this number.
        let _ = std::fs::remove_file(&path);
        let socket = UnixListener::bind(short(directory)?.path(OsStr::new(&name)))?;
        let mut listener = Self {
            socket,
            path,
            stopping: Arc::default(),
            thread: None,
        };
        // The directory also keeps other users out.
        std::fs::set_permissions(&listener.path, std::fs::Permissions::from_mode(0o600))?;
        let answer = Arc::new(answer);
        let accepting = listener.socket.try_clone()?;
        let stopping = Arc::clone(&listener.stopping);
        let thread = std::thread::Builder::new()
            .name("gw-running".to_owned())
            .spawn(move || {
                let mut answering: Vec<JoinHandle<()>> = Vec::new();
                while !stopping.load(Ordering::Relaxed) {
                    let Ok((socket, _)) = accepting.accept() else {
                        // Most likely no descriptor is free, and the transfer will close some.
                        std::thread::park_timeout(ACCEPT_AGAIN);
                        continue;
                    };
                    let limited = socket
                        .set_read_timeout(Some(ASK_DEADLINE))
                        .and_then(|()| socket.set_write_timeout(Some(ASK_DEADLINE)));
                    if limited.is_err() || !is_ours(&socket) {
                        continue;
                    }
                    answering.retain(|thread| !thread.is_finished());
                    if answering.len() >= ANSWERING_MAX {
                        // Hangs up. The asking command then reports that there is no answer.
                        continue;
                    }
                    let answer = Arc::clone(&answer);
                    let thread = std::thread::Builder::new()
                        .name("gw-answer".to_owned())
                        .spawn(move || answer(socket));
                    answering.extend(thread);
                }
                for thread in answering {
                    // The panic has been printed.
                    let _ = thread.join();
                }
            })?;
        listener.thread = Some(thread);
        Ok(listener)
    }
}

/// Whether the peer is the same user, or the superuser.
fn is_ours(socket: &UnixStream) -> bool {
    let ours = rustix::process::geteuid();
    sockopt::socket_peercred(socket).is_ok_and(|peer| peer.uid == ours || peer.uid.is_root())
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        self.stopping.store(true, Ordering::Relaxed);
        // Ends the wait for connections.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The panic has been printed.
            let _ = thread.join();
        }
    }
}
