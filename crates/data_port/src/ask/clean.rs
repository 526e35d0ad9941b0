//! Removes temporary files that belong to no journal and were not written recently. Removes nothing else, and reports
//! for each temporary file that stays why it stays. Files that a removal at a source left aside get their names back.
//!
//! The journals of this node list the files of all its running or resumable transfers, for peers and for jobs.
//! Journals of other machines and users are not visible here: only the age protects their files.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use godwit_api::ask::{CleanPlace, Cleaned, GoOn, KeptFiles, Refusal, code};
use godwit_run::removal::put_back;
use godwit_store::journal::JournalDirectory;
use godwit_store::{
    Kind, RelPath, StoreError, StoreErrorKind, SurveyItem, TempName, Timestamp, claim_tag,
};

use super::change::{note_failure, note_path};
use super::here::{Found, given_up};

/// Most tags in one question; the state stores as many for a job.
const TAGS_MAX: usize = 64;

const CLAIMED: &str = "a transfer that runs or can be resumed needs it";
const YOUNG: &str = "the file was written recently; a transfer of another machine may need it";

/// Cleans at and below a place.
pub(super) fn clean(
    found: &Found,
    wish: &CleanPlace,
    journals: &Path,
    claimed: &dyn Fn() -> HashSet<u64>,
    go_on: &mut GoOn<'_>,
) -> Result<Cleaned, Refusal> {
    if found.meta()?.kind != Kind::Directory {
        return Err(Refusal::new(
            code::NOT_A_DIRECTORY,
            format!("{} is not a directory", found.shown()),
        ));
    }
    if wish.tags.len() > TAGS_MAX {
        let message = format!("tags: at most {TAGS_MAX}, the limit of a job");
        return Err(Refusal::new(code::INVALID, message));
    }
    let claim = wish.claim.map(|claim| claim_tag(&claim.0));
    let tags: Vec<u64> = wish.tags.iter().copied().chain(claim).collect();
    if !tags.is_empty() && !wish.dry_run {
        let place = found.absolute();
        let place = Path::new(OsStr::from_bytes(&place));
        let directory = JournalDirectory::open(journals);
        // Journals and files of a running transfer stay.
        drop(directory.map(|directory| directory.forget_tags(&tags, place)));
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let mut cleaning = Cleaning {
        found,
        wish,
        tags,
        journals,
        claimed,
        // A file that was written after this moment stays.
        before: i64::try_from(now.saturating_sub(wish.older_than_seconds)).unwrap_or(i64::MAX),
        cleaned: Cleaned::default(),
    };
    let mut seen = 0_u64;
    let mut ended = Ok(());
    // The contents of these directories are removed first, which changes the directories' times.
    let mut directories = Vec::new();
    let mut held = 0;
    let surveyed = found.storage.survey(&found.path, &mut |item| {
        seen += 1;
        ended = match item {
            SurveyItem::Entry { path, kind, .. } if is_temporary(&path) => {
                let room = directories.len() < DIRECTORIES_MAX && held < PATHS_BYTES_MAX;
                if kind == Kind::Directory && room {
                    held += path.as_bytes().len();
                    let there = found.storage.stat(&path).ok().flatten();
                    directories.extend(there.map(|there| (path, there.mtime)));
                    Ok(())
                } else {
                    cleaning.take(&path, None)
                }
            }
            SurveyItem::Entry { .. } => Ok(()),
            SurveyItem::Fault(error) => {
                cleaning.failed(&error.path.clone(), &error);
                Ok(())
            }
        };
        if ended.is_ok() && !go_on(seen) {
            ended = Err(given_up());
        }
        ended.is_ok()
    });
    ended?;
    surveyed.map_err(|error| found.refuse(&error))?;
    for (path, mtime) in directories.iter().rev() {
        cleaning.take(path, Some(*mtime))?;
    }
    Ok(cleaning.cleaned)
}

/// Temporary directories that are recorded at a time: a killed node leaves one, with the entries that it was removing.
const DIRECTORIES_MAX: usize = 4096;

/// Bytes of their paths.
const PATHS_BYTES_MAX: usize = 1 << 20;

fn is_temporary(path: &RelPath) -> bool {
    path.file_name().is_some_and(TempName::is_temp)
}

struct Cleaning<'a> {
    found: &'a Found,
    wish: &'a CleanPlace,
    /// Tags of the one job to clean up; empty for all.
    tags: Vec<u64>,
    journals: &'a Path,
    /// Tags that belong to this node's claims.
    claimed: &'a dyn Fn() -> HashSet<u64>,
    before: i64,
    cleaned: Cleaned,
}

impl Cleaning<'_> {
    /// Handles one temporary entry; `mtime` is the time of a directory before its contents were removed.
    fn take(&mut self, path: &RelPath, mtime: Option<Timestamp>) -> Result<(), Refusal> {
        let there = match self.found.storage.stat(path) {
            Ok(Some(there)) => there,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.failed(path, &error);
                return Ok(());
            }
        };
        // Read again for each file, because a transfer may have begun meanwhile; its journal exists before its first
        // file.
        let claimed = JournalDirectory::tags(self.journals).map_err(|error| {
            Refusal::later(
                code::IO,
                format!("the node cannot read its journals, so nothing is removed: {error}"),
            )
        })?;
        let tag = path.file_name().and_then(TempName::tag_of);
        let is_of_job = tag.is_some_and(|tag| self.tags.contains(&tag));
        // Files of others are not even reported to an asker that cleans up one job.
        if !self.tags.is_empty() && !is_of_job {
            return Ok(());
        }
        let is_counted = is_of_job && self.wish.dry_run;
        if !is_counted
            && tag.is_none_or(|tag| claimed.contains(&tag) || (self.claimed)().contains(&tag))
        {
            self.keep(path, CLAIMED);
            return Ok(());
        }
        let mtime = mtime.unwrap_or(there.mtime);
        if !is_of_job && mtime.seconds >= self.before && self.wish.older_than_seconds > 0 {
            self.keep(path, YOUNG);
            return Ok(());
        }
        let is_directory = there.kind == Kind::Directory;
        if !self.wish.dry_run {
            // A crash left a user's file in it.
            let is_aside = is_directory && path.file_name().is_some_and(TempName::is_of_removal);
            if is_aside && let Err(error) = put_back(&*self.found.storage, path) {
                self.failed(&error.path.clone(), &error);
                return Ok(());
            }
            match self.found.storage.remove_found(path, &there) {
                Ok(true) => {}
                // Another entry has taken its name meanwhile.
                Ok(false) => return Ok(()),
                Err(error) => {
                    // Any other entry in a directory has an owner.
                    if !(is_directory && error.kind == StoreErrorKind::Exists) {
                        self.failed(path, &error);
                    }
                    return Ok(());
                }
            }
        }
        self.cleaned.files += 1;
        self.cleaned.bytes += there.bytes;
        note_path(&mut self.cleaned.paths, self.found, path);
        Ok(())
    }

    fn keep(&mut self, path: &RelPath, reason: &str) {
        let kept = &mut self.cleaned.kept;
        let at = kept.iter().position(|group| group.reason == reason);
        let at = at.unwrap_or_else(|| {
            kept.push(KeptFiles {
                reason: reason.to_owned(),
                files: 0,
                paths: Vec::new(),
            });
            kept.len() - 1
        });
        kept[at].files += 1;
        note_path(&mut kept[at].paths, self.found, path);
    }

    fn failed(&mut self, path: &RelPath, error: &StoreError) {
        self.cleaned.failed += 1;
        note_failure(&mut self.cleaned.failures, self.found, path, error);
    }
}
