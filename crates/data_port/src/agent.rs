//! The agent: one user's end of one transfer, with the rights of that user, for the one peer that ssh
//! authenticated. Knows no ssh: its caller passes a stream, a listener and addresses to dial.

mod dialer;
mod user_files;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use godwit_engine::session::{greet_client, receive_frame};
use godwit_engine::tuner::Bounds;
use godwit_net::{Connection, IdentityId, ServerTls, Waker};
use godwit_run::Process;

use crate::budget::Budget;
use crate::table::Table;
use crate::{Announce, DaemonConfig, Here, Shared, accept, gate, keeper};
use user_files::UserFiles;

/// The client of a transfer sends its request immediately; a client that waits for another client's transfer never
/// does.
const FIRST_FRAME_DEADLINE: Duration = Duration::from_secs(400 * 24 * 3600);

/// Configuration of an agent.
pub struct AgentConfig {
    /// Resources shared with other transfers of its process.
    pub process: Process,
    /// The one peer that may connect.
    pub client: IdentityId,
    /// Name of the sender, in the key of the journal.
    pub sender: Vec<u8>,
    /// Directory of journals and spills.
    pub home: PathBuf,
    /// Directory for relative paths.
    pub base: PathBuf,
    /// Our key and ciphers.
    pub tls: ServerTls,
    /// Which of the agent's addresses are announced to the peer.
    pub announce: Announce,
    /// Addresses of the peer, which are dialled if the peer does not connect.
    pub dial: Vec<SocketAddr>,
    /// Time within which the request of the peer must arrive.
    pub handshake_deadline: Duration,
    /// How long a connection may be without progress.
    pub stall_limit: Duration,
    /// Memory for blocks to send.
    pub pool_bytes: usize,
    /// Threads that read ahead.
    pub readers: Bounds,
    /// Threads that write.
    pub writers: Bounds,
    /// How long the transfer is kept without any stream.
    pub keep_for: Duration,
    /// Writes a line to the log.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A running agent.
pub struct Agent {
    shared: Arc<Shared>,
    wakers: Vec<Waker>,
}

impl Agent {
    /// Accepts connections from now on.
    ///
    /// # Errors
    /// The process is out of descriptors or threads.
    pub fn start(config: AgentConfig, listener: TcpListener) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let places = UserFiles {
            sender: config.sender,
            spill: config.home.join("spill"),
            base: config.base,
            syncs: config.process.syncs.clone(),
        };
        let own = DaemonConfig {
            process: config.process,
            listen: Vec::new(),
            announce: config.announce,
            exports: Vec::new(),
            home: config.home,
            rules: Arc::new(|| Ok(Arc::default())),
            tls: config.tls,
            // The client is the user that owns the files.
            plain_allowed: true,
            handshake_deadline: config.handshake_deadline,
            connections_per_peer: PEER_CONNECTIONS_MAX,
            connections_max: PEER_CONNECTIONS_MAX,
            // One transfer at a time, and one more that is being replaced.
            transfers_per_peer: PEER_CONNECTIONS_MAX,
            transfers_max: PEER_CONNECTIONS_MAX,
            stall_limit: config.stall_limit,
            pool_bytes: config.pool_bytes,
            readers: config.readers,
            writers: config.writers,
            keep_for: config.keep_for,
            claims: Arc::default(),
            jobs: None,
            cluster: None,
            buffer: None,
            web: None,
            // The client reports the outcome of its transfer.
            tells: Arc::new(|_| {}),
            log: config.log,
        };
        let budget = Budget::unbounded(PEER_CONNECTIONS_MAX, PEER_CONNECTIONS_MAX);
        let shared = Arc::new(Shared {
            own: config.client,
            gate: gate(&own, &budget, true),
            operator: crate::operator::Operator::of(&own),
            streams_max: budget.streams,
            table: Table::default(),
            stopping: AtomicBool::new(false),
            places: Box::new(places),
            here: Here::new(Vec::new(), own.home.clone(), own.process.syncs.clone()),
            only: Some(config.client),
            dial: config.dial.clone(),
            listening: vec![listener.local_addr()?],
            measuring: AtomicBool::new(false),
            carriers: AtomicUsize::new(0),
            // An agent exists for its transfer, and needs its resources for nothing else.
            suspend_after: Duration::MAX,
            config: own,
        });
        let mut agent = Self {
            shared,
            wakers: Vec::new(),
        };
        let own = Arc::clone(&agent.shared);
        spawn("gw-keeper", move || keeper::run(&own))?;
        let waker = Waker::new()?;
        agent.wakers.push(waker.clone());
        let own = Arc::clone(&agent.shared);
        spawn("gw-listen", move || accept::listen(&own, &listener, &waker))?;
        if !config.dial.is_empty() {
            let waker = Waker::new()?;
            agent.wakers.push(waker.clone());
            let own = Arc::clone(&agent.shared);
            spawn("gw-dialer", move || dialer::run(&own, &config.dial, &waker))?;
        }
        Ok(agent)
    }

    /// State shared by its threads.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Serves the stream through ssh, like one of the peer's, until it ends.
    pub fn serve(&self, mut stream: Connection) {
        let peer = self.shared.only;
        let frame = greet_client(&mut stream, FIRST_FRAME_DEADLINE)
            .and_then(|_| receive_frame(&mut stream, self.shared.config.handshake_deadline));
        if let (Ok(frame), Some(peer)) = (frame, peer) {
            accept::dispatch(&self.shared, &mut stream, peer, frame);
        }
    }

    /// Waits for the end of the transfer, if there is one. Then accepts no more connections.
    pub fn finish(&self) {
        self.shared.table.wait_until_empty();
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.table.stream_ended();
        for waker in &self.wakers {
            waker.wake();
        }
    }

    /// Waits until a transfer has started and ended.
    pub fn wait_for_transfer(&self) {
        self.shared.table.wait_until_over();
    }
}

/// Starts a thread that ends when the agent finishes, or with the process.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(body).map(drop)
}

/// One connection for each stream of a transfer, and some that are tried in the search for a path.
const PEER_CONNECTIONS_MAX: usize = 256;
