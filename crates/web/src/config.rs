//! Owns what the server is told at its beginning.
//! Starts nothing.

use std::path::PathBuf;
use std::sync::Arc;

use godwit_jobs::Jobs;

use crate::tls::CertificateSource;

/// What the server is told at its beginning.
pub struct WebConfig {
    /// The jobs of the node, and by them its state.
    pub jobs: Jobs,
    /// What is told of the node.
    pub node: NodeInfo,
    /// Where the Unix socket is made; its directory is made where it is missing.
    pub socket: PathBuf,
    /// Which certificate connections of the network see.
    pub certificate: CertificateSource,
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
}

/// An export of the node.
#[derive(Clone, Debug)]
pub struct ExportInfo {
    /// Name of the export.
    pub name: String,
    /// Its directory, which no answer shows.
    pub path: PathBuf,
}
