//! Takes the events of the transfer of one lease: its progress, the outcome of its items, and faults of the destination.
//! Decides nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use godwit_api::event::{Channel, Event, EventSink, Summary, TransferSummary};
use godwit_api::failure::FailureCode;
use godwit_api::rest::ChannelView;
use godwit_state::{EndUsage, Usage};

use super::{Flight, faults};
use crate::batch::BatchOutcome;

pub(super) struct ProgressSink {
    batch: Mutex<BatchOutcome>,
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
            batch: Mutex::default(),
            fault: Mutex::default(),
            flight: Arc::clone(flight),
            channels: Mutex::default(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BatchOutcome> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn keep_fault(&self, code: FailureCode) {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if fault.is_none_or(|known| faults::severity(code) > faults::severity(known)) {
            *fault = Some(code);
        }
    }
}

impl EventSink for ProgressSink {
    fn emit(&self, event: Event) {
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
                usage: flight.usage,
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
            flight.usage = flight.usage.plus(usage_of(summary));
        }
        if let Some(code) = faults::of_event(&event) {
            self.keep_fault(code);
        }
        self.lock().take(&event);
    }
}

/// Processor time and memory of one transfer; 0 where its summary does not have them.
fn usage_of(summary: &TransferSummary) -> Usage {
    let end = |cpu_seconds: Option<f64>, rss_bytes: Option<u64>| {
        let cpu = cpu_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        EndUsage {
            cpu_us: cpu.map_or(0, |cpu| u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX)),
            rss_bytes: rss_bytes.unwrap_or(0),
        }
    };
    let (cpu, rss) = (&summary.cpu_seconds, &summary.max_rss_bytes);
    Usage {
        source: end(cpu.source, rss.source),
        destination: end(cpu.destination, rss.destination),
    }
}

#[cfg(test)]
mod tests {
    use godwit_api::event::{Progress, Sides};

    use super::*;

    #[test]
    fn a_try_that_is_left_counts_what_it_brought_after_its_last_progress() {
        let flight = Arc::new(Mutex::new(Flight::default()));
        let sink = ProgressSink::new(&flight);
        let mut progress = Progress::default();
        progress.moved.files = 3;
        progress.moved.bytes = 300;
        sink.emit(Event::Progress(progress));
        let summary = TransferSummary {
            files: 18,
            bytes: Some(1_800),
            ..TransferSummary::default()
        };
        sink.emit(Event::Summary(Summary::Transfer(Box::new(summary))));
        let moved = flight.lock().expect("no panic").moved();
        assert_eq!((moved.files, moved.bytes), (18, 1_800));
        assert_eq!(flight.lock().expect("no panic").written(), 1_800);
    }

    #[test]
    fn the_processor_times_of_all_tries_count() {
        let flight = Arc::new(Mutex::new(Flight::default()));
        let sink = ProgressSink::new(&flight);
        let ended = |source, destination, rss| {
            let summary = TransferSummary {
                cpu_seconds: Sides {
                    source,
                    destination,
                },
                max_rss_bytes: Sides {
                    source: None,
                    destination: rss,
                },
                ..TransferSummary::default()
            };
            sink.emit(Event::Summary(Summary::Transfer(Box::new(summary))));
            // The next try of the same items has progress before its end.
            sink.emit(Event::Progress(Progress::default()));
        };
        ended(Some(0.25), None, Some(9));
        ended(Some(f64::NAN), Some(f64::MAX), None);
        ended(Some(0.5), Some(-1.0), Some(7));
        let usage = flight.lock().expect("no panic").usage;
        assert_eq!((usage.source.cpu_us, usage.source.rss_bytes), (750_000, 0));
        let there = usage.destination;
        assert_eq!((there.cpu_us, there.rss_bytes), (0, 9));
    }
}
