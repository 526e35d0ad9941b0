//! Owns the metadata options of an OPEN: which metadata is kept, and whether an entry fails if it cannot be
//! kept. Does not apply metadata. `docs/wire.md`, "Metadata".

use prost::Message;

/// Metadata to keep besides contents, mode and times. Without this message, no such metadata is kept.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Preserve {
    /// The owner.
    #[prost(bool, tag = "1")]
    pub owner: bool,
    /// The owning group.
    #[prost(bool, tag = "2")]
    pub group: bool,
    /// Extended attributes.
    #[prost(bool, tag = "3")]
    pub xattrs: bool,
    /// POSIX access lists.
    #[prost(bool, tag = "4")]
    pub acls: bool,
    /// FIFOs, sockets and device nodes are entries too; otherwise the sender reports them and leaves them out.
    #[prost(bool, tag = "5")]
    pub specials: bool,
    /// Users and groups are identified by number alone: no names are sent or looked up.
    #[prost(bool, tag = "6")]
    pub numeric_ids: bool,
    /// An entry fails if requested metadata cannot be kept.
    #[prost(bool, tag = "7")]
    pub strict: bool,
}
