//! Lets an attempt of a transfer wait for admission among the transfers of the process. Does not divide
//! resources; the governor does.

use std::sync::{Mutex, PoisonError};

use godwit_api::endpoint::Endpoint;
use godwit_engine::governor::{Class, Lease, Needs};

use super::Job;
use super::from_settings::bounds_of;

/// The places of the ends on this side.
#[derive(Default)]
pub(super) struct Places(Mutex<[Option<Lease>; 2]>);

impl Places {
    /// The place of the sending end.
    pub(super) fn of_sender(&self) -> Option<Lease> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[0].clone()
    }

    /// The place of the receiving end.
    pub(super) fn of_receiver(&self) -> Option<Lease> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[1].clone()
    }

    fn set(&self, places: [Option<Lease>; 2]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = places;
    }
}

/// The places of an attempt, until it ends.
pub(super) struct Admitted<'a>(&'a Places);

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.0.set([None, None]);
    }
}

/// Waits for the places of an attempt, and stores them in `places`; `None` if the job was stopped meanwhile.
pub(super) fn admit<'a>(
    job: &Job<'_>,
    places: &'a Places,
    sources: &[Endpoint],
    destination: &Endpoint,
) -> Option<Admitted<'a>> {
    let settings = &job.settings;
    let sends = !sources.iter().any(is_elsewhere);
    let receives = !is_elsewhere(destination);
    let streams = bounds_of(settings.streams);
    // Between two ends in one process, the number of streams does not change.
    let streams = if sends && receives {
        streams.hold(2)
    } else {
        streams.most
    };
    let sender = sends.then(|| {
        let pool = usize::try_from(settings.memory_bytes).unwrap_or(usize::MAX);
        let readers = bounds_of(settings.readers).most;
        Needs::of_sender(pool, settings.block_bytes, streams, readers)
    });
    let receiver = receives.then(|| {
        let writers = bounds_of(settings.writers).most;
        Needs::of_receiver(settings.block_bytes, streams, writers)
    });
    let needs: Vec<Needs> = sender.into_iter().chain(receiver).collect();
    let mut reported = false;
    let admitted = job
        .env
        .process
        .governor
        .admit(Class::Own, &needs, &mut |ahead| {
            if !std::mem::replace(&mut reported, true) {
                job.run.events.note(&format!(
                    "as many transfers run in this process as its memory, threads and open files allow; this transfer waits, with {ahead} before it"
                ));
            }
            job.run.goes_on()
        });
    let mut leases = admitted?.into_iter();
    let mut next = |is_here: bool| if is_here { leases.next() } else { None };
    places.set([next(sends), next(receives)]);
    Some(Admitted(places))
}

/// Whether another process serves the endpoint.
const fn is_elsewhere(endpoint: &Endpoint) -> bool {
    matches!(endpoint, Endpoint::Remote(_) | Endpoint::Ssh(_))
}
