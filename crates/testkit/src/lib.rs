//! Owns the storages of tests: one in memory, and one that fails, loses data and crashes as a test requires. Also owns the printed
//! line of a skipped test. Not a part of the program: other crates use it as a dev-dependency only.

mod hostile;
mod memory;
mod needs;

pub use hostile::{Faults, Hook, HostileStorage, Operation, Rule, When};
pub use memory::MemoryStorage;
pub use needs::{needs_fuse, needs_root, skip};
