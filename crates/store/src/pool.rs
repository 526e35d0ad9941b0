//! Owns the block buffers between storage and network: a bounded number of buffers that threads take and return. Does not know the contents
//! of a block, and does not choose the number of blocks.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_sys::page_buffer::PageBuffer;

/// Decides whether a pool may have more memory, in addition to the pool's own limit.
///
/// The pool calls it under its lock, so it must not use the pool.
pub trait Allowance: fmt::Debug + Send + Sync {
    /// Whether the pool may allocate `bytes`; if so, they count as allocated. With `must`, the pool has no block in use and cannot wait for
    /// one.
    fn grow(&self, bytes: usize, must: bool) -> bool;

    /// Records that the pool has freed `bytes`.
    fn shrink(&self, bytes: usize);
}

/// A bounded set of equal, page-aligned buffers. Clones are handles of the same pool.
///
/// The buffer returned last is taken first, because it is most likely in the processor's caches. A buffer is allocated when it is first
/// needed and then kept until the pool shrinks or closes.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    block_bytes: usize,
    allowance: Option<Arc<dyn Allowance>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    idle: Vec<PageBuffer>,
    out: usize,
    blocks_max: usize,
    closed: bool,
    waiting: usize,
    taken: u64,
    waits: u64,
    waited: Duration,
}

/// Counters and contents of a pool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounters {
    /// Most blocks that may be in use.
    pub blocks_max: usize,
    /// Blocks in use.
    pub blocks_out: usize,
    /// Blocks allocated and not in use.
    pub blocks_idle: usize,
    /// Threads that wait for a block now.
    pub waiting: usize,
    /// Blocks taken since the pool was created.
    pub taken: u64,
    /// How often a thread had to wait for a block.
    pub waits: u64,
    /// Total time that threads waited, without waits that have not ended.
    pub waited: Duration,
}

impl Pool {
    /// A pool of at most `blocks_max` blocks, at least one, of `block_bytes` bytes each. Allocates nothing yet.
    pub fn new(block_bytes: usize, blocks_max: usize) -> Self {
        Self::with(block_bytes, blocks_max, None)
    }

    /// A pool as in [`new`](Self::new), but a block is allocated only if `allowance` agrees. A pool without a block in use can always
    /// allocate one.
    pub fn allowed(block_bytes: usize, blocks_max: usize, allowance: Arc<dyn Allowance>) -> Self {
        Self::with(block_bytes, blocks_max, Some(allowance))
    }

