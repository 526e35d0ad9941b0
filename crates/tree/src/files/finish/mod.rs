//! Owns the final steps of a tree: syncs, names, links, deletion, directory times, and the sweep of leftovers.
//! Writes no contents.

pub(crate) mod commit;
pub(crate) mod deferred;
pub(crate) mod delete;
pub(crate) mod finisher;
pub(crate) mod leftovers;
pub(crate) mod links;
pub(crate) mod spill_list;
pub(crate) mod unclaimed;
pub(crate) mod undelivered;
