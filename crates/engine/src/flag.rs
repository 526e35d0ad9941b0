//! Owns a fact that becomes true once and stays true, shared by threads. Wakes no thread.

use std::sync::atomic::{AtomicBool, Ordering};

/// A fact that is false at first.
#[derive(Debug, Default)]
pub struct Flag(AtomicBool);

impl Flag {
    /// Makes the fact true.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the fact is true.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
