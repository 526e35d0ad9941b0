//! Owns the configuration that the server starts with.
//! Starts nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use godwit_api::ask::{BufferAnswer, BufferQuestion};
use godwit_api::rest::{BufferChanged, BufferFiles, BufferView};
use godwit_api::settings::SettingWithOrigin;
use godwit_api::watched::Room;
use godwit_cluster::Cluster;
use godwit_jobs::Jobs;

use crate::tls::CertificateSource;
use crate::webhooks::address::Network;

/// How long a client may leave an answer unread. A page in the background still reads, and a bad path usually recovers within this time.
pub const UNREAD_MAX: Duration = Duration::from_secs(30);

/// How long a connection may stay open if it sends no request, or if its client has proven no user.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// From the start of a connection to its first request.
    pub first_request: Duration,
    /// Between two requests of a connection that has not proven a user.
    pub stranger_idle: Duration,
    /// Between two requests of a connection that has proven a user.
    pub idle: Duration,
    /// Longest life of a connection that proves no user, whatever it requests.
    pub stranger: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first_request: Duration::from_secs(10),
            stranger_idle: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            stranger: Duration::from_secs(120),
        }
    }
}

/// Rates at which one credential may make changes and sign in. Its user may make a quarter more changes with all credentials.
#[derive(Clone, Copy, Debug)]
pub struct ChangePace {
    /// Burst of changing requests by one token and its derivatives.
    pub changes: u32,
    /// Interval between further changes.
    pub change_each: Duration,
    /// Burst of sessions and log-ins by one password, or by one token and its derivatives.
    pub sign_ins: u32,
    /// Interval between further sign-ins.
    pub sign_in_each: Duration,
}

impl Default for ChangePace {
    fn default() -> Self {
        Self {
            // As many as one owner may have waiting jobs.
            changes: 5_000,
            change_each: Duration::from_millis(100),
            // More than a day's use by scripts that sign in for each command.
            sign_ins: 1_000,
            sign_in_each: Duration::from_secs(1),
        }
    }
}

/// Configuration that the server starts with.
pub struct WebConfig {
    /// The jobs of the node, and by them its state.
    pub jobs: Jobs,
    /// The cluster of the node; None where there is none.
    pub cluster: Option<Cluster>,
    /// Description of the node.
    pub node: NodeInfo,
    /// Where the Unix socket is made; its directory is made where it is missing.
    pub socket: PathBuf,
    /// Addresses that serve the API by HTTPS, beside connections passed to [`Web::take`](crate::Web::take). Port 0 takes any free port.
    pub manage: Vec<SocketAddr>,
    /// Which certificate connections of the network see.
    pub certificate: CertificateSource,
    /// How long a client may leave an answer unread; usually [`UNREAD_MAX`].
    pub unread_max: Duration,
    /// How long an idle connection may stay open.
    pub patience: Patience,
    /// How often one user may change something. Only tests set another pace.
    pub pace: ChangePace,
    /// Networks beside the Internet that webhooks may be sent to.
    pub webhook_networks: Vec<Network>,
    /// Graphite receiver of the figures, as `HOST:PORT`; with None no figures are sent.
    pub graphite: Option<String>,
    /// How often the figures are sent; usually [`PUSH_EVERY`](crate::PUSH_EVERY).
    pub graphite_every: Duration,
    /// Log sink; called with one line at a time.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Description of the node.
#[derive(Clone)]
pub struct NodeInfo {
    /// Version of the program.
    pub version: String,
    /// Its name in the cluster.
    pub name: String,
    /// Identity that the node proves on data connections.
    pub identity: String,
    /// Its exports.
    pub exports: Vec<ExportInfo>,
    /// Its settings.
    pub settings: Vec<SettingWithOrigin>,
    /// Bytes that transfers of peers wrote here since the start of the node.
    pub received: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// The transfer buffer of this node, if there is one.
    pub buffer: Option<Arc<dyn BufferControl>>,
    /// The buffers of the other nodes of its cluster; None where there is no cluster.
    pub mates: Option<Arc<dyn BufferMates>>,
}

/// The buffers of the other nodes of a cluster. Their nodes act on the word of this one, so the caller has checked the rights of the user.
pub trait BufferMates: Send + Sync {
    /// Asks all of them at once, and waits a moment. Returns the answer of each by its name, or the reason why there is none.
    fn ask(&self, question: &BufferQuestion) -> Vec<(String, Result<BufferAnswer, String>)>;
}

/// The transfer buffer of a node, as users see and change it. Its caller has checked their rights.
pub trait BufferControl: Send + Sync {
    /// Its figures, with the places of its volumes.
    fn view(&self) -> BufferView;

    /// The files at and below a path of an export, behind the path `after`.
    fn files(&self, export: &str, below: &[u8], after: Option<&[u8]>, most: usize) -> BufferFiles;

    /// Sets how long the files at and below a path stay; `None` is without end.
    fn keep(&self, export: &str, below: &[u8], time: Option<Duration>) -> BufferChanged;

    /// The files at and below a path of an export that have arrived, and are not there yet.
    fn waiting(&self, export: &str, below: &[u8], after: Option<&[u8]>, most: usize)
    -> BufferFiles;

    /// Tries those files again now.
    fn retry(&self, export: &str, below: &[u8]) -> BufferChanged;

    /// Gives up the waiting files at and below a path. Files that are on their way to the export now count as refused.
    fn give_up(&self, export: &str, below: &[u8]) -> BufferChanged;

    /// Removes files at and below a path from the buffer, if slow storage has them.
    fn drop_files(&self, export: &str, below: &[u8]) -> BufferChanged;
}

/// An export of the node.
#[derive(Clone)]
pub struct ExportInfo {
    /// Name of the export.
    pub name: String,
    /// The free space of its file system at the latest check; blocks before the first one.
    pub room: Arc<dyn Fn() -> Option<Room> + Send + Sync>,
}
