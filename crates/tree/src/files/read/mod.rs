//! Owns the sending side: scans, lists, offers, and the contents that are read.
//! Judges nothing at the destination.

pub(crate) mod items;
pub(crate) mod keeper;
pub(crate) mod list;
pub(crate) mod offer;
pub(crate) mod own_files;
pub(crate) mod source;
