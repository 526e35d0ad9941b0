//! Defines the check whether a transfer may still change its destination. Knows no claims and reads no clock; the maker of a fence does.

/// Decides whether a claim is still valid at this node. The check must usually be cheap: it runs before each write and before each item
/// that is sent.
pub trait Fence: Send + Sync {
    /// Whether the claim is still valid. Once this returns false, it never returns true again. May wait for the answer if this node was
    /// unavailable.
    fn holds(&self) -> bool;

    /// Whether another node may still write to the members' shared files, so that a file must be assembled in a copy.
    fn copies(&self) -> bool {
        false
    }
}
