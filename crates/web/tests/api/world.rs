//! A node for tests: a state, jobs and the server in a directory of their own.
//! Asks nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use godwit_api::grant::Grant;
use godwit_api::rest::NodeResources;
use godwit_api::settings::SettingWithOrigin;
use godwit_cluster::{Cluster, ClusterConfig, ClusterHome, NODE_ALONE};
use godwit_data_port::{Asker, Exported, Here};
use godwit_jobs::{Jobs, JobsConfig, WAITING_OF_OWNER_MAX, now};
use godwit_net::{Cipher, ClientTls};
use godwit_run::{Env, Home, Process};
use godwit_state::{
    Actor, Change, Command, FEATURE_LEVEL, Node, Op, Options, Replica, Role, Secret, Timestamp,
    Token,
};
use godwit_web::{
    BufferControl, BufferMates, CertificateSource, ChangePace, ExportInfo, Network, NodeInfo,
    Patience, UNREAD_MAX, Web, WebConfig, machine_admins,
};
use godwit_worlds::{export, surroundings};

use crate::client::Client;

/// Names of the exports, and of their directories.
pub(crate) const EXPORTS: [&str; 2] = ["data", "archive"];

/// A node.
pub(crate) struct World {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) replica: Arc<Replica>,
    pub(crate) jobs: Jobs,
    pub(crate) web: Web,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    /// Grants of the operator of the machine.
    pub(crate) file_grants: Arc<Mutex<Vec<Grant>>>,
    /// Fault of reading the grants, if any.
    pub(crate) grants_fault: Arc<Mutex<Option<String>>>,
}

