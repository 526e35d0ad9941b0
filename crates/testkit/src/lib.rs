//! Owns the storages of tests: one in memory, and one that fails, loses and crashes as a test tells it.
//! Is no part of the program: other crates use it as a dev-dependency only.

mod hostile;
mod memory;

pub use hostile::{Faults, Hook, HostileStorage, Operation, Rule, When};
pub use memory::MemoryStorage;
