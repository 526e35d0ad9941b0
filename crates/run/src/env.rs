//! Owns what a process provides to its jobs: places, streams, and connections to other machines. Contains no settings; those are in
//! the description of the job.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use godwit_api::failure::Failure;
use godwit_api::grant::Mandate;
use godwit_api::login::Login;
use godwit_buffer::service::Buffer;
use godwit_engine::Fence;
use godwit_engine::governor::Governor;
use godwit_engine::names::ListBytes;
use godwit_engine::session::{Connector, Refusal};
use godwit_net::{ChannelWish, ClientTls, IdentityId, PeerAddress};
use godwit_store::Syncs;
use godwit_tree::Earlier;
use godwit_tree::shared::Seat;

use crate::Home;
use crate::local::ExportedFiles;
use crate::received::Received;

/// Name and version of this program, for messages.
pub const SOFTWARE: &str = concat!("godwit ", env!("CARGO_PKG_VERSION"));

/// The beginning of the message about two machines that cannot reach each other.
pub const UNREACHABLE: &str = "no data connection to";

/// State shared by all transfers of a process. Clones are handles of the same state.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Divides memory, threads and open files.
    pub governor: Governor,
    /// The syncs of whole file systems.
    pub syncs: Syncs,
    /// Bytes that transfers of peers wrote.
    pub received: Received,
    /// The transfer buffer, if there is one.
    pub buffer: Option<Buffer>,
}

impl Process {
    /// The same process with a governor that grants `pool_bytes` of blocks to a transfer that runs alone.
    #[must_use]
    pub fn with_pool(pool_bytes: u64) -> Self {
        Self {
            governor: Governor::here(pool_bytes),
            ..Self::default()
        }
    }
}

/// The process's provisions for a job. Several jobs may share one.
pub struct Env {
    /// State shared by all jobs of the process.
    pub process: Process,
    /// Directory of keys, known peers, journals and spilled data.
    pub home: Home,
    /// The base of relative paths; `None` means the working directory of the process.
    pub base: Option<PathBuf>,
    /// Resolves local paths in exports, outside of which the job may use no files of this machine; `None` if the job may use all
    /// files of the user.
    pub exports: Option<Arc<dyn ExportedFiles>>,
    /// The file mode bits that reports must not have. The mask of the process itself is cleared.
    pub umask: u32,
    /// The time zero of the seconds in events.
    pub started: Instant,
    /// Whether processor time and peak memory of the process belong to this job alone, because the process runs no other job.
    pub alone: bool,
    /// The connection that opens a transfer is retried like any other.
    pub retries_first: bool,
    /// Connectors to other machines.
    pub connectors: Arc<dyn Connectors>,
    /// Standard input, for a job with the source `-`.
    pub input: Option<OwnedFd>,
    /// Standard output, for a job with the destination `-`.
    pub output: Option<OwnedFd>,
    /// The list of names, for a job whose selection has one.
    pub list: Option<NameList>,
    /// Other files that are neither sent nor deleted, each with its name in messages.
    pub kept_out: Vec<(String, PathBuf)>,
    /// Details of the events, for a receiver that writes reports.
    pub tells: Option<EventDetail>,
    /// A name for the purpose of this transfer, such as the id of a job, for the log of the other side.
    pub label: Option<String>,
    /// The job of another node that this transfer serves. The other side admits the transfer only by the access of that job.
    pub mandate: Option<Mandate>,
    /// The asker may not list the destination here, so messages contain only names of the source.
    pub hides_names: bool,
    /// The asker may not read the destination, so a hard link is made only to a file that the source also has.
    pub hides_contents: bool,
    /// The record that all attempts of one job share, if several runners may make attempts.
    pub attempts: Option<Arc<dyn Attempts>>,
    /// The place of this job at reads that it shares with other jobs of the same local sources.
    pub seat: Option<Seat>,
}

/// The record that all attempts of one job share. Each attempt may run on another machine, with other journals.
pub trait Attempts: Send + Sync {
    /// The results of earlier attempts.
    fn earlier(&self) -> Earlier;

    /// Called before this attempt writes to its destination. With `into`, sources go into the destination; otherwise the only source
    /// becomes it. `tag` marks temporary files.
    fn placed(&self, into: bool, tag: u64);

    /// The identities of the other nodes that may take over the job.
    fn heirs(&self) -> Vec<String> {
        Vec::new()
    }

    /// The fence that decides whether this attempt may still write to a local destination or send to another one, if that permission
    /// can end.
    fn fence(&self) -> Option<Arc<dyn Fence>> {
        None
    }
}

/// A list of names for a job.
#[derive(Clone)]
pub struct NameList {
    /// The contents of the list.
    pub bytes: Arc<dyn ListBytes>,
    /// Device and inode of the list, if the list is a file.
    pub file: Option<(u64, u64)>,
}

impl NameList {
    /// A list in memory: each name followed by a zero byte.
    #[must_use]
    pub fn in_memory(names: Vec<u8>) -> Self {
        Self {
            bytes: Arc::new(Memory(names)),
            file: None,
        }
    }
}

struct Memory(Vec<u8>);

