//! Makes the daemon's end of a transfer from a request: the place it names, the engine for it.
//! Runs nothing and answers nobody (`open`).

mod apart;
mod asked;
mod free;
#[cfg(test)]
pub(crate) mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use godwit_api::job::Text;
use godwit_engine::governor::Needs;
use godwit_engine::names::{NameQueue, Names, QueueNames};
use godwit_engine::session::Engine;
use godwit_engine::tuner::Decision;
use godwit_engine::{Observer, Resources, limits};
use godwit_net::{IdentityId, check_congestion};
use godwit_proto::{Beacon, DigestKind, Direction, ErrorCode, Mapping, Open, TransferId};
use godwit_store::Kind;
use godwit_store::journal::Journal;
use godwit_tree::synthetic::MemorySource;
use godwit_tree::{Arrived, DestinationRequest, Earlier, Fence, FoundRoot, Keeper, TreeRoot};

use self::apart::{Marked, Sought, keep_apart, marked};
pub(crate) use self::asked::may_write;
use self::asked::{entered, kept_at, order_of, select_of, share_of};
pub(crate) use self::free::wanted_file;
use self::free::{PATIENCE, prepare, tell_damage};
use crate::Shared;
use crate::admit::admit;
use crate::allow::{Denial, Who};
use crate::claims::{By, Entering, MemberLease};
use crate::gate::{Full, Slot};
use crate::places::{FailedSource, SourcePlace, Target, is_dry};
use crate::refusal::too_many;
use crate::session::HeldResources;
use crate::table::Holder;
use godwit_run::build::{self, EndConfig, Sending, Sinks, Sources, Trees};
use godwit_run::local::Access;

/// What a request comes to.
pub(crate) struct StartedEnd<'a> {
    /// Keeps claims away until the transfer is in the table, where they look for it.
    pub(crate) entering: Option<Entering<'a>>,
    pub(crate) engine: Engine,
    pub(crate) grip: HeldResources,
    pub(crate) key: Option<[u8; 32]>,
    pub(crate) alone: Arc<AtomicBool>,
    pub(crate) resumed: bool,
    pub(crate) arrived: Arrived,
    pub(crate) mapped: Vec<u8>,
    /// What the destination means, and the tag of temporary files; of a push to files.
    pub(crate) placed: Option<(Mapping, u64)>,
    /// The beacon of the destination of a push, which the source looks for.
    pub(crate) beacon: Option<Beacon>,
    /// It deletes, and no beacon could be made.
    pub(crate) unproved: bool,
    /// What only it may write to, as absolute paths.
    pub(crate) writes_to: Vec<Vec<u8>>,
    /// Of a member: how long the claim of its job holds.
    pub(crate) lease: Option<Arc<MemberLease>>,
    /// Of one that is no member: whether it may still write.
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
            "this daemon encrypts everything; its operator can allow clear contents with: godwit serve --encryption any",
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
    let begun = if request.direction() == Direction::PUSH {
        begin_push(shared, peer, request, transfer, block_bytes, alone)?
    } else {
        begin_pull(shared, peer, request, transfer, block_bytes, alone)?
    };
    Ok((transfer, begun, block_bytes))
}

