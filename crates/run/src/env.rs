//! Everything that a process gives to its jobs: places, streams, and paths to other machines.
//! Holds no settings; those are in the description of the job.

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
use godwit_engine::governor::Governor;
use godwit_engine::names::ListBytes;
use godwit_engine::session::{Connector, Refusal};
use godwit_net::{ChannelWish, ClientTls, IdentityId, PeerAddress};
use godwit_store::Syncs;
use godwit_tree::{Earlier, Fence};

use crate::Home;
use crate::local::ExportedFiles;

/// Name and version of this program, for messages.
pub const SOFTWARE: &str = concat!("godwit ", env!("CARGO_PKG_VERSION"));

/// The beginning of the message on two machines that cannot reach each other.
pub const UNREACHABLE: &str = "no connection for data to";

/// State shared by all transfers of a process. Clones are handles of the same state.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Divides memory, threads and open files.
    pub governor: Governor,
    /// The syncs of whole file systems.
    pub syncs: Syncs,
}

impl Process {
    /// The same with a governor under which one transfer alone gets `pool_bytes` for its blocks.
    #[must_use]
    pub fn with_pool(pool_bytes: u64) -> Self {
        Self {
            governor: Governor::here(pool_bytes),
            ..Self::default()
        }
    }
}

/// Everything that a process gives to a job. Several jobs may share one.
pub struct Env {
    /// The same for every job of the process.
    pub process: Process,
    /// Keys, known peers, journals and what memory shall not hold.
    pub home: Home,
    /// Relative paths are relative to this directory; `None` means the working directory of the process.
    pub base: Option<PathBuf>,
    /// Local paths are those of exports, and nothing else of this machine; `None` leaves all files of the user to the job.
    pub exports: Option<Arc<dyn ExportedFiles>>,
    /// The file mode bits that reports do not get. The mask of the process itself is cleared.
    pub umask: u32,
    /// When the seconds of events begin.
    pub started: Instant,
    /// Processor time and peak memory of the process are those of this job, for it runs no other.
    pub alone: bool,
    /// The connection that opens a transfer is retried like any other.
    pub retries_first: bool,
    /// Ways to other machines.
    pub connectors: Arc<dyn Connectors>,
    /// Standard input, for a job with the source `-`.
    pub input: Option<OwnedFd>,
    /// Standard output, for a job with the destination `-`.
    pub output: Option<OwnedFd>,
    /// The list of names, for a job whose selection has one.
    pub list: Option<GivenList>,
    /// Further files that are neither sent nor deleted, each with its name in messages.
    pub kept_out: Vec<(String, PathBuf)>,
    /// Details of the events, for a receiver that writes reports.
    pub tells: Option<EventDetail>,
    /// A name for the purpose of this transfer, such as the id of a job. The other side writes the name into its log.
    pub label: Option<String>,
    /// The job of another node that this is done for. The other side admits it by the access of that job, and by nothing else.
    pub mandate: Option<Mandate>,
    /// The asker may not list the destination here: no message has a name that the source does not have.
    pub hides_names: bool,
    /// The asker may not read the destination: a further name is made only of a file that the source has, too.
    pub hides_contents: bool,
    /// The memory that all attempts of one job share, if several runners may make attempts.
    pub attempts: Option<Arc<dyn Attempts>>,
}

/// The shared memory of all attempts of one job. Each attempt may run on another machine, with other journals.
pub trait Attempts: Send + Sync {
    /// The findings of earlier attempts.
    fn earlier(&self) -> Earlier;

    /// Called before this attempt writes to its destination. With `into`, sources go into the destination; otherwise the only source
    /// becomes it. `tag` marks temporary files.
    fn placed(&self, into: bool, tag: u64);

    /// Tells whether this attempt may still write to a destination here, if that ends.
    fn fence(&self) -> Option<Arc<dyn Fence>> {
        None
    }
}

/// A list of names beside a job.
#[derive(Clone)]
pub struct GivenList {
    /// Its contents.
    pub bytes: Arc<dyn ListBytes>,
    /// Device and inode of the file that it is, if it is a file.
    pub file: Option<(u64, u64)>,
}

