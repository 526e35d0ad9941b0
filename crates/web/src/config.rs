//! Owns what the server is told at its beginning.
//! Starts nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use godwit_api::settings::ToldSetting;
use godwit_api::watched::Watched;
use godwit_cluster::Cluster;
use godwit_jobs::Jobs;

use crate::tls::CertificateSource;
use crate::webhooks::address::Network;

/// How long a client may leave an answer unread: a page in the background reads, and a bad path is back within that time.
pub const UNREAD_MAX: Duration = Duration::from_secs(30);

/// How long connections may stay that do nothing, or whose client proves nothing.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// From the beginning of a connection until its first request is there.
    pub first_request: Duration,
    /// Between two requests of a connection that has not proven a user.
    pub stranger_idle: Duration,
    /// Between two requests of a connection that has.
    pub idle: Duration,
    /// For a connection that does not prove a user, whatever it asks.
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

/// How often one credential may change something, and its user a quarter more often; and how often one credential signs in.
#[derive(Clone, Copy, Debug)]
pub struct ChangePace {
    /// Requests in a row that may change something, by one token and those that came from it.
    pub changes: u32,
    /// After that one each so often.
    pub change_each: Duration,
    /// Sessions and log-ins in a row, by one password, or by one token and those that came from it.
    pub sign_ins: u32,
    /// After that one each so often.
    pub sign_in_each: Duration,
}

impl Default for ChangePace {
    fn default() -> Self {
        Self {
            // As many as there may be waiting jobs of one owner.
            changes: 5_000,
            change_each: Duration::from_millis(100),
            // More than scripts of a day that sign in once for each command of theirs.
            sign_ins: 1_000,
            sign_in_each: Duration::from_secs(1),
        }
    }
}

/// What the server is told at its beginning.
pub struct WebConfig {
    /// The jobs of the node, and by them its state.
    pub jobs: Jobs,
    /// The cluster of the node; None where there is none.
    pub cluster: Option<Cluster>,
    /// What is told of the node.
    pub node: NodeInfo,
    /// Where the Unix socket is made; its directory is made where it is missing.
    pub socket: PathBuf,
    /// Addresses that the API is served at by HTTPS beside what [`Web::take`](crate::Web::take) brings; port 0 takes any free one.
    pub manage: Vec<SocketAddr>,
    /// Which certificate connections of the network see.
    pub certificate: CertificateSource,
    /// How long a client may leave an answer unread; usually [`UNREAD_MAX`].
    pub unread_max: Duration,
    /// How long connections may stay that do nothing.
    pub patience: Patience,
    /// How often one user may change something; other than usual in tests alone.
    pub pace: ChangePace,
    /// Networks beside the Internet that webhooks may be sent to.
    pub webhook_networks: Vec<Network>,
    /// Where the figures are sent to Graphite, as `HOST:PORT`; None sends none.
    pub graphite: Option<String>,
    /// How often they are sent; usually [`PUSH_EVERY`](crate::PUSH_EVERY).
    pub graphite_every: Duration,
    /// Says what happens, a line each.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
}

/// What is told of the node.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// Version of the program.
    pub version: String,
    /// Identity that the node proves on data connections.
    pub identity: String,
    /// Its exports.
    pub exports: Vec<ExportInfo>,
    /// Its settings.
    pub settings: Vec<ToldSetting>,
}

/// An export of the node.
#[derive(Clone, Debug)]
pub struct ExportInfo {
    /// Name of the export.
    pub name: String,
    /// Its directory, which no answer shows.
    pub path: PathBuf,
    /// What is known of its file system.
    pub watched: Watched,
}
