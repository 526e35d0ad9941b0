//! Owns what makes a tree final: syncs, names, links, deletion, directory times, and the sweep of what is left.
//! Writes no contents.

pub(in crate::files) mod commit;
pub(in crate::files) mod deferred;
pub(in crate::files) mod delete;
pub(in crate::files) mod finisher;
pub(in crate::files) mod leftovers;
pub(in crate::files) mod links;
pub(in crate::files) mod spill_list;
pub(in crate::files) mod unclaimed;
pub(in crate::files) mod undelivered;
