//! Owns temporary names beside final names; error messages have the final name. Stores no entries.

use super::tree::{Shared, Tree, lock};
use godwit_store::error::{StoreError, StoreErrorKind};
use godwit_store::extended::Lost;
use godwit_store::meta::Kind;
use godwit_store::path::{RelPath, TempName};
use godwit_store::storage::{Create, Replace};
use std::sync::Arc;

/// The path of the temporary name beside `path`.
pub(super) fn temp_path(
    operation: &'static str,
    path: &RelPath,
    temp: &TempName,
) -> Result<RelPath, StoreError> {
    let parent = path
        .parent()
        .ok_or_else(|| StoreError::new(operation, path, StoreErrorKind::TypeConflict))?;
    parent
        .join(temp.as_bytes())
        .map_err(|error| StoreError::from_path(operation, path, error))
}

/// Makes an empty file with the temporary name, in place of any entry there.
pub(super) fn new_file(
    tree: &mut Tree,
    operation: &'static str,
    path: &RelPath,
    temp: &TempName,
) -> Result<Shared, StoreError> {
    let node = tree.new_node(Kind::File, 0o600);
    tree.put(
        operation,
        &temp_path(operation, path, temp)?,
        Arc::clone(&node),
    )?;
    Ok(node)
}

/// The temporary file of `path`; it is made if necessary.
pub(super) fn create(
    tree: &mut Tree,
    path: &RelPath,
    temp: &TempName,
    how: Create,
) -> Result<Shared, StoreError> {
    let there = match how {
        Create::Fresh => None,
        Create::Resume | Create::Shared => {
            tree.find("create", &temp_path("create", path, temp)?)?
        }
    };
    there.map_or_else(|| new_file(tree, "create", path, temp), Ok)
}

/// Puts a complete node at `path`, by means of its temporary name.
pub(super) fn put_at_once(
    tree: &mut Tree,
    operation: &'static str,
    path: &RelPath,
    node: Shared,
    temp: &TempName,
    replace: Replace,
) -> Result<Lost, StoreError> {
    let there = tree.find(operation, path)?;
    tree.take(&temp_path(operation, path, temp)?);
    if let Some(there) = there {
        let kind = match replace {
            Replace::Never => Some(StoreErrorKind::Exists),
            Replace::Atomically if lock(&there).meta.kind == Kind::Directory => {
                Some(StoreErrorKind::TypeConflict)
            }
            Replace::Atomically => None,
        };
        if let Some(kind) = kind {
            return Err(StoreError::new(operation, path, kind));
        }
    }
    tree.put(operation, path, node)?;
    Ok(Lost::NOTHING)
}

pub(super) fn absent_is_fine(
    found: Result<Option<Shared>, StoreError>,
) -> Result<Option<Shared>, StoreError> {
    match found {
        Err(error) if error.kind == StoreErrorKind::NotFound => Ok(None),
        found => found,
    }
}

/// Replaces the temporary name in an error by the name of the file that it becomes.
pub(super) fn named(path: &RelPath) -> impl FnOnce(StoreError) -> StoreError {
    move |error| StoreError {
        path: path.clone(),
        ..error
    }
}
