//! Removes temporary files that no journal claims, from the directories that a transfer's sources went into.
//! Touches nothing of a transfer that can be resumed here, and nothing young: another machine's transfer may write there.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use godwit_store::journal::JournalDirectory;
use godwit_store::{Kind, RelPath, StoreError, TempName};

use crate::files::error::CloseError;
use crate::files::target::Target;

/// A temporary file that no journal here claims, and that has not changed for this long, is removed. Journals of other machines cannot be
/// seen. If a transfer of another machine pauses for longer, it sends such a file again.
const UNCLAIMED_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

/// A directory whose own size is larger has some hundred thousand names, and is not listed for this.
const DIRECTORY_BYTES_MAX: u64 = 16 << 20;

/// Removes unclaimed temporary files. Files that cannot be listed or removed stay, for another run.
pub(crate) fn sweep_unclaimed(target: &Target, now: SystemTime) {
    let config = &target.config;
    let Ok(claimed) = JournalDirectory::tags(&config.spill_directory) else {
        return;
    };
    let Some(before) = now
        .checked_sub(UNCLAIMED_AGE)
        .and_then(|before| before.duration_since(SystemTime::UNIX_EPOCH).ok())
    else {
        return;
    };
    let directories: HashSet<RelPath> = config.mapping.iter().filter_map(RelPath::parent).collect();
    for directory in directories {
        let small = config
            .storage
            .stat(&directory)
            .is_ok_and(|there| there.is_none_or(|there| there.bytes <= DIRECTORY_BYTES_MAX));
        if !small {
            continue;
        }
        let mut found = Vec::new();
        let listed = config.storage.names_in(&directory, &mut |name| {
            if TempName::tag_of(name).is_some_and(|tag| !claimed.contains(&tag)) {
                found.push(name.to_vec());
            }
        });
        if listed.is_err() {
            continue;
        }
        for path in found.iter().filter_map(|name| directory.join(name).ok()) {
            let is_old = config
                .storage
                .stat(&path)
                .ok()
                .flatten()
                .is_some_and(|there| {
                    there.kind == Kind::File
                        && u64::try_from(there.mtime.seconds)
                            .is_ok_and(|then| then < before.as_secs())
                });
            if is_old {
                let _ = config.storage.remove_entry(&path, false);
            }
        }
    }
}

/// Why a sweep failed. The sweep covers all below the destination, also where the source has nothing.
pub(crate) fn unswept(target: &Target, error: StoreError) -> CloseError {
    let path = match target.config.hides_names {
        true => target.base(),
        false => error.path,
    };
    CloseError::Sweep(StoreError { path, ..error })
}

/// Removes temporary files that earlier attempts of the job left under their own tags. No earlier attempt writes any more: the job has
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
