//! Seals a directory of an export with an ASC MHL history, for an asker that may write there. One directory of each asker at a time.
//! Knows nothing of the format, and shows no path outside of the export.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use godwit_api::ask::{FailedPlace, GoOn, NAMED_MAX, Refusal, SealPlace, Sealed, code};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::Text;
use godwit_net::IdentityId;
use godwit_run::seal::{SealedCopy, check_kinds, copy};
use godwit_store::Kind;

use super::here::{Found, given_up};
use crate::claims::check as check_place;

/// Bytes of a list of kinds: more than all of them have.
const KINDS_BYTES_MAX: usize = 64;

/// Longest path of a file in an answer; all paths of an answer fit into a document.
const NAMED_BYTES_MAX: usize = 512;

/// How long a question waits for files that drain: no longer, because it takes the place of other questions of the asker.
const DRAINS_WITHIN: Duration = Duration::from_millis(500);

/// Interval of the looks at the work and at the asker.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Sealings of all askers at a time. Each may take a sixth of the memory of the machine (`run::seal`).
const SEALINGS_MAX: usize = 2;

/// The sealings now, by their askers: a sealing may last for days, and one asker holds up no other.
#[derive(Default)]
pub(super) struct Turns(Mutex<Vec<Option<IdentityId>>>);

/// The turn of an asker, until this is dropped.
struct Turn<'a> {
    turns: &'a Turns,
    asker: Option<IdentityId>,
}

/// Refuses a question that makes no sense. Uses no file.
pub(super) fn check(found: &Found, wish: &SealPlace) -> Result<(), Refusal> {
    found.below_export("sealed")?;
    check_place(found.path.as_bytes())
        .map_err(|error| Refusal::new(code::INVALID, error.to_string()))?;
    if wish.kinds.len() > KINDS_BYTES_MAX {
        let message = format!("kinds: at most {KINDS_BYTES_MAX} bytes");
        return Err(Refusal::new(code::INVALID, message));
    }
    check_kinds(OsStr::new(&wish.kinds))
        .map_err(|failure| Refusal::new(code::INVALID, failure.message))
}

/// Adds a generation. The asker has one of the turns meanwhile. The answer has names of files only if the asker may see them.
pub(super) fn seal(
    found: &Found,
    wish: &SealPlace,
    (turns, asker): (&Turns, Option<IdentityId>),
    sees_names: bool,
    go_on: &mut GoOn<'_>,
) -> Result<Sealed, Refusal> {
    if found.meta()?.kind != Kind::Directory {
        return Err(Refusal::new(
            code::NOT_A_DIRECTORY,
            format!(
                "{}: only a directory has an ASC MHL history; seal a directory above it",
                found.shown()
            ),
        ));
    }
    drained(found, sees_names)?;
    let _turn = turns.take(asker)?;
    if !go_on(0) {
        return Err(given_up());
    }
    let path = PathBuf::from(OsString::from_vec(found.absolute()));
    match work(&path, OsStr::new(&wish.kinds), go_on)? {
        Ok(sealed) => Ok(answer(&path, sealed, sees_names)),
        Err(failure) => Err(refusal(found, &failure, sees_names)),
    }
}

/// Waits a moment for the files below that are in the transfer buffer: a history is made of what is in place. These files drain
/// before all others.
fn drained(found: &Found, sees_names: bool) -> Result<(), Refusal> {
    let Some(arrivals) = &found.arrivals else {
        return Ok(());
    };
    match arrivals.have_drained(&found.path, DRAINS_WITHIN) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Refusal::later(
            code::BUSY,
            format!(
                "{}: files below it still wait in the transfer buffer of the node; ask again later",
                found.shown()
            ),
        )),
        Err(error) => {
            let why = match sees_names {
                true => error.to_string(),
                false => "the right to list is needed to see why".to_owned(),
            };
            let message = format!("{}: files below it cannot be written: {why}", found.shown());
            Err(Refusal::new(code::IO, message))
        }
    }
}

