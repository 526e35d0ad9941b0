//! The daemon listens, admits peers, maps exports, and runs the daemon's end of each transfer. The agent does the same for one
//! transfer only. Does not move payload bytes; the engine does.

mod accept;
mod admit;
mod agent;
mod allow;
mod announce;
mod ask;
mod away;
mod begin;
mod budget;
mod claims;
mod drain;
mod examine;
mod export;
mod exported;
mod gate;
mod grants;
mod keeper;
mod leave;
mod news;
mod noise;
mod open;
mod operator;
mod places;
pub mod probe;
mod refusal;
mod session;
mod table;
mod verify;
mod watch;

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use godwit_api::ask::{AnswerBuffer, AnswerCluster, AnswerJobs};
use godwit_api::record::NewsSink;
use godwit_engine::tuner::Bounds;
use godwit_net::{Identity, IdentityId, ServerTls, Waker};
use godwit_run::Process;

pub use agent::{Agent, AgentConfig};
pub use allow::StateRules;
pub use announce::Announce;
pub use ask::asker::{Asker, Questions};
pub use ask::here::{Here, May};
pub use claims::ClaimTable;
pub use drain::drain;
pub use export::{Export, ExportBounds, ExportError, OwnPlaces};
pub use exported::Exported;
pub use grants::Grants;
pub use watch::watch;

use budget::Budget;
use gate::{Gate, Limits};
use operator::Operator;
use places::{Exports, Places};
use table::Table;

/// Configuration of a daemon.
pub struct DaemonConfig {
    /// Resources shared with other transfers of its process.
    pub process: Process,
    /// Addresses to listen on; port 0 means any free one.
    pub listen: Vec<SocketAddr>,
    /// Which of its addresses are announced to clients.
    pub announce: Announce,
    /// Exports of the daemon.
    pub exports: Vec<Export>,
    /// Directory of keys, grants and journals.
    pub home: PathBuf,
    /// The access rules of the node's state, which apply in addition to the grants in the home directory.
    pub rules: Arc<dyn StateRules>,
    /// Our key and ciphers.
    pub tls: ServerTls,
    /// Whether block contents may be sent unencrypted if a client requests it.
    pub plain_allowed: bool,
    /// Time within which the request of a client must arrive.
    pub handshake_deadline: Duration,
    /// Unauthenticated connections of one address, and streams of one identity.
    pub connections_per_peer: usize,
    /// Connections of all peers together.
    pub connections_max: usize,
    /// Transfers of one identity, running or suspended.
    pub transfers_per_peer: usize,
    /// Transfers of all identities together.
    pub transfers_max: usize,
    /// How long a connection may be without progress.
    pub stall_limit: Duration,
    /// Memory for the blocks of each transfer that the daemon sends.
    pub pool_bytes: usize,
    /// Threads of each transfer that read ahead of its streams.
    pub readers: Bounds,
    /// Threads of each transfer that write for its streams.
    pub writers: Bounds,
    /// The longest time that an interrupted transfer is kept for its client; a client may request less.
    pub keep_for: Duration,
    /// The claims of jobs on destinations of this node.
    pub claims: Arc<ClaimTable>,
    /// Runs jobs for other nodes, and manages access for their jobs. `None` refuses both.
    pub jobs: Option<Arc<dyn AnswerJobs>>,
    /// Answers questions within the cluster of this node. `None` refuses them.
    pub cluster: Option<Arc<dyn AnswerCluster>>,
    /// Answers members about the transfer buffer of this node. `None` refuses them.
    pub buffer: Option<Arc<dyn AnswerBuffer>>,
    /// Receives connections that use a protocol other than data inside TLS; no bytes were read from them. `None` refuses them.
    pub web: Option<Arc<dyn Fn(TcpStream) + Send + Sync>>,
    /// Receives reports about each transfer and refusal.
    pub tells: Arc<NewsSink>,
    /// Writes other lines to the log.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A running daemon. Ends when stopped or dropped.
pub struct Daemon {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    identity: IdentityId,
    threads: Vec<JoinHandle<()>>,
    keeper: Option<JoinHandle<()>>,
    wakers: Vec<Waker>,
}

struct Shared {
    config: DaemonConfig,
    /// Identifies this node where members write. For an agent, which has no members, the client's name for it.
    own: IdentityId,
    stopping: AtomicBool,
    places: Box<dyn Places>,
    /// Answers questions about places of the exports.
    here: Here,
    /// The one peer that may connect; `None` if grants decide.
    only: Option<IdentityId>,
    /// Addresses of the peer; empty in a daemon.
    dial: Vec<SocketAddr>,
    /// Listening addresses with the chosen ports.
    listening: Vec<SocketAddr>,
    /// Whether a storage is being measured for a peer.
    measuring: AtomicBool,
    /// Connections other than ssh that are being served.
    carriers: AtomicUsize,
    gate: Gate,
    operator: Operator,
    /// Most streams of one transfer.
    streams_max: u32,
    table: Table,
    /// How long the engine of a transfer is kept while its client is absent.
    suspend_after: Duration,
}

/// Why a daemon does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}{}", advice(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the kernel.
        source: std::io::Error,
    },
    /// No thread or descriptor is available.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}

