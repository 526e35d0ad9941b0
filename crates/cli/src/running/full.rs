//! Ends a transfer whose destination is full, with one message for all failed entries: the needed and the free space.
//! Looks at no destination: the side of the destination reports the free space.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::event::{Blame, Event, EventSink, Failed, Status, Summary};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::units::human_size;
use godwit_run::Control;

/// How long the scan may continue, so that the message can name the needed space.
const SCAN_WITHIN: Duration = Duration::from_secs(5);

/// Passes on all events except those of entries without space: the first of these ends the transfer.
pub(crate) struct StopsWhenFull {
    events: Arc<dyn EventSink>,
    control: Control,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The first entry without space, and its time.
    full: Option<(Failed, Instant)>,
    /// Bytes of all files, and the bytes that arrived before the first entry without space.
    total: Option<u64>,
    arrived: u64,
    is_reported: bool,
}

impl StopsWhenFull {
    pub(crate) fn new(events: Arc<dyn EventSink>, control: &Control) -> Self {
        Self {
            events,
            control: control.clone(),
            seen: Mutex::default(),
        }
    }

    /// Why the transfer ended, if the destination was full.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.lock().failure()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports once why the transfer ends.
    fn report_once(&self) {
        let failure = {
            let mut seen = self.lock();
            match std::mem::replace(&mut seen.is_reported, true) {
                true => None,
                false => seen.failure(),
            }
        };
        if let Some(failure) = failure {
            self.events.error(&failure);
        }
    }
}

impl Seen {
    fn failure(&self) -> Option<Failure> {
        let (first, _) = self.full.as_ref()?;
        let path = String::from_utf8_lossy(&first.path);
        let needed = match self.total {
            Some(total) => match total.saturating_sub(self.arrived) {
                0 => "room for names is missing, and not for contents".to_owned(),
                needed => format!("up to {} more are needed", human_size(needed)),
            },
            None => "the scan has not ended, so the missing space is unknown".to_owned(),
        };
        let message = format!(
            "the destination is full, and the transfer has stopped: {needed}. {path}: {}",
            first.message
        );
        Some(Failure::new(FailureCode::NoSpace, message))
    }

    /// Whether the transfer must end now.
    fn ends(&self) -> bool {
        let full = self.full.as_ref();
        full.is_some_and(|(_, since)| self.total.is_some() || since.elapsed() >= SCAN_WITHIN)
    }
}

impl EventSink for StopsWhenFull {
    fn emit(&self, event: Event) {
        let is = |failed: &Failed, code: FailureCode| {
            failed
                .code
                .as_ref()
                .is_some_and(|reported| *reported == code)
        };
        match event {
            Event::Failed(failed) if is(&failed, FailureCode::NoSpace) => {
                let mut seen = self.lock();
                seen.full.get_or_insert_with(|| (failed, Instant::now()));
            }
            Event::Error(_) if self.lock().full.is_some() => self.report_once(),
            Event::Summary(Summary::Transfer(mut summary)) if self.lock().full.is_some() => {
                self.report_once();
                if summary.status == Status::Interrupted {
                    summary.status = Status::Partial;
                    summary.blame = Blame::from(FailureCode::NoSpace);
                }
                self.events.emit(Event::Summary(Summary::Transfer(summary)));
            }
            Event::Progress(progress) => {
                {
                    let mut seen = self.lock();
                    seen.total = progress.bytes_total.or(seen.total);
                    if seen.full.is_none() {
                        seen.arrived = progress.bytes;
                    }
                }
                self.events.emit(Event::Progress(progress));
            }
            other => self.events.emit(other),
        }
        if self.lock().ends() {
            self.control.cancel();
        }
    }
}