impl Turns {
    /// Takes a turn, unless all are taken, or one by the same asker. A wait would take the place of other questions of the asker.
    fn take(&self, asker: Option<IdentityId>) -> Result<Turn<'_>, Refusal> {
        let mut now = self.lock();
        if now.len() >= SEALINGS_MAX || now.contains(&asker) {
            let message = "another directory is being sealed here; ask again later";
            return Err(Refusal::later(code::BUSY, message));
        }
        now.push(asker);
        Ok(Turn { turns: self, asker })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<IdentityId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // No asker has two.
        self.turns.lock().retain(|asker| *asker != self.asker);
    }
}

/// Seals on a second thread, while this one shows the asker that the work continues.
fn work(
    path: &Path,
    kinds: &OsStr,
    go_on: &mut GoOn<'_>,
) -> Result<Result<SealedCopy, Failure>, Refusal> {
    let stop = AtomicBool::new(false);
    let read = AtomicU64::new(0);
    let count = |bytes| {
        read.fetch_add(bytes, Ordering::Relaxed);
    };
    let done = std::thread::scope(|scope| {
        let sealing = scope.spawn(|| copy(path, kinds, (&stop, &count)));
        while !sealing.is_finished() {
            if !go_on(read.load(Ordering::Relaxed)) {
                stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        sealing.join()
    });
    // A panic has been printed.
    done.map_err(|_panic| {
        let message = "a thread of the sealing panicked; see the log of that node";
        Refusal::new(code::IO, message)
    })
}

fn answer(path: &Path, sealed: SealedCopy, sees_names: bool) -> Sealed {
    let file = sealed.file.strip_prefix(path).unwrap_or(&sealed.file);
    let named = sealed.differences.iter().filter(|_| sees_names);
    let named = named.filter(|(path, _)| path.len() <= NAMED_BYTES_MAX);
    let differences = named.take(NAMED_MAX).map(|(path, words)| FailedPlace {
        path: Text(path.clone().into_bytes()),
        message: (*words).to_owned(),
    });
    Sealed {
        differences: differences.collect(),
        differing: sealed.differences.len() as u64,
        file: Text(file.as_os_str().as_bytes().to_vec()),
        identifier: sealed.identifier,
        files: sealed.files,
        bytes: sealed.bytes,
        others: sealed.others,
        rejoined: sealed.rejoined,
    }
}

/// The refusal for a sealing that failed: paths of this machine become paths of the export.
fn refusal(found: &Found, failure: &Failure, sees_names: bool) -> Refusal {
    if failure.code == FailureCode::Cancelled {
        return given_up();
    }
    if !sees_names {
        return Refusal::new(
            code::IO,
            format!(
                "{}: its ASC MHL history is damaged or cannot be written; the right to list is needed to see why",
                found.shown()
            ),
        );
    }
    let real = String::from_utf8_lossy(&found.real);
    let export = format!("/{}", found.export);
    let message = match real.trim_end_matches('/') {
        "" => failure.message.clone(),
        real => failure.message.replace(real, &export),
    };
    Refusal::new(code::IO, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_sealing_of_one_asker_holds_up_no_other_asker() {
        let peer = |letter: &str| -> Option<IdentityId> {
            let identity = format!("gw1-{}", letter.repeat(52)).parse();
            Some(identity.expect("an identity"))
        };
        let turns = Turns::default();
        let refused = |asker: Option<IdentityId>| {
            let refusal = turns.take(asker).err().expect("it is refused");
            assert!(
                refusal.retryable && refusal.code == code::BUSY,
                "{refusal:?}"
            );
        };
        let first = turns.take(peer("a")).expect("nothing else is sealed");
        refused(peer("a"));
        let second = turns.take(peer("q")).expect("the turn of another asker");
        refused(None);
        drop(first);
        refused(peer("q"));
        let own = turns.take(None).expect("its turn");
        drop((second, own));
        assert!(turns.lock().is_empty());
    }
}
