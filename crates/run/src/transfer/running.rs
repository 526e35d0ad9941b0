//! Controls one transfer: whether it continues, pauses or ends, and which objects receive these events. Has
//! no ends and does not move data.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_api::event::{Event, EventSink, Started};
use godwit_api::failure::Failure;
use godwit_engine::Fence;

use crate::control::Control;
use crate::reports::Reports;

/// The receivers of a transfer's events, and the user's control of the transfer.
pub(super) struct Run<'a> {
    pub(super) control: &'a Control,
    pub(super) events: Arc<dyn EventSink>,
    pub(super) reports: Arc<Reports>,
    /// Whether the transfer can restart. Bytes that were read from or written to a pipe cannot be repeated.
    repeatable: bool,
    /// Decides whether this attempt of the job may still act, if that permission can end.
    fence: Option<Arc<dyn Fence>>,
    /// Whether an attempt was stopped because the job must pause.
    stopped_to_pause: AtomicBool,
}

impl<'a> Run<'a> {
    /// A run that has not begun.
    pub(super) fn new(
        control: &'a Control,
        events: &Arc<dyn EventSink>,
        reports: Reports,
        repeatable: bool,
        fence: Option<Arc<dyn Fence>>,
    ) -> Self {
        Self {
            control,
            events: Arc::clone(events),
            reports: Arc::new(reports),
            repeatable,
            fence,
            stopped_to_pause: AtomicBool::new(false),
        }
    }

    /// Reports that the transfer begins, perhaps again.
    pub(super) fn begins(&self, started: Started) {
        self.control.begins();
        self.events.emit(Event::Started(started));
    }

    /// Reports why the transfer has ended; a stop for a pause is not reported.
    pub(super) fn report_end(&self, failure: Option<&Failure>) {
        if let Some(failure) = failure
            && !self.is_pausing()
        {
            self.events.error(failure);
        }
    }

    /// Whether the transfer continues.
    pub(super) fn goes_on(&self) -> bool {
        if self.control.is_cancelled() {
            return false;
        }
        // Checked also before a transfer is opened again, because another node may have completed it
        // meanwhile.
        if self.fence.as_ref().is_some_and(|fence| !fence.holds()) {
            return false;
        }
        let pauses = self.control.is_paused() && self.repeatable;
        if pauses {
            self.stopped_to_pause.store(true, Ordering::Relaxed);
        }
        !pauses
    }

    /// Whether the last attempt was stopped only for a pause. The next attempt begins as not stopped.
    pub(super) fn has_paused(&self) -> bool {
        let pausing = self.is_pausing();
        self.stopped_to_pause.store(false, Ordering::Relaxed);
        pausing
    }

    /// Reports the pause, and waits until it is over. Returns whether the transfer continues.
    pub(super) fn wait_while_paused(&self) -> bool {
        self.events.emit(Event::Paused {});
        self.control.wait_while_paused();
        self.goes_on()
    }

    fn is_pausing(&self) -> bool {
        self.stopped_to_pause.load(Ordering::Relaxed) && !self.control.is_cancelled()
    }
}
