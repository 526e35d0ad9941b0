//! Lists a directory by pages, sorted by the bytes of the names. Keeps no file open between pages.
//!
//! If no names are kept from an earlier page, a listing reads all names of its directory. It keeps the smallest names
//! after the cursor in a heap, slightly more than one page. The rest is kept for a moment for the next page. Therefore
//! a directory of 10⁶ names costs bounded memory, even if the asker pauses, and some ten listings for all its pages.

use std::collections::BinaryHeap;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::ask::{GoOn, LIST_MAX, ListPlace, Listing, Refusal, code};
use godwit_api::job::Text;
use godwit_store::{Kind, RelPath};

use super::here::{Found, given_up, view};

/// Bytes of names and targets in one page. JSON takes six characters for some bytes, so a page nearly fills a document.
const NAMES_BYTES_MAX: usize = 128 << 10;

/// Names between two checks whether the asker still waits.
const NAMES_EACH: u64 = 4_096;

/// Entries with metadata between two such checks.
const ENTRIES_EACH: usize = 32;

/// Most names that one listing keeps for its page and later pages, and their bytes, with 48 more for each name.
const AHEAD_MAX: usize = 128 << 10;
const AHEAD_BYTES_MAX: usize = 8 << 20;
const NAME_BYTES: usize = 48;

/// Directories whose next names are kept, and for how long.
const KEPT_MAX: usize = 8;
const KEPT_FOR: Duration = Duration::from_secs(30);

/// The smallest names after a cursor.
struct Least {
    after: Option<Vec<u8>>,
    names: BinaryHeap<Vec<u8>>,
    bytes: usize,
    /// Names that are kept regardless of their bytes.
    least: usize,
    /// Whether some names were left out.
    full: bool,
}

impl Least {
    fn new(after: Option<Vec<u8>>, least: usize) -> Self {
        Self {
            after,
            names: BinaryHeap::new(),
            bytes: 0,
            least,
            full: false,
        }
    }

    fn add(&mut self, name: &[u8]) {
        if self.after.as_deref().is_some_and(|after| name <= after) {
            return;
        }
        if self.full && self.names.peek().is_some_and(|last| name > last.as_slice()) {
            return;
        }
        self.bytes += name.len() + NAME_BYTES;
        self.names.push(name.to_vec());
        while self.names.len() > AHEAD_MAX
            || (self.bytes > AHEAD_BYTES_MAX && self.names.len() > self.least)
        {
            self.full = true;
            let last = self.names.pop().unwrap_or_default();
            self.bytes -= last.len() + NAME_BYTES;
        }
    }
}

/// Names for pages that follow soon.
#[derive(Default)]
pub(super) struct Ahead(Mutex<VecDeque<Names>>);

/// Names of a directory after a cursor.
struct Names {
    export: String,
    path: RelPath,
    after: Vec<u8>,
    names: VecDeque<Vec<u8>>,
    /// Whether the directory has more names.
    more: bool,
    read: Instant,
}

impl Ahead {
    fn take(&self, found: &Found, after: &[u8]) -> Option<Names> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|names| names.read.elapsed() < KEPT_FOR);
        let at = kept.iter().position(|names| {
            names.export == found.export && names.path == found.path && names.after == after
        })?;
        kept.remove(at)
    }

    fn keep(&self, names: Names) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(names);
    }
}

/// One page.
pub(super) fn list(
    found: &Found,
    wish: &ListPlace,
    ahead: &Ahead,
    go_on: &mut GoOn<'_>,
) -> Result<Listing, Refusal> {
    let limit = wish.limit.clamp(1, LIST_MAX) as usize;
    let after = wish.cursor.as_ref().map(|cursor| cursor.0.as_slice());
    let kept = after.and_then(|after| ahead.take(found, after));
    let mut names = match kept {
        Some(names) => names,
        None => read(found, after, limit, go_on)?,
    };
    let mut listing = Listing::default();
    let mut bytes = 0;
    let mut look = found.storage.look();
    for number in 0..limit {
        let Some(name) = names.names.pop_front() else {
            break;
        };
        if number % ENTRIES_EACH == 0 && !go_on(number as u64) {
            return Err(given_up());
        }
        let path = found.path.join(&name).ok();
        // An entry that was removed or became unreadable after its name was read is not listed.
        let there = path.and_then(|path| Some((look.stat(&path).ok()??, path)));
        if let Some((meta, path)) = there {
            let entry = view(&*found.storage, &path, name.clone(), &meta);
            bytes += name.len() + entry.target.as_ref().map_or(0, |target| target.0.len());
            if bytes > NAMES_BYTES_MAX && !listing.entries.is_empty() {
                names.names.push_front(name);
                break;
            }
            listing.entries.push(entry);
        }
        names.after = name;
    }
    if names.names.is_empty() && !names.more {
        return Ok(listing);
    }
    listing.next = Some(Text(names.after.clone()));
    if !names.names.is_empty() {
        ahead.keep(names);
    }
    Ok(listing)
}

/// Reads the names of a directory, and keeps the smallest ones after a cursor.
fn read(
    found: &Found,
    after: Option<&[u8]>,
    limit: usize,
    go_on: &mut GoOn<'_>,
) -> Result<Names, Refusal> {
    let there = found.meta()?;
    if there.kind != Kind::Directory {
        return Err(Refusal::new(
            code::NOT_A_DIRECTORY,
            format!(
                "{} is a {}, not a directory",
                found.shown(),
                there.kind.name()
            ),
        ));
    }
    let mut least = Least::new(after.map(<[u8]>::to_vec), limit);
    let mut seen = 0_u64;
    let mut wanted = true;
    let listed = found.storage.names_in(&found.path, &mut |name| {
        seen += 1;
        if seen.is_multiple_of(NAMES_EACH) {
            wanted = wanted && go_on(seen);
        }
        if wanted {
            least.add(name);
        }
    });
    listed.map_err(|error| found.refuse(&error))?;
    if !wanted {
        return Err(given_up());
    }
    Ok(Names {
        export: found.export.clone(),
        path: found.path.clone(),
        after: after.unwrap_or_default().to_vec(),
        more: least.full,
        names: least.names.into_sorted_vec().into(),
        read: Instant::now(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_names_after_the_cursor_are_kept() {
        let mut least = Least::new(Some(b"b".to_vec()), 3);
        for name in ["z", "b", "d", "a", "c", "y", "e"] {
            least.add(name.as_bytes());
        }
        assert!(!least.full);
        let names = least.names.into_sorted_vec();
        let expected: Vec<Vec<u8>> = ["c", "d", "e", "y", "z"].map(|name| name.into()).into();
        assert_eq!(names, expected);
    }

    #[test]
    fn names_take_bounded_memory_and_the_least_of_them_stay() {
        let mut least = Least::new(None, 10);
        let name = |n: u32| format!("{n:0200}").into_bytes();
        for n in (0..100_000).rev() {
            least.add(&name(n));
            assert!(least.bytes <= AHEAD_BYTES_MAX + 300);
        }
        assert!(least.full);
        let names = least.names.into_sorted_vec();
        assert!(names.len() > 10_000, "{}", names.len());
        assert!((0..).zip(&names).all(|(n, kept)| *kept == name(n)));
    }
}
