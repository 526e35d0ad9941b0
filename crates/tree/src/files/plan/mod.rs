//! Judges announced entries: which ones exist, which must be made, and which must wait for the end. Writes no contents.

pub(crate) mod afresh;
pub(crate) mod agenda;
pub(crate) mod announced;
pub(crate) mod awaited;
pub(crate) mod choice;
pub(crate) mod compare;
pub(crate) mod directories;
pub(crate) mod planner;
pub(crate) mod remembered;
pub(crate) mod sharers;
pub(crate) mod spared;
pub(crate) mod spelling;
