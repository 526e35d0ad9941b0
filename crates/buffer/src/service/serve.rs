//! Owns the path from flash to a reader: extents are read whole, checked, and kept for the blocks that follow. Fills nothing.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::memory::Held;
use super::{Shared, lock, now};
use crate::extent::{Content, FileKey, Ticket};
use crate::ledger::ReadEnd;
use crate::volume::GetError;

/// Extents kept in memory for the next blocks of their readers.
pub(super) const LOADED_MAX: usize = 8;
/// The longest wait of a reader for the read of another one. The source has the data, too.
const WAITS_MAX: Duration = Duration::from_secs(5);
/// Unreadable extents that are remembered.
const BAD_MAX: usize = 64;

/// Extents in memory.
#[derive(Default)]
pub(super) struct Loads {
    state: Mutex<LoadState>,
    done: Condvar,
}

#[derive(Default)]
struct LoadState {
    /// The last entry was used latest.
    ready: VecDeque<(Ticket, Arc<Loaded>)>,
    loading: Vec<Ticket>,
    /// Extents that could not be read. One bad extent with many readers is one error of its volume.
    bad: VecDeque<Ticket>,
}

/// An extent as it was written.
struct Loaded {
    held: Held,
    bytes: usize,
}

/// One read of an extent, for all readers that wait for the extent.
struct Loading<'a> {
    loads: &'a Loads,
    ticket: Ticket,
    loaded: Option<Arc<Loaded>>,
    is_bad: bool,
}

/// The answer to a reader.
enum Found<'a> {
    Here(Arc<Loaded>),
    /// The reader must load the extent.
    Load(Loading<'a>),
    /// Another reader could not load the extent, or takes too long.
    Missed,
}

impl Loads {
    /// Forgets all extents.
    pub(super) fn clear(&self) {
        let mut state = lock(&self.state);
        state.bad.clear();
        let ready = std::mem::take(&mut state.ready);
        drop(state);
        drop(ready);
    }

    /// The extent, if it is in memory; otherwise the caller must load it. Waits a moment while another thread does.
    fn find(&self, ticket: Ticket) -> Found<'_> {
        let mut state = lock(&self.state);
        let mut until = None;
        loop {
            if let Some(at) = state.ready.iter().position(|(one, _)| *one == ticket)
                && let Some((one, loaded)) = state.ready.remove(at)
            {
                state.ready.push_back((one, Arc::clone(&loaded)));
                return Found::Here(loaded);
            }
            if !state.loading.contains(&ticket) {
                if until.is_some() || state.bad.contains(&ticket) {
                    return Found::Missed;
                }
                state.loading.push(ticket);
                return Found::Load(Loading {
                    loads: self,
                    ticket,
                    loaded: None,
                    is_bad: false,
                });
            }
            let now = Instant::now();
            let left = until
                .get_or_insert(now + WAITS_MAX)
                .saturating_duration_since(now);
            if left.is_zero() {
                return Found::Missed;
            }
            let waited = self.done.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        let mut old = None;
        let mut state = lock(&self.loads.state);
        state.loading.retain(|one| *one != self.ticket);
        if let Some(loaded) = self.loaded.take() {
            if state.ready.len() >= LOADED_MAX {
                old = state.ready.pop_front();
            }
            state.ready.push_back((self.ticket, loaded));
        }
        if self.is_bad {
            if state.bad.len() >= BAD_MAX {
                state.bad.pop_front();
            }
            state.bad.push_back(self.ticket);
        }
        drop(state);
        self.loads.done.notify_all();
        drop(old);
    }
}

impl Shared {
    /// Fills `out`, if the buffer has all of it.
    pub(super) fn read(&self, key: &FileKey, offset: u64, out: &mut [u8]) -> bool {
        let each = u64::from(self.extent_bytes);
        let mut filled = 0;
        while filled < out.len() {
            let at = offset + filled as u64;
            let begin = at / each * each;
            let found = self.lock().find(now(), key, begin);
            let Some((ticket, content)) = found else {
                return false;
            };
            let Some(loaded) = self.loaded(ticket, &content) else {
                return false;
            };
            let within = usize::try_from(at - begin).unwrap_or(usize::MAX);
            let rest = loaded.held.get(within..loaded.bytes).unwrap_or_default();
            let some = rest.len().min(out.len() - filled);
            if some == 0 {
                return false;
            }
            out[filled..filled + some].copy_from_slice(&rest[..some]);
            filled += some;
        }
        true
    }

    /// The extent of a ticket that `find` returned.
    fn loaded(&self, ticket: Ticket, content: &Content) -> Option<Arc<Loaded>> {
        let mut loading = match self.loads.find(ticket) {
            Found::Load(loading) => loading,
            Found::Here(loaded) => {
                self.lock().handle_read(now(), ticket, ReadEnd::GaveUp);
                return Some(loaded);
            }
            Found::Missed => {
                self.lock().handle_read(now(), ticket, ReadEnd::GaveUp);
                return None;
            }
        };
        let (end, loaded) = self.load(ticket, content);
        loading.loaded.clone_from(&loaded);
        loading.is_bad = matches!(end, ReadEnd::Failed | ReadEnd::Damaged);
        drop(loading);
        self.lock().handle_read(now(), ticket, end);
        if end != ReadEnd::Good {
            self.changed.notify_all();
        }
        loaded
    }

    fn load(&self, ticket: Ticket, content: &Content) -> (ReadEnd, Option<Arc<Loaded>>) {
        let mount = self.mounts.get(usize::from(ticket.place.volume.0));
        let Some((mount, mut held)) = mount.zip(self.memory.take()) else {
            return (ReadEnd::GaveUp, None);
        };
        let Some(pages) = held.pages() else {
            return (ReadEnd::GaveUp, None);
        };
        let read = mount.volume().get(ticket.place.slot, content, pages);
        match read.map(<[u8]>::len) {
            Ok(bytes) => (ReadEnd::Good, Some(Arc::new(Loaded { held, bytes }))),
            Err(GetError::Io(_)) => (ReadEnd::Failed, None),
            Err(GetError::Damaged) => {
                let bytes = u64::from(content.bytes);
                self.counts.damaged.fetch_add(bytes, Ordering::Relaxed);
                (self.log)(&format!(
                    "buffer {}: an extent of {} bytes is not as it was written; it is read from its source again",
                    mount.path.display(),
                    content.bytes
                ));
                (ReadEnd::Damaged, None)
            }
        }
    }
}
