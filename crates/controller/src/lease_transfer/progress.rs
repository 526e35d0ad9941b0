//! Hears the events of the transfer of one lease: its progress, the outcome of its items, and faults of the destination.
//! Decides nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use godwit_api::event::{Channel, Event, EventSink, Summary};
use godwit_api::failure::FailureCode;
use godwit_api::rest::ChannelView;

use super::{Flight, faults};
use crate::batch::BatchOutcome;

pub(super) struct ProgressSink {
    heard: Mutex<BatchOutcome>,
    /// The worst fault of the destination in this try.
    fault: Mutex<Option<FailureCode>>,
    flight: Arc<Mutex<Flight>>,
    /// The channels, each with its rate, if there are several.
    channels: Mutex<Vec<Channel>>,
}

impl ProgressSink {
    /// For the transfer of this flight.
    pub(super) fn new(flight: &Arc<Mutex<Flight>>) -> Self {
        Self {
            heard: Mutex::default(),
            fault: Mutex::default(),
            flight: Arc::clone(flight),
            channels: Mutex::default(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BatchOutcome> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worst fault of the destination in this try.
    pub(super) fn fault(&self) -> Option<FailureCode> {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, at the end of the try.
    pub(super) fn take_fault(&self) -> Option<FailureCode> {
        let fault = self.fault.lock();
        fault.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Keeps the worst fault.
    fn hear_fault(&self, code: FailureCode) {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if fault.is_none_or(|known| faults::severity(code) > faults::severity(known)) {
            *fault = Some(code);
        }
    }
}

impl EventSink for ProgressSink {
    fn tell(&self, event: Event) {
        let lock = || self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Event::Channels(channels) = &event {
            lock().clone_from(&channels.channels);
        }
        if let Event::Progress(progress) = &event {
            let channels = ChannelView::of(progress, &lock());
            let mut flight = self.flight.lock().unwrap_or_else(PoisonError::into_inner);
            *flight = Flight {
                to: std::mem::take(&mut flight.to),
                to_name: std::mem::take(&mut flight.to_name),
                closes: flight.closes,
                bytes: progress.bytes,
                files: progress.files,
                delivered: progress.moved,
                earlier: flight.earlier,
                written: progress.written.max(flight.written),
                written_before: flight.written_before,
                bytes_per_second: progress.bytes_per_second.unwrap_or(0.0),
                streams: progress.streams,
                stages: progress.stages.clone(),
                bottleneck: progress.bottleneck.clone(),
                channels,
            };
        }
        // A cancelled try has moved some data since its last progress.
        if let Event::Summary(Summary::Transfer(summary)) = &event {
            let mut flight = self.flight.lock().unwrap_or_else(PoisonError::into_inner);
            flight.delivered = flight.delivered.max(summary.moved());
            flight.written = flight.written.max(flight.delivered.bytes);
        }
        if let Some(code) = faults::of_event(&event) {
            self.hear_fault(code);
        }
        self.lock().hear(&event);
    }
}

#[cfg(test)]
mod tests {
    use godwit_api::event::{Progress, TransferSummary};

    use super::*;

    #[test]
    fn a_try_that_is_left_counts_what_it_brought_after_its_last_progress() {
        let flight = Arc::new(Mutex::new(Flight::default()));
        let sink = ProgressSink::new(&flight);
        let mut progress = Progress::default();
        progress.moved.files = 3;
        progress.moved.bytes = 300;
        sink.tell(Event::Progress(progress));
        let summary = TransferSummary {
            files: 18,
            bytes: Some(1_800),
            ..TransferSummary::default()
        };
        sink.tell(Event::Summary(Summary::Transfer(Box::new(summary))));
        let moved = flight.lock().expect("no panic").moved();
        assert_eq!((moved.files, moved.bytes), (18, 1_800));
        assert_eq!(flight.lock().expect("no panic").written(), 1_800);
    }
}
