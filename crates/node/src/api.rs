//! Joins the REST API of a node to its plan: socket, certificate, and the description of the node.
//! Serves nothing itself.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use godwit_api::settings::{ServeSettings, SettingWithOrigin};
use godwit_client::NodeAddress;
use godwit_cluster::Cluster;
use godwit_data_port::Export;
use godwit_jobs::Jobs;
use godwit_net::Identity;
use godwit_web::{
    ChangePace, ExportInfo, NodeInfo, PUSH_EVERY, Patience, UNREAD_MAX, Web, WebConfig,
};

use crate::log;
use crate::outlet::complain;
use crate::plan::Plan;
use crate::pool::Pool;
use godwit_api::failure::Failure;
use godwit_run::{Home, Process, Received};

/// The parts of the node that the API shows.
pub(crate) struct Shown<'a> {
    jobs: &'a Jobs,
    cluster: &'a Cluster,
    received: Received,
    pool: &'a Pool,
}

impl<'a> Shown<'a> {
    pub(crate) fn new(
        jobs: &'a Jobs,
        cluster: &'a Cluster,
        process: &Process,
        pool: &'a Pool,
    ) -> Self {
        Self {
            pool,
            jobs,
            cluster,
            received: process.received.clone(),
        }
    }
}

/// Serves the API from now on.
pub(crate) fn start(
    settings: &ServeSettings,
    plan: &Plan,
    with_origins: Vec<SettingWithOrigin>,
    shown: Shown<'_>,
    home: &Home,
    identity: &Identity,
) -> Result<Web, Failure> {
    let export = |export: &Export| ExportInfo {
        name: export.name.clone(),
        room: {
            let export = export.clone();
            Arc::new(move || export.room())
        },
    };
    let Shown {
        jobs,
        cluster,
        received,
        pool,
    } = shown;
    let config = WebConfig {
        jobs: jobs.clone(),
        cluster: Some(cluster.clone()),
        node: NodeInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: cluster.node().to_owned(),
            identity: identity.id().to_string(),
            exports: plan.exports.iter().map(export).collect(),
            settings: with_origins,
            received: Arc::new(move || received.bytes()),
            buffer: pool.control(),
            mates: Some(pool.mates()),
        },
        socket: plan.socket.clone(),
        manage: plan.manage.clone(),
        certificate: plan.certificate.clone(),
        unread_max: UNREAD_MAX,
        patience: Patience::default(),
        pace: ChangePace::default(),
        webhook_networks: plan.webhook_networks.clone(),
        graphite: settings.graphite.as_ref().map(ToString::to_string),
        graphite_every: PUSH_EVERY,
        log: Arc::new(log::line),
    };
    let web = Web::start(config).map_err(Failure::local)?;
    lead_to(&plan.socket, home);
    Ok(web)
}

/// Lets commands that know the home find a socket that lies elsewhere.
fn lead_to(socket: &Path, home: &Home) {
    let usual = NodeAddress::socket_of(home.path());
    if usual == socket {
        return;
    }
    let made = || -> std::io::Result<()> {
        if let Some(directory) = usual.parent() {
            // The node has no umask.
            DirBuilder::new()
                .recursive(true)
                .mode(0o711)
                .create(directory)?;
        }
        match std::fs::remove_file(&usual) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::os::unix::fs::symlink(socket, &usual)
    };
    if let Err(error) = made() {
        complain(&format!(
            "{}: {error}; commands find the node by GODWIT_SOCKET={}",
            usual.display(),
            socket.display()
        ));
    }
}
