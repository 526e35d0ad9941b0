//! Lets one thread at a time write to an entry; other threads pass their blocks to that thread. Does not write or
//! preserve order: blocks of an entry may be written in any order.
//!
//! A receiving stream checks and writes its blocks itself, unless a writer is idle. The kernel serialises buffered
//! writes to one inode. A thread that finds its file busy therefore hands the checked block to the writing thread, and
//! continues receiving.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, PoisonError};

use godwit_proto::EntryId;

use crate::lock;

/// Most blocks that wait for the thread that writes into their entry. The threads of further blocks wait themselves.
const LEFT_MAX: usize = 2;

/// Blocks of other threads that a thread writes before a waiting thread takes over, because its own stream is not
/// served meanwhile.
const OTHERS_MAX: u32 = 16;

/// Records which thread writes to each entry.
///
/// The kernel lets one thread at a time write into a file. If blocks were not handed over, waiting threads would need a
/// wake-up for each block, and the file would be idle until they run.
pub(super) struct Turns<J> {
    turns: Mutex<HashMap<EntryId, Turn<J>>>,
    changed: Condvar,
}

struct Turn<J> {
    /// Whether a thread writes, or a waiting thread is about to.
    taken: bool,
    left: VecDeque<J>,
    waiting: u32,
    others: u32,
}

impl<J> Default for Turns<J> {
    fn default() -> Self {
        Self {
            turns: Mutex::default(),
            changed: Condvar::new(),
        }
    }
}

impl<J> Turns<J> {
    /// Runs `job` for `entry`, and any jobs that others hand over meanwhile; or hands `job` to the thread that already
    /// works on the entry.
    ///
    /// If `act` panics, others may continue with the entry and the jobs handed over.
    pub(super) fn run(&self, entry: EntryId, job: J, mut act: impl FnMut(J)) {
        let mut job = self.enter(entry, job);
        while let Some(mine) = job {
            let turn = Taken { turns: self, entry };
            act(mine);
            std::mem::forget(turn);
            job = self.next(entry);
        }
    }

    /// Called by a thread that has `job` for `entry`. Returns a job to run, after which the thread must call
    /// [`Self::next`], or `None` if another thread runs it.
    fn enter(&self, entry: EntryId, job: J) -> Option<J> {
        let mut turns = lock(&self.turns);
        let mut waited = false;
        loop {
            let turn = turns.entry(entry).or_insert_with(|| Turn {
                taken: false,
                left: VecDeque::with_capacity(LEFT_MAX),
                waiting: 0,
                others: 0,
            });
            if std::mem::take(&mut waited) {
                turn.waiting -= 1;
            }
            if !turn.taken {
                turn.taken = true;
                turn.others = 0;
                turn.left.push_back(job);
                return turn.left.pop_front();
            }
            if turn.left.len() < LEFT_MAX {
                turn.left.push_back(job);
                return None;
            }
            turn.waiting += 1;
            waited = true;
            turns = self
                .changed
                .wait(turns)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Called by a thread that has finished its job. Returns another job of the same entry, or `None` if the thread is
    /// free.
    fn next(&self, entry: EntryId) -> Option<J> {
        let mut turns = lock(&self.turns);
        let turn = turns.get_mut(&entry)?;
        let waited_for = turn.waiting > 0;
        if waited_for && turn.others >= OTHERS_MAX {
            turn.taken = false;
            drop(turns);
            self.changed.notify_all();
            return None;
        }
        turn.others += 1;
        let job = turn.left.pop_front();
        if job.is_none() {
            turn.taken = false;
            if !waited_for {
                turns.remove(&entry);
            }
        }
        drop(turns);
        if waited_for {
            self.changed.notify_all();
        }
        job
    }
}

/// Ends the turn if the thread panics.
struct Taken<'a, J> {
    turns: &'a Turns<J>,
    entry: EntryId,
}

impl<J> Drop for Taken<'_, J> {
    fn drop(&mut self) {
        if let Some(turn) = lock(&self.turns.turns).get_mut(&self.entry) {
            turn.taken = false;
        }
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_second_thread_leaves_its_job_with_the_first() {
        let turns = Turns::default();
        let entry = EntryId(1);
        assert_eq!(turns.enter(entry, 1), Some(1));
        assert_eq!(turns.enter(entry, 2), None);
        assert_eq!(turns.enter(EntryId(2), 3), Some(3));
        assert_eq!(turns.next(entry), Some(2));
        assert_eq!(turns.next(entry), None);
        assert_eq!(turns.next(EntryId(2)), None);
        assert!(lock(&turns.turns).is_empty());
    }

    #[test]
    fn a_panic_ends_its_turn_and_no_other() {
        let turns = Turns::default();
        let entry = EntryId(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            turns.run(entry, 1, |_| {
                turns.run(entry, 2, |_| unreachable!("it is left with the first"));
                panic!("as a sink might");
            });
        }));
        assert!(panicked.is_err());
        let mut done = Vec::new();
        turns.run(entry, 3, |job| done.push(job));
        assert_eq!(done, [2, 3]);
        assert!(lock(&turns.turns).is_empty());
    }

    #[test]
    fn every_job_is_done_once_and_one_at_a_time() {
        const THREADS: u32 = 8;
        const JOBS: u32 = 2000;
        let turns = Turns::default();
        let busy = [AtomicBool::new(false), AtomicBool::new(false)];
        let done = Mutex::new(HashSet::new());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (turns, busy, done) = (&turns, &busy, &done);
                scope.spawn(move || {
                    for job in 0..JOBS {
                        let entry = EntryId(u64::from(job % 2));
                        turns.run(entry, (thread, job), |job| {
                            let flag = &busy[usize::from(entry.0 == 1)];
                            assert!(!flag.swap(true, Ordering::SeqCst), "two at a time");
                            assert!(lock(done).insert(job), "done twice");
                            flag.store(false, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
        assert_eq!(lock(&done).len(), (THREADS * JOBS) as usize);
        assert!(lock(&turns.turns).is_empty(), "nothing is left");
    }
}
