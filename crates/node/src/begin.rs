//! Makes the daemon's end of a transfer from a request: the place it names, the engine for it.
//! Runs nothing and answers nobody (`open`).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use godwit_engine::pipe::InOrder;
use godwit_engine::session::Engine;
use godwit_engine::synthetic::{MemorySource, NullSink};
use godwit_engine::tree::{
    DestinationError, DestinationRequest, PreparedDestination, TreeRoot, TreeSink, TreeSource,
    TreeWork,
};
use godwit_engine::{
    Counters, Live, Observer, Receiver, ReceiverConfig, Resources, Sender, SenderConfig, Sink,
    Source, Work, limits,
};
use godwit_net::IdentityId;
use godwit_proto::{Direction, ErrorCode, Fault, Open, TransferId};
use godwit_store::Storage;

use crate::Shared;
use crate::allow::{No, allowed, find, known, refuse_export};
use crate::export::Place;

/// How long a transfer whose client seems to have gone may still hold its destination.
const SUPERSEDE_PATIENCE: Duration = Duration::from_secs(5);

/// What a request comes to.
pub(crate) struct Begun {
    pub(crate) engine: Engine,
    pub(crate) key: Option<[u8; 32]>,
    pub(crate) alone: Arc<AtomicBool>,
    pub(crate) resumed: bool,
    pub(crate) lost_bytes: u64,
    pub(crate) mapped: Vec<u8>,
}

