//! The settings of `godwit serve` as the program uses them.
//! Looks at no file and no network: whether a directory or an interface exists is found out by the node.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::{Export, element_error, path, text};
use crate::PORT_DEFAULT;
use crate::host::HostPort;
use crate::settings::resolve::{SettingError, SettingErrors, Values};
use crate::settings::value::Bounds;

/// Which encryption a node lets clients ask for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ServeEncryption {
    /// Only [`Encryption::Tls`](super::Encryption::Tls).
    Tls,
    /// [`Encryption::None`](super::Encryption::None) too.
    Any,
}

/// Settings of `godwit serve`; each field is the setting of its name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServeSettings {
    /// `all`, `none`, or addresses and interfaces.
    pub announce: Vec<String>,
    /// At least one; port 0 is any free one.
    pub listen: Vec<HostPort>,
    /// Addresses of the API and the page alone; empty leaves both on the data port.
    pub manage: Vec<HostPort>,
    /// No name twice.
    pub exports: Vec<Export>,
    /// What clients may ask for.
    pub encryption: ServeEncryption,
    /// 0 uses all cores.
    pub threads: u32,
    /// CPUs to run on, or the network interface next to which; empty for all.
    pub pin: OsString,
    /// From 0 to 64; chosen between them.
    pub readers: Bounds,
    /// From 0 to 64; chosen between them.
    pub writers: Bounds,
    /// For blocks, of each transfer.
    pub memory_bytes: u64,
    /// From accepting to the end of the hello.
    pub handshake_deadline: Duration,
    /// Without a byte moving.
    pub stall_deadline: Duration,
    /// Of one identity.
    pub connections_per_peer: u32,
    /// Of all clients together.
    pub connections_max: u32,
    /// Of one identity, interrupted ones included.
    pub transfers_per_peer: u32,
    /// Of all clients together.
    pub transfers_max: u32,
    /// Jobs that the node runs at once.
    pub jobs: u32,
    /// How long ended jobs are remembered.
    pub keep_history: Duration,
    /// The longest time that an interrupted transfer keeps its destination.
    pub keep_for: Duration,
    /// Networks beside the Internet that webhooks may be sent to.
    pub webhook_networks: Vec<String>,
    /// The operator's certificate and its key.
    pub certificate: Option<CertificateFiles>,
    /// Names of the node's own certificate.
    pub certificate_names: Vec<String>,
    /// The Unix socket of the API; None is the one in the home.
    pub socket: Option<PathBuf>,
    /// The form of the log.
    pub log_format: LogFormat,
    /// The least that a line of the log must be.
    pub log_level: LogLevel,
    /// How long records of transfers are kept.
    pub keep_accounting: Duration,
    /// Where the figures are sent.
    pub graphite: Option<HostPort>,
    /// How the node joins a cluster, and is reached there.
    pub cluster: ClusterSettings,
}

/// How a node joins a cluster, and is reached there.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClusterSettings {
    /// The name that it wants.
    pub name: Option<String>,
    /// A node of the cluster, and the file with the invitation.
    pub join: Option<JoinSettings>,
    /// Where the other nodes reach it; empty leaves it to the node.
    pub addresses: Vec<HostPort>,
}

/// Whose cluster a node joins, and by which invitation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JoinSettings {
    /// A node of the cluster.
    pub address: HostPort,
    /// The file with the invitation.
    pub token_file: PathBuf,
}

/// The form of a node's log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// A JSON object a line.
    Json,
}

/// How much a line of a log matters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LogLevel {
    /// The node cannot do its work.
    Error,
    /// Something was refused, or failed.
    Warn,
    /// Something happened.
    Info,
    /// For those who look for a fault.
    Debug,
}

/// The operator's certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CertificateFiles {
    /// The chain, in PEM.
    pub certificate: PathBuf,
    /// The key, in PEM.
    pub key: PathBuf,
}

