//! Joins the jobs of a node to its settings: the state that they are kept in, and the surroundings of each attempt.
//! Decides nothing about jobs.

use std::sync::Arc;

use godwit_api::PORT_DEFAULT;
use godwit_api::ask::Peer;
use godwit_api::grant::{Grant, Mandate};
use godwit_api::host::HostPort;
use godwit_api::settings::ServeSettings;
use godwit_data_port::{ClaimTable, Export, Exported, Grants, StateRules};
use godwit_engine::session::{Connector, Refusal};
use godwit_jobs::{Clock, Jobs, JobsConfig, WAITING_OF_OWNER_MAX};
use godwit_net::{IdentityId, PeerAddress};
use godwit_run::{
    AgentOrder, Connectors, Env, Process, SshClient, SshTarget, StartedAgent, refusal_of,
};
use godwit_state::Site;

use crate::cluster::Opened;
use crate::log;
use crate::news::News;
use godwit_api::failure::Failure;
use godwit_run::Home;

/// File mode bits that files of the node beside the data do not get.
const UMASK: u32 = 0o077;

/// Starts the jobs of this node; due jobs run from now on.
pub(crate) fn start(
    settings: &ServeSettings,
    home: &Home,
    exports: &[Export],
    process: &Process,
    claims: &Arc<ClaimTable>,
    news: &News,
    opened: &Opened,
) -> Result<Jobs, Failure> {
    let exported = Exported::new(exports.to_vec(), home.spill()?, process.syncs.clone())
        .claiming(Arc::clone(claims));
    let exported: Arc<Exported> = Arc::new(exported);
    let own = home.clone();
    let process = process.clone();
    let served = Arc::clone(&exported);
    let make_env = move |sites: &[Site]| Env {
        process: process.clone(),
        exports: Some(exported.clone()),
        umask: UMASK,
        retries_first: true,
        ..Env::new(own.clone(), Arc::new(Sites(sites.to_vec())))
    };
    let config = JobsConfig {
        node: opened.cluster.node().to_owned(),
        directory: home.path().join("jobs"),
        exports: exports.iter().map(|export| export.name.clone()).collect(),
        file_grants: {
            let home = home.path().to_owned();
            Arc::new(move || Grants::new(&home).list().map_err(|error| error.to_string()))
        },
        machine_admins: godwit_web::machine_admins(),
        keep_history: settings.keep_history,
        jobs_max: settings.jobs as usize,
        waiting_of_owner_max: WAITING_OF_OWNER_MAX,
        clock: Clock::default(),
        sites: Arc::clone(&opened.sites),
        own: {
            let cluster = opened.cluster.clone();
            let identity = home.identity()?.id().to_string();
            Arc::new(move || {
                Some(Peer {
                    name: cluster.node().to_owned(),
                    addresses: cluster.addresses(),
                    identity: identity.clone(),
                })
            })
        },
        is_member: {
            let cluster = opened.cluster.clone();
            Arc::new(move |identity| cluster.has_member(identity))
        },
        exported: served,
        make_env: Arc::new(make_env),
        tells: news.news_sink(),
        log: Arc::new(log::line),
    };
    Jobs::start(config, Arc::clone(&opened.replica)).map_err(Failure::local)
}

/// The access rules of the node's state, for its data port.
pub(crate) struct Rules(pub(crate) Jobs);

impl StateRules for Rules {
    fn grants(&self) -> Result<Arc<Vec<Grant>>, String> {
        let rules = self.0.access().rules();
        rules.map_err(|error| error.to_string())
    }

    fn own_job(&self, peer: &str, mandate: &Mandate) -> Result<Option<bool>, String> {
        let own = self.0.access().own_job(peer, mandate);
        own.map_err(|error| error.to_string())
    }

    fn is_outdated(&self) -> bool {
        self.0.replica().readiness().is_outdated()
    }
}

/// Connections of a job to its sites only, and only after the peer proves the site's identity.
struct Sites(Vec<Site>);

impl Connectors for Sites {
    fn by_ssh(&self, _: SshTarget<'_>, _: SshClient) -> Result<Arc<dyn Connector>, Failure> {
        Err(Failure::usage(
            "jobs of a node reach sites, not machines by ssh: use godwit cp for that",
        ))
    }

    fn start_agent(&self, _: SshTarget<'_>, _: &AgentOrder) -> Result<StartedAgent, Refusal> {
        Err(refusal_of(Failure::usage(
            "jobs of a node reach sites, not machines by ssh: use godwit cp for that",
        )))
    }

    fn pinned(&self, address: &PeerAddress) -> Result<Option<IdentityId>, Failure> {
        let is_at = |text: &String| {
            HostPort::parse(text, PORT_DEFAULT)
                .is_ok_and(|node| PeerAddress::new(&node.host, node.port) == *address)
        };
        let site = self.0.iter().find(|site| site.addresses.iter().any(is_at));
        let site = site.ok_or_else(|| {
            Failure::usage(format!(
                "the job names no site that has the address {address}"
            ))
        })?;
        let identity = site.identity.parse().map_err(|error| {
            Failure::usage(format!(
                "the site {} has an invalid identity: {error}; an admin corrects it with: godwit site add",
                site.name
            ))
        })?;
        Ok(Some(identity))
    }

    fn trusts(&self, _: &PeerAddress, _: &IdentityId) -> Result<bool, Failure> {
        // The identity of a job's site is pinned before it is dialled.
        Ok(false)
    }
}
