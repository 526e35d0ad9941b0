//! A transfer that runs in the test, its events, and the outcome of its items. Checks nothing.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use godwit_api::event::{Event, EventSink, Summary, WorkDone};
use godwit_api::failure::Failure;
use godwit_api::job::PartDigest;
use godwit_run::Control;

use super::world::DEADLINE;

#[derive(Default)]
pub(crate) struct Heard {
    events: Mutex<Vec<Event>>,
    more: Condvar,
}

impl EventSink for Heard {
    fn tell(&self, event: Event) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(event);
        self.more.notify_all();
    }
}

impl Heard {
    #[track_caller]
    pub(crate) fn wait_for(&self, is_it: impl Fn(&Event) -> bool) {
        let until = Instant::now() + DEADLINE;
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        while !events.iter().any(&is_it) {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it does not come: {events:?}");
            let waited = self.more.wait_timeout(events, left);
            events = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn all(&self) -> Vec<Event> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.clone()
    }
}

/// Outcome of a transfer.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) result: Result<Summary, Failure>,
    pub(crate) events: Vec<Event>,
}

impl Ended {
    /// The digest of each finished item; `None` for any other.
    pub(crate) fn digests(&self, items: usize) -> Vec<Option<PartDigest>> {
        let mut digests = vec![None; items];
        for event in &self.events {
            if let Event::WorkDone(WorkDone { number, digest }) = event {
                digests[*number].clone_from(digest);
            }
        }
        for (number, _) in self.failures() {
            digests[number] = None;
        }
        digests
    }

    /// Number and code of each item that failed.
    pub(crate) fn failures(&self) -> Vec<(usize, String)> {
        let failed = self.events.iter().filter_map(|event| match event {
            Event::WorkFailed(failed) => Some((failed.number, failed.code.to_string())),
            _ => None,
        });
        failed.collect()
    }

    pub(crate) fn message(&self) -> String {
        match &self.result {
            Err(failure) => failure.message.clone(),
            Ok(_) => format!("{:?}", self.events),
        }
    }

    #[track_caller]
    pub(crate) fn summary(&self) -> &godwit_api::event::TransferSummary {
        match &self.result {
            Ok(Summary::Transfer(summary)) => summary,
            _ => panic!("{self:?}"),
        }
    }
}

pub(crate) struct Running {
    pub(crate) heard: Arc<Heard>,
    pub(crate) control: Control,
    pub(crate) thread: JoinHandle<Result<Summary, Failure>>,
}

impl Running {
    #[track_caller]
    pub(crate) fn end(self) -> Ended {
        let result = self.thread.join().expect("no panic");
        let events = self.heard.all();
        Ended { result, events }
    }
}
