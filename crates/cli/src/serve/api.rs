//! Joins the REST API of a node to its home: socket, certificate, and what is told of the node.
//! Serves nothing itself.

use std::sync::Arc;

use godwit_api::settings::{ServeSettings, ToldSetting};
use godwit_jobs::Jobs;
use godwit_net::Identity;
use godwit_node::Export;
use godwit_web::{CertificateSource, ExportInfo, Network, NodeInfo, UNREAD_MAX, Web, WebConfig};

use crate::exit::Failure;
use crate::home::Home;
use crate::output::complain;

/// Serves the API from now on.
pub(super) fn start(
    settings: &ServeSettings,
    told: Vec<ToldSetting>,
    jobs: &Jobs,
    home: &Home,
    exports: &[Export],
    identity: &Identity,
) -> Result<Web, Failure> {
    let export = |export: &Export| ExportInfo {
        name: export.name.clone(),
        path: export.path.clone(),
    };
    let mut webhook_networks = Vec::with_capacity(settings.webhook_networks.len());
    for text in &settings.webhook_networks {
        let network = text.parse::<Network>();
        webhook_networks.push(
            network
                .map_err(|error| Failure::usage(format!("--webhook-network {text}: {error}")))?,
        );
    }
    let config = WebConfig {
        jobs: jobs.clone(),
        node: NodeInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            identity: identity.id().to_string(),
            exports: exports.iter().map(export).collect(),
            settings: told,
        },
        socket: home.path().join("run").join("node.sock"),
        certificate: CertificateSource::Own {
            directory: home.path().join("web"),
            names: vec![
                "localhost".to_owned(),
                "127.0.0.1".to_owned(),
                "::1".to_owned(),
            ],
        },
        unread_max: UNREAD_MAX,
        webhook_networks,
        log: Arc::new(complain),
    };
    Web::start(config).map_err(Failure::local)
}
