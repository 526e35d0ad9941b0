//! Makes several nodes one cluster: joining, voting, liveness, and the transport of the consensus between nodes.
//! Keeps no state itself (`state`), opens no connection (`node`), and runs no job (`jobs`).
//!
//! ```text
//! each second   every node ─▶ Announce ─▶ leader: who lives, what it has, where it is reached
//!               leader     ─▶ rows of the state, members of the consensus, jobs of the lost return to the queue
//! consensus     state ─▶ Carrier ─▶ AskSites ─▶ data port of another node ─▶ Cluster::answer ─▶ Replica::answer
//! ```
//!
//! Only nodes of the cluster, known by their identities, may send messages; a stranger may join with an invitation. A node that was
//! removed, or whose cluster was replaced by `recover`, gets a refusal that names the reason. That node changes nothing.

mod addresses;
mod answers;
mod carrier;
mod home;
mod invite;
mod join;
mod keeper;
mod lacks;
mod leader;
mod live;
mod membership;
mod observations;
mod recovered;
mod status;
mod voters;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use godwit_api::ask::{AskSites, KnownNode, Peer, Refusal, code};
use godwit_api::rest::NodeResources;
use godwit_api::watched::Watched;
use godwit_state::{Agreed, Fault, LEVEL_ORIGIN, Node, Replica, Timestamp};

pub use addresses::{LookAtAddresses, NodeAddresses};
pub use carrier::{Carrier, address_of};
pub use home::{ClusterHome, HomeError, NODE_ALONE, NUMBER_ALONE};
pub use invite::{Invited, Token};
pub use join::{JoinError, Joining, join};
pub use observations::Look;
pub use recovered::ask_for_recovery;

use addresses::Announced;
use lacks::Lacks;
use membership::Membership;

/// Configuration of [`Cluster`].
pub struct ClusterConfig {
    /// The state that the cluster shares.
    pub replica: Arc<Replica>,
    /// The identity of this node within its cluster.
    pub home: ClusterHome,
    /// Directory of the file with that identity.
    pub directory: PathBuf,
    /// Identity of this node.
    pub identity: String,
    /// Exports of this node.
    pub exports: Vec<String>,
    /// Watches of the file systems of these exports, by name.
    pub watched: BTreeMap<String, Watched>,
    /// Accounts of this machine that are admins although they are no users of the cluster.
    pub admins: Vec<String>,
    /// Version of the program.
    pub version: String,
    /// The newest feature level that the program knows.
    pub level: u32,
    /// Sends questions to other nodes.
    pub sites: Arc<dyn AskSites>,
    /// Returns the current time.
    pub now: fn() -> Timestamp,
    /// Called when a recovery made another node the only one of this cluster.
    pub left_behind: Arc<dyn Fn(&str) + Send + Sync>,
    /// Returns the resources of this node.
    pub resources: Arc<dyn Fn() -> NodeResources + Send + Sync>,
    /// Examines the exports of this node.
    pub look: Arc<Look>,
    /// Writes a line to the log of the node.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The cluster, seen from one of its nodes. Clones share it.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
    keeper: Arc<Mutex<Option<JoinHandle<()>>>>,
}

pub(crate) struct Shared {
    pub(crate) config: ClusterConfig,
    /// Addresses of the data port, once it listens.
    announced: Mutex<Announced>,
    pub(crate) membership: Membership,
    /// The nodes that live, as far as this node learned as the leader.
    pub(crate) live: live::Live,
    pub(crate) observations: observations::Observations,
    pub(crate) lacks: Lacks,
    pub(crate) stopping: AtomicBool,
}

impl Cluster {
    /// The cluster's part of a node. It answers questions at once, and sends announcements after `begin`.
    #[must_use]
    pub fn new(config: ClusterConfig) -> Self {
        let others = config.home.nodes.iter();
        let others = others.filter(|node| node.identity != config.identity);
        let shared = Shared {
            membership: Membership::new(others.cloned().collect()),
            config,
            announced: Mutex::default(),
            live: live::Live::default(),
            observations: observations::Observations::default(),
            lacks: Lacks::default(),
            stopping: AtomicBool::new(false),
        };
        Self {
            shared: Arc::new(shared),
            keeper: Arc::default(),
        }
    }

