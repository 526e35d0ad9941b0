//! Removes temporary files that belong to no journal, from the destination directories of a transfer. Keeps files of a transfer that can
//! be resumed here, and recent files, which another machine's transfer may write.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use godwit_store::journal::JournalDirectory;
use godwit_store::{Kind, Meta, RelPath, Storage, StoreError, TempName};
use rustix::process::geteuid;

use crate::files::error::CloseError;
use crate::files::target::Target;

/// A temporary file that belongs to no journal here is removed if it has not changed for this long. Journals of other machines cannot be
/// seen. If a transfer of another machine pauses for longer, it sends such a file again.
const UNCLAIMED_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

/// A directory larger than this has some hundred thousand names, and is not listed for the sweep.
const DIRECTORY_BYTES_MAX: u64 = 16 << 20;

/// Removes unclaimed temporary files. Files that cannot be listed or removed stay for another run.
pub(crate) fn sweep_unclaimed(target: &Target, now: SystemTime) {
    let config = &target.config;
    let Ok(claimed) = JournalDirectory::tags(config.spill.directory()) else {
        return;
    };
    let Some(before) = now
        .checked_sub(UNCLAIMED_AGE)
        .and_then(|before| before.duration_since(SystemTime::UNIX_EPOCH).ok())
    else {
        return;
    };
    let own = geteuid();
    let old = OldFiles {
        claimed: &claimed,
        before: before.as_secs(),
        owner: (!own.is_root()).then(|| own.as_raw()),
    };
    for directory in swept(&config.mapping, &config.base) {
        old.sweep(&*config.storage, &directory);
    }
}

/// The directories that are swept. The sender may write at the requested destination, but in no directory above it.
fn swept(mapping: &[RelPath], base: &RelPath) -> HashSet<RelPath> {
    let parents = mapping.iter().filter_map(RelPath::parent);
    parents.filter(|parent| parent.starts_with(base)).collect()
}

/// Conditions for files that may be removed.
struct OldFiles<'a> {
    claimed: &'a HashSet<u64>,
    /// A file may be removed if its last change, in seconds, is older.
    before: u64,
    /// Required owner: this process's user; `None` for the superuser, whose files may belong to any user.
    owner: Option<u32>,
}

impl OldFiles<'_> {
    fn sweep(&self, storage: &dyn Storage, directory: &RelPath) {
        let small = storage
            .stat(directory)
            .is_ok_and(|there| there.is_none_or(|there| there.bytes <= DIRECTORY_BYTES_MAX));
        if !small {
            return;
        }
        let mut found = Vec::new();
        let listed = storage.names_in(directory, &mut |name| {
            if TempName::tag_of(name).is_some_and(|tag| !self.claimed.contains(&tag)) {
                found.push(name.to_vec());
            }
        });
        if listed.is_err() {
            return;
        }
        for path in found.iter().filter_map(|name| directory.join(name).ok()) {
            let there = storage.stat(&path).ok().flatten();
            if let Some(there) = there.filter(|there| self.has(there)) {
                let _ = storage.remove_found(&path, &there);
            }
        }
    }

    fn has(&self, there: &Meta) -> bool {
        let is_old = u64::try_from(there.mtime.seconds).is_ok_and(|then| then < self.before);
        let is_own = self.owner.is_none_or(|owner| there.uid == owner);
        there.kind == Kind::File && is_old && is_own
    }
}

/// The error for a failed sweep. The sweep covers everything below the destination, also directories that the source lacks.
pub(crate) fn unswept(target: &Target, error: StoreError) -> CloseError {
    let path = match target.config.hides_names {
        true => target.base(),
        false => error.path,
    };
    CloseError::Sweep(StoreError { path, ..error })
}

/// Removes temporary files of earlier attempts of the job, which have other tags. No earlier attempt still writes, because the job has
/// another runner.
pub(crate) fn sweep_earlier(target: &Target) -> Result<(), StoreError> {
    let config = &target.config;
    for tag in config.earlier_tags.iter().filter(|tag| **tag != config.tag) {
        for start in &config.mapping {
            config.storage.sweep(start, *tag, &|_| false)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, FileTimes};

    use godwit_store::{Confine, FsStorage};

    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).expect("a path")
    }

    #[test]
    fn no_directory_above_the_asked_path_is_swept() {
        let swept = |mapping: &[&str], base: &str| {
            let mapping: Vec<RelPath> = mapping.iter().map(|one| path(one)).collect();
            swept(&mapping, &path(base))
        };
        // The sender may write only this one name.
        assert!(swept(&["in/new"], "in/new").is_empty());
        assert_eq!(swept(&["in/a"], "in"), HashSet::from([path("in")]));
        let two = swept(&["in/a", "in/deep/b"], "in");
        assert_eq!(two, HashSet::from([path("in"), path("in/deep")]));
        assert!(swept(&["inner/a"], "in").is_empty());
    }

    #[test]
    fn files_of_others_and_of_journals_and_young_ones_stay() {
        let directory = tempfile::tempdir().expect("a directory");
        let storage =
            FsStorage::open(directory.path(), Confine::Local, directory.path()).expect("opened");
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let make = |tag: u64| {
            let name = TempName::new(tag, &path("x"));
            let file = directory
                .path()
                .join(String::from_utf8_lossy(name.as_bytes()).as_ref());
            fs::write(&file, "left").expect("written");
            let opened = File::options().write(true).open(&file).expect("there");
            let times = FileTimes::new().set_modified(then);
            opened.set_times(times).expect("set");
            file
        };
        let (own, claimed) = (make(1), make(2));
        let tags = HashSet::from([2]);
        let sweep = |before: u64, owner: Option<u32>| {
            let claimed = &tags;
            let old = OldFiles {
                claimed,
                before,
                owner,
            };
            old.sweep(&storage, &RelPath::root());
            own.exists()
        };
        let me = geteuid().as_raw();
        assert!(sweep(1_000, None), "it is young");
        assert!(sweep(1_001, Some(me + 1)), "it is another user's");
        assert!(!sweep(1_001, Some(me)));
        assert!(claimed.exists());
        make(1);
        assert!(!sweep(1_001, None));
    }

    #[test]
    fn a_file_that_took_the_name_of_the_found_one_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let storage =
            FsStorage::open(directory.path(), Confine::Local, directory.path()).expect("opened");
        let at = |name: &str| directory.path().join(name);
        fs::write(at("a"), "found").expect("written");
        let found = storage.stat(&path("a")).expect("read").expect("there");
        fs::write(at("b"), "new").expect("written");
        fs::rename(at("b"), at("a")).expect("replaced");
        assert!(!storage.remove_found(&path("a"), &found).expect("looked"));
        assert!(at("a").exists());
        let found = storage.stat(&path("a")).expect("read").expect("there");
        assert!(storage.remove_found(&path("a"), &found).expect("removed"));
        assert!(!storage.remove_found(&path("a"), &found).expect("gone"));
    }
}