fn begin_push<'a>(
    shared: &'a Arc<Shared>,
    peer: IdentityId,
    request: &Open,
    transfer: TransferId,
    block_bytes: u32,
    alone: Arc<AtomicBool>,
) -> Result<StartedEnd<'a>, Denial> {
    let select = select_of(request)?;
    let who = Who::opens(peer, request);
    let target = shared.places.target(
        &who,
        &request.destination,
        request.destination_is_directory,
        Access::asked(request),
    )?;
    let is_dry = is_dry(request);
    if is_dry {
        shared.places.may_tell(&who, &request.destination)?;
    }
    let end = |digest, lease| EndConfig {
        lease: Some(lease),
        transfer,
        digest,
        block_bytes,
        comparison: request.comparison,
        itemise: false,
        share: share_of(request),
        observer: Arc::new(Silent(Arc::clone(&shared.config.log))),
        resources: resources(&alone),
        counters: Arc::default(),
    };
    let needs = Needs::of_receiver(block_bytes, shared.streams_max, shared.config.writers.most);
    let start = |digest, lease, sinks| {
        build::receiver(end(digest, lease), shared.config.writers, sinks)
            .map_err(|error| Denial::new(ErrorCode::INTERNAL, error.to_string()))
    };
    match target {
        Target::Null => {
            let grip = HeldResources {
                journal: None,
                _slot: place_for(shared, peer, None)?,
            };
            let lease = admit(shared, needs, request)?;
            let receiver = start(request.digest_kind(), lease, Sinks::Nothing)?;
            Ok(StartedEnd {
                entering: None,
                engine: Engine::Receiver(receiver),
                grip,
                key: None,
                alone,
                resumed: false,
                arrived: Arrived::default(),
                mapped: b"null:".to_vec(),
                placed: None,
                beacon: None,
                unproved: false,
                writes_to: Vec::new(),
                lease: None,
                fence: None,
                digest: request.digest_kind(),
            })
        }
        Target::Tree(place) => {
            let digest = godwit_engine::digest_kind(request.digest_kind()).ok_or_else(|| {
                Denial::new(
                    ErrorCode::NOT_SUPPORTED,
                    "this daemon does not know the digest asked for",
                )
            })?;
            let (lease, member) = entered(shared, peer, request, &place)?.unzip();
            let earlier_tags = request
                .earlier
                .as_ref()
                .map_or_else(Vec::new, |earlier| earlier.tags.clone());
            let make_request = || DestinationRequest {
                storage: Arc::clone(&place.storage),
                storage_path: place.storage_path.clone(),
                base: place.base.clone(),
                is_directory: place.is_directory,
                sender: shared.places.sender_name(peer),
                sources: request.sources.clone(),
                names: request.names.clone(),
                digest,
                force: request.force,
                verify: request.verify,
                no_sync: request.no_sync,
                journals: journals(shared),
                display: place.display.clone(),
                comparison: request.comparison,
                select: Arc::clone(&select),
                member: member.clone(),
                fence: place.fence.clone(),
                earlier: Earlier {
                    into: request.earlier_into(),
                    tags: earlier_tags.clone(),
                },
                node: shared.own.to_string().into_bytes(),
            };
            let key = make_request().key().0;
            let counted = place_for(shared, peer, (!is_dry).then_some(&key))?;
            let admitted = admit(shared, needs, request)?;
            let mut prepared = prepare(shared, peer, &key, &request.destination, make_request)?;
            let may_list = shared.places.may_tell(&who, &request.destination);
            prepared.config.hides_names = request.may_not_list || may_list.is_err();
            let may_read = shared.places.may_read(&who, &request.destination);
            prepared.config.hides_contents = request.may_not_read || may_read.is_err();
            prepared.config.keeper = Arc::new(Keeper::new(kept_at(place.gives_owners, request)));
            let (resumed, arrived) = (prepared.recovered.resumed, prepared.arrived());
            tell_damage(shared, &mut prepared);
            let Marked {
                prepared,
                beacon,
                unproved,
            } = marked(shared, request, prepared)?;
            let may_hold = |by: &By, asked: &Text| may_write(shared, by, asked);
            let claims = &shared.config.claims;
            let entering = lease.is_none().then(|| claims.enter_alone());
            if entering.is_some()
                && let Some(no) = claims.refuses(&prepared.destinations, Instant::now(), &may_hold)
            {
                drop(entering);
                // The log of the transfer's own failure would say less.
                let _ = prepared.put_away();
                return Err(no);
            }
            let mapped = prepared.mapped.clone();
            let placed = (Mapping::of(prepared.into), prepared.config.tag);
            let writes_to = prepared.destinations.clone();
            let digest = godwit_engine::wire_digest_kind(prepared.config.digest);
            if digest != request.digest_kind() && !request.any_digest {
                return Err(Denial::new(
                    ErrorCode::DESTINATION,
                    "the unfinished transfer to this destination used another --digest; finish it with that one",
                ));
            }
            let grip = HeldResources {
                journal: prepared.journal.as_ref().map(Journal::hold),
                _slot: counted,
            };
            let holds = grip.journal.is_some();
            let receiver = start(digest, admitted, Sinks::Tree(Box::new(prepared)))?;
            Ok(StartedEnd {
                entering,
                engine: Engine::Receiver(receiver),
                grip,
                // A dry run holds nothing.
                key: holds.then_some(key),
                alone,
                resumed,
                arrived,
                mapped,
                placed: Some(placed),
                beacon,
                unproved,
                writes_to,
                fence: place.fence.filter(|_| lease.is_none()),
                lease,
                digest,
            })
        }
    }
}

/// A place among the transfers. A transfer that is started again takes the place of the one whose client is gone; where all
/// transfers together are too many, a suspended one makes way, which costs its client nothing but the reservation of its destination.
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