impl ServeSettings {
    /// Takes the values of [`Scope::Serve`](crate::settings::Scope::Serve).
    ///
    /// # Errors
    /// Names each setting at fault.
    ///
    /// # Panics
    /// If the values are another command's.
    pub fn from_values(values: &Values) -> Result<Self, SettingErrors> {
        let mut faults = Faults(Vec::new());
        let exports = faults.take(values.list("export", |text| Export::parse(text)));
        let mut names: Vec<&str> = exports.iter().map(|export| export.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            faults.add(values, "export", twice[0], "two exports have this name");
        }
        let listen = faults.take(values.list("listen", parse_listen));
        if listen.is_empty() && faults.0.is_empty() {
            faults.add(values, "listen", "", "name an address to listen on");
        }
        let announce = faults.take(values.list("announce", text));
        let alone = |word: &String| word == "all" || word == "none";
        if announce.len() > 1 && announce.iter().any(alone) {
            let shown = announce.join(", ");
            faults.add(values, "announce", &shown, "`all` and `none` stand alone");
        }
        let certificate = match (path(values, "certificate"), path(values, "certificate-key")) {
            (Some(certificate), Some(key)) => Some(CertificateFiles { certificate, key }),
            (None, None) => None,
            (Some(_), None) => {
                let what = "name the file of its key, too: certificate-key";
                faults.add(values, "certificate", "", what);
                None
            }
            (None, Some(_)) => {
                let what = "name the file of its certificate, too: certificate";
                faults.add(values, "certificate-key", "", what);
                None
            }
        };
        let graphite = Some(values.text("graphite")).filter(|text| !text.is_empty());
        let graphite = graphite.and_then(|text| {
            let parsed = parse_graphite(&text);
            parsed
                .map_err(|what| faults.add(values, "graphite", &text.to_string_lossy(), &what))
                .ok()
        });
        let settings = Self {
            announce,
            listen,
            manage: faults.take(values.list("manage", parse_listen)),
            exports,
            encryption: match values.choice("encryption") {
                "any" => ServeEncryption::Any,
                _ => ServeEncryption::Tls,
            },
            threads: values.count_u32("threads"),
            pin: values.text("pin"),
            readers: values.bounds("readers"),
            writers: values.bounds("writers"),
            memory_bytes: values.bytes("memory"),
            handshake_deadline: values.duration("handshake-deadline"),
            stall_deadline: values.duration("stall-deadline"),
            connections_per_peer: values.count_u32("connections-per-peer"),
            connections_max: values.count_u32("connections-max"),
            transfers_per_peer: values.count_u32("transfers-per-peer"),
            transfers_max: values.count_u32("transfers-max"),
            keep_for: values.duration("keep-for"),
            jobs: values.count_u32("jobs"),
            keep_history: values.duration("keep-history"),
            webhook_networks: faults.take(values.list("webhook-network", text)),
            certificate,
            certificate_names: faults.take(values.list("certificate-name", text)),
            socket: path(values, "socket"),
            log_format: match values.choice("log-format") {
                "json" => LogFormat::Json,
                _ => LogFormat::Text,
            },
            log_level: match values.choice("log-level") {
                "error" => LogLevel::Error,
                "warn" => LogLevel::Warn,
                "debug" => LogLevel::Debug,
                _ => LogLevel::Info,
            },
            keep_accounting: values.duration("keep-accounting"),
            graphite,
            cluster: cluster(values, &mut faults),
        };
        SettingErrors::of(faults.0).map_or(Ok(settings), Err)
    }
}

fn cluster(values: &Values, faults: &mut Faults) -> ClusterSettings {
    let name = Some(values.text("name")).filter(|name| !name.is_empty());
    let name = name.and_then(|name| {
        let problem = name.to_str().ok_or_else(|| "it is not UTF-8".to_owned());
        let problem = problem.and_then(|text| match crate::rest::check_site_name(text) {
            Ok(()) => Ok(text.to_owned()),
            Err(error) => Err(error.to_string()),
        });
        problem
            .map_err(|what| faults.add(values, "name", &name.to_string_lossy(), &what))
            .ok()
    });
    let address = Some(values.text("join")).filter(|text| !text.is_empty());
    let address = address.and_then(|text| {
        let parsed = parse_listen(&text);
        parsed
            .map_err(|what| faults.add(values, "join", &text.to_string_lossy(), &what))
            .ok()
    });
    let join = match (address, path(values, "token-file")) {
        (Some(address), Some(token_file)) => Some(JoinSettings {
            address,
            token_file,
        }),
        (Some(address), None) => {
            let what = "the invitation is missing: name its file with --token-file";
            faults.add(values, "join", &address.to_string(), what);
            None
        }
        (None, _) => None,
    };
    ClusterSettings {
        name,
        join,
        addresses: faults.take(values.list("address", parse_listen)),
    }
}

/// What is wrong so far.
struct Faults(Vec<SettingError>);

impl Faults {
    /// The value; of a fault, nothing.
    fn take<T: Default>(&mut self, found: Result<T, SettingError>) -> T {
        found.unwrap_or_else(|fault| {
            self.0.push(fault);
            T::default()
        })
    }

    fn add(&mut self, values: &Values, name: &str, text: &str, reason: &str) {
        let origin = values.get(name).1.clone();
        self.0.push(element_error(origin, text, reason));
    }
}

/// The port where Graphite takes plain text.
const GRAPHITE_PORT: u16 = 2003;

fn parse_graphite(text: &OsString) -> Result<HostPort, String> {
    let text = text.to_str().ok_or("it is not UTF-8")?;
    HostPort::parse(text, GRAPHITE_PORT).map_err(|error| error.to_string())
}

fn parse_listen(text: &OsString) -> Result<HostPort, String> {
    let text = text.to_str().ok_or("it is not UTF-8")?;
    HostPort::parse(text, PORT_DEFAULT).map_err(|error| error.to_string())
}
