//! Owns data ports of tests: their homes, exports and limits, and the trust between a client and a node. Starts no transfer.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use godwit_api::grant::Grant;
use godwit_api::watched::Watched;
use godwit_data_port::{Announce, Daemon, DaemonConfig, Export, ExportBounds, Grants};
use godwit_engine::limits;
use godwit_engine::tuner::Bounds;
use godwit_net::{Cipher, Identity, IdentityId, KnownPeers, PeerAddress, ServerTls};
use godwit_run::{Home, Process};

use crate::DEADLINE;

/// An export without extra rights.
#[must_use]
pub fn export(name: &str, path: &Path) -> Export {
    Export {
        name: name.to_owned(),
        path: path.to_owned(),
        set_id: false,
        owner: false,
        security_xattrs: false,
        devices: false,
        require_mount: false,
        watched: Watched::default(),
        arrivals: None,
        bounds: ExportBounds::default(),
    }
}

/// Makes the home of a node, and grants a peer these rights to all exports. Gives the identity of the node.
///
/// # Panics
/// The home cannot be made, or the rights have no such form.
#[must_use]
pub fn node_home(home: &Path, peer: &str, rights: &str) -> Identity {
    Home::at(home.to_owned()).make().expect("made");
    for name in ["journals", "spill"] {
        fs::create_dir_all(home.join(name)).expect("made");
    }
    let grant = Grant::of_words(&[peer, "*", rights]).expect("a grant");
    Grants::new(home).add(&grant).expect("granted");
    Identity::load_or_create(home).expect("a key")
}

/// A data port at any free port of this machine, with ample limits. It runs no jobs and has no cluster.
///
/// # Panics
/// The identity makes no certificate.
#[must_use]
pub fn data_port(home: &Path, identity: &Identity, exports: Vec<Export>) -> DaemonConfig {
    DaemonConfig {
        process: Process::default(),
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        announce: Announce::None,
        exports,
        home: home.to_owned(),
        rules: Arc::new(|| Ok(Arc::default())),
        tls: ServerTls::new(identity, &Cipher::ALL).expect("TLS"),
        plain_allowed: false,
        handshake_deadline: DEADLINE,
        connections_per_peer: 1024,
        connections_max: 1024,
        transfers_per_peer: 64,
        transfers_max: 64,
        stall_limit: DEADLINE,
        pool_bytes: limits::POOL_BYTES,
        readers: Bounds { least: 0, most: 4 },
        writers: Bounds { least: 0, most: 4 },
        keep_for: DEADLINE,
        claims: Arc::default(),
        jobs: None,
        cluster: None,
        buffer: None,
        web: None,
        tells: Arc::new(|_| {}),
        log: Arc::new(|_| {}),
    }
}

/// Lets clients with this home trust a node.
///
/// # Panics
/// The home cannot be written.
pub fn trust(home: &Path, node: &Daemon, identity: IdentityId) {
    let address = node.addresses()[0];
    let address = PeerAddress::new(&address.ip().to_string(), address.port());
    KnownPeers::new(home)
        .trust(&address, identity)
        .expect("trusted");
}
