//! Owns the trait for looks at many entries, and the plain way to look. Keeps no handles.

use super::Storage;
use crate::error::StoreError;
use crate::meta::Meta;
use crate::path::RelPath;

/// Looks at entries, one after the other. A `Look` may keep handles that several entries share, so drop it soon.
pub trait Look {
    /// Like [`Storage::stat`].
    fn stat(&mut self, path: &RelPath) -> Result<Option<Meta>, StoreError>;
}

/// Looks at each entry by a separate `stat`.
pub(super) struct Each<'a, S: ?Sized>(pub(super) &'a S);

impl<S: Storage + ?Sized> Look for Each<'_, S> {
    fn stat(&mut self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        self.0.stat(path)
    }
}
