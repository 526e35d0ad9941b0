//! Owns the memory of extents on their way to and from flash, which is bounded and used again. Knows no extents.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use godwit_sys::page_buffer::PageBuffer;

use super::fill::{GATHERED_MAX, QUEUED_MAX, WRITERS_MAX};
use super::lock;
use super::serve::LOADED_MAX;

/// Most extents in memory.
pub(super) const EXTENTS_MAX: usize = GATHERED_MAX // being gathered from blocks
    + QUEUED_MAX // complete
    + WRITERS_MAX // being written
    + LOADED_MAX // read, for several blocks each
    + READING_MAX; // being read
/// Extents being read at a time; further reads go to slow storage.
const READING_MAX: usize = 8;
/// The pause between two looks for a buffer that comes back.
const STEP: Duration = Duration::from_millis(2);
/// How long no call waits after one waited in vain. A peer may hold all buffers by files that it does not complete, and each file of the
/// others would wait then.
const CROWDED_FOR: Duration = Duration::from_secs(60);

/// Buffers of one size.
#[derive(Debug)]
pub(super) struct Memory {
    each: usize,
    state: Mutex<Stock>,
}

#[derive(Debug, Default)]
struct Stock {
    spare: Vec<PageBuffer>,
    used: usize,
    /// When a call last waited in vain.
    crowded: Option<Instant>,
}

/// A buffer for one extent. It still has the bytes of its last use.
#[derive(Debug)]
pub(super) struct Held {
    buffer: Option<PageBuffer>,
    memory: Arc<Memory>,
}

impl Memory {
    pub(super) fn new(each: usize) -> Self {
        Self {
            each,
            state: Mutex::default(),
        }
    }

    /// A buffer; `None` if the bound is reached, or there is no memory.
    pub(super) fn take(self: &Arc<Self>) -> Option<Held> {
        let spare = {
            let mut stock = lock(&self.state);
            if stock.used >= EXTENTS_MAX {
                return None;
            }
            stock.used += 1;
            stock.spare.pop()
        };
        let buffer = match spare {
            Some(buffer) => Some(buffer),
            None => PageBuffer::new(self.each).ok(),
        };
        // Without a buffer, `held` ends here, and that lowers the count.
        let held = Held {
            buffer,
            memory: Arc::clone(self),
        };
        held.buffer.is_some().then_some(held)
    }

    /// The same, with a wait of at most this time for a buffer that comes back. `stops` ends the wait.
    pub(super) fn take_within(
        self: &Arc<Self>,
        within: Duration,
        stops: &dyn Fn() -> bool,
    ) -> Option<Held> {
        let until = Instant::now() + within;
        loop {
            if let Some(held) = self.take() {
                return Some(held);
            }
            let now = Instant::now();
            if stops() || self.is_crowded(now) {
                return None;
            }
            if now >= until {
                lock(&self.state).crowded = Some(now);
                return None;
            }
            std::thread::sleep(STEP);
        }
    }

    fn is_crowded(&self, now: Instant) -> bool {
        let crowded = lock(&self.state).crowded;
        crowded.is_some_and(|at| now.saturating_duration_since(at) < CROWDED_FOR)
    }

    /// Returns unused memory to the system.
    pub(super) fn trim(&self) {
        let spare = std::mem::take(&mut lock(&self.state).spare);
        drop(spare);
    }
}

impl Held {
    /// The whole buffer, as a volume takes it.
    pub(super) fn pages(&mut self) -> Option<&mut PageBuffer> {
        self.buffer.as_mut()
    }
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buffer.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut stock = lock(&self.memory.state);
        stock.used -= 1;
        stock.spare.extend(self.buffer.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_used_again() {
        let memory = Arc::new(Memory::new(4096));
        let mut held: Vec<Held> = std::iter::from_fn(|| memory.take()).collect();
        assert_eq!(held.len(), EXTENTS_MAX);
        held.pop();
        assert!(memory.take().is_some());
        drop(held);
        assert_eq!(lock(&memory.state).spare.len(), EXTENTS_MAX);
        memory.trim();
        assert!(lock(&memory.state).spare.is_empty());
    }

    #[test]
    fn after_one_wait_in_vain_no_other_call_waits() {
        let memory = Arc::new(Memory::new(4096));
        let mut held: Vec<Held> = std::iter::from_fn(|| memory.take()).collect();
        let goes_on = || false;
        let begun = Instant::now();
        assert!(
            memory
                .take_within(Duration::from_millis(20), &goes_on)
                .is_none()
        );
        assert!(begun.elapsed() >= Duration::from_millis(20));
        let begun = Instant::now();
        assert!(
            memory
                .take_within(Duration::from_secs(30), &goes_on)
                .is_none()
        );
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it does not wait"
        );
        held.pop();
        assert!(memory.take_within(Duration::ZERO, &goes_on).is_some());
    }
}