    /// Starts to take part in the cluster. Others reach the node at the addresses that `look` returns. They are looked at each second.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn begin(&self, look: Box<LookAtAddresses>) -> std::io::Result<()> {
        self.shared.look_at_addresses(&*look);
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name("gw-cluster".to_owned())
            .spawn(move || keeper::run(&shared, &*look))?;
        *self.thread() = Some(thread);
        let shared = Arc::clone(&self.shared);
        // No thread joins it: see `Observations::follow`.
        std::thread::Builder::new()
            .name("gw-observations".to_owned())
            .spawn(move || {
                shared
                    .observations
                    .follow(&shared.config.look, &shared.stopping)
            })?;
        Ok(())
    }

    /// Ends the participation in the cluster. Blocks for a moment.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread().take() {
            thread.thread().unpark();
            // The panic of that thread was already printed.
            let _ = thread.join();
        }
    }

    /// Id of the cluster.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.shared.config.home.cluster
    }

    /// Addresses at which others reach this node.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.shared.announced().list().to_vec()
    }

    /// Name of this node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.shared.config.home.name
    }

    fn thread(&self) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn announced(&self) -> std::sync::MutexGuard<'_, Announced> {
        self.announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the nodes known from joining after the row of this node has arrived, in memory and in the file. Otherwise nodes that were
    /// removed since then would count as nodes if this node is removed later.
    pub(crate) fn forget_known_at_join(&self) -> Result<(), String> {
        if self.membership.known_at_join().is_empty() {
            return Ok(());
        }
        let rows = self.config.replica.reader();
        let rows = rows.objects_by::<Node>(&self.config.identity);
        if !rows.is_ok_and(|rows| !rows.is_empty()) {
            return Ok(());
        }
        let home = self.config.home.clone().has_row(self.known());
        home.write(&self.config.directory)
            .map_err(|error| error.to_string())?;
        self.membership.known_at_join().clear();
        Ok(())
    }

    /// The exports whose file systems answer.
    pub(crate) fn exports(&self) -> Vec<String> {
        let now = Instant::now();
        let hangs = |name: &String| {
            let watched = self.config.watched.get(name);
            watched.is_some_and(|watched| watched.hangs_for(now).is_some())
        };
        let exports = self.config.exports.iter();
        exports.filter(|name| !hangs(name)).cloned().collect()
    }

    /// This node, with the addresses at which others reach it.
    pub(crate) fn known(&self) -> KnownNode {
        KnownNode {
            name: self.config.home.name.clone(),
            number: self.config.home.number,
            identity: self.config.identity.clone(),
            addresses: self.announced().list().to_vec(),
        }
    }

    /// The rows of all nodes; if there are no rows, the row of this node alone.
    pub(crate) fn nodes(&self) -> Result<Vec<Node>, Fault> {
        let mut nodes: Vec<Node> = self.config.replica.reader().objects()?;
        if nodes.is_empty() && self.config.home.number == NUMBER_ALONE {
            nodes.push(self.own_row(None));
        }
        nodes.sort_by_key(|node| node.number);
        Ok(nodes)
    }

    /// The row that this node should have, given its present row.
    pub(crate) fn own_row(&self, earlier: Option<&Node>) -> Node {
        let mut known = self.known();
        // A node that has no address now is still known by its earlier ones.
        if let Some(earlier) = earlier.filter(|_| known.addresses.is_empty()) {
            known.addresses.clone_from(&earlier.addresses);
        }
        Node {
            name: known.name,
            number: known.number,
            identity: known.identity,
            addresses: known.addresses,
            exports: self.exports(),
            version: self.config.version.clone(),
            level: self.config.level,
            draining: earlier.is_some_and(|row| row.draining),
            voter: earlier.is_some_and(|row| row.voter),
            joined: earlier.map_or_else(self.config.now, |row| row.joined),
            admins: match self.knows_origin() {
                true => self.config.admins.clone(),
                false => Vec::new(),
            },
        }
    }

    /// Whether the level of the cluster allows rows to name the accounts of a machine that are admins.
    pub(crate) fn knows_origin(&self) -> bool {
        let level = Agreed(&self.config.replica.reader()).level();
        level.is_ok_and(|level| level >= LEVEL_ORIGIN)
    }
}

/// The node as a peer to which questions are sent.
pub(crate) fn peer(node: &KnownNode) -> Peer {
    Peer {
        name: node.name.clone(),
        addresses: node.addresses.clone(),
        identity: node.identity.clone(),
    }
}

/// The node of a row, with the addresses at which others reach it.
pub(crate) fn known(node: &Node) -> KnownNode {
    KnownNode {
        name: node.name.clone(),
        number: node.number,
        identity: node.identity.clone(),
        addresses: node.addresses.clone(),
    }
}

/// The asker may be a stranger, so it does not learn which file fails.
pub(crate) fn unread(_: Fault) -> Refusal {
    let message = "the node that was asked cannot read its state now; its log says why";
    Refusal::later(code::IO, message)
}

pub(crate) fn words(error: impl ToString) -> String {
    error.to_string()
}
