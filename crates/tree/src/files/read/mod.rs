//! Owns the sending side: scans, lists, offers, and the contents that are read.
//! Judges nothing at the destination.

pub(in crate::files) mod items;
pub(in crate::files) mod keeper;
pub(in crate::files) mod list;
pub(in crate::files) mod offer;
pub(in crate::files) mod own_files;
pub(in crate::files) mod source;