    fn with(block_bytes: usize, blocks_max: usize, allowance: Option<Arc<dyn Allowance>>) -> Self {
        let state = State {
            idle: Vec::new(),
            out: 0,
            blocks_max: blocks_max.max(1),
            closed: false,
            waiting: 0,
            taken: 0,
            waits: 0,
            waited: Duration::ZERO,
        };
        let shared = Shared {
            block_bytes,
            allowance,
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The length of each block.
    pub fn block_bytes(&self) -> usize {
        self.shared.block_bytes
    }

    /// Takes a block; waits until one is free. `None` if the pool is closed, or if the system has no memory and no block is in use that
    /// could be waited for.
    pub fn take(&self) -> Option<Block> {
        self.take_while(|| true)
    }

    /// Takes a block if one is free now.
    pub fn try_take(&self) -> Option<Block> {
        match self.shared.lock().take(&self.shared) {
            Taken::Block(buffer) => Some(self.block(buffer)),
            Taken::Wait | Taken::Never => None,
        }
    }

    /// Like [`take`](Self::take), but gives up after `timeout`.
    pub fn take_timeout(&self, timeout: Duration) -> Option<Block> {
        let begin = Instant::now();
        self.wait_for_block(|| timeout.checked_sub(begin.elapsed()))
    }

    /// Like [`take`](Self::take), but after `patience` takes a block beyond the limit: for a thread
    /// whose wait would block others.
    pub fn take_overdue(&self, patience: Duration) -> Option<Block> {
        loop {
            if let Some(block) = self.take_timeout(patience) {
                return Some(block);
            }
            let taken = self.shared.lock().take_new(&self.shared, true);
            match taken {
                Taken::Block(buffer) => return Some(self.block(buffer)),
                // The system has no memory, but blocks in use will be returned.
                Taken::Wait => {}
                Taken::Never => return None,
            }
        }
    }

    /// Like [`take`](Self::take), but gives up when `keep_waiting` returns false. `keep_waiting` is called before each wait: code that
    /// changes its result calls [`wake`](Self::wake) afterwards. `keep_waiting` runs under the pool's lock: it must not use the pool, nor
    /// drop a block of it.
    pub fn take_while(&self, mut keep_waiting: impl FnMut() -> bool) -> Option<Block> {
        self.wait_for_block(|| keep_waiting().then_some(Duration::MAX))
    }

    /// Makes all waiting threads check again whether to go on waiting.
    pub fn wake(&self) {
        // The lock is held so that a thread that has just decided to wait already waits, and cannot miss the wake-up.
        let _state = self.shared.lock();
        self.shared.changed.notify_all();
    }

    /// Changes the maximum number of blocks, at least one. Idle blocks beyond it are freed now, others when they are returned.
    pub fn set_blocks_max(&self, blocks_max: usize) {
        let surplus = {
            let mut state = self.shared.lock();
            state.blocks_max = blocks_max.max(1);
            let keep = state.blocks_max.saturating_sub(state.out);
            let from = keep.min(state.idle.len());
            state.idle.split_off(from)
        };
        self.shared.changed.notify_all();
        self.shared.free(surplus); // after the lock: unmapping takes its time
    }

    /// Closes the pool: all waiting and all later callers get `None`. Blocks in use remain valid.
    pub fn close(&self) {
        let idle = {
            let mut state = self.shared.lock();
            state.closed = true;
            std::mem::take(&mut state.idle)
        };
        self.shared.changed.notify_all();
        self.shared.free(idle);
    }

    /// Reads the counters.
    pub fn counters(&self) -> PoolCounters {
        let state = self.shared.lock();
        PoolCounters {
            blocks_max: state.blocks_max,
            blocks_out: state.out,
            blocks_idle: state.idle.len(),
            waiting: state.waiting,
            taken: state.taken,
            waits: state.waits,
            waited: state.waited,
        }
    }

    fn block(&self, buffer: PageBuffer) -> Block {
        Block {
            buffer: Some(buffer),
            shared: Arc::clone(&self.shared),
        }
    }

    /// `patience` returns before each wait how long the wait may last; `None` ends the waiting.
    fn wait_for_block(&self, mut patience: impl FnMut() -> Option<Duration>) -> Option<Block> {
        let shared = &*self.shared;
        let mut state = shared.lock();
        let mut wait_begin = None;
        let buffer = loop {
            match state.take(shared) {
                Taken::Block(buffer) => break Some(buffer),
                Taken::Never => break None,
                Taken::Wait => {}
            }
            let Some(patience) = patience() else {
                break None;
            };
            if wait_begin.is_none() {
                wait_begin = Some(Instant::now());
                state.waits += 1;
                state.waiting += 1;
            }
            state = if patience == Duration::MAX {
                let woken = shared.changed.wait(state);
                woken.unwrap_or_else(PoisonError::into_inner)
            } else {
                let woken = shared.changed.wait_timeout(state, patience);
                woken.unwrap_or_else(PoisonError::into_inner).0
            };
        };
        if let Some(begin) = wait_begin {
            state.waiting -= 1;
            state.waited += begin.elapsed();
        }
        drop(state);
        if buffer.is_none() {
            // This thread may have consumed a wake-up that another waiting thread needs.
            shared.changed.notify_one();
        }
        buffer.map(|buffer| self.block(buffer))
    }
}

enum Taken {
    Block(PageBuffer),
    Wait,
    Never,
}

impl State {
    fn take(&mut self, shared: &Shared) -> Taken {
        if self.closed {
            return Taken::Never;
        }
        if self.out >= self.blocks_max {
            return Taken::Wait;
        }
        match self.idle.pop() {
            Some(buffer) => self.hand_out(buffer),
            None => self.take_new(shared, self.out == 0),
        }
    }

    /// Allocates a block, if the allowance agrees or because the pool `must` have one.
    fn take_new(&mut self, shared: &Shared, must: bool) -> Taken {
        if self.closed {
            return Taken::Never;
        }
        if !shared.may_grow(must) {
            return Taken::Wait;
        }
        match PageBuffer::new(shared.block_bytes) {
            Ok(buffer) => self.hand_out(buffer),
            Err(_) => {
                shared.has_freed(1);
                match self.out {
                    0 => Taken::Never,
                    _ => Taken::Wait,
                }
            }
        }
    }

    fn hand_out(&mut self, buffer: PageBuffer) -> Taken {
        self.out += 1;
        self.taken += 1;
        Taken::Block(buffer)
    }
}

impl Shared {
    /// The lock may be poisoned: nothing panics while the state is inconsistent, so the state is valid.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, buffer: PageBuffer) {
        let (surplus, wanted) = {
            let mut state = self.lock();
            state.out -= 1;
            let wanted = state.waiting > 0;
            let surplus = if state.closed || state.out + state.idle.len() >= state.blocks_max {
                Some(buffer)
            } else {
                state.idle.push(buffer);
                None
            };
            (surplus, wanted)
        };
        // Skipped if not needed, because a system call would cost more than the rest of this function.
        if wanted {
            self.changed.notify_one();
        }
        self.free(surplus);
    }

    fn may_grow(&self, must: bool) -> bool {
        let allowance = self.allowance.as_ref();
        allowance.is_none_or(|allowance| allowance.grow(self.block_bytes, must))
    }

    fn has_freed(&self, blocks: usize) {
        if let Some(allowance) = &self.allowance
            && blocks > 0
        {
            allowance.shrink(blocks * self.block_bytes);
        }
    }

    fn free(&self, buffers: impl IntoIterator<Item = PageBuffer>) {
        let freed = buffers.into_iter().map(drop).count();
        self.has_freed(freed);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let idle = {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut state.idle)
        };
        self.free(idle);
    }
}

/// A buffer of a [`Pool`]; dropping it returns it to the pool. Its length is the pool's block length; its contents are those of its last
/// user.
pub struct Block {
    /// Present until `drop` removes it.
    buffer: Option<PageBuffer>,
    shared: Arc<Shared>,
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buffer.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.shared.give_back(buffer);
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Block({} bytes)", self.len())
    }
}
