//! Makes, removes and renames entries at places. Follows no link, and does not change the export itself.
//!
//! The removal of a tree pushes each directory on a stack that overflows to disk. At the end the directories are popped and removed,
//! so that deeper directories, which were pushed later, are removed first. Therefore memory is bounded for any tree.

use std::path::Path;

use godwit_api::ask::{EntryView, FailedPlace, GoOn, NAMED_MAX, Refusal, Removed, code};
use godwit_api::job::Text;
use godwit_store::spill::SpillStack;
use godwit_store::{Kind, RelPath, Replace, StoreError, SurveyItem, above_to_sync};

use super::here::{Found, given_up};

/// Permissions of a new directory.
const DIRECTORY_MODE: u32 = 0o755;

/// Memory for directories that must be removed later.
const STACK_BYTES: usize = 4 << 20;

/// Longest path in an answer; all paths of an answer fit into a document.
const NAMED_BYTES_MAX: usize = 512;

/// Makes a directory.
pub(super) fn make_directory(found: &Found, parents: bool) -> Result<EntryView, Refusal> {
    let storage = &found.storage;
    let refuse = |error: StoreError| found.refuse(&error);
    let parent = found.path.parent();
    if !parents {
        if storage.stat(&found.path).map_err(refuse)?.is_some() {
            return Err(Refusal::new(
                code::EXISTS,
                format!("{}: exists already", found.shown()),
            ));
        }
        let above = parent.clone().unwrap_or_default();
        if storage.stat(&above).map_err(refuse)?.is_none() {
            return Err(Refusal::new(
                code::NOT_FOUND,
                format!(
                    "{}: the parent directory does not exist; make it as well with -p",
                    found.shown()
                ),
            ));
        }
    }
    let made = storage.make_directory(&found.path, DIRECTORY_MODE);
    made.map_err(|error| match error.kind {
        godwit_store::StoreErrorKind::TypeConflict => Refusal::new(
            code::EXISTS,
            format!("{}: a different entry already exists there", found.shown()),
        ),
        _ => found.refuse(&error),
    })?;
    let above = above_to_sync(&found.path);
    storage.sync_directories(&above).map_err(refuse)?;
    found.view()
}

/// Renames an entry.
pub(super) fn rename(from: &Found, to: &Found, replace: bool) -> Result<EntryView, Refusal> {
    from.below_export("renamed")?;
    to.below_export("replaced")?;
    if from.export != to.export {
        return Err(Refusal::new(
            code::INVALID,
            format!(
                "{} and {} are in different exports; copy with godwit job submit, then remove the source",
                from.shown(),
                to.shown()
            ),
        ));
    }
    if to.path != from.path && to.path.starts_with(&from.path) {
        return Err(Refusal::new(
            code::INVALID,
            format!("{} cannot go into itself", from.shown()),
        ));
    }
    from.meta()?;
    let replace = match replace {
        true => Replace::Atomically,
        false => Replace::Never,
    };
    let renamed = from.storage.rename(&from.path, &to.path, replace);
    renamed.map_err(|error| match error.kind {
        godwit_store::StoreErrorKind::Exists => {
            Refusal::new(code::EXISTS, format!("{}: exists already", to.shown()))
        }
        godwit_store::StoreErrorKind::NotFound => Refusal::new(
            code::NOT_FOUND,
            format!("{}: the parent directory does not exist", to.shown()),
        ),
        _ => from.refuse(&error),
    })?;
    let above = [from.path.parent(), to.path.parent()];
    let above: Vec<RelPath> = above.into_iter().flatten().collect();
    to.storage
        .sync_directories(&above)
        .map_err(|error| to.refuse(&error))?;
    to.view()
}

