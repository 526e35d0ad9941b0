//! Owns transfers that run in the process of a test: their description, their events and their end. Judges no transfer.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use godwit_api::event::{Event, EventSink, Summary, TransferSummary, WorkDone};
use godwit_api::failure::Failure;
use godwit_api::job::{Imposed, JOB_VERSION, JobKind, JobSpec, PartDigest, Text};
use godwit_run::{Control, Env, Runner};

use crate::DEADLINE;

/// A copy from one place to another, with these settings.
///
/// # Panics
/// A place is no endpoint.
#[must_use]
pub fn copy(source: &str, destination: &str, settings: &[(&str, &str)]) -> JobSpec {
    let settings = settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), vec![Text::from(*value)]));
    JobSpec {
        version: JOB_VERSION,
        kind: JobKind::Copy,
        sources: vec![source.parse().expect("an endpoint")],
        destination: destination.parse().expect("an endpoint"),
        settings: settings.collect(),
        selection: None,
        member: None,
        items: Vec::new(),
        imposed: Imposed::default(),
    }
}

/// Starts a transfer.
#[must_use]
pub fn begin(spec: JobSpec, env: Env) -> BegunTransfer {
    let (event_log, control) = (Arc::new(EventLog::default()), Control::default());
    let events = Arc::clone(&event_log) as Arc<dyn EventSink>;
    let steered = control.clone();
    let thread = thread::spawn(move || Runner::run(&spec, &env, &events, &steered));
    BegunTransfer {
        event_log,
        control,
        thread,
    }
}

/// A transfer that runs in a thread of the test.
pub struct BegunTransfer {
    /// The events that it has sent.
    pub event_log: Arc<EventLog>,
    /// Steers it.
    pub control: Control,
    thread: JoinHandle<Result<Summary, Failure>>,
}

impl BegunTransfer {
    /// Waits for the end of the transfer.
    ///
    /// # Panics
    /// The transfer panics.
    #[track_caller]
    #[must_use]
    pub fn end(self) -> Ended {
        let result = self.thread.join().expect("no panic");
        let events = self.event_log.events().clone();
        Ended { result, events }
    }
}

/// All events of a transfer.
#[derive(Debug, Default)]
pub struct EventLog {
    events: Mutex<Vec<Event>>,
    more: Condvar,
}

impl EventSink for EventLog {
    fn emit(&self, event: Event) {
        self.events().push(event);
        self.more.notify_all();
    }
}

impl EventLog {
    /// Waits for an event.
    ///
    /// # Panics
    /// The event does not come.
    #[track_caller]
    pub fn wait_for(&self, is_it: impl Fn(&Event) -> bool) {
        let until = Instant::now() + DEADLINE;
        let mut events = self.events();
        while !events.iter().any(&is_it) {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it does not come: {events:?}");
            let waited = self.more.wait_timeout(events, left);
            events = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The number of such events up to now.
    pub fn count(&self, is_it: impl Fn(&Event) -> bool) -> usize {
        self.events().iter().filter(|event| is_it(event)).count()
    }

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a transfer.
#[derive(Debug)]
pub struct Ended {
    /// Its result.
    pub result: Result<Summary, Failure>,
    /// All of its events.
    pub events: Vec<Event>,
}

impl Ended {
    /// The digest of each finished item; `None` for any other.
    #[must_use]
    pub fn digests(&self, items: usize) -> Vec<Option<PartDigest>> {
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
    #[must_use]
    pub fn failures(&self) -> Vec<(usize, String)> {
        let failed = self.events.iter().filter_map(|event| match event {
            Event::WorkFailed(failed) => Some((failed.number, failed.code.to_string())),
            _ => None,
        });
        failed.collect()
    }

    /// The message of the failure, or all events if the transfer did not fail.
    #[must_use]
    pub fn message(&self) -> String {
        match &self.result {
            Err(failure) => failure.message.clone(),
            Ok(_) => format!("{:?}", self.events),
        }
    }

    /// The summary of a transfer that must not fail.
    ///
    /// # Panics
    /// The transfer failed.
    #[track_caller]
    #[must_use]
    pub fn summary(&self) -> &TransferSummary {
        match &self.result {
            Ok(Summary::Transfer(summary)) => summary,
            _ => panic!("{self:?}"),
        }
    }
}
