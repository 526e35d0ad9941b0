//! Owns the present result of a count beside a divided job.
//! Counts nothing, and waits for no thread: a count may hang in the mount of a source for as long as that does.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

use godwit_state::Looked;

/// Result of a counting thread, which is not joined.
#[derive(Default)]
pub(super) struct Counted(Arc<Mutex<Option<Looked>>>);

impl Counted {
    /// Starts a thread that counts. If no thread can start, the count stays unknown.
    pub(super) fn begin(&self, count: impl FnOnce() -> Option<Looked> + Send + 'static) {
        let own = Arc::clone(&self.0);
        let spawned = Builder::new().name("gw-census".to_owned()).spawn(move || {
            let found = count();
            *own.lock().unwrap_or_else(PoisonError::into_inner) = found;
        });
        drop(spawned);
    }

    /// The result; None as long as the thread counts.
    pub(super) fn found(&self) -> Option<Looked> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_count_that_hangs_holds_no_attempt_up() {
        let counted = Counted::default();
        let (go, hangs) = mpsc::sync_channel::<()>(1);
        let (sender, reported) = mpsc::sync_channel(1);
        // As an attempt does: its thread ends although the count has not.
        let attempt = std::thread::spawn(move || {
            counted.begin(move || {
                let ended = hangs.recv().ok().map(|()| Looked::default());
                let _ = sender.send(());
                ended
            });
            counted
        });
        let counted = attempt.join().expect("it ends");
        assert_eq!(counted.found(), None);
        go.send(()).expect("it counts still");
        reported.recv().expect("it ends");
        while counted.found().is_none() {
            std::thread::yield_now();
        }
    }
}
