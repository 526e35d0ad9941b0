//! Checks whether an existing entry has exactly the announced name, in directories that accept several spellings of one name. Only looks:
//! replaces, skips and makes nothing.
//!
//! A lookup with one letter's case flipped shows, once for each directory, whether the directory folds case. In a directory that folds
//! case, and for names that are not ASCII, a name exists only if the directory lists exactly this spelling. The same holds for the
//! directories above, down from the path that the user named. Any other match is a collision. A rename that replaces nothing catches
//! collisions of new names, and a link is checked when it is made.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use godwit_engine::lock;
use godwit_proto::{EntryId, Fault, FaultCode};
use godwit_store::seen::SeenSet;
use godwit_store::spill::SpillRoom;
use godwit_store::{RelPath, Storage, StoreError, StoreErrorKind, TempName};

use crate::files::plan::remembered::Remembered;
use crate::files::target::destination_fault;

/// Most directories whose results are remembered; beyond that, they are examined again.
const DIRECTORIES_MAX: usize = 32 * 1024;

/// Listings that are kept for the next manifest, in addition to the listing that each manifest uses while it is planned.
const LISTINGS_MAX: usize = 8;

/// Names of one listing in memory, about 600 KiB; the rest is on disk.
const LISTING_KEYS: usize = 16 * 1024;

/// Most new listings of a directory for one manifest, in case names were added since. A name that the file system spells differently is
/// missing in each listing.
const RELISTED_MAX: u32 = 4;

/// Precedes the folded form of a name in a listing; no name contains this byte.
const FOLDED: u8 = b'/';

/// Whether a directory treats the two cases of an ASCII letter as equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaseFolding {
    /// Not examined yet.
    Unknown,
    No,
    Yes,
}

/// Facts about a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// Whether the directory's name, and the names above it, are spelled exactly as announced. If not, it is another directory.
    is_exact: bool,
    folds: CaseFolding,
}

const NOTHING: Known = Known {
    is_exact: true,
    folds: CaseFolding::Unknown,
};

/// The directory of the last query, which usually is the directory of the next entry too.
#[derive(Default)]
pub(crate) struct LastDirectory(Option<Last>);

struct Last {
    path: Vec<u8>,
    known: Known,
    names: Listed,
}

/// The listing of a directory, if it was needed.
#[derive(Default)]
struct Listed {
    listing: Option<Listing>,
    /// Number of new listings.
    again: u32,
}

impl LastDirectory {
    /// Whether the directory is known to have exactly the announced name.
    pub(crate) fn is_exact(&self) -> bool {
        self.0.as_ref().is_none_or(|last| last.known.is_exact)
    }

    /// Whether a look at `path` is already known to find only the announced entry; this is the usual case and nearly free.
    pub(crate) fn is_plain(&self, path: &RelPath) -> bool {
        let Some(last) = &self.0 else {
            return false;
        };
        let rest = path.as_bytes().strip_prefix(last.path.as_slice());
        let name = match rest {
            Some(rest) if !last.path.is_empty() => rest.strip_prefix(b"/"),
            rest => rest,
        };
        last.known.is_exact
            && last.known.folds == CaseFolding::No
            && name.is_some_and(|name| name.is_ascii() && !name.contains(&b'/'))
    }
}

/// The names of one directory, once it was listed.
type Listing = Arc<Mutex<Option<SeenSet>>>;

/// Facts about the directories of a destination.
pub(crate) struct Spelling {
    storage: Arc<dyn Storage>,
    /// The path that the user named; its last component may have any spelling.
    named: RelPath,
    spill: SpillRoom,
    known: Mutex<Remembered<Known>>,
    listings: Mutex<VecDeque<(Vec<u8>, Listing)>>,
    /// Whether an announced entry has collided with another one.
    met: AtomicBool,
}

impl Spelling {
    pub(crate) fn new(storage: &Arc<dyn Storage>, mapping: &[RelPath], spill: &SpillRoom) -> Self {
        let shortest = mapping.iter().min_by_key(|root| root.as_bytes().len());
        let mut named = shortest.cloned().unwrap_or_default();
        // With several sources, the user did not choose the last names.
        if !mapping.iter().all(|root| root.starts_with(&named)) {
            named = named.parent().unwrap_or_default();
        }
        Self {
            storage: Arc::clone(storage),
            named,
            spill: spill.clone(),
            known: Mutex::new(Remembered::new(DIRECTORIES_MAX)),
            listings: Mutex::default(),
            met: AtomicBool::new(false),
        }
    }

