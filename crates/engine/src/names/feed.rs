//! The client's side of a streamed list: reads a bounded amount in advance, and keeps each part until the daemon has taken it.
//! Sends nothing itself; streams send its parts.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use godwit_proto::limits::PARTS_AHEAD_MAX;
use godwit_proto::{NameList, TransferId};

use super::{NAMES_WAIT, Names, Supply};
use crate::{IfPanicking, PANICKED, lock};

/// A list being sent to a daemon. Holds at most [`PARTS_AHEAD_MAX`] parts.
pub(crate) struct NameFeed {
    transfer: TransferId,
    inner: Mutex<Inner>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Inner {
    parts: BTreeMap<u64, Part>,
    read: u64,
    taken: u64,
    stopping: bool,
}

struct Part {
    names: Arc<Vec<u8>>,
    last: bool,
    /// The stream that carried the part.
    stream: Option<u64>,
}

/// Receives the events of a feed.
pub(crate) trait FeedWatch: Send + Sync {
    /// A part can be sent.
    fn ready(&self);

    /// The list could not be read to its end.
    fn failed(&self, why: &str);
}

impl NameFeed {
    /// Starts the reading thread.
    pub(crate) fn start(
        transfer: TransferId,
        mut names: Box<dyn Names>,
        watch: Arc<dyn FeedWatch>,
    ) -> std::io::Result<Arc<Self>> {
        let feed = Arc::new(Self {
            transfer,
            inner: Mutex::default(),
            changed: Condvar::new(),
            thread: Mutex::default(),
        });
        let reader = Arc::clone(&feed);
        let thread = std::thread::Builder::new()
            .name("gw-names".to_owned())
            .spawn(move || reader.read(names.as_mut(), watch.as_ref()))?;
        *lock(&feed.thread) = Some(thread);
        Ok(feed)
    }

    fn read(&self, names: &mut dyn Names, watch: &dyn FeedWatch) {
        // Without this, the daemon would wait for the rest.
        let _panic = IfPanicking(|| {
            watch.failed(PANICKED);
            self.push(Vec::new(), true);
            watch.ready();
        });
        let mut part = Vec::new();
        loop {
            let supply = names.next(&mut part, NAMES_WAIT);
            let last = match supply {
                Supply::NotYet => {
                    if lock(&self.inner).stopping {
                        return;
                    }
                    continue;
                }
                Supply::Some => false,
                Supply::End => true,
                Supply::Failed(why) => {
                    watch.failed(&why);
                    true
                }
            };
            if !self.push(std::mem::take(&mut part), last) {
                return;
            }
            watch.ready();
            if last {
                return;
            }
        }
    }

    /// Adds a part. Returns false if the receiver needs no more parts.
    fn push(&self, names: Vec<u8>, last: bool) -> bool {
        let mut inner = lock(&self.inner);
        while inner.parts.len() as u64 >= PARTS_AHEAD_MAX && !inner.stopping {
            inner = self
                .changed
                .wait(inner)
                .unwrap_or_else(PoisonError::into_inner);
        }
        inner.read += 1;
        let number = inner.read;
        let part = Part {
            names: Arc::new(names),
            last,
            stream: None,
        };
        inner.parts.insert(number, part);
        !inner.stopping
    }

    /// The next part for `stream` to send.
    pub(crate) fn take(&self, stream: u64) -> Option<NameList> {
        let mut inner = lock(&self.inner);
        let most = inner.taken + PARTS_AHEAD_MAX;
        let (number, part) = inner
            .parts
            .range_mut(..=most)
            .find(|(_, part)| part.stream.is_none())?;
        part.stream = Some(stream);
        Some(NameList {
            transfer: self.transfer,
            part: *number,
            taken: 0,
            last: part.last,
            names: part.names.to_vec(),
        })
    }

