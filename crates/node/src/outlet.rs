//! Owns the lines of a node on their way to standard output and standard error: a bounded buffer and a thread for each.
//! Decides nothing about what is written.
//!
//! A reader that stops reading blocks only the thread here. The node keeps running; lines that do not fit into the buffer are dropped and
//! counted.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::VecDeque;
use std::io::Write as _;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use godwit_api::shown::{printable, printable_lines};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// About a thousand lines: more than a node writes while a reader starts again.
const BYTES_MAX: usize = 256 << 10;

/// A reader that works has taken everything long before.
const DRAIN_WITHIN: Duration = Duration::from_secs(1);

static OUT: OnceLock<Outlet> = OnceLock::new();
static ERROR: OnceLock<Outlet> = OnceLock::new();

/// Starts the threads that write lines. From now on no other thread of this process waits for a reader of its lines. `notice` logs how many
/// lines were dropped.
///
/// # Errors
/// A thread could not be started.
pub fn begin(notice: fn(u64)) -> std::io::Result<()> {
    start(&ERROR, "gw-log", rustix::stdio::stderr(), notice)?;
    start(&OUT, "gw-out", rustix::stdio::stdout(), notice)?;
    std::panic::set_hook(Box::new(|panic| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("without a name");
        let trace = Backtrace::capture();
        let trace = match trace.status() {
            BacktraceStatus::Captured => format!("\n{trace}"),
            _ => String::new(),
        };
        write_error(format!("thread '{name}' {panic}{trace}\n").into_bytes());
    }));
    Ok(())
}

/// Takes a line for standard output; returns the line if lines are written at once.
fn take_out(line: String) -> Result<(), String> {
    match OUT.get() {
        Some(outlet) => {
            outlet.push(line.into_bytes());
            Ok(())
        }
        None => Err(line),
    }
}

/// Takes a line for standard error, or writes it at once.
pub fn write_error(line: Vec<u8>) {
    match ERROR.get() {
        Some(outlet) => outlet.push(line),
        None => {
            let _ = write_all(rustix::stdio::stderr(), &line);
        }
    }
}

/// Waits until the readers have everything, but not for long.
pub fn drain() {
    for outlet in [&OUT, &ERROR] {
        if let Some(outlet) = outlet.get() {
            outlet.drain();
        }
    }
}

/// Says to standard error that something is wrong.
pub fn complain(message: &str) {
    say(&complaint(message));
}

/// Prints lines for people to standard output. It escapes control characters that steer a terminal.
pub fn print(text: &str) {
    print_data(&printable_lines(text));
}

/// Prints lines for programs to standard output. A closed reader is ignored; any other error is reported once.
pub fn print_data(text: &str) {
    let Err(line) = take_out(format!("{text}\n")) else {
        return;
    };
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(line.as_bytes()).and_then(|()| out.flush())
        && error.kind() != std::io::ErrorKind::BrokenPipe
        && !CUT_SHORT.swap(true, Ordering::Relaxed)
    {
        complain(&format!(
            "standard output cannot be written: {error}; the output is incomplete"
        ));
    }
}

/// Whether some output was lost.
#[must_use]
pub fn is_cut_short() -> bool {
    CUT_SHORT.load(Ordering::Relaxed)
}

static CUT_SHORT: AtomicBool = AtomicBool::new(false);

/// Prints lines for people to standard error, in one write, so that lines of several processes do not mix.
pub fn say(text: &str) {
    write_error(format!("{}\n", printable_lines(text)).into_bytes());
}

/// A message for people as the program begins it.
#[must_use]
pub fn complaint(message: &str) -> String {
    format!("godwit: {}", printable(message))
}

/// A buffer in front of a descriptor.
struct Outlet {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines that did not fit since the last notice.
    dropped: u64,
    /// The thread holds lines that are not written yet.
    writing: bool,
    writer: Option<ThreadId>,
}

fn start(
    cell: &'static OnceLock<Outlet>,
    name: &str,
    to: BorrowedFd<'static>,
    notice: fn(u64),
) -> std::io::Result<()> {
    let outlet = cell.get_or_init(|| Outlet {
        queue: Mutex::default(),
        changed: Condvar::new(),
    });
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || outlet.run(to, notice))
        .map(drop)
}

impl Outlet {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: Vec<u8>) {
        let mut queue = self.lock();
        // The thread's own line reports the number of dropped lines, before lines that came since.
        if queue.writer == Some(thread::current().id()) {
            queue.bytes += line.len();
            queue.lines.push_front(line);
        } else if queue.bytes + line.len() > BYTES_MAX {
            queue.dropped += 1;
        } else {
            queue.bytes += line.len();
            queue.lines.push_back(line);
        }
        drop(queue);
        self.changed.notify_all();
    }

    fn run(&self, to: BorrowedFd<'_>, notice: fn(u64)) {
        self.lock().writer = Some(thread::current().id());
        loop {
            let mut queue = self.lock();
            while queue.lines.is_empty() {
                queue.writing = false;
                self.changed.notify_all();
                queue = self
                    .changed
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            let lines = std::mem::take(&mut queue.lines);
            let dropped = std::mem::take(&mut queue.dropped);
            queue.writing = true;
            drop(queue);
            for line in lines {
                // A closed reader is no reason to stop, and there is no place to report it to.
                let _ = write_all(to, &line);
                self.lock().bytes -= line.len();
            }
            if dropped > 0 {
                notice(dropped);
            }
        }
    }

    fn drain(&self) {
        let queue = self.lock();
        drop(
            self.changed
                .wait_timeout_while(queue, DRAIN_WITHIN, |queue| {
                    queue.writing || !queue.lines.is_empty()
                }),
        );
    }
}

/// Writes to the descriptor itself: the lock of `std` would make every other writer of this process wait as well.
fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // Another process made the descriptor non-blocking.
                poll(&mut [PollFd::new(&to, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
