//! Owns a node's replica of the state: opening it, proposing commands, and its end. Hides the consensus library: none of its types is
//! visible outside this crate.
//!
//! A single node needs no consensus, but it keeps its state in the same way as several nodes. `apply` is a pure function of the log, so
//! replicas that apply the same commands have the same rows. Proposals that arrive during a sync of the log share the next one. A follower
//! sends proposals to the leader (`propose`). When a file fails, the consensus ends, `Replica::ended` resolves, and the process must end.

mod admission;
mod answering;
mod directory;
mod error;
mod follow;
mod gate;
mod handover;
mod members;
mod options;
mod propose;
mod readiness;
mod restore;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver as _;
use openraft::errors::Fatal;
use openraft::{BasicNode, Config, SnapshotPolicy};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Semaphore, watch};

use self::admission::Admission;
use self::answering::{LastContacts, Noting};
use self::directory::Directory;
use self::handover::Handover;
use crate::fault::Fault;
use crate::model::{Command, Effect};
use crate::raft::{
    APPEND, ConsensusReceiver, Guard, Incoming, Log, Machine, Network, Raft, STOPPED_AFTER, Types,
    is_marked,
};
use crate::read::Reader;
use crate::store::{Store, copy_into};

pub use error::{Ended, OpenError, ProposeError};
pub use follow::{FollowError, Follower};
pub use gate::Gate;
pub use members::{Member, Members};
pub use options::Options;
pub use readiness::Readiness;
pub use restore::{Restored, backup, recover, restore, set_aside};

/// Concurrent proposals; others wait. With commands of the maximum length, the proposals take 128 MiB.
const PROPOSALS_MAX: usize = 128;

/// Longest time for the only voter to win its election and apply its log. The log is cut every 5,000 commands, of which a slow disk applies
/// 500 a second.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Commands after which a snapshot is written and the log is cut.
const SNAPSHOT_EVERY: u64 = 5_000;
/// Commands that the log keeps before a snapshot, for voters that were briefly disconnected.
const LOG_KEPT: u64 = 1_000;

/// An applied command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Done {
    /// Index of the command in the log.
    pub index: u64,
    /// The effect of the command.
    pub effect: Effect,
}

/// This node's replica. Dropping it ends its threads.
#[derive(Debug)]
pub struct Replica {
    raft: Raft,
    // Taken when the replica ends, because a thread of a runtime must not drop that runtime.
    runtime: Option<Runtime>,
    reader: Arc<Reader>,
    applied: watch::Receiver<u64>,
    permits: Arc<Semaphore>,
    directory: Directory,
    receiver: ConsensusReceiver,
    /// Records which other voters answer.
    answering: LastContacts,
    admission: Admission,
    readiness: Readiness,
    options: Options,
}

impl Replica {
    /// Opens the replica, and waits until all acknowledged commands are applied. Blocks.
    ///
    /// # Errors
    /// When a file is damaged or from a newer program, when the files do not belong together, when another process uses them, or when the
    /// disk fails. The files are left unchanged.
    pub fn open(mut options: Options) -> Result<Self, OpenError> {
        let answering = LastContacts::default();
        options.peers = Arc::new(Noting {
            peers: options.peers,
            contacts: answering.clone(),
            gate: options.gate.clone(),
        });
        let directory = Directory::lock(&options.directory)?;
        directory.check_restored()?;
        let log = Log::open(&directory.log(), directory.guard())?;
        let store = Store::open(&directory.state())?;
        directory.check_together(&log, &store)?;
        let first = store.position()?.map_or(0, |position| position.index);
        let (sender, applied) = watch::channel(first);
        store.check_level(options.level)?;
        let machine = Machine::new(
            store,
            directory.snapshot(),
            sender,
            directory.guard(),
            options.level,
        );
        let network = Network::new(Arc::clone(&options.peers));
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("state")
            .enable_time()
            .build()
            .map_err(|error| Fault::io(&options.directory, error))?;
        let started = runtime.block_on(start(&options, network, log, machine));
        let raft = match started {
            Ok(raft) => raft,
            Err(what) => {
                runtime.shutdown_background();
                let fault = directory.guard().fault().map(ToOwned::to_owned);
                return Err(OpenError::Start(fault.unwrap_or(what)));
            }
        };
        let handover = Handover {
            raft: raft.clone(),
            peers: Arc::clone(&options.peers),
            number: options.voter,
            directory: options.directory.clone(),
            free_bytes_min: options.free_bytes_min,
        };
        runtime.spawn(handover.run());
        let reader = Arc::new(Reader::new(directory.state()));
        let readiness = Readiness::new(
            raft.clone(),
            &directory,
            Arc::clone(&reader),
            answering.clone(),
            options.clone(),
        );
        let file = directory.incoming();
        let incoming = Incoming::new(file, options.free_bytes_min, STOPPED_AFTER);
        Ok(Self {
            raft,
            runtime: Some(runtime),
            answering,
            admission: Admission::new(Arc::clone(&reader), &options),
            readiness,
            reader,
            applied,
            permits: Arc::new(Semaphore::new(PROPOSALS_MAX)),
            receiver: ConsensusReceiver::new(incoming),
            directory,
            options,
        })
    }