    /// Whether `path` leads to the announced entry and no other one; `found` means that an entry exists.
    pub(crate) fn suits(
        &self,
        path: &RelPath,
        found: bool,
        last: &mut LastDirectory,
    ) -> Result<bool, StoreError> {
        let Some((parent, name)) = path.split() else {
            return Ok(true);
        };
        let last = match &mut last.0 {
            Some(last) if last.path == parent => last,
            turned => {
                *turned = None;
                let Some(known) = self.known_of(parent)? else {
                    // The directory does not exist, or was removed meanwhile, so no entry in it exists.
                    return Ok(true);
                };
                turned.insert(Last {
                    path: parent.to_vec(),
                    known,
                    names: Listed::default(),
                })
            }
        };
        match last.known {
            Known {
                is_exact: false, ..
            } => Ok(false),
            _ if !found => Ok(true),
            Known {
                folds: CaseFolding::No,
                ..
            } if name.is_ascii() => Ok(true),
            _ => self.compare(path, &mut last.known.folds, &mut last.names),
        }
    }

    /// The facts about the directory at `path`; `None` if it does not exist.
    fn known_of(&self, path: &[u8]) -> Result<Option<Known>, StoreError> {
        let named = self.named.as_bytes().len();
        let mut unknown = Vec::new();
        let mut at = path;
        let mut known = loop {
            if let Some(known) = self.remembered(at) {
                break known;
            }
            if at.len() <= named {
                break NOTHING;
            }
            unknown.push(at);
            let slash = at.iter().rposition(|byte| *byte == b'/');
            at = &at[..slash.unwrap_or(0)];
        };
        for path in unknown.into_iter().rev() {
            let name = path.rsplit(|byte| *byte == b'/').next();
            let name = name.unwrap_or_default();
            if known.is_exact && !has_one_spelling(name, known.folds) {
                let directory = RelPath::parse(path).unwrap_or_default();
                // A missing directory may still be made under another name.
                if self.storage.stat(&directory)?.is_none() {
                    return Ok(None);
                }
                known.is_exact =
                    self.compare(&directory, &mut known.folds, &mut Listed::default())?;
            }
            known.folds = CaseFolding::Unknown;
            self.remember(path, known);
        }
        Ok(Some(known))
    }

    /// Records that an announced entry has collided with another one.
    pub(crate) fn note_met(&self) {
        self.met.store(true, Ordering::Release);
    }

    pub(crate) fn has_met(&self) -> bool {
        self.met.load(Ordering::Acquire)
    }

    /// Records that the directory at `path` exists with exactly the announced name.
    pub(crate) fn remember_exact(&self, path: &RelPath) {
        if self.remembered(path.as_bytes()).is_none() {
            self.remember(path.as_bytes(), NOTHING);
        }
    }

    fn remembered(&self, path: &[u8]) -> Option<Known> {
        lock(&self.known).get(path)
    }

    fn remember(&self, path: &[u8], known: Known) {
        lock(&self.known).put(path, known);
    }

    /// Whether the entry found at `path` has exactly the name at the end of `path`. Findings about its directory, which is the right one,
    /// are remembered.
    fn compare(
        &self,
        path: &RelPath,
        folds: &mut CaseFolding,
        names: &mut Listed,
    ) -> Result<bool, StoreError> {
        let Some((parent, name)) = path.split() else {
            return Ok(true);
        };
        if path.as_bytes().len() <= self.named.as_bytes().len() {
            return Ok(true);
        }
        let Listed { listing, again } = names;
        let mut listing = || Arc::clone(listing.get_or_insert_with(|| self.listing(parent)));
        if *folds == CaseFolding::Unknown
            && let Some(other) = in_other_case(path)
        {
            *folds = self.probe(path, &other, &mut listing)?;
            let known = Known {
                is_exact: true,
                folds: *folds,
            };
            self.remember(parent, known);
        }
        if has_one_spelling(name, *folds) {
            return Ok(true);
        }
        match self.lists(&listing(), again, parent, name, *folds) {
            // If the directory cannot be listed, the look decides, unless the directory is known to fold case.
            Err(error)
                if error.kind == StoreErrorKind::Permission && *folds != CaseFolding::Yes =>
            {
                Ok(true)
            }
            listed => listed,
        }
    }

    /// Finds out whether a directory folds case, by looking up an entry in it under its name in the other case. Only names are compared,
    /// because some file systems report another inode number for each spelling.
    fn probe(
        &self,
        path: &RelPath,
        other: &RelPath,
        listing: &mut dyn FnMut() -> Listing,
    ) -> Result<CaseFolding, StoreError> {
        if self.storage.stat(other).is_ok_and(|found| found.is_none()) {
            return Ok(CaseFolding::No);
        }
        let (Some((parent, one)), Some((_, other))) = (path.split(), other.split()) else {
            return Ok(CaseFolding::Yes);
        };
        // There may be two entries, or one with both names.
        let listing = listing();
        let mut listing = lock(&listing);
        let path = RelPath::parse(parent).unwrap_or_default();
        let names = listing.insert(self.list(&path, CaseFolding::Yes)?);
        let both = names
            .contains(one)
            .and_then(|there| Ok(there && names.contains(other)?))
            .map_err(|error| unreadable_listing(&path, &error))?;
        Ok(if both {
            CaseFolding::No
        } else {
            CaseFolding::Yes
        })
    }

