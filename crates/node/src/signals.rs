//! Owns the effect of signals that ask the program to end: the first stops it cleanly, a later one ends it at once.
//! Does not stop anything itself; the working threads look at the flag.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::Signals;

use godwit_api::failure::Exit;

/// A signal sooner than this repeats the same request: a terminal or `timeout` may signal a program and its whole group.
const INSISTS_AFTER: Duration = Duration::from_secs(1);

/// Signals that end a program by default, except those that report a fault in it.
const ENDING: [i32; 13] = [
    SIGINT,
    SIGTERM,
    SIGHUP,
    SIGQUIT,
    SIGUSR1,
    SIGUSR2,
    SIGALRM,
    SIGVTALRM,
    SIGPROF,
    SIGXCPU,
    SIGIO,
    Signal::POWER.as_raw(),
    Signal::STKFLT.as_raw(),
];

/// The signals that ask the program to end. A HUP that was ignored at the start stays ignored, as `nohup` means it. Shells ignore INT and
/// QUIT in background jobs, where `kill -INT` has to work all the same.
pub(crate) fn ending() -> io::Result<Signals> {
    let ignored = ignored();
    let is_handled = |signal: &i32| *signal != SIGHUP || ignored & 1 << (SIGHUP - 1) == 0;
    // With a handler, a write beyond the file size limit fails, and only that entry with it.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let signals = Signals::new(ENDING.into_iter().filter(is_handled))?;
    godwit_sys::signals::real_time_as(Signal::TERM);
    Ok(signals)
}

/// Sets `interrupted` when the program is asked to end, and ends it when it is asked again later.
///
/// # Errors
/// Signals cannot be handled, or no thread can be started.
pub fn watch(interrupted: &Arc<AtomicBool>) -> io::Result<()> {
    let mut signals = ending()?;
    let interrupted = Arc::clone(interrupted);
    let body = move || {
        let mut first = None;
        for _ in signals.forever() {
            interrupted.store(true, Ordering::Relaxed);
            let first = *first.get_or_insert_with(Instant::now);
            if first.elapsed() >= INSISTS_AFTER {
                signal_hook::low_level::exit(Exit::Interrupted as i32);
            }
        }
    };
    std::thread::Builder::new()
        .name("gw-signals".to_owned())
        .spawn(body)?;
    Ok(())
}

/// The signals that are ignored now, a bit each from 1 on; none where that cannot be known.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