/// Removes an entry.
pub(super) fn remove(
    found: &Found,
    recursive: bool,
    spill: &Path,
    go_on: &mut GoOn<'_>,
) -> Result<Removed, Refusal> {
    found.below_export("removed")?;
    let there = found.meta()?;
    let is_directory = there.kind == Kind::Directory;
    let mut removal = Removal {
        found,
        removed: Removed::default(),
        go_on,
    };
    if is_directory && recursive {
        removal.below(spill)?;
    }
    let removed = found.storage.remove_entry(&found.path, is_directory);
    match removed {
        Ok(()) if is_directory => removal.removed.directories += 1,
        Ok(()) => removal.removed.files += 1,
        Err(error) if removal.removed.failed == 0 && !recursive => {
            return Err(match error.kind {
                godwit_store::StoreErrorKind::Exists => Refusal::new(
                    code::EXISTS,
                    format!(
                        "{}: the directory is not empty; to remove its contents as well, use -r",
                        found.shown()
                    ),
                ),
                _ => found.refuse(&error),
            });
        }
        Err(error) => removal.failed(&found.path, &error),
    }
    let above: Vec<RelPath> = found.path.parent().into_iter().collect();
    found
        .storage
        .sync_directories(&above)
        .map_err(|error| found.refuse(&error))?;
    Ok(removal.removed)
}

struct Removal<'a, 'b> {
    found: &'a Found,
    removed: Removed,
    go_on: &'a mut GoOn<'b>,
}

impl Removal<'_, '_> {
    /// Removes everything below the place.
    fn below(&mut self, spill: &Path) -> Result<(), Refusal> {
        let found = self.found;
        let broken = |error: std::io::Error| {
            Refusal::later(
                code::IO,
                format!("the node cannot store the list of directories to remove: {error}"),
            )
        };
        let mut directories = SpillStack::new(spill, STACK_BYTES);
        let mut ended = Ok(());
        let surveyed = found.storage.survey(&found.path, &mut |item| {
            match item {
                SurveyItem::Entry {
                    path,
                    kind: Kind::Directory,
                    ..
                } => ended = directories.push(path.as_bytes()).map_err(broken),
                SurveyItem::Entry { path, .. } => match found.storage.remove_entry(&path, false) {
                    Ok(()) => self.removed.files += 1,
                    Err(error) => self.failed(&path, &error),
                },
                SurveyItem::Fault(error) => self.failed(&error.path.clone(), &error),
            }
            if ended.is_ok() && !self.goes_on() {
                ended = Err(given_up());
            }
            ended.is_ok()
        });
        ended?;
        surveyed.map_err(|error| found.refuse(&error))?;
        while let Some(path) = directories.pop().map_err(broken)? {
            let Ok(path) = RelPath::parse(&path) else {
                continue;
            };
            match found.storage.remove_entry(&path, true) {
                Ok(()) => self.removed.directories += 1,
                Err(error) => self.failed(&path, &error),
            }
            if !self.goes_on() {
                return Err(given_up());
            }
        }
        Ok(())
    }

    fn goes_on(&mut self) -> bool {
        (self.go_on)(self.removed.files + self.removed.directories)
    }

    fn failed(&mut self, path: &RelPath, error: &StoreError) {
        self.removed.failed += 1;
        note_failure(&mut self.removed.failures, self.found, path, error);
    }
}

/// Reports a failure, unless there are enough of them or its path is too long.
pub(super) fn note_failure(
    failures: &mut Vec<FailedPlace>,
    found: &Found,
    path: &RelPath,
    error: &StoreError,
) {
    if failures.len() < NAMED_MAX && path.as_bytes().len() <= NAMED_BYTES_MAX {
        failures.push(FailedPlace {
            path: Text(below(path, &found.path)),
            message: error.to_string(),
        });
    }
}

/// Reports a path, unless there are enough of them or it is too long.
pub(super) fn note_path(paths: &mut Vec<Text>, found: &Found, path: &RelPath) {
    if paths.len() < NAMED_MAX && path.as_bytes().len() <= NAMED_BYTES_MAX {
        paths.push(Text(below(path, &found.path)));
    }
}

/// The part of a path below another one.
fn below(path: &RelPath, above: &RelPath) -> Vec<u8> {
    let rest = path.as_bytes().strip_prefix(above.as_bytes());
    let rest = rest.unwrap_or(path.as_bytes());
    rest.strip_prefix(b"/").unwrap_or(rest).to_vec()
}
