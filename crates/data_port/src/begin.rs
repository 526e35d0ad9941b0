//! Makes the daemon's end of a transfer from a request: the place it names, the engine for it.
//! Runs nothing and answers no peer (`open`).

mod apart;
mod asked;
mod free;
mod pull;
mod push;
#[cfg(test)]
pub(crate) mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_engine::governor::Lease;
use godwit_engine::session::Engine;
use godwit_engine::tuner::Decision;
use godwit_engine::{Fence, Observer, Resources, limits};
use godwit_net::IdentityId;
use godwit_proto::{Beacon, DigestKind, Direction, ErrorCode, Mapping, Open, TransferId};
use godwit_run::build::EndConfig;
use godwit_tree::Arrived;

pub(crate) use self::asked::HolderRights;
use self::asked::share_of;
use self::free::PATIENCE;
pub(crate) use self::free::wanted_file;
use crate::Shared;
use crate::allow::Denial;
use crate::claims::{Entering, MemberLease, Spots};
use crate::gate::{Full, Slot};
use crate::refusal::too_many;
use crate::session::HeldResources;
use crate::table::Holder;

/// A transfer end made from a request.
pub(crate) struct StartedEnd<'a> {
    /// Prevents new claims on the place until the transfer is in the table, where claims are checked.
    pub(crate) entering: Option<Entering<'a>>,
    pub(crate) engine: Engine,
    pub(crate) grip: HeldResources,
    pub(crate) key: Option<[u8; 32]>,
    pub(crate) alone: Arc<AtomicBool>,
    pub(crate) resumed: bool,
    pub(crate) arrived: Arrived,
    pub(crate) mapped: Vec<u8>,
    /// Meaning of the destination, and the tag of temporary files; of a push to files.
    pub(crate) placed: Option<(Mapping, u64)>,
    /// The beacon of the destination of a push, which the source looks for.
    pub(crate) beacon: Option<Beacon>,
    /// It deletes, and no beacon could be made.
    pub(crate) unproved: bool,
    /// Absolute paths that only it may write to.
    pub(crate) writes_to: Spots,
    /// Of a member: how long the claim of its job holds.
    pub(crate) lease: Option<Arc<MemberLease>>,
    /// Of a transfer that is no member: whether it may still write.
    pub(crate) fence: Option<Arc<dyn Fence>>,
    /// The digest that is used.
    pub(crate) digest: DigestKind,
}

pub(crate) fn begin<'a>(
    shared: &'a Arc<Shared>,
    peer: IdentityId,
    request: &Open,
) -> Result<(TransferId, StartedEnd<'a>, u32), Denial> {
    if request.plain_payload && !shared.config.plain_allowed {
        return Err(Denial::new(
            ErrorCode::NOT_GRANTED,
            "this daemon encrypts everything; its operator can allow unencrypted contents with: godwit serve --encryption any",
        ));
    }
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| {
        Denial::new(ErrorCode::RESOURCES, format!("no random numbers: {error}"))
    })?;
    let transfer = TransferId(id);
    let block_bytes = if request.block_bytes == 0 {
        limits::BLOCK_BYTES
    } else {
        request.block_bytes
    };
    let alone = Arc::new(AtomicBool::new(shared.table.is_at_rest()));
    if alone.load(Ordering::Relaxed) {
        godwit_engine::usage::reset_peak_rss();
    }
    let beginning = Beginning {
        shared,
        peer,
        request,
        transfer,
        block_bytes,
        alone,
    };
    let begun = if request.direction() == Direction::PUSH {
        beginning.push()?
    } else {
        beginning.pull()?
    };
    Ok((transfer, begun, block_bytes))
}

/// A request that is being begun, in either direction.
struct Beginning<'a, 'r> {
    shared: &'a Arc<Shared>,
    peer: IdentityId,
    request: &'r Open,
    transfer: TransferId,
    block_bytes: u32,
    alone: Arc<AtomicBool>,
}

impl<'a> Beginning<'a, '_> {
    /// The settings of the engine's end.
    fn end(&self, digest: DigestKind, lease: Lease) -> EndConfig {
        EndConfig {
            lease: Some(lease),
            transfer: self.transfer,
            digest,
            block_bytes: self.block_bytes,
            comparison: self.request.comparison,
            itemise: false,
            share: share_of(self.request),
            observer: Arc::new(Silent(Arc::clone(&self.shared.config.log))),
            resources: resources(&self.alone),
            counters: Arc::default(),
        }
    }

    /// An end that takes no destination.
    fn started(self, engine: Engine, grip: HeldResources) -> StartedEnd<'a> {
        StartedEnd {
            entering: None,
            engine,
            grip,
            key: None,
            alone: self.alone,
            resumed: false,
            arrived: Arrived::default(),
            mapped: Vec::new(),
            placed: None,
            beacon: None,
            unproved: false,
            writes_to: Spots::default(),
            lease: None,
            fence: None,
            digest: self.request.digest_kind(),
        }
    }
}

/// A place among the transfers. A restarted transfer takes the place of its predecessor, whose
/// client is gone. If all transfers together are too many, a suspended one is ended: its client
/// loses only the reservation of its destination.
pub(crate) fn place_for(
    shared: &Shared,
    peer: IdentityId,
    key: Option<&[u8; 32]>,
) -> Result<Slot<IdentityId>, Denial> {
    let mut again = key;
    loop {
        let full = match shared.gate.transfer(&shared.places.counted_as(peer)) {
            Ok(place) => return Ok(place),
            Err(full) => full,
        };
        if let Some(key) = again.take()
            && shared.table.has(key, &peer)
            && shared.table.supersede(key, &peer, PATIENCE) == Holder::Free
        {
            continue;
        }
        if full == Full::All && shared.table.release_oldest_held() {
            continue;
        }
        return Err(too_many(shared, &peer, full));
    }
}

fn resources(alone: &Arc<AtomicBool>) -> Resources {
    let alone = Arc::clone(alone);
    Arc::new(move || {
        alone
            .load(Ordering::Relaxed)
            .then(godwit_engine::usage::peak_rss_bytes)
            .flatten()
    })
}

pub(crate) fn journals(shared: &Shared) -> PathBuf {
    shared.config.home.join("journals")
}

/// The daemon's side does not report single entries; the client's side does.
struct Silent(Arc<dyn Fn(&str) + Send + Sync>);

impl Observer for Silent {
    fn entry_failed(&self, _failed: &godwit_engine::FailedEntry<'_>) {}

    fn note(&self, message: &str) {
        (self.0)(message);
    }

    // Threads alone are tuned here, and those are of no channel: streams are the client's.
    fn tuned(&self, decision: &Decision, _channel: Option<u32>) {
        (self.0)(&decision.to_string());
    }
}
