//! Owns the priority of the calling thread for processors and disks.
//! Decides for nobody else.

/// Lets other threads and programs go first: a lower priority for processors, the lowest ordinary one for disks. There is no
/// way back for this thread. Where the kernel refuses, all stays as it is: it is a courtesy.
#[expect(unsafe_code, reason = "there is no safe form of ioprio_set")]
pub fn lower_thread() {
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_BEST_EFFORT: libc::c_int = 2;
    const CLASS_SHIFT: libc::c_int = 13;
    const LEVEL_LOWEST: libc::c_int = 7;
    const NICE: libc::c_int = 10;
    let priority = CLASS_BEST_EFFORT << CLASS_SHIFT | LEVEL_LOWEST;
    // SAFETY: it takes plain numbers, and 0 is the calling thread.
    unsafe {
        libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, priority);
    }
    // SAFETY: it takes plain numbers, and 0 is the calling thread.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_the_thread_itself_is_lowered() {
        let nice = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let rest = stat.rsplit_once(')').unwrap().1.to_owned();
            rest.split_whitespace()
                .nth(16)
                .unwrap()
                .parse::<i32>()
                .unwrap()
        };
        let before = nice();
        let lowered = std::thread::spawn(move || {
            super::lower_thread();
            nice()
        });
        assert_eq!(lowered.join().unwrap(), 10.max(before));
        assert_eq!(nice(), before);
    }
}
