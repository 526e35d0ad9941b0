//! Owns the judgement of announced entries: what is there already, what is to be made, and what must wait for the end.
//! Writes no contents.

pub(in crate::files) mod afresh;
pub(in crate::files) mod agenda;
pub(in crate::files) mod announced;
pub(in crate::files) mod choice;
pub(in crate::files) mod compare;
pub(in crate::files) mod directories;
pub(in crate::files) mod planner;
pub(in crate::files) mod sharers;
pub(in crate::files) mod spared;
pub(in crate::files) mod spelling;
