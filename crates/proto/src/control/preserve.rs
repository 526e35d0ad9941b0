//! Owns what an OPEN says about metadata: which of it goes with the entries, and what if a place cannot hold it.
//! Applies none of it. `docs/wire.md`, "Metadata".

use prost::Message;

/// What goes with entries besides contents, mode and times. Without this message: nothing.
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
    /// Users and groups are known by number alone: no names are sent or looked up.
    #[prost(bool, tag = "6")]
    pub numeric_ids: bool,
    /// An entry of which something asked for cannot be kept fails.
    #[prost(bool, tag = "7")]
    pub strict: bool,
}
