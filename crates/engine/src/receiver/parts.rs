//! Sends a list of names to the sending end, part by part, as it takes them.
//! Does not read the list (`names`).

use std::sync::Arc;

use godwit_net::Stream;
use godwit_proto::{EntryId, Fault, FaultCode, NameList, Side};

use super::Receiver;
use crate::names::{FeedWatch, NameFeed, Names};
use crate::{Acks, Counters, Observer, StreamLoss};

impl Receiver {
    /// Streams the names of a list to the sending end, which waits for them. To be called once, before any stream is attached.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn send_names(&self, names: Box<dyn Names>) -> std::io::Result<()> {
        let events = FeedEvents {
            acks: Arc::clone(&self.acks),
            counters: Arc::clone(&self.counters),
            observer: Arc::clone(&self.config.observer),
        };
        let feed = NameFeed::start(self.config.transfer, names, Arc::new(events))?;
        // A second list has nobody who waits for it.
        if let Err(second) = self.feed.set(feed) {
            second.stop();
        }
        Ok(())
    }

    /// Sends the next part, if one is due; whether more may follow at once.
    pub(super) fn send_part(&self, stream: &mut dyn Stream, id: u64) -> Result<bool, StreamLoss> {
        let Some(list) = self.feed.get().and_then(|feed| feed.take(id)) else {
            return Ok(false);
        };
        let mut head = Vec::with_capacity(list.names.len() + 64);
        self.encoded(list.encode(&mut head));
        if !head.is_empty() {
            stream.send(&head, &[])?;
        }
        Ok(true)
    }

    pub(super) fn take_word_of_parts(
        &self,
        list: &NameList,
        stream: &dyn Stream,
    ) -> Result<(), StreamLoss> {
        self.check_transfer(stream, &list.transfer.0, "SELECTION")?;
        let known = list.part == 0 && self.feed.get().is_some_and(|feed| feed.taken(list.taken));
        if known {
            self.acks.wake_all();
            return Ok(());
        }
        let what = "it takes parts of a list that were not sent".to_owned();
        Err(self.refuse(stream, what))
    }

    pub(super) fn detach_parts(&self, id: u64) {
        if self.feed.get().is_some_and(|feed| feed.detach(id)) {
            self.acks.wake_all();
        }
    }

    pub(super) fn stop_parts(&self) {
        if let Some(feed) = self.feed.get() {
            feed.stop();
        }
    }
}

struct FeedEvents {
    acks: Arc<Acks>,
    counters: Arc<Counters>,
    observer: Arc<dyn Observer>,
}

impl FeedWatch for FeedEvents {
    fn ready(&self) {
        self.acks.wake_all();
    }

    fn failed(&self, why: &str) {
        let fault = Fault {
            entry: EntryId(0),
            side: Side::DESTINATION,
            code: FaultCode::IO,
            errno: None,
            message: format!("the list cannot be read on: {why}; what else it names is not copied"),
        };
        self.counters.entries_failed.add(1);
        self.observer.entry_failed(&crate::FailedEntry {
            root: None,
            path: &[],
            shown: &[],
            fault: &fault,
        });
    }
}
