//! Looks for the room at a place of an export on a thread of its own, so that a file system that does not answer holds nobody up.
//! Decides nothing about jobs, and remembers no room.

use std::collections::HashSet;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// How long a look is waited for. One that takes longer is left to itself, and the next one begins after it has ended.
const LOOK_WITHIN: Duration = Duration::from_millis(200);

/// The jobs for which a look has begun and not ended: one thread each.
#[derive(Default)]
pub(crate) struct Rooms(Arc<Mutex<HashSet<String>>>);

impl Rooms {
    /// The bytes that `look` finds for a job; None while it does not answer.
    pub(crate) fn free(
        &self,
        id: &str,
        look: impl FnOnce() -> Option<u64> + Send + 'static,
    ) -> Option<u64> {
        if !lock(&self.0).insert(id.to_owned()) {
            return None;
        }
        let (tell, told) = mpsc::sync_channel(1);
        let (looking, own) = (Arc::clone(&self.0), id.to_owned());
        let spawned = Builder::new().name("gw-room".to_owned()).spawn(move || {
            let free = look();
            lock(&looking).remove(&own);
            // Nobody hears of what comes late.
            let _ = tell.try_send(free);
        });
        if spawned.is_err() {
            lock(&self.0).remove(id);
            return None;
        }
        told.recv_timeout(LOOK_WITHIN).ok().flatten()
    }
}

fn lock(looking: &Mutex<HashSet<String>>) -> MutexGuard<'_, HashSet<String>> {
    looking.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_hangs_is_waited_for_once() {
        let rooms = Rooms::default();
        assert_eq!(rooms.free("a", || Some(1)), Some(1));
        let (go, hangs) = mpsc::sync_channel::<()>(1);
        let free = rooms.free("a", move || hangs.recv().ok().map(|()| 2));
        assert_eq!(free, None);
        for _ in 0..1000 {
            let free = rooms.free("a", || panic!("one thread is enough"));
            assert_eq!(free, None);
        }
        assert_eq!(rooms.free("b", || Some(3)), Some(3), "another job");
        go.send(()).expect("it hangs still");
        while !lock(&rooms.0).is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(rooms.free("a", || Some(4)), Some(4));
    }
}