    /// Proposes a command, and waits until it is on the disks of a majority and applied here. If another node leads, the command is passed
    /// on to it. The proposal continues in the background if the future is dropped. Works on any executor.
    ///
    /// # Errors
    /// `Refused` when the command changed nothing; `Unknown` when it is not known yet whether the command is applied.
    pub fn propose(
        &self,
        mut command: Command,
    ) -> impl Future<Output = Result<Done, ProposeError>> + Send + 'static {
        let checked = (self.admission.stamp(self.options.voter, &mut command))
            .and_then(|()| self.admission.check(&command));
        let (handle, proposal) = (self.handle().clone(), propose::Proposal::of(self, command));
        async move {
            checked?;
            match handle.spawn(proposal.run()).await {
                Ok(result) => result,
                Err(error) => Err(ProposeError::Ended(Ended(error.to_string()))),
            }
        }
    }

    /// Proposes a command and blocks until it is applied; not for asynchronous code.
    ///
    /// # Errors
    /// As [`Self::propose`].
    pub fn propose_blocking(&self, command: Command) -> Result<Done, ProposeError> {
        self.handle().block_on(self.propose(command))
    }

    /// Whether this voter leads.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.takes_part() && self.raft.is_leader()
    }

    /// Whether this node still takes part in its cluster. Claims of a node that was left behind do not hold.
    #[must_use]
    pub fn takes_part(&self) -> bool {
        self.options.gate.is_open()
    }

    /// Number and address of the leader, as far as this voter knows.
    #[must_use]
    pub fn leader_hint(&self) -> Option<(u64, String)> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let leader = metrics.current_leader?;
        let membership = metrics.membership_config.membership();
        let node = membership.get_node(&leader)?;
        Some((leader, node.addr.clone()))
    }

    /// Whether this replica accepts commands now.
    #[must_use]
    pub const fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// A reader of this replica's state.
    #[must_use]
    pub fn reader(&self) -> Arc<Reader> {
        Arc::clone(&self.reader)
    }

    /// Follows the events after number `after`.
    #[must_use]
    pub fn follow(&self, after: u64) -> Follower {
        Follower::new(Arc::clone(&self.reader), self.applied.clone(), after)
    }

    /// Index of the last applied command.
    #[must_use]
    pub fn applied_index(&self) -> u64 {
        *self.applied.borrow()
    }

    /// Resolves when the consensus ends, after a fault or by `shutdown`. The process must then end, because the replica accepts no more
    /// commands. Works on any executor.
    pub fn ended(&self) -> impl Future<Output = Ended> + Send + 'static {
        let (mut metrics, guard) = (self.raft.metrics(), self.directory.guard());
        async move {
            loop {
                let state = metrics.borrow_watched().running_state.clone();
                if let Err(fatal) = state {
                    return ended(&guard, &fatal);
                }
                if metrics.changed().await.is_err() {
                    return ended(&guard, &Fatal::Stopped);
                }
            }
        }
    }

    /// Calls `reported` once the consensus has ended, after a fault or by `shutdown`.
    pub fn on_end(&self, reported: impl FnOnce(Ended) + Send + 'static) {
        let ended = self.ended();
        self.handle().spawn(async move { reported(ended.await) });
    }

    /// Writes a copy of the state as one file, readable by its owner only, complete or not at all. Blocks.
    ///
    /// # Errors
    /// When the copy cannot be written.
    pub fn backup(&self, copy: &Path) -> Result<(), Fault> {
        copy_into(&self.directory.state(), copy).map(drop)
    }

    /// Writes a snapshot and cuts the log, before the usual time.
    ///
    /// # Errors
    /// When the consensus has ended.
    pub fn compact(&self) -> Result<(), Ended> {
        let raft = self.raft.clone();
        self.handle()
            .block_on(async move { raft.trigger().snapshot().await })
            .map_err(|fatal| Ended(words(&fatal)))
    }

    /// Ends the replica. Pending proposals finish or fail. Blocks.
    pub fn shutdown(mut self) {
        if let Some(runtime) = self.runtime.take() {
            // An error means that it has already ended.
            let _ = runtime.block_on(self.raft.shutdown());
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }

    /// Answers a message from the node `from` to the node `to`, both by number. The carrier knows the number of the sender by the identity
    /// of the connection. Blocks.
    ///
    /// # Errors
    /// The message is for another number, concerns another node than `from`, or is invalid; or the consensus has ended.
    pub fn answer(&self, from: u64, to: u64, kind: &str, message: &[u8]) -> io::Result<Vec<u8>> {
        let own = self.options.voter;
        // A node that left and joined again has the address of its earlier number, but not that number's data.
        if to != own {
            let what =
                format!("the message is for node number {to}, but this node is number {own}");
            return Err(io::Error::new(io::ErrorKind::NotConnected, what));
        }
        self.options.gate.check_message()?;
        self.readiness.contacted(from);
        self.handle().block_on(async {
            if let Some(answer) = self.receiver.answer(&self.raft, from, kind, message).await {
                // A leader without a majority may have missed all that another one decided.
                let is_led = kind == APPEND && answer.is_ok() && !is_marked(message);
                if is_led {
                    self.readiness.led();
                }
                return answer;
            }
            propose::answer(self, from, kind, message).await
        })
    }

    fn handle(&self) -> &Handle {
        self.runtime
            .as_ref()
            .expect("the runtime is taken only when the replica ends")
            .handle()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn start(
    options: &Options,
    network: Network,
    log: Log,
    machine: Machine,
) -> Result<Raft, String> {
    let config = Config {
        cluster_name: "godwit".to_owned(),
        heartbeat_interval: 250,
        election_timeout_min: 1_000,
        election_timeout_max: 2_000,
        max_payload_entries: 64,
        enable_pre_vote: Some(true),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(SNAPSHOT_EVERY),
        max_in_snapshot_log_to_keep: LOG_KEPT,
        purge_batch_size: 256,
        api_channel_size: Some(PROPOSALS_MAX as u64),
        ..Config::default()
    };
    let config = Arc::new(config.validate().map_err(|error| error.to_string())?);
    let (_, last) = log.ends().map_err(|error| error.to_string())?;
    let majority = network.majority();
    let raft = Raft::new(options.voter, config, network, log, machine)
        .await
        .map_err(|error| error.to_string())?;
    let metrics = raft.metrics();
    majority.judge_by(move || readiness::leads_without_majority(&metrics.borrow_watched()));
    let new = !raft
        .is_initialized()
        .await
        .map_err(|error| error.to_string())?;
    if new && options.joins {
        return Ok(raft);
    }
    if new {
        let node = BasicNode::new(&options.address);
        raft.initialize(BTreeMap::from([(options.voter, node)]))
            .await
            .map_err(|error| error.to_string())?;
    }
    let voters: Vec<u64> = raft.voter_ids().collect();
    let alone = voters.iter().all(|voter| *voter == options.voter);
    if !alone || (voters.is_empty() && options.joins) {
        return Ok(raft);
    }
    // The only voter need not wait for messages from others.
    if !new {
        raft.trigger()
            .elect(false)
            .await
            .map_err(|error| error.to_string())?;
    }
    raft.wait(Some(READY_WITHIN))
        .metrics(
            |metrics| {
                metrics.state.is_leader()
                    && metrics.last_applied.is_some()
                    && metrics.last_applied >= last
            },
            "the log is applied",
        )
        .await
        .map_err(|error| error.to_string())?;
    Ok(raft)
}

/// The fault of a file is more precise than the error of the consensus.
fn ended(guard: &Guard, fatal: &Fatal<Types>) -> Ended {
    Ended(guard.fault().map_or_else(|| words(fatal), str::to_owned))
}

/// The library's last error in words for an operator.
fn words(fatal: &Fatal<Types>) -> String {
    match fatal {
        Fatal::StorageError(error) => format!("the log or the state cannot be written: {error}"),
        Fatal::Panicked => {
            "internal error: the consensus has panicked (see the log above); please report it, and start the node again".to_owned()
        }
        Fatal::Stopped => "the node is stopping".to_owned(),
    }
}
