//! Owns contents on their way to temporary names: files that are open, their ranges, and entries that have no contents.
//! Gives no entry its own name (`finish`).

pub(crate) mod floors;
pub(crate) mod held;
pub(crate) mod maker;
pub(crate) mod open;
pub(crate) mod ranges;
pub(crate) mod verify;
pub(crate) mod writer;