fn advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; another program, perhaps another godwit, uses this port: stop that program or choose a different port with --listen"
        }
        std::io::ErrorKind::PermissionDenied => {
            "; ports below 1024 are reserved for the administrator"
        }
        std::io::ErrorKind::AddrNotAvailable => "; this machine does not have that address",
        _ => "",
    }
}

/// `known_only`: only one peer is expected.
fn gate(config: &DaemonConfig, budget: &Budget, known_only: bool) -> Gate {
    let connections = Limits {
        per_peer: config.connections_per_peer,
        all: budget.connections,
        newcomers: 0,
    };
    let transfers = Limits {
        per_peer: config.transfers_per_peer,
        all: budget.transfers,
        newcomers: 0,
    };
    Gate::new(connections, transfers, budget.strangers, known_only)
}

impl Daemon {
    /// Starts listening.
    ///
    /// # Errors
    /// A port is taken, or the system lacks resources; nothing runs then.
    pub fn start(config: DaemonConfig, identity: &Identity) -> Result<Self, StartError> {
        let listeners = godwit_net::listen(&config.listen).map_err(|unheard| {
            let godwit_net::Unheard { address, source } = unheard;
            StartError::Listen { address, source }
        })?;
        for listener in &listeners {
            listener.set_nonblocking(true)?;
            godwit_net::prepare_for_short_path(listener);
        }
        let mut addresses = Vec::new();
        for listener in &listeners {
            addresses.push(listener.local_addr()?);
        }
        let budget = Budget::here(&config);
        let shared = Arc::new(Shared {
            own: *identity.id(),
            gate: gate(&config, &budget, false),
            operator: Operator::of(&config),
            streams_max: budget.streams,
            table: Table::default(),
            stopping: AtomicBool::new(false),
            places: Box::new(Exports {
                exports: config.exports.clone(),
                home: config.home.clone(),
                rules: Arc::clone(&config.rules),
                syncs: config.process.syncs.clone(),
            }),
            here: Here::new(
                config.exports.clone(),
                config.home.clone(),
                config.process.syncs.clone(),
            )
            .claiming(Arc::clone(&config.claims)),
            only: None,
            dial: Vec::new(),
            listening: addresses.clone(),
            measuring: AtomicBool::new(false),
            carriers: AtomicUsize::new(0),
            suspend_after: keeper::SUSPEND_AFTER,
            config,
        });
        let mut daemon = Self {
            shared,
            addresses,
            identity: *identity.id(),
            threads: Vec::new(),
            keeper: None,
            wakers: Vec::new(),
        };
        let shared = Arc::clone(&daemon.shared);
        let keeper = std::thread::Builder::new().name("gw-keeper".to_owned());
        daemon.keeper = Some(keeper.spawn(move || keeper::run(&shared))?);
        for listener in listeners {
            let waker = Waker::new()?;
            daemon.wakers.push(waker.clone());
            let shared = Arc::clone(&daemon.shared);
            let body = move || accept::listen(&shared, &listener, &waker);
            daemon.threads.push(
                std::thread::Builder::new()
                    .name("gw-listen".to_owned())
                    .spawn(body)?,
            );
        }
        Ok(daemon)
    }

    /// Listening addresses with the chosen ports.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Identity of the daemon.
    pub fn identity(&self) -> &IdentityId {
        &self.identity
    }

    /// Stops listening, and ends all transfers in a way that can be resumed.
    pub fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for waker in &self.wakers {
            waker.wake();
        }
        self.shared.table.stop_all("the daemon was stopped");
        for thread in self.threads.drain(..) {
            // If the thread panicked, the panic was already printed.
            let _ = thread.join();
        }
        if let Some(keeper) = self.keeper.take() {
            self.shared.table.wait_until_empty();
            // The thread may be sleeping because there are no transfers.
            self.shared.table.stream_ended();
            let _ = keeper.join();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}
