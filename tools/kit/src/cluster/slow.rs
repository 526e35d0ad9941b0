//! Owns the slowness of one process: the process is stopped for most of each period.
//! Does not know what the process is.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The process runs for this time and is stopped for that time, by turns: a tenth of the time remains.
const RUNS: Duration = Duration::from_millis(20);
const STANDS: Duration = Duration::from_millis(180);

/// A process that is slow until this value is dropped. The process must not be collected before.
#[derive(Debug)]
pub(crate) struct Slowed {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Slowed {
    pub(crate) fn new(process: Pid) -> Self {
        let (stop, stopped) = sync_channel::<()>(0);
        let thread = thread::spawn(move || {
            let waits = |time| stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            // A process that has ended takes no signal, and needs none.
            while waits(RUNS) {
                let _ = kill_process(process, Signal::STOP);
                let goes_on = waits(STANDS);
                let _ = kill_process(process, Signal::CONT);
                if !goes_on {
                    return;
                }
            }
        });
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Slowed {
    fn drop(&mut self) {
        // Without a sender the thread ends at once.
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::bench::process::kernel::cpu_ticks;

    #[test]
    fn a_slow_process_gets_a_small_part_of_the_time_and_then_all_of_it() {
        let mut child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .expect("sh runs");
        let used = || cpu_ticks(child.id()).expect("it runs");
        let in_a_second = || {
            let before = used();
            thread::sleep(Duration::from_secs(1));
            used() - before
        };
        let slowed = Slowed::new(Pid::from_child(&child));
        let slow = in_a_second();
        drop(slowed);
        let fast = in_a_second();
        child.kill().expect("ours");
        child.wait().expect("ours");
        // A busy machine gives both less. The parts stay a tenth and a whole.
        assert!(slow < fast, "{slow} of {fast} ticks");
    }
}
