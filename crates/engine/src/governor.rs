//! Divides buffer memory, threads and open files of a process among its transfers; each process has one governor. Does
//! not compute shares (`core`), and does not start or end transfers.

mod core;
mod needs;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use godwit_net::IdentityId;
use godwit_store::pool::{Allowance, Pool};
use rustix::process::{Resource, getrlimit};

pub use self::core::{Class, Resources};
use self::core::{Core, SeatId, Ticket};
pub use self::needs::Needs;
use crate::{limits, lock};

/// The governor of a process. Clones are handles of the same governor.
#[derive(Clone, Debug)]
pub struct Governor(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    core: Mutex<Core>,
    /// Signals that a transfer has left, or no longer waits.
    changed: Condvar,
}

/// The place of one end of a transfer. Clones share the place, which becomes free when the last one is dropped.
#[derive(Clone, Debug)]
pub struct Lease(Arc<Seat>);

#[derive(Debug)]
struct Seat {
    id: SeatId,
    needs: Needs,
    governor: Governor,
}

/// Amounts in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The total amounts.
    pub budget: Resources,
    /// Bytes of buffers that transfers currently hold …
    pub held: u64,
    /// … and the most that they ever held at one moment.
    pub held_most: u64,
    /// Running ends of transfers.
    pub running: usize,
    /// Waiting transfers.
    pub waiting: usize,
}

/// Why a transfer has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unadmitted {
    /// The transfer needs more memory than the transfers of one owner may have.
    TooLarge {
        /// Bytes that it needs.
        needed: u64,
        /// Bytes for all transfers of one owner.
        share: u64,
    },
    /// The transfer no longer waits.
    GaveUp,
}

/// Memory without which these ends cannot move.
fn needed(needs: &[Needs]) -> u64 {
    let each = |needs: &Needs| needs.want().least.memory;
    needs.iter().map(each).fold(0, u64::saturating_add)
}

impl Default for Governor {
    fn default() -> Self {
        Self::new(budget_here(0))
    }
}

impl Governor {
    /// A governor that divides these amounts.
    #[must_use]
    pub fn new(budget: Resources) -> Self {
        Self(Arc::new(Inner {
            core: Mutex::new(Core::new(budget)),
            changed: Condvar::new(),
        }))
    }

    /// A governor of this process's resources. A transfer that runs alone gets `pool_bytes` for its blocks.
    #[must_use]
    pub fn here(pool_bytes: u64) -> Self {
        Self::new(budget_here(pool_bytes))
    }

