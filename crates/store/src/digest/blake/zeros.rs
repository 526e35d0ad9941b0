//! Hashes long runs of zeros on all processors, and remembers the results for later calls in this process. Does not depend on files.
//!
//! BLAKE3 hashes the number of a chunk with the chunk, so subtrees of zeros differ by their offset. Remembering pays because both ends
//! of a local copy, and all sparse files of a process, need the same subtrees.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blake3::hazmat::ChainingValue;

use super::{Run, Zeros};

/// Size of a remembered subtree: an eighth of a second of hashing.
pub(super) const UNIT_BYTES: u64 = 1 << 30;

/// Number of remembered units, 40 bytes each: enough for 16 TiB. Units beyond this number are hashed each time.
const UNITS_MAX: usize = 16 << 10;

/// Time between two checks for a stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

static KNOWN: Mutex<Option<HashMap<u64, ChainingValue>>> = Mutex::new(None);

/// Hashes the unknown units within a subtree, with as many threads as there are processors. `None` if `zeros` asked to stop.
pub(super) fn make(offset: u64, bytes: u64, zeros: &Zeros<'_>) -> Option<()> {
    let missing: Vec<u64> = {
        let known = known();
        let room = UNITS_MAX.saturating_sub(known.as_ref().map_or(0, HashMap::len));
        (0..bytes / UNIT_BYTES)
            .map(|unit| offset + unit * UNIT_BYTES)
            .filter(|at| known.as_ref().is_none_or(|known| !known.contains_key(at)))
            .take(room)
            .collect()
    };
    if missing.len() < 2 {
        return Some(());
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, stopping) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let body = || {
            while !stopping.load(Ordering::Relaxed)
                && let Some(at) = missing.get(next.fetch_add(1, Ordering::Relaxed))
            {
                remember(*at, hash(*at));
            }
        };
        let workers: Vec<_> = (0..threads.min(missing.len()))
            // If some threads cannot be started, the other threads or the caller do their work.
            .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, body).ok())
            .collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            if zeros.stops() {
                stopping.store(true, Ordering::Relaxed);
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
    });
    (!stopping.load(Ordering::Relaxed)).then_some(())
}

/// The chaining value of the unit at `offset`. `None` if `zeros` asked to stop.
pub(super) fn unit(offset: u64, zeros: &Zeros<'_>) -> Option<ChainingValue> {
    if let Some(value) = known().as_ref().and_then(|known| known.get(&offset)) {
        return Some(*value);
    }
    let mut run = Run::inner(offset);
    run.zeros_unless(UNIT_BYTES, zeros)?;
    let value = run.finish();
    remember(offset, value);
    Some(value)
}

fn hash(offset: u64) -> ChainingValue {
    let mut run = Run::inner(offset);
    run.zeros(UNIT_BYTES);
    run.finish()
}

fn remember(offset: u64, value: ChainingValue) {
    let mut known = known();
    let known = known.get_or_insert_default();
    if known.len() < UNITS_MAX {
        known.insert(offset, value);
    }
}

fn known() -> MutexGuard<'static, Option<HashMap<u64, ChainingValue>>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::{Node, root};
    use super::*;

    #[test]
    fn long_zeros_have_the_hash_of_the_standard_and_stop_when_asked() {
        let bytes = 2 * UNIT_BYTES + 5000;
        let mut expected = blake3::Hasher::new();
        let piece = vec![0; 1 << 20];
        for _ in 0..bytes >> 20 {
            expected.update(&piece);
        }
        expected.update(&piece[..5000]);
        let go_on = Zeros::new(&|| false);
        for _ in 0..2 {
            let found = root(bytes, &|_, _| Node::Zeros, &go_on);
            assert_eq!(found, Some(*expected.finalize().as_bytes()));
        }
        let far = Zeros::new(&|| true);
        assert_eq!(make(1 << 50, 64 * UNIT_BYTES, &far), None);
    }
}
