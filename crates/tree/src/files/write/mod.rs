//! Owns contents on their way to temporary names: files that are open, their ranges, and entries that have no contents.
//! Gives no entry its own name (`finish`).

pub(in crate::files) mod floors;
pub(in crate::files) mod held;
pub(in crate::files) mod maker;
pub(in crate::files) mod open;
pub(in crate::files) mod ranges;
pub(in crate::files) mod verify;
pub(in crate::files) mod writer;