impl ListBytes for Memory {
    fn read_at(
        &self,
        offset: u64,
        buffer: &mut [u8],
        _: Duration,
    ) -> std::io::Result<Option<usize>> {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.0.get(offset..));
        let rest = rest.unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(Some(count))
    }
}

/// Details that the events carry for reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventDetail {
    /// Whether to report the manifest line of each complete entry.
    pub entries: bool,
    /// Whether to report each failed entry by its name below the source.
    pub faults: bool,
}

/// Connections to other machines, and questions to the user.
pub trait Connectors: Send + Sync {
    /// The connections of a transfer to an agent that is started by ssh.
    ///
    /// # Errors
    /// The request is contradictory.
    fn by_ssh(&self, way: SshTarget<'_>, client: SshClient) -> Result<Arc<dyn Connector>, Failure>;

    /// Starts an agent by ssh that works with another agent.
    ///
    /// # Errors
    /// No agent could be started.
    fn start_agent(&self, way: SshTarget<'_>, order: &AgentOrder) -> Result<StartedAgent, Refusal>;

    /// The required identity of the node at this address, independent of the known peers; `None` if the known peers decide.
    ///
    /// # Errors
    /// The job may not use that address.
    fn pinned(&self, _address: &PeerAddress) -> Result<Option<IdentityId>, Failure> {
        Ok(None)
    }

    /// Whether to trust an unknown node from now on. Without a user to ask, returns false.
    ///
    /// # Errors
    /// The user cannot be asked.
    fn trusts(&self, address: &PeerAddress, found: &IdentityId) -> Result<bool, Failure>;
}

/// The ssh connection to a machine.
pub struct SshTarget<'a> {
    /// The machine and the user.
    pub login: &'a Login,
    /// The remote shell program, with its options.
    pub rsh: &'a OsStr,
    /// Name of this program on the other machine.
    pub remote_command: &'a OsStr,
    /// Whether to copy this program to a machine that lacks it.
    pub install_remote: bool,
    /// The first and the last port for data connections besides ssh; `None` means any.
    pub data_ports: Option<(u16, u16)>,
    /// The only network paths for data; empty for all that are found.
    pub channels: Vec<ChannelWish>,
    /// Whether all data must go through ssh.
    pub via_ssh: bool,
    /// How long to retry after a lost connection.
    pub retry_for: Duration,
    /// Deadline for dialling, TLS and hello together.
    pub handshake_deadline: Duration,
    /// How long a connection may move no bytes.
    pub stall_deadline: Duration,
    /// Set when the job is cancelled.
    pub cancelled: Arc<AtomicBool>,
}

/// The client of a machine reached by ssh.
pub struct SshClient {
    /// The name of the transfer's sender in the key of a journal.
    pub sender: String,
    /// The identity of `tls`, created for this transfer alone.
    pub identity: IdentityId,
    /// TLS with the key of `identity`.
    pub tls: ClientTls,
}

/// The instructions for a started agent.
#[derive(Clone, Debug)]
pub struct AgentOrder {
    /// The identity of the client that will connect; `None` if the agent is to be the client.
    pub client: Option<IdentityId>,
    /// The name of the transfer's sender in the key of a journal.
    pub sender: String,
    /// Addresses on which the client listens.
    pub targets: Vec<SocketAddr>,
}

/// An agent that runs.
pub struct StartedAgent {
    /// The ssh process of the agent.
    pub process: Arc<dyn AgentProcess>,
    /// The socket to the agent through ssh.
    pub socket: UnixStream,
    /// The identity of the agent.
    pub identity: IdentityId,
    /// Addresses of the agent, the likeliest first.
    pub targets: Vec<SocketAddr>,
    /// The capabilities of the agent.
    pub capabilities: u64,
}

/// The ssh process of an agent; dropping it ends the agent.
pub trait AgentProcess: Send + Sync {
    /// The exit status, if the process has ended.
    fn ended(&self) -> Option<ExitStatus>;

    /// Waits until the process ends, at most `timeout`.
    fn wait(&self, timeout: Duration) -> Option<ExitStatus>;
}

impl Env {
    /// The provisions of a process that runs one job for a user: all files of that user, no streams, no list, and a separate
    /// governor. Fields that differ are set beside it.
    #[must_use]
    pub fn new(home: Home, connectors: Arc<dyn Connectors>) -> Self {
        Self {
            process: Process::default(),
            home,
            base: None,
            exports: None,
            umask: 0,
            started: Instant::now(),
            alone: false,
            retries_first: false,
            connectors,
            input: None,
            output: None,
            list: None,
            kept_out: Vec::new(),
            tells: None,
            label: None,
            mandate: None,
            hides_names: false,
            hides_contents: false,
            attempts: None,
            seat: None,
        }
    }

    /// The job of another node, in the form of an OPEN.
    pub(crate) fn wire_mandate(&self) -> Option<godwit_proto::Mandate> {
        self.mandate.as_ref().map(|mandate| godwit_proto::Mandate {
            asker: mandate.asker.clone(),
            job: mandate.job.clone(),
        })
    }

    /// The path relative to the base, if it is relative.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> PathBuf {
        match &self.base {
            Some(base) => base.join(path),
            None => path.to_owned(),
        }
    }
}
