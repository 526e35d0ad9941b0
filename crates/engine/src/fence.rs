//! Owns the question whether a transfer may still change its destination.
//! Knows no claims and reads no clock; the maker of a fence does.

/// Says whether a claim still holds at this node. The check must usually be cheap: it runs before each write and before each item that is sent.
pub trait Fence: Send + Sync {
    /// Whether it does. Once it does not, it never does again. May wait for the answer where this node was away.
    fn holds(&self) -> bool;

    /// Whether another node may still write to the files that members share, so that a file is put together in a copy.
    fn copies(&self) -> bool {
        false
    }
}