    /// Whether the entry that a survey found at `path` may be an announced entry in another spelling. True if its directory folds case, or
    /// this is unknown.
    pub(crate) fn may_be_announced(&self, path: &RelPath) -> bool {
        let Some((parent, _)) = path.split() else {
            return false;
        };
        let known = self.remembered(parent).unwrap_or(NOTHING);
        match (known.folds, in_other_case(path)) {
            (CaseFolding::Yes, _) => true,
            (CaseFolding::No, _) | (CaseFolding::Unknown, None) => false,
            (CaseFolding::Unknown, Some(other)) => {
                let Ok(folds) = self.probe(path, &other, &mut || self.listing(parent)) else {
                    return true;
                };
                self.remember(parent, Known { folds, ..known });
                folds == CaseFolding::Yes
            }
        }
    }

    /// Whether the directory lists this name, under which a look has found an entry.
    fn lists(
        &self,
        listing: &Listing,
        again: &mut u32,
        parent: &[u8],
        name: &[u8],
        folds: CaseFolding,
    ) -> Result<bool, StoreError> {
        let path = RelPath::parse(parent).unwrap_or_default();
        let failed = |error: io::Error| unreadable_listing(&path, &error);
        let mut listing = lock(listing);
        if let Some(names) = &*listing {
            if names.contains(name).map_err(failed)? {
                return Ok(true);
            }
            // Another spelling was listed: only this program could have changed its case since, and it does not.
            if folds == CaseFolding::Yes && names.contains(&folded(name)).map_err(failed)? {
                return Ok(false);
            }
            // The name may have been added since.
            *again += 1;
            if *again > RELISTED_MAX {
                return Ok(false);
            }
        }
        let names = listing.insert(self.list(&path, folds)?);
        names.contains(name).map_err(failed)
    }

    fn list(&self, path: &RelPath, folds: CaseFolding) -> Result<SeenSet, StoreError> {
        let mut names = SeenSet::with_memory(&self.spill, LISTING_KEYS);
        let mut failure = None;
        self.storage.names_in(path, &mut |name| {
            if failure.is_some() || TempName::is_temp(name) {
                return;
            }
            let mut noted = names.insert(name);
            if folds == CaseFolding::Yes && noted.is_ok() {
                noted = names.insert(&folded(name));
            }
            failure = noted.err();
        })?;
        match failure {
            None => Ok(names),
            Some(error) => Err(unreadable_listing(path, &error)),
        }
    }

    fn listing(&self, parent: &[u8]) -> Listing {
        let mut listings = lock(&self.listings);
        let at = listings.iter().position(|(path, _)| path == parent);
        let kept = at.and_then(|at| listings.remove(at));
        let (path, listing) = kept.unwrap_or_else(|| (parent.to_vec(), Listing::default()));
        listings.truncate(LISTINGS_MAX - 1);
        listings.push_front((path, Arc::clone(&listing)));
        listing
    }
}

/// Whether a name in such a directory matches no other spelling.
fn has_one_spelling(name: &[u8], folds: CaseFolding) -> bool {
    match folds {
        CaseFolding::No => name.is_ascii(),
        // Names without letters have no other case, but some file systems ignore characters at the end.
        CaseFolding::Unknown => {
            !matches!(name.last(), Some(b'.' | b' '))
                && name
                    .iter()
                    .all(|byte| byte.is_ascii() && !byte.is_ascii_alphabetic())
        }
        CaseFolding::Yes => false,
    }
}

fn unreadable_listing(path: &RelPath, error: &io::Error) -> StoreError {
    StoreError {
        operation: "compare the names in",
        path: path.clone(),
        kind: StoreErrorKind::Io,
        errno: error.raw_os_error(),
    }
}

/// The fault of an entry whose name another entry has.
pub(crate) fn taken(entry: EntryId, path: &RelPath) -> Fault {
    let message = format!(
        "{path}: another entry already has this name at the destination (letter case or normalisation of names, or two sources of one name); it was not overwritten; rename one of the two"
    );
    destination_fault(entry, FaultCode::COLLISION, message)
}

/// The path with one letter of its last name in the other case; `None` without an ASCII letter.
fn in_other_case(path: &RelPath) -> Option<RelPath> {
    let (_, name) = path.split()?;
    let at = name.iter().position(u8::is_ascii_alphabetic)?;
    let mut other = path.as_bytes().to_vec();
    let start = other.len() - name.len();
    other[start + at] ^= 0x20;
    RelPath::parse(&other).ok()
}

/// The common form of names that differ only in letter case.
fn folded(name: &[u8]) -> Vec<u8> {
    let mut folded = vec![FOLDED];
    folded.extend(String::from_utf8_lossy(name).to_lowercase().into_bytes());
    folded
}

#[cfg(test)]
pub(crate) mod tests;
