//! Tests that the pool of blocks is bounded, reuses the latest block, and lets no thread wait for ever.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use godwit_store::pool::Pool;

/// Lets the other threads run until this many wait in the pool.
fn until_waiting(pool: &Pool, threads: usize) {
    while pool.counters().waiting < threads {
        thread::yield_now();
    }
}

#[test]
fn hands_out_the_block_that_came_back_last() {
    let pool = Pool::new(8192, 3);
    assert_eq!(
        pool.counters().blocks_idle,
        0,
        "nothing is allocated before it is needed"
    );
    let mut first = pool.take().unwrap();
    let mut second = pool.try_take().unwrap();
    assert_eq!(first.len(), 8192);
    assert_eq!(first.as_ptr().addr() % 4096, 0);
    first[0] = 1;
    second[0] = 2;
    drop(second);
    drop(first);
    assert_eq!(pool.take().unwrap()[0], 1);
    let counters = pool.counters();
    assert_eq!((counters.blocks_idle, counters.blocks_out), (2, 0));
    assert_eq!((counters.taken, counters.waits), (3, 0));
}

#[test]
fn a_full_pool_gives_nothing_until_a_block_is_back() {
    let pool = Pool::new(4096, 1);
    let block = pool.take().unwrap();
    assert!(pool.try_take().is_none());
    assert!(pool.take_timeout(Duration::from_millis(1)).is_none());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| pool.take().map(|block| block.len()));
        until_waiting(&pool, 1);
        drop(block);
        assert_eq!(waiter.join().unwrap(), Some(4096));
    });
    assert_eq!(pool.counters().waits, 2);
}

#[test]
fn close_wakes_everybody() {
    let pool = Pool::new(4096, 1);
    let block = pool.take().unwrap();
    thread::scope(|scope| {
        let waiters = [(); 3].map(|()| scope.spawn(|| pool.take().is_none()));
        until_waiting(&pool, 3);
        pool.close();
        assert!(
            waiters
                .map(|waiter| waiter.join().unwrap())
                .iter()
                .all(|none| *none)
        );
    });
    assert_eq!(block.len(), 4096, "a block that is out remains");
    drop(block);
    assert!(pool.take().is_none());
    assert_eq!(pool.counters().blocks_idle, 0);
}

#[test]
fn a_wait_for_a_block_can_be_stopped() {
    let pool = Pool::new(4096, 1);
    let _block = pool.take().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| pool.take_while(|| !stop.load(Ordering::Relaxed)).is_none());
        until_waiting(&pool, 1);
        stop.store(true, Ordering::Relaxed);
        pool.wake();
        assert!(waiter.join().unwrap());
    });
}

#[test]
fn the_limit_changes_live() {
    let pool = Pool::new(4096, 1);
    let first = pool.take().unwrap();
    let second = thread::scope(|scope| {
        let waiter = scope.spawn(|| pool.take());
        until_waiting(&pool, 1);
        pool.set_blocks_max(2);
        waiter.join().unwrap().unwrap()
    });
    pool.set_blocks_max(1);
    drop(first);
    let counters = pool.counters();
    assert_eq!((counters.blocks_out, counters.blocks_idle), (1, 0));
    assert!(pool.try_take().is_none());
    drop(second);
    pool.set_blocks_max(0);
    assert!(pool.take().is_some(), "a pool always has one block");
}

#[test]
fn an_impossible_allocation_fails_without_a_wait() {
    let pool = Pool::new(usize::MAX >> 1, 4);
    assert!(pool.take().is_none());
}

/// Many threads, a limit that keeps changing, and waiters that give up. There are never more blocks than the largest
/// limit, no block has two users, and no wake-up is lost.
#[test]
fn stays_whole_under_stress() {
    const THREADS: usize = 6;
    const ROUNDS: usize = 3000;
    let pool = Pool::new(4096, 3);
    let out = AtomicUsize::new(0);
    let start = Barrier::new(THREADS + 1);
    thread::scope(|scope| {
        for id in 0..THREADS {
            let (pool, out, start) = (&pool, &out, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..ROUNDS {
                    let block = match (id + round) % 4 {
                        0 => pool.try_take(),
                        1 => pool.take_timeout(Duration::from_micros(5)),
                        _ => Some(pool.take().unwrap()),
                    };
                    let Some(mut block) = block else { continue };
                    assert!(out.fetch_add(1, Ordering::SeqCst) < 4);
                    let mark = (id * ROUNDS + round) as u64;
                    block[..8].copy_from_slice(&mark.to_le_bytes());
                    if round % 16 == 0 {
                        thread::yield_now();
                    }
                    assert_eq!(block[..8], mark.to_le_bytes());
                    out.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
        start.wait();
        for round in 0..ROUNDS / 10 {
            pool.set_blocks_max(1 + round % 4);
            thread::yield_now();
        }
        pool.set_blocks_max(2);
    });
    let counters = pool.counters();
    assert_eq!((counters.blocks_out, counters.waiting), (0, 0));
    assert!(counters.blocks_idle <= 2);
}

/// Allows this many bytes, and counts the bytes allocated.
#[derive(Debug)]
struct Allowed {
    most: usize,
    given: AtomicUsize,
}

impl godwit_store::pool::Allowance for Allowed {
    fn grow(&self, bytes: usize, must: bool) -> bool {
        let given = self.given.load(Ordering::SeqCst);
        let may = must || given + bytes <= self.most;
        if may {
            self.given.fetch_add(bytes, Ordering::SeqCst);
        }
        may
    }

    fn shrink(&self, bytes: usize) {
        self.given.fetch_sub(bytes, Ordering::SeqCst);
    }
}

#[test]
fn each_allocation_is_permitted_and_all_of_them_are_returned() {
    let allowed = Arc::new(Allowed {
        most: 2 * 4096,
        given: AtomicUsize::new(0),
    });
    let given = || allowed.given.load(Ordering::SeqCst) / 4096;
    let pool = Pool::allowed(4096, 4, Arc::clone(&allowed) as _);
    let first = pool.try_take().expect("allowed");
    let second = pool.try_take().expect("allowed");
    assert!(pool.try_take().is_none(), "no more is allowed");
    // A thread that cannot wait gets a block beyond the limit.
    let third = pool
        .take_overdue(Duration::from_millis(1))
        .expect("it must have one");
    assert_eq!(given(), 3);
    drop(first);
    let again = pool.try_take().expect("one that came back needs no leave");
    assert_eq!(given(), 3);
    drop((second, third));
    pool.set_blocks_max(1);
    assert_eq!(given(), 1);
    drop(again);
    assert_eq!(given(), 1, "it is kept");
    drop(pool);
    assert_eq!(given(), 0);
    // Without any allowance one block is still available.
    let none = Arc::new(Allowed {
        most: 0,
        given: AtomicUsize::new(0),
    });
    let pool = Pool::allowed(4096, 4, none);
    let only = pool.try_take();
    assert!(only.is_some() && pool.try_take().is_none());
    pool.close();
    assert!(pool.take_overdue(Duration::from_millis(1)).is_none());
}
