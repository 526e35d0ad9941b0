//! Owns the sending side: scans, lists, offers, and the reading of contents. Does not judge the
//! destination.

pub(crate) mod buffered;
pub(crate) mod items;
pub(crate) mod keeper;
pub(crate) mod list;
pub(crate) mod offer;
pub(crate) mod own_files;
mod pace;
pub(crate) mod pooled;
pub(crate) mod source;
pub(crate) mod wanted;
