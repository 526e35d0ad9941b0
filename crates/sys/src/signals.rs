//! Owns the real-time signals, whose numbers only the C library has. Does not decide the effect of a signal: the caller names another
//! signal, which is sent in place of each of them.
#![expect(
    unsafe_code,
    reason = "rustix has no sigaction, for a handler must keep to what a signal may interrupt"
)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};
use std::{mem, ptr};

use rustix::process::{Signal, getpid, kill_process};

/// The signal that is sent in place of the real-time signals.
static STANDS_FOR_THEM: AtomicI32 = AtomicI32::new(0);

/// Makes each real-time signal have the same effect in this process as `signal`. A signal that a tool reserves, for example valgrind,
/// is not changed.
///
/// This costs one call of the kernel for each of about 30 signals; libraries that can remove a handler later cost a thousand times as
/// much.
pub fn real_time_as(signal: Signal) {
    STANDS_FOR_THEM.store(signal.as_raw(), Ordering::SeqCst);
    // SAFETY: a `sigaction` of zeros is valid: no flags, no handler, and an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = pass_on as *const () as usize;
    // An interrupted system call resumes after the handler.
    action.sa_flags = libc::SA_RESTART;
    for each in libc::SIGRTMIN()..=libc::SIGRTMAX() {
        // SAFETY: `action` lives during the call, and its handler does only what a signal handler may do.
        let _kept = unsafe { libc::sigaction(each, &raw const action, ptr::null_mut()) };
    }
}

/// Sends the other signal to this process. The call goes directly to the kernel: it needs no lock, and does not change `errno`.
extern "C" fn pass_on(_signal: c_int) {
    if let Some(signal) = Signal::from_named_raw(STANDS_FOR_THEM.load(Ordering::SeqCst)) {
        // The handler cannot report a failure, and this process may always signal itself.
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
            // SAFETY: the arguments are plain numbers, and the signal has a handler.
            let sent = unsafe { libc::kill(me, signal) };
            // Without a handler the signal would end the process of the test.
            assert_eq!(sent, 0);
        }
    }
}
