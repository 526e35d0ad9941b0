//! Lets a peer's transfer wait for its place among the transfers of the process.
//! Divides nothing; the governor does.

use std::time::{Duration, Instant};

use godwit_engine::governor::{Class, Lease, Needs};
use godwit_proto::ErrorCode;

use crate::Shared;
use crate::allow::Denial;

/// How long a peer waits for its turn before it is told to come again: less than the minute that it waits for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A place for this end of a transfer, in the order of arrival.
pub(crate) fn admit(shared: &Shared, needs: Needs) -> Result<Lease, Denial> {
    let until = Instant::now() + PATIENCE;
    let governor = &shared.config.process.governor;
    let admitted = governor.admit(Class::Accepted, &[needs], &mut |_| {
        !shared.stopping() && Instant::now() < until
    });
    let lease = admitted.and_then(|leases| leases.into_iter().next());
    lease.ok_or_else(|| Denial {
        retryable: true,
        ..Denial::new(
            ErrorCode::LIMIT,
            "this daemon runs as many transfers as its memory, threads and open files allow; try again later",
        )
    })
}
