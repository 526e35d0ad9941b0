//! Owns the writing under temporary names: open files, their ranges, and entries without contents. Assigns no final
//! names (`finish`).

pub(crate) mod floors;
pub(crate) mod held;
pub(crate) mod maker;
pub(crate) mod open;
pub(crate) mod ranges;
pub(crate) mod verify;
pub(crate) mod writer;