/// Options of a test.
pub(crate) struct Settings {
    pub(crate) graphite: Option<String>,
    pub(crate) unread_max: std::time::Duration,
    pub(crate) patience: Patience,
    pub(crate) pace: ChangePace,
    /// Certificate and key of an operator.
    pub(crate) certificate: Option<[PathBuf; 2]>,
    pub(crate) webhook_networks: Vec<Network>,
    pub(crate) waiting_of_owner_max: u64,
    /// Whether the node knows its cluster. No other node answers there.
    pub(crate) cluster: bool,
    pub(crate) buffer: Option<Arc<dyn BufferControl>>,
    pub(crate) mates: Option<Arc<dyn BufferMates>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            graphite: None,
            unread_max: UNREAD_MAX,
            patience: Patience::default(),
            pace: ChangePace::default(),
            certificate: None,
            webhook_networks: Vec::new(),
            waiting_of_owner_max: WAITING_OF_OWNER_MAX,
            cluster: false,
            buffer: None,
            mates: None,
        }
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in EXPORTS {
            std::fs::create_dir(path(name)).unwrap();
        }
        let home = Home::at(path("home"));
        home.make().unwrap();
        let process = Process::default();
        let spill = home.spill().unwrap();
        let exports = EXPORTS.map(|name| export(name, &path(name))).to_vec();
        let tls = ClientTls::new(&home.identity().unwrap(), &Cipher::ALL).unwrap();
        let here = Here::new(
            exports.clone(),
            home.path().to_owned(),
            process.syncs.clone(),
        );
        let exported = Exported::new(exports, spill, process.syncs.clone());
        let exported = Arc::new(exported);
        let sites = Arc::new(Asker::new(here, tls));
        let replica = Arc::new(Replica::open(Options::new(path("state"))).unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let file_grants = Arc::new(Mutex::new(Vec::new()));
        let grants_fault: Arc<Mutex<Option<String>>> = Arc::default();
        let lines = Arc::clone(&log);
        let reported: Arc<dyn Fn(&str) + Send + Sync> =
            Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
        let cluster = settings.cluster.then(|| {
            let identity = home.identity().unwrap().id().to_string();
            Cluster::new(ClusterConfig {
                replica: replica.clone(),
                home: ClusterHome::of_one(&identity),
                directory: home.path().to_owned(),
                identity,
                exports: EXPORTS.map(ToOwned::to_owned).to_vec(),
                watched: BTreeMap::new(),
                admins: machine_admins(),
                version: "1.2.3".to_owned(),
                level: FEATURE_LEVEL,
                sites: sites.clone(),
                now,
                left_behind: Arc::new(|_| {}),
                resources: Arc::new(NodeResources::default),
                look: Arc::new(BTreeMap::new),
                log: Arc::clone(&reported),
            })
        });
        let config = JobsConfig {
            node: NODE_ALONE.to_owned(),
            directory: path("jobs"),
            exports: EXPORTS.map(ToOwned::to_owned).to_vec(),
            file_grants: {
                let (grants, fault) = (Arc::clone(&file_grants), Arc::clone(&grants_fault));
                Arc::new(move || match fault.lock().unwrap().clone() {
                    Some(why) => Err(why),
                    None => Ok(grants.lock().unwrap().clone()),
                })
            },
            machine_admins: machine_admins(),
            keep_history: std::time::Duration::from_secs(86_400),
            jobs_max: 4,
            waiting_of_owner_max: settings.waiting_of_owner_max,
            clock: godwit_jobs::Clock::default(),
            sites: sites.clone(),
            own: Arc::new(|| None),
            is_member: Arc::new(|_| Ok(false)),
            exported: exported.clone(),
            make_env: Arc::new(move |_| Env {
                process: process.clone(),
                exports: Some(exported.clone()),
                retries_first: true,
                ..surroundings(home.path())
            }),
            tells: Arc::new(|_| {}),
            log: Arc::clone(&reported),
        };
        let jobs = Jobs::start(config, Arc::clone(&replica)).unwrap();
        let web = Web::start(WebConfig {
            jobs: jobs.clone(),
            cluster,
            node: NodeInfo {
                buffer: settings.buffer,
                mates: settings.mates,
                version: "1.2.3".to_owned(),
                name: "node1".to_owned(),
                identity: "gw1-test".to_owned(),
                exports: EXPORTS
                    .map(|name| ExportInfo {
                        name: name.to_owned(),
                        room: {
                            let export = export(name, &path(name));
                            Arc::new(move || export.room())
                        },
                    })
                    .to_vec(),
                settings: [
                    ("keep-for", "7min", "--keep-for"),
                    ("export", "data=/secret/data", "/secret/config.toml:3"),
                ]
                .map(|(name, value, origin)| SettingWithOrigin {
                    name,
                    value: value.to_owned(),
                    origin: origin.to_owned(),
                })
                .to_vec(),
                received: Arc::new(|| 0),
            },
            socket: path("run").join("node.sock"),
            manage: Vec::new(),
            graphite: settings.graphite,
            graphite_every: std::time::Duration::from_millis(200),
            certificate: match settings.certificate {
                Some([certificate, key]) => CertificateSource::Files { certificate, key },
                None => CertificateSource::Own {
                    directory: path("web"),
                    host: None,
                    names: vec!["node.example".to_owned()],
                },
            },
            unread_max: settings.unread_max,
            patience: settings.patience,
            pace: settings.pace,
            webhook_networks: settings.webhook_networks,
            log: reported,
        })
        .unwrap();
        Self {
            directory,
            replica,
            jobs,
            web,
            log,
            file_grants,
            grants_fault,
        }
    }

    /// Speaks over the Unix socket, as the user of this process.
    pub(crate) fn client(&self) -> Client {
        Client::unix(self.web.socket())
    }

    /// Changes the state beside the API.
    pub(crate) fn propose(&self, op: Op) {
        let command = Command::new(now(), Actor::node("test"), op);
        self.replica.propose_blocking(command).unwrap();
    }

    /// Adds a node to the cluster that takes jobs and has never reported.
    pub(crate) fn add_node(&self, name: &str) {
        for (number, name) in (1..).zip([NODE_ALONE, name]) {
            self.propose(Op::Node(Change::Put(Node {
                name: name.to_owned(),
                number,
                identity: format!("gw1-{name}"),
                addresses: Vec::new(),
                exports: Vec::new(),
                version: "1.2.3".to_owned(),
                level: FEATURE_LEVEL,
                draining: false,
                voter: false,
                joined: now(),
                admins: Vec::new(),
            })));
        }
    }

    /// Speaks by TLS, as a browser does that trusts the certificate.
    pub(crate) fn network(&self) -> Client {
        Client::tls(self.web.taker(), &self.path("web").join("certificate.pem"))
    }

    /// Speaks by TLS from another address of this machine.
    pub(crate) fn network_from(&self, address: [u8; 4]) -> Client {
        self.network().from(address)
    }

    /// Grants a user something by the file: `EXPORT RIGHTS`.
    pub(crate) fn grant(&self, user: &str, what: &str) {
        let line = format!("user:{user} {what}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let grant = Grant::of_words(&words).unwrap();
        self.file_grants.lock().unwrap().push(grant);
    }

    /// The secret of a token that has expired.
    pub(crate) fn expired_token(&self, user: &str) -> String {
        let secret = "gwt_expired".to_owned();
        self.propose(Op::Token(Change::Create(Token {
            id: "expired".to_owned(),
            user: user.to_owned(),
            hash: Secret::new("679f1412e41b1d054b3dcb6edd69b44a82abc9e8489aacb76691a01627ad4a71"),
            scope: String::new(),
            role: Role::Admin,
            created: Timestamp(0),
            expires: Some(Timestamp(1)),
            revoked: None,
            last_digits: "ired".to_owned(),
            comment: String::new(),
        })));
        secret
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.web.stop();
        self.jobs.stop();
    }
}