    /// Waits for a place for each of these ends of a transfer that a peer begins, as [`Self::admit`] does. The transfer counts for the one of
    /// `owners` that uses least. Only earlier transfers of that owner are ahead of it in the queue. Without owners, all earlier transfers are.
    ///
    /// # Errors
    /// The transfer needs more than one owner may have, or `goes_on` returned false.
    pub fn admit_for(
        &self,
        owners: &[IdentityId],
        needs: &[Needs],
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Vec<Lease>, Unadmitted> {
        let core = lock(&self.0.core);
        let owner = core.lightest(owners);
        let (share, needed) = (core.share_of_owner().memory, needed(needs));
        drop(core);
        if owner.is_some() && needed > share {
            return Err(Unadmitted::TooLarge { needed, share });
        }
        let admitted = self.queue(Class::Accepted, owner, needs, goes_on);
        admitted.ok_or(Unadmitted::GaveUp)
    }

    /// Waits for a place for each of these ends, in the order of arrival. While the transfer waits, `goes_on` is called
    /// several times a second with the number of transfers ahead. Returns `None` if `goes_on` returns false.
    pub fn admit(
        &self,
        class: Class,
        needs: &[Needs],
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Option<Vec<Lease>> {
        self.queue(class, None, needs, goes_on)
    }

    fn queue(
        &self,
        class: Class,
        owner: Option<IdentityId>,
        needs: &[Needs],
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Option<Vec<Lease>> {
        let mut core = lock(&self.0.core);
        let ticket = core.enqueue(class, owner, needs.iter().map(Needs::want).collect());
        loop {
            if let Some(seats) = core.poll_admission(ticket) {
                drop(core);
                // The next transfer may have room too.
                self.0.changed.notify_all();
                let seats = seats.into_iter().zip(needs);
                return Some(seats.map(|(id, needs)| self.lease(id, *needs)).collect());
            }
            let ahead = core.ahead(ticket);
            drop(core);
            if !goes_on(ahead) {
                self.give_up(ticket);
                return None;
            }
            core = lock(&self.0.core);
            let waited = self.0.changed.wait_timeout(core, LOOK_EVERY);
            core = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The amounts in use now.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let core = lock(&self.0.core);
        let (held, held_most) = core.held();
        let (running, waiting) = core.counts();
        Figures {
            budget: core.budget(),
            held,
            held_most,
            running,
            waiting,
        }
    }

    fn lease(&self, id: SeatId, needs: Needs) -> Lease {
        let governor = self.clone();
        Lease(Arc::new(Seat {
            id,
            needs,
            governor,
        }))
    }

    fn give_up(&self, ticket: Ticket) {
        lock(&self.0.core).give_up(ticket);
        self.0.changed.notify_all();
    }
}

impl Lease {
    /// The amounts that this end may use now. They may change at any time.
    #[must_use]
    pub fn share(&self) -> Resources {
        lock(&self.0.governor.0.core).share(self.0.id)
    }

    /// Streams that this end may have now.
    #[must_use]
    pub fn streams_max(&self) -> u32 {
        self.0.needs.streams_of(self.share())
    }

    /// Threads that this end may use now, besides those of streams.
    pub(crate) fn helpers_max(&self) -> usize {
        self.0.needs.helpers_of(self.share()) as usize
    }

    /// Blocks that this end may use now.
    pub(crate) fn blocks_max(&self, block_bytes: usize) -> usize {
        let blocks = self.share().memory / (block_bytes as u64).max(1);
        usize::try_from(blocks).unwrap_or(usize::MAX)
    }

    /// Counts memory that the end holds outside of its blocks until it leaves; its admission included that memory.
    pub fn keep(&self, bytes: u64) {
        lock(&self.0.governor.0.core).grow(self.0.id, bytes, true);
    }

    /// A pool of blocks that stays within the share.
    pub(crate) fn pool(&self, block_bytes: usize, blocks_max: usize) -> Pool {
        Pool::allowed(
            block_bytes,
            blocks_max,
            Arc::clone(&self.0) as Arc<dyn Allowance>,
        )
    }
}

impl Allowance for Seat {
    fn grow(&self, bytes: usize, must: bool) -> bool {
        lock(&self.governor.0.core).grow(self.id, bytes as u64, must)
    }

    fn shrink(&self, bytes: usize) {
        lock(&self.governor.0.core).shrink(self.id, bytes as u64);
        // Waiting transfers check several times a second anyway.
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.governor.0.core).leave(self.id);
        self.governor.0.changed.notify_all();
    }
}

/// How often a waiting transfer checks whether to continue; a signal handler cannot wake it.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Blocks of all transfers together may take this fraction of the machine's memory …
const MEMORY_PART: u64 = 8;
/// … but at least four pools, and at most sixteen.
const MEMORY_LEAST: u64 = 4 * limits::POOL_BYTES as u64;
/// See [`MEMORY_LEAST`].
const MEMORY_MOST: u64 = 16 * limits::POOL_BYTES as u64;

/// Sixteen transfers with their maximum of streams.
const THREADS: u64 = 16 * limits::STREAMS_MAX as u64;

/// Storages keep this fraction of all descriptors for recently used directories (`store::fs::directories`).
const KEPT_PART: u64 = 4;
/// Standard streams, listeners with their wakers, databases, and files that are open for a moment.
const FILES_OWN: u64 = 32;

fn budget_here(pool_bytes: u64) -> Resources {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let memory = machine_memory().map_or(MEMORY_LEAST, |bytes| bytes / MEMORY_PART);
    Resources {
        memory: memory
            .clamp(MEMORY_LEAST, MEMORY_MOST)
            // The pools of both ends on this machine, and as much in reserve.
            .max(pool_bytes.saturating_mul(4)),
        threads: THREADS,
        files: (files - files / KEPT_PART).saturating_sub(FILES_OWN),
    }
}

/// Bytes of memory of this machine, if the kernel says so.
#[must_use]
pub fn machine_memory() -> Option<u64> {
    let info = rustix::system::sysinfo();
    #[expect(
        clippy::useless_conversion,
        reason = "the kernel's word has 32 bits on some machines"
    )]
    u64::try_from(info.totalram)
        .ok()?
        .checked_mul(u64::from(info.mem_unit))
}
