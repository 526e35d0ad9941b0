//! Makes the daemon's end of a transfer from a request: its places and its engine. Does not run
//! transfers or answer peers (`open`).

mod apart;
mod free;
mod pull;
mod push;
mod request_terms;
#[cfg(test)]
pub(crate) mod tests;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use godwit_engine::governor::Lease;
use godwit_engine::session::Engine;
use godwit_engine::tuner::Decision;
use godwit_engine::{Fence, Observer, Resources, limits};
use godwit_net::IdentityId;
use godwit_proto::{Beacon, DigestKind, Direction, ErrorCode, Mapping, Open, TransferId};
use godwit_run::build::EndConfig;
use godwit_tree::Arrived;

use self::free::PATIENCE;
pub(crate) use self::free::wanted_file;
pub(crate) use self::request_terms::HolderRights;
use self::request_terms::network_use_of;
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
    pub(crate) held: HeldResources,
    pub(crate) key: Option<[u8; 32]>,
    pub(crate) alone: Arc<AtomicBool>,
    pub(crate) resumed: bool,
    pub(crate) arrived: Arrived,
    pub(crate) mapped: Vec<u8>,
    /// In a push to files: the meaning of the destination, and the tag of temporary files.
    pub(crate) placed: Option<(Mapping, u64)>,
    /// In a push: the beacon of the destination, which the source searches for.
    pub(crate) beacon: Option<Beacon>,
    /// The transfer deletes, but no beacon could be made.
    pub(crate) unproved: bool,
    /// Absolute paths that only this transfer may write to.
    pub(crate) writes_to: Spots,
    /// The lease of the job's claim, for a member.
    pub(crate) lease: Option<Arc<MemberLease>>,
    /// Decides whether the transfer may still write, if it is no member.
    pub(crate) fence: Option<Arc<dyn Fence>>,
    /// The digest in use.
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

/// A request that is being started, in either direction.
struct Beginning<'a, 'r> {
    shared: &'a Arc<Shared>,
    peer: IdentityId,
    request: &'r Open,
    transfer: TransferId,
    block_bytes: u32,
    alone: Arc<AtomicBool>,
}

impl<'a> Beginning<'a, '_> {
    /// The settings of the engine.
    fn end(&self, digest: DigestKind, lease: Lease) -> EndConfig {
        EndConfig {
            lease: Some(lease),
            transfer: self.transfer,
            digest,
            block_bytes: self.block_bytes,
            comparison: self.request.comparison,
            itemise: false,
            network_use: network_use_of(self.request),
            observer: Arc::new(Silent {
                log: Arc::clone(&self.shared.config.log),
                shared: Arc::downgrade(self.shared),
                peer: self.peer,
            }),
            resources: resources(&self.alone),
            counters: Arc::default(),
        }
    }

    /// An end without a destination.
    fn started(self, engine: Engine, held: HeldResources) -> StartedEnd<'a> {
        StartedEnd {
            entering: None,
            engine,
            held,
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

/// Reserves a place among the transfers. A restarted transfer gets the place of its predecessor,
/// whose client is gone. If there are too many transfers in total, a suspended one is ended: its
/// client loses only the reservation of its destination.
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
struct Silent {
    log: Arc<dyn Fn(&str) + Send + Sync>,
    /// The table of transfers there holds the engine, which holds this.
    shared: Weak<Shared>,
    peer: IdentityId,
}

impl Observer for Silent {
    fn entry_failed(&self, _failed: &godwit_engine::FailedEntry<'_>) {}

    fn note(&self, message: &str) {
        if let Some(shared) = self.shared.upgrade() {
            shared.operator.log_peer(self.peer, message);
        }
    }

    // Only threads are tuned here, and they belong to no channel; the client tunes streams. A peer cannot hurry the tuner.
    fn tuned(&self, decision: &Decision, _channel: Option<u32>) {
        (self.log)(&decision.to_string());
    }
}
