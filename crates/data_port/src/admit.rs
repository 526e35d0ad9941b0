//! Lets a peer's transfer wait for admission among the transfers of the process. Does not divide resources; the governor does.

use std::time::{Duration, Instant};

use godwit_engine::governor::{Lease, Needs, Unadmitted};
use godwit_net::IdentityId;
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
const PATH_COPIES: u64 = 3;

/// Memory of a request's sources while its transfer exists.
pub(crate) fn bytes_of_sources(request: &Open) -> u64 {
    let texts = request.sources.iter().chain(&request.names);
    let each = |text: &Vec<u8>| (COPIES * text.len() + SOURCE_BYTES) as u64;
    let destinations = (request.destination.len() as u64)
        .saturating_mul(request.sources.len() as u64)
        .saturating_mul(PATH_COPIES);
    texts.map(each).sum::<u64>().saturating_add(destinations)
}

/// Admits this end of a transfer with the sources of its request. Transfers of one identity are admitted in the order of arrival. An agent's client
/// is the only one.
pub(crate) fn admit(
    shared: &Shared,
    peer: IdentityId,
    needs: Needs,
    request: &Open,
) -> Result<Lease, Denial> {
    let beside = bytes_of_sources(request);
    let needs = needs.beside(beside);
    let until = Instant::now() + PATIENCE;
    let governor = &shared.config.process.governor;
    let owners = match shared.only {
        Some(_) => Vec::new(),
        None => shared.places.counted_as(peer),
    };
    let admitted = governor.admit_for(&owners, &[needs], &mut |_| {
        !shared.stopping() && Instant::now() < until
    });
    let leases = match admitted {
        Err(Unadmitted::TooLarge { needed, share }) => {
            let message = format!(
                "this transfer needs {needed} bytes of memory for its blocks and the paths of its sources, and this daemon has {share} for each identity; send fewer sources at once, or use shorter paths"
            );
            return Err(Denial::new(ErrorCode::LIMIT, message));
        }
        Err(Unadmitted::GaveUp) => None,
        Ok(leases) => leases.into_iter().next(),
    };
    let lease = leases.inspect(|lease| lease.keep(beside));
    lease.ok_or_else(|| Denial {
        retryable: true,
        ..Denial::new(
            ErrorCode::LIMIT,
            "this daemon runs as many transfers as its memory, threads and open files allow; try again later",
        )
    })
}