    /// Records that the daemon has taken all parts up to this number. Returns false if there is no such part.
    pub(crate) fn taken(&self, number: u64) -> bool {
        let mut inner = lock(&self.inner);
        if number > inner.read {
            return false;
        }
        if number > inner.taken {
            inner.taken = number;
            inner.parts = inner.parts.split_off(&(number + 1));
            self.changed.notify_all();
        }
        true
    }

    /// Records the loss of the stream, perhaps with parts that it carried. Returns true if another stream must send a part
    /// again.
    pub(crate) fn detach(&self, stream: u64) -> bool {
        let mut lost = false;
        for part in lock(&self.inner).parts.values_mut() {
            if part.stream == Some(stream) {
                part.stream = None;
                lost = true;
            }
        }
        lost
    }

    /// Ends the reading.
    pub(crate) fn stop(&self) {
        lock(&self.inner).stopping = true;
        self.changed.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            // If that thread panicked, the panic was already printed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    struct Endless(Arc<AtomicUsize>);

    impl Names for Endless {
        fn next(&mut self, out: &mut Vec<u8>, _: Duration) -> Supply {
            self.0.fetch_add(1, Ordering::SeqCst);
            out.extend(b"name\0");
            Supply::Some
        }
    }

    struct Panicking;

    impl Names for Panicking {
        fn next(&mut self, _: &mut Vec<u8>, _: Duration) -> Supply {
            panic!("on purpose");
        }
    }

    struct Watcher(Mutex<std::sync::mpsc::SyncSender<String>>);

    impl FeedWatch for Watcher {
        fn ready(&self) {
            lock(&self.0).send("ready".to_owned()).unwrap();
        }

        fn failed(&self, why: &str) {
            lock(&self.0).send(why.to_owned()).unwrap();
        }
    }

    #[test]
    fn a_list_whose_reader_panics_has_failed_and_ends() {
        let (reported, words) = std::sync::mpsc::sync_channel(64);
        let reported = Arc::new(Watcher(Mutex::new(reported)));
        let feed = NameFeed::start(TransferId([1; 16]), Box::new(Panicking), reported).unwrap();
        assert_eq!(words.recv().unwrap(), PANICKED);
        assert_eq!(words.recv().unwrap(), "ready");
        let last = feed.take(0).unwrap();
        assert!(last.last && last.names.is_empty());
        feed.stop();
    }

    struct Ready(Mutex<std::sync::mpsc::SyncSender<()>>);

    impl FeedWatch for Ready {
        fn ready(&self) {
            // The test may already have ended.
            let _ = lock(&self.0).try_send(());
        }

        fn failed(&self, _why: &str) {}
    }

    #[test]
    fn a_feed_holds_no_more_than_may_be_sent_and_says_again_what_was_lost() {
        let asked = Arc::new(AtomicUsize::new(0));
        let (ready, parts) = std::sync::mpsc::sync_channel(64);
        let feed = NameFeed::start(
            TransferId([1; 16]),
            Box::new(Endless(Arc::clone(&asked))),
            Arc::new(Ready(Mutex::new(ready))),
        )
        .unwrap();
        for _ in 0..PARTS_AHEAD_MAX {
            parts.recv().unwrap();
        }
        let most = usize::try_from(PARTS_AHEAD_MAX).unwrap() + 1;
        for number in 1..=PARTS_AHEAD_MAX {
            assert_eq!(feed.take(number % 2).unwrap().part, number);
        }
        assert!(feed.take(0).is_none());
        assert!(asked.load(Ordering::SeqCst) <= most);
        assert!(feed.taken(2) && !feed.taken(1 << 40));
        parts.recv().unwrap();
        assert!(feed.detach(1) && !feed.detach(7));
        let again: Vec<u64> = std::iter::from_fn(|| feed.take(0))
            .map(|list| list.part)
            .take_while(|part| *part <= PARTS_AHEAD_MAX)
            .collect();
        assert_eq!(again, [3, 5, 7, 9, 11, 13, 15]);
        feed.stop();
        assert!(asked.load(Ordering::SeqCst) <= most + 2);
    }
}
