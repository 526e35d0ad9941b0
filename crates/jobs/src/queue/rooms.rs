//! Looks for the room at a place of an export on a thread, one for each export, so that a file system that does not answer delays no other
//! work.
//! Decides nothing about jobs, and remembers no room.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Component, Path};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// The longest wait for a look. A slower look continues without a waiting caller, and the next look begins after its end.
const LOOK_WITHIN: Duration = Duration::from_millis(200);

/// The exports at which a look has begun and not ended: one thread each. Many jobs may wait for room at one of them.
#[derive(Default)]
pub(crate) struct Rooms(Arc<Mutex<HashSet<OsString>>>);

impl Rooms {
    /// The bytes that `look` finds at a path, export first; None while that export does not answer.
    pub(crate) fn free(
        &self,
        path: &Path,
        look: impl FnOnce() -> Option<u64> + Send + 'static,
    ) -> Option<u64> {
        let mut names = path.components();
        let export = names.find_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            _ => None,
        })?;
        if !lock(&self.0).insert(export.clone()) {
            return None;
        }
        let (sender, reported) = mpsc::sync_channel(1);
        let (looking, own) = (Arc::clone(&self.0), export.clone());
        let spawned = Builder::new().name("gw-room".to_owned()).spawn(move || {
            let free = look();
            lock(&looking).remove(&own);
            // The receiver of a late answer is gone.
            let _ = sender.try_send(free);
        });
        if spawned.is_err() {
            lock(&self.0).remove(&export);
            return None;
        }
        reported.recv_timeout(LOOK_WITHIN).ok().flatten()
    }
}

fn lock(looking: &Mutex<HashSet<OsString>>) -> MutexGuard<'_, HashSet<OsString>> {
    looking.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_hangs_is_waited_for_once() {
        let rooms = Rooms::default();
        let at = Path::new;
        assert_eq!(rooms.free(at("/a/x"), || Some(1)), Some(1));
        let (go, hangs) = mpsc::sync_channel::<()>(1);
        let free = rooms.free(at("/a/x"), move || hangs.recv().ok().map(|()| 2));
        assert_eq!(free, None);
        for number in 0..1000 {
            // Other jobs of that export.
            let path = format!("/a/{number}");
            let free = rooms.free(at(&path), || panic!("one thread is enough"));
            assert_eq!(free, None);
        }
        assert_eq!(
            rooms.free(at("/b/x"), || Some(3)),
            Some(3),
            "another export"
        );
        go.send(()).expect("it hangs still");
        while !lock(&rooms.0).is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(rooms.free(at("/a/y"), || Some(4)), Some(4));
    }
}
