//! Owns who sent the current request, from the check of its credential to its call, so that the call can check again.
//! Decides no right: `caller` does.

use std::cell::RefCell;
use std::future::Future;
use std::time::{Duration, Instant};

use tokio::task_local;

use crate::caller::Caller;

/// A request that only reads may be this old without a second check.
const READS_WITHIN: Duration = Duration::from_millis(200);

/// The sender of a request, as it was checked.
#[derive(Clone)]
pub(crate) struct Judged {
    caller: Caller,
    at: Instant,
    only_reads: bool,
}

impl Judged {
    /// The sender, if the call of this request must check it again. A change must: its user may be gone since, or its token revoked.
    pub(crate) fn to_check(&self, now: Instant) -> Option<&Caller> {
        let is_fresh = now.saturating_duration_since(self.at) <= READS_WITHIN;
        (!(self.only_reads && is_fresh)).then_some(&self.caller)
    }
}

task_local! {
    static JUDGED: RefCell<Option<Judged>>;
}

/// Handles a request, which has no known sender yet.
pub(crate) async fn keeping<T>(work: impl Future<Output = T>) -> T {
    JUDGED.scope(RefCell::default(), work).await
}

/// Notes who sent the current request.
pub(crate) fn keep(caller: &Caller, only_reads: bool) {
    let judged = Judged {
        caller: caller.clone(),
        at: Instant::now(),
        only_reads,
    };
    // Outside of a request there is no sender.
    let _ = JUDGED.try_with(|kept| kept.replace(Some(judged)));
}

/// The sender of the current request; `None` outside of a request, and before its credential was checked.
pub(crate) fn of_request() -> Option<Judged> {
    JUDGED.try_with(|kept| kept.borrow().clone()).ok().flatten()
}
