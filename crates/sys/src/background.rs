//! Owns the priority of the calling thread for processors and disks.
//! Changes no other thread.

/// Lets other threads and programs run first: a lower priority for processors, the lowest ordinary priority for disks. If the kernel
/// refuses, nothing changes: correctness does not depend on the priority.
#[expect(unsafe_code, reason = "there is no safe form of ioprio_set")]
pub fn lower_thread() {
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_BEST_EFFORT: libc::c_int = 2;
    const CLASS_SHIFT: libc::c_int = 13;
    const LEVEL_LOWEST: libc::c_int = 7;
    const NICE: libc::c_int = 10;
    let priority = CLASS_BEST_EFFORT << CLASS_SHIFT | LEVEL_LOWEST;
    // SAFETY: the arguments are plain numbers, and 0 is the calling thread.
    unsafe {
        libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, priority);
    }
    // SAFETY: the arguments are plain numbers, and 0 is the calling thread.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
}

/// Restores the usual priorities of the calling thread. Only a privileged process may raise the priority for processors; if the kernel
/// refuses, the priority stays low until the thread ends.
#[expect(unsafe_code, reason = "there is no safe form of ioprio_set")]
pub fn raise_thread() {
    const WHO_PROCESS: libc::c_int = 1;
    // SAFETY: the arguments are plain numbers, and 0 is the calling thread.
    unsafe {
        libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, 0);
    }
    // SAFETY: the arguments are plain numbers: 0 is the calling thread, and the class follows from the other priority.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, 0);
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