pub(crate) fn begin(
    shared: &Arc<Shared>,
    peer: IdentityId,
    request: &Open,
) -> Result<(TransferId, Begun, u32), No> {
    if request.plain_payload && !shared.config.plain_allowed {
        return Err(No::new(
            ErrorCode::NOT_GRANTED,
            "this daemon encrypts everything; its operator can allow clear contents with: godwit serve --encryption any",
        ));
    }
    let mut id = [0; 16];
    getrandom::fill(&mut id)
        .map_err(|error| No::new(ErrorCode::INTERNAL, format!("no random numbers: {error}")))?;
    let transfer = TransferId(id);
    let block_bytes = if request.block_bytes == 0 {
        limits::BLOCK_BYTES
    } else {
        request.block_bytes
    };
    let alone = Arc::new(AtomicBool::new(shared.table.is_empty()));
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

fn begin_push(
    shared: &Arc<Shared>,
    peer: IdentityId,
    request: &Open,
    transfer: TransferId,
    block_bytes: u32,
    alone: Arc<AtomicBool>,
) -> Result<Begun, No> {
    known(shared, peer)?;
    let place = find(shared, &request.destination)?;
    let config = ReceiverConfig {
        transfer,
        digest: request.digest_kind(),
        block_bytes,
        observer: Arc::new(Silent(Arc::clone(&shared.config.log))),
        resources: resources(&alone),
    };
    let live = Arc::new(Live::new(0, 0, shared.config.writers));
    let counters = Arc::new(Counters::default());
    let started = |receiver: std::io::Result<Arc<Receiver>>| {
        receiver.map_err(|error| No::new(ErrorCode::INTERNAL, error.to_string()))
    };
    match place {
        Place::Memory(_) => Err(No::new(
            ErrorCode::DESTINATION,
            "mem: can only be read; null: takes everything",
        )),
        Place::Null => {
            allowed(shared, peer, None, true)?;
            let for_sink = Arc::clone(&counters);
            let make =
                Box::new(move |acks| -> Arc<dyn Sink> { Arc::new(NullSink::new(acks, for_sink)) });
            let receiver = started(Receiver::start(config, make, live, counters))?;
            Ok(Begun {
                engine: Engine::Receiver(receiver),
                key: None,
                alone,
                resumed: false,
                lost_bytes: 0,
                mapped: b"null:".to_vec(),
            })
        }
        Place::Below(export, base) => {
            allowed(shared, peer, Some(&export.name), true)?;
            let storage = export
                .open(&journals(shared))
                .map_err(|error| refuse_export(&error))?;
            let storage_path =
                std::fs::canonicalize(&export.path).unwrap_or_else(|_| export.path.clone());
            let digest = godwit_engine::digest_kind(request.digest_kind()).ok_or_else(|| {
                No::new(
                    ErrorCode::PROTOCOL,
                    "this daemon does not know the digest asked for",
                )
            })?;
            let make_request = || DestinationRequest {
                storage: Arc::clone(&storage),
                storage_path: bytes_of(&storage_path),
                base: base.clone(),
                is_directory: request.destination_is_directory,
                sender: peer.to_string().into_bytes(),
                sources: request.sources.clone(),
                names: request.names.clone(),
                digest,
                force: request.force,
                verify: request.verify,
                no_sync: request.no_sync,
                journals: journals(shared),
                display: export.name.clone().into_bytes(),
            };
            let key = make_request().key().0;
            let prepared = prepare(shared, peer, &key, make_request)?;
            let (resumed, lost_bytes) = (prepared.recovered.resumed, prepared.lost_bytes());
            if let Some(damage) = &prepared.recovered.damage {
                shared.log(&format!("journal: {damage}"));
            }
            let mapped = prepared.mapped.clone();
            let config = ReceiverConfig {
                digest: godwit_engine::wire_digest_kind(prepared.config.digest),
                ..config
            };
            if config.digest != request.digest_kind() {
                return Err(No::new(
                    ErrorCode::DESTINATION,
                    "the unfinished transfer to this destination used another --digest; finish it with that one",
                ));
            }
            let receiver = started(start_tree(config, prepared, live, counters))?;
            Ok(Begun {
                engine: Engine::Receiver(receiver),
                key: Some(key),
                alone,
                resumed,
                lost_bytes,
                mapped,
            })
        }
    }
}

fn start_tree(
    config: ReceiverConfig,
    prepared: PreparedDestination,
    live: Arc<Live>,
    counters: Arc<Counters>,
) -> std::io::Result<Arc<Receiver>> {
    let for_sink = Arc::clone(&counters);
    let mut failed = None;
    let failure = &mut failed;
    let make = Box::new(move |acks: Arc<godwit_engine::Acks>| -> Arc<dyn Sink> {
        match TreeSink::start(
            prepared.config,
            prepared.journal,
            prepared.recovered,
            Arc::clone(&acks),
            Arc::clone(&for_sink),
        ) {
            Ok(sink) => sink,
            Err(error) => {
                *failure = Some(error);
                Arc::new(NullSink::new(acks, for_sink))
            }
        }
    });
    let receiver = Receiver::start(config, make, live, counters)?;
    match failed {
        Some(error) => Err(error),
        None => Ok(receiver),
    }
}

/// Takes the destination; a transfer with the same name whose client is gone makes way. One whose client answers does
/// not, and the one that came second is told so at once.
fn prepare(
    shared: &Shared,
    peer: IdentityId,
    key: &[u8; 32],
    make_request: impl Fn() -> DestinationRequest,
) -> Result<PreparedDestination, No> {
    let no = |error: DestinationError| No {
        code: if matches!(error, DestinationError::Busy { .. }) {
            ErrorCode::BUSY
        } else {
            ErrorCode::DESTINATION
        },
        message: match &error {
            DestinationError::Busy {
                same: true,
                destination,
                ..
            } => format!(
                "the same transfer to {destination} is running already, and its client is there; wait for it, or stop that one first"
            ),
            _ => error.to_string(),
        },
        retryable: false,
    };
    match make_request().prepare() {
        Err(DestinationError::Busy { same: true, .. })
            if shared.table.supersede(key, &peer, SUPERSEDE_PATIENCE) =>
        {
            make_request().prepare().map_err(no)
        }
        other => other.map_err(no),
    }
}

fn begin_pull(
    shared: &Arc<Shared>,
    peer: IdentityId,
    request: &Open,
    transfer: TransferId,
    block_bytes: u32,
    alone: Arc<AtomicBool>,
) -> Result<Begun, No> {
    known(shared, peer)?;
    let mut roots = Vec::with_capacity(request.sources.len());
    let mut memory = None;
    // A storage holds descriptors: one for each export, however many sources are below it.
    let mut storages: HashMap<&str, Arc<dyn Storage>> = HashMap::new();
    for source in &request.sources {
        match find(shared, source)? {
            Place::Null => {
                return Err(No::new(
                    ErrorCode::SOURCE,
                    "null: can only be written to; mem:SIZE gives bytes",
                ));
            }
            Place::Memory(bytes) => {
                allowed(shared, peer, None, false)?;
                memory = Some(MemorySource::new(bytes));
            }
            Place::Below(export, start) => {
                let storage = match storages.entry(&export.name) {
                    Entry::Occupied(open) => Arc::clone(open.get()),
                    Entry::Vacant(place) => {
                        allowed(shared, peer, Some(&export.name), false)?;
                        let open = export.open(&journals(shared));
                        Arc::clone(place.insert(open.map_err(|error| refuse_export(&error))?))
                    }
                };
                let there = storage
                    .stat(&start)
                    .map_err(|error| No::new(ErrorCode::SOURCE, error.to_string()))?;
                if there.is_none() && !start.as_bytes().is_empty() {
                    return Err(No::new(
                        ErrorCode::SOURCE,
                        format!("{} does not exist", String::from_utf8_lossy(source)),
                    ));
                }
                roots.push(TreeRoot { storage, start });
            }
        }
    }
    let (work, source): (Box<dyn Work>, Arc<dyn Source>) = match memory {
        Some(memory) if roots.is_empty() => (Box::new(memory), Arc::new(memory)),
        Some(_) => {
            return Err(No::new(
                ErrorCode::SOURCE,
                "mem: cannot be mixed with other sources",
            ));
        }
        None if roots.is_empty() => return Err(No::new(ErrorCode::SOURCE, "no source was named")),
        None => (
            Box::new(TreeWork::new(roots.clone())),
            Arc::new(TreeSource::new(roots)),
        ),
    };
    let source: Arc<dyn Source> = if request.in_order {
        Arc::new(InOrder::new(source))
    } else {
        source
    };
    let config = SenderConfig {
        transfer,
        digest: request.digest_kind(),
        block_bytes,
        pool_bytes: shared.config.pool_bytes,
        observer: Arc::new(Silent(Arc::clone(&shared.config.log))),
        root_names: request.sources.clone(),
        resources: resources(&alone),
    };
    let live = Arc::new(Live::new(
        request.limit_bytes_per_second,
        shared.config.readers,
        0,
    ));
    let sender = Sender::start(config, work, source, live, Arc::new(Counters::default()))
        .map_err(|error| No::new(ErrorCode::INTERNAL, error.to_string()))?;
    Ok(Begun {
        engine: Engine::Sender(sender),
        key: None,
        alone,
        resumed: false,
        lost_bytes: 0,
        mapped: Vec::new(),
    })
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

fn bytes_of(path: &std::path::Path) -> Vec<u8> {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec()
}

/// The daemon's side prints nothing of single entries: the client's side does.
struct Silent(Arc<dyn Fn(&str) + Send + Sync>);

impl Observer for Silent {
    fn entry_failed(&self, _path: &[u8], _fault: &Fault) {}

    fn note(&self, message: &str) {
        (self.0)(message);
    }
}