impl GivenList {
    /// A list in memory: each name with a zero byte behind it.
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
    /// The line that each complete entry has in a manifest.
    pub entries: bool,
    /// Each failed entry by its name below the source.
    pub faults: bool,
}

/// Ways to other machines, and the user who may be asked.
pub trait Connectors: Send + Sync {
    /// The connections of a transfer with an agent that is started by ssh.
    ///
    /// # Errors
    /// What was asked for makes no sense.
    fn by_ssh(&self, way: SshWay<'_>, client: SshClient) -> Result<Arc<dyn Connector>, Failure>;

    /// Starts an agent by ssh that has to do with another agent.
    ///
    /// # Errors
    /// There is no agent.
    fn start_agent(&self, way: SshWay<'_>, order: &AgentOrder) -> Result<StartedAgent, Refusal>;

    /// The required identity of the node at this address, whatever the known peers say; None leaves the choice to the known peers.
    ///
    /// # Errors
    /// The job has nothing to do with that address.
    fn pinned(&self, _address: &PeerAddress) -> Result<Option<IdentityId>, Failure> {
        Ok(None)
    }

    /// Returns whether to trust an unknown node from now on. Without a user to ask, the answer is no.
    ///
    /// # Errors
    /// The user cannot be asked.
    fn trusts(&self, address: &PeerAddress, found: &IdentityId) -> Result<bool, Failure>;
}

/// How a machine is reached by ssh.
pub struct SshWay<'a> {
    /// Which machine, as whom.
    pub login: &'a Login,
    /// The remote shell program, with its options.
    pub rsh: &'a OsStr,
    /// How this program is called there.
    pub remote_command: &'a OsStr,
    /// The first and the last port for data beside ssh; `None` is any.
    pub data_ports: Option<(u16, u16)>,
    /// The only network paths for data; none means all that are found.
    pub channels: Vec<ChannelWish>,
    /// No data beside ssh.
    pub via_ssh: bool,
    /// For a connection that was lost.
    pub retry_for: Duration,
    /// For dialling, TLS and hello together.
    pub handshake_deadline: Duration,
    /// Without a byte moving.
    pub stall_deadline: Duration,
    /// Set when the job is cancelled.
    pub cancelled: Arc<AtomicBool>,
}

/// The client of a machine reached by ssh.
pub struct SshClient {
    /// The name of the transfer's sender in the key of a journal.
    pub sender: String,
    /// The identity of `tls`, made for this transfer alone.
    pub identity: IdentityId,
    /// Its key.
    pub tls: ClientTls,
}

/// The order for a started agent.
#[derive(Clone, Debug)]
pub struct AgentOrder {
    /// The identity of the client that will connect; `None` if the agent is to be the client.
    pub client: Option<IdentityId>,
    /// The name of the transfer's sender in the key of a journal.
    pub sender: String,
    /// Where the client listens.
    pub targets: Vec<SocketAddr>,
}

/// An agent that runs.
pub struct StartedAgent {
    /// Its ssh.
    pub process: Arc<dyn AgentProcess>,
    /// The socket that ssh carries.
    pub socket: UnixStream,
    /// The identity of the agent.
    pub identity: IdentityId,
    /// Where it may be reached, the likeliest first.
    pub targets: Vec<SocketAddr>,
    /// The capabilities of the agent.
    pub capabilities: u64,
}

/// The ssh of an agent. Ends the agent when dropped.
pub trait AgentProcess: Send + Sync {
    /// How it ended, if it has.
    fn ended(&self) -> Option<ExitStatus>;

    /// Waits until it ends, at most this long.
    fn wait(&self, timeout: Duration) -> Option<ExitStatus>;
}

impl Env {
    /// The job of another node as an OPEN names it.
    pub(crate) fn wire_mandate(&self) -> Option<godwit_proto::Mandate> {
        self.mandate.as_ref().map(|mandate| godwit_proto::Mandate {
            asker: mandate.asker.clone(),
            job: mandate.job.clone(),
        })
    }

    /// The path as the process needs it.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> PathBuf {
        match &self.base {
            Some(base) => base.join(path),
            None => path.to_owned(),
        }
    }
}
