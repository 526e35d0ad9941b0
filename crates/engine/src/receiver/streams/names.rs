//! Sends a list of names to the sending end, part by part, as the sending end takes them. Does not read the list (`names`).

use std::sync::Arc;

use godwit_proto::{EntryId, Fault, FaultCode, NameList, Side};

use super::Streams;
use super::stream_loop::StreamLoop;
use crate::names::{FeedWatch, NameFeed, Names};
use crate::{Acks, Counters, Observer, StreamLoss};

impl Streams {
    /// Streams the names of a list to the sending end, which waits for them. To be called once, before any stream is attached.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(in crate::receiver) fn send_names(&self, names: Box<dyn Names>) -> std::io::Result<()> {
        let events = FeedEvents {
            acks: Arc::clone(&self.shared.acks),
            counters: Arc::clone(&self.shared.counters),
            observer: Arc::clone(&self.shared.config.observer),
        };
        let feed = NameFeed::start(self.shared.config.transfer, names, Arc::new(events))?;
        // The sender does not wait for a second list.
        if let Err(second) = self.feed.set(feed) {
            second.stop();
        }
        Ok(())
    }

    pub(super) fn detach_names(&self, id: u64) {
        if self.feed.get().is_some_and(|feed| feed.detach(id)) {
            self.shared.acks.wake_all();
        }
    }

    pub(in crate::receiver) fn stop_names(&self) {
        if let Some(feed) = self.feed.get() {
            feed.stop();
        }
    }
}

impl StreamLoop<'_> {
    /// Sends the next part, if one is due; returns whether more may follow at once.
    pub(super) fn send_part(&mut self) -> Result<bool, StreamLoss> {
        let Some(list) = self.streams.feed.get().and_then(|feed| feed.take(self.id)) else {
            return Ok(false);
        };
        let mut head = Vec::with_capacity(list.names.len() + 64);
        self.shared.encoded(list.encode(&mut head));
        if !head.is_empty() {
            self.stream.send(&head, &[])?;
        }
        Ok(true)
    }

    pub(super) fn take_word_of_parts(&self, list: &NameList) -> Result<(), StreamLoss> {
        self.check_transfer(&list.transfer.0, "SELECTION")?;
        let known = list.part == 0
            && self
                .streams
                .feed
                .get()
                .is_some_and(|feed| feed.taken(list.taken));
        if known {
            self.shared.acks.wake_all();
            return Ok(());
        }
        let what = "it takes parts of a list that were not sent".to_owned();
        Err(self.refuse(what))
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
            message: format!(
                "reading of the list stopped: {why}; the remaining names are not copied"
            ),
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
