//! Owns the real-time signals, whose numbers only the C library knows.
//! Does not decide how a signal acts; the caller names another signal that stands for all of them.
#![expect(
    unsafe_code,
    reason = "rustix has no sigaction, for a handler must keep to what a signal may interrupt"
)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};
use std::{mem, ptr};

use rustix::process::{Signal, getpid, kill_process};

/// The signal that replaces the real-time ones.
static STANDS_FOR_THEM: AtomicI32 = AtomicI32::new(0);

/// Makes each real-time signal act in this process as `signal` does. A signal that a tool reserves, as valgrind does, is not changed.
///
/// This costs one call of the kernel for each of some 30 signals; libraries that can take a handler away again cost a thousand times
/// as much.
pub fn real_time_as(signal: Signal) {
    STANDS_FOR_THEM.store(signal.as_raw(), Ordering::SeqCst);
    // SAFETY: all zeros are a `sigaction` without flags, without a handler, and with an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = pass_on as *const () as usize;
    // An interrupted system call resumes after the handler.
    action.sa_flags = libc::SA_RESTART;
    for each in libc::SIGRTMIN()..=libc::SIGRTMAX() {
        // SAFETY: `action` lives during the call, and its handler only does what a signal handler may do.
        let _kept = unsafe { libc::sigaction(each, &raw const action, ptr::null_mut()) };
    }
}

/// Sends the other signal. The call goes directly to the kernel: it takes no lock, and leaves `errno` alone.
extern "C" fn pass_on(_signal: c_int) {
    if let Some(signal) = Signal::from_named_raw(STANDS_FOR_THEM.load(Ordering::SeqCst)) {
        // Nothing can be done about a failure here, and this process may always signal itself.
        let _ = kill_process(getpid(), signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_time_signal_is_passed_on_as_the_other_one() {
        // CONT has no effect on a running process.
        real_time_as(Signal::CONT);
        let me = getpid().as_raw_nonzero().get();
        for signal in [libc::SIGRTMIN(), libc::SIGRTMAX()] {
            // SAFETY: a number of a signal that has a handler.
            let sent = unsafe { libc::kill(me, signal) };
            // Without a handler this ends the process of the test.
            assert_eq!(sent, 0);
        }
    }
}
