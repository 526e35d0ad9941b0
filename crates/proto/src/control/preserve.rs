//! Owns what an OPEN says about metadata: which metadata is kept, and what to do if a place cannot hold it.
//! Applies none of it. `docs/wire.md`, "Metadata".

use prost::Message;

/// Metadata to keep besides contents, mode and times. Without this message: none.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Preserve {
    /// The user that an entry belongs to.
    #[prost(bool, tag = "1")]
    pub owner: bool,
    /// The group that an entry belongs to.
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