fn begin_pull<'a>(
    shared: &'a Arc<Shared>,
    peer: IdentityId,
    request: &Open,
    transfer: TransferId,
    block_bytes: u32,
    alone: Arc<AtomicBool>,
) -> Result<StartedEnd<'a>, Denial> {
    let select = select_of(request)?;
    // A place may be taken from somebody else, so the right to it comes first.
    let found = shared.places.sources(
        &Who::opens(peer, request),
        &request.sources,
        Access::asked(request),
    )?;
    let grip = HeldResources {
        journal: None,
        _slot: place_for(shared, peer, None)?,
    };
    let names = Arc::new(NameQueue::default());
    let mut roots: Vec<FoundRoot> = Vec::with_capacity(request.sources.len());
    let (mut memory, mut failed) = (None, None);
    let mut own = Vec::new();
    let mut sought = Vec::new();
    for (source, asked) in found.into_iter().zip(&request.sources) {
        match source {
            SourcePlace::Memory(bytes) => memory = Some(MemorySource::new(bytes)),
            SourcePlace::Tree(tree) => {
                // A peer does not learn where an export lies.
                let shown = match shared.only {
                    None => asked.clone(),
                    Some(_) => tree.absolute.clone(),
                };
                own.push(tree.goes_to(request, select.is_listed()));
                sought.push(Sought {
                    root: tree.root.clone(),
                    real: tree.absolute,
                    shown,
                    name: tree.name.clone(),
                });
                roots.push(Ok(if select.is_listed() {
                    directory(tree.root)?
                } else {
                    tree.root
                }));
            }
            // What a list names is in the one source, so there is nothing else to go on with.
            SourcePlace::Failed(FailedSource { no, .. }) if select.is_listed() => return Err(no),
            SourcePlace::Failed(FailedSource { fault, no }) => {
                failed.get_or_insert(no);
                roots.push(Err(fault));
            }
        }
    }
    if let Some(no) = failed
        && roots.iter().all(Result::is_err)
    {
        return Err(no);
    }
    keep_apart(shared, request, &sought, &own)?;
    let sources = match memory {
        Some(memory) if roots.is_empty() => Sources::Memory(memory),
        Some(_) => {
            return Err(Denial::new(
                ErrorCode::SOURCE,
                "mem: cannot be mixed with other sources",
            ));
        }
        None if roots.is_empty() => {
            return Err(Denial::new(ErrorCode::SOURCE, "no source was named"));
        }
        None => Sources::Trees(Trees {
            roots,
            names: select
                .is_listed()
                .then(|| Box::new(QueueNames(Arc::clone(&names))) as Box<dyn Names>),
            spill: journals(shared),
            preserve: request.preserve.unwrap_or_default(),
            select: Arc::clone(&select),
            announces_passed: request.comparison.is_some_and(|wanted| wanted.delete),
            own: Arc::default(),
            items: Vec::new(),
        }),
    };
    let share = share_of(request);
    if !share.congestion.is_empty() {
        check_congestion(&share.congestion, "the machine that sends")
            .map_err(|error| Denial::new(ErrorCode::NOT_SUPPORTED, error.to_string()))?;
    }
    let needs = Needs::of_sender(
        shared.config.pool_bytes,
        block_bytes,
        shared.streams_max,
        shared.config.readers.most,
    );
    let end = EndConfig {
        lease: Some(admit(shared, needs, request)?),
        transfer,
        digest: request.digest_kind(),
        block_bytes,
        comparison: request.comparison,
        itemise: false,
        share,
        observer: Arc::new(Silent(Arc::clone(&shared.config.log))),
        resources: resources(&alone),
        counters: Arc::default(),
    };
    let sending = Sending {
        pool_bytes: shared.config.pool_bytes,
        root_names: request.sources.clone(),
        limit: request.limit_bytes_per_second,
        readers: shared.config.readers,
        in_order: request.in_order,
        order: order_of(request),
    };
    let sender = build::sender(end, sending, sources)
        .map_err(|error| Denial::new(ErrorCode::INTERNAL, error.to_string()))?;
    // The client has set the limit, and may change it.
    sender.obey_limits();
    if select.is_listed() {
        sender.take_names(names);
    }
    Ok(StartedEnd {
        entering: None,
        engine: Engine::Sender(sender),
        grip,
        key: None,
        alone,
        resumed: false,
        arrived: Arrived::default(),
        mapped: Vec::new(),
        placed: None,
        beacon: None,
        unproved: false,
        writes_to: Vec::new(),
        lease: None,
        fence: None,
        digest: request.digest_kind(),
    })
}

/// A list names what is in a directory, and in nothing else.
fn directory(root: TreeRoot) -> Result<TreeRoot, Denial> {
    let there = root.storage.stat(&root.start);
    match there.map_err(|error| Denial::new(ErrorCode::SOURCE, error.to_string()))? {
        Some(meta) if meta.kind != Kind::Directory => Err(Denial::new(
            ErrorCode::SOURCE,
            format!(
                "{} is not a directory, so a list cannot name what is in it",
                root.start
            ),
        )),
        _ => Ok(root),
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

/// The daemon's side prints nothing of single entries: the client's side does.
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
