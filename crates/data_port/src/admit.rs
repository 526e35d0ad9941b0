//! Lets a peer's transfer wait for admission among the transfers of the process. Does not divide resources; the governor does.

use std::time::{Duration, Instant};

use godwit_engine::governor::{Class, Lease, Needs};
use godwit_proto::{ErrorCode, Open};

use crate::Shared;
use crate::allow::Denial;

/// How long a peer may wait in the queue before it must try again: less than the minute that the peer waits for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Copies of a source's path and name that a transfer keeps: the given one, the resolved one, the one in its root, and the one among its rights.
const COPIES: usize = 5;

/// Bytes for each source besides its path.
const SOURCE_BYTES: usize = 256;

/// Copies of the destination's path that a transfer keeps with the name of each source.
const PATH_COPIES: usize = 3;

/// Memory of a request's sources while its transfer exists.
pub(crate) fn bytes_of_sources(request: &Open) -> u64 {
    let texts = request.sources.iter().chain(&request.names);
    let each = |text: &Vec<u8>| (COPIES * text.len() + SOURCE_BYTES) as u64;
    let destinations = PATH_COPIES * request.destination.len() * request.sources.len();
    texts.map(each).sum::<u64>() + destinations as u64
}

/// Admits this end of a transfer with the sources of its request, in the order of arrival.
pub(crate) fn admit(shared: &Shared, needs: Needs, request: &Open) -> Result<Lease, Denial> {
    let beside = bytes_of_sources(request);
    let needs = needs.beside(beside);
    let until = Instant::now() + PATIENCE;
    let governor = &shared.config.process.governor;
    let admitted = governor.admit(Class::Accepted, &[needs], &mut |_| {
        !shared.stopping() && Instant::now() < until
    });
    let lease = admitted.and_then(|leases| leases.into_iter().next());
    let lease = lease.inspect(|lease| lease.keep(beside));
    lease.ok_or_else(|| Denial {
        retryable: true,
        ..Denial::new(
            ErrorCode::LIMIT,
            "this daemon runs as many transfers as its memory, threads and open files allow; try again later",
        )
    })
}
