//! The settings of `godwit serve` as the program uses them.
//! Reads no file and no network: the node checks whether directories and interfaces exist.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::{Export, element_error, path, text};
use crate::PORT_DEFAULT;
use crate::host::HostPort;
use crate::settings::resolve::{SettingError, SettingErrors, Values};
use crate::settings::value::Bounds;

/// Encryption that a node lets clients request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ServeEncryption {
    /// Only [`Encryption::Tls`](super::Encryption::Tls).
    Tls,
    /// Also [`Encryption::None`](super::Encryption::None).
    Any,
}

/// Settings of `godwit serve`; each field is the setting of its name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServeSettings {
    /// `all`, `none`, or addresses and interfaces.
    pub announce: Vec<String>,
    /// Addresses to listen on; at least one. Port 0 is any free port.
    pub listen: Vec<HostPort>,
    /// Addresses for the API and the page only; empty leaves both on the data port.
    pub manage: Vec<HostPort>,
    /// Exports; no name occurs twice.
    pub exports: Vec<Export>,
    /// Encryption that clients may request.
    pub encryption: ServeEncryption,
    /// Most cores; 0 uses all.
    pub threads: u32,
    /// CPUs to run on, or the network interface whose nearest CPUs are used. Empty means all CPUs.
    pub pin: OsString,
    /// Number of reader threads, within bounds from 0 to 64.
    pub readers: Bounds,
    /// Number of writer threads, within bounds from 0 to 64.
    pub writers: Bounds,
    /// Memory for the blocks of each transfer.
    pub memory_bytes: u64,
    /// Limit from accepting a connection to the end of the hello.
    pub handshake_deadline: Duration,
    /// Limit without a byte moving.
    pub stall_deadline: Duration,
    /// Most connections of one identity.
    pub connections_per_peer: u32,
    /// Most connections of all clients together.
    pub connections_max: u32,
    /// Most transfers of one identity, interrupted ones included.
    pub transfers_per_peer: u32,
    /// Most transfers of all clients together.
    pub transfers_max: u32,
    /// Jobs that the node runs at once.
    pub jobs: u32,
    /// How long ended jobs are kept.
    pub keep_history: Duration,
    /// The longest time that an interrupted transfer keeps its destination.
    pub keep_for: Duration,
    /// The transfer buffer; no places without one.
    pub buffer: BufferSettings,
    /// Networks beside the Internet that webhooks may be sent to.
    pub webhook_networks: Vec<String>,
    /// The operator's certificate and its key.
    pub certificate: Option<CertificateFiles>,
    /// Names of the node's own certificate.
    pub certificate_names: Vec<String>,
    /// The Unix socket of the API; None is the one in the home directory.
    pub socket: Option<PathBuf>,
    /// The form of the log.
    pub log_format: LogFormat,
    /// The lowest level of log lines to write.
    pub log_level: LogLevel,
    /// How long records of transfers are kept.
    pub keep_accounting: Duration,
    /// Graphite receiver of the figures.
    pub graphite: Option<HostPort>,
    /// How the node joins a cluster, and its addresses there.
    pub cluster: ClusterSettings,
}

/// How a node joins a cluster, and its addresses there.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClusterSettings {
    /// Requested name of the node.
    pub name: Option<String>,
    /// A node of the cluster, and the file with the invitation.
    pub join: Option<JoinSettings>,
    /// Addresses at which the other nodes reach this node; empty leaves the choice to the node.
    pub addresses: Vec<HostPort>,
}

/// The cluster that a node joins, and its invitation.
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
    /// One JSON object per line.
    Json,
}

/// Level of a log line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LogLevel {
    /// The node cannot do its work.
    Error,
    /// A request was refused, or something failed.
    Warn,
    /// A normal event.
    Info,
    /// Details for finding faults.
    Debug,
}

/// The transfer buffer of a node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BufferSettings {
    /// Directories.
    pub paths: Vec<PathBuf>,
    /// Devices, or files in place of devices.
    pub devices: Vec<PathBuf>,
    /// Size of all directories together that the node makes; 0 if they exist already.
    pub bytes: u64,
    /// The exports whose files arrive in the buffer.
    pub arrivals: Vec<String>,
    /// Most bytes a second that go from the buffer to the exports.
    pub drain_rate: Option<u64>,
    /// Whether the smallest file goes first; otherwise the oldest.
    pub smallest_first: bool,
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
            faults.add(
                values,
                "announce",
                &shown,
                "`all` and `none` must be the only value",
            );
        }
        let certificate = match (path(values, "certificate"), path(values, "certificate-key")) {
            (Some(certificate), Some(key)) => Some(CertificateFiles { certificate, key }),
            (None, None) => None,
            (Some(_), None) => {
                let what = "name the file of the certificate's key, too: certificate-key";
                faults.add(values, "certificate", "", what);
                None
            }
            (None, Some(_)) => {
                let what = "name the file of the key's certificate, too: certificate";
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
            buffer: BufferSettings {
                paths: faults.take(values.list("buffer-path", place)),
                devices: faults.take(values.list("buffer-device", place)),
                bytes: values.bytes("buffer-bytes"),
                arrivals: faults.take(values.list("buffer-arrivals", text)),
                drain_rate: Some(values.bytes("buffer-drain-rate")).filter(|rate| *rate > 0),
                smallest_first: values.choice("buffer-drain-order") == "smallest",
            },
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

/// Faults found so far.
struct Faults(Vec<SettingError>);

impl Faults {
    /// The value, or the default for a fault.
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

/// The port for Graphite's plain text protocol.
const GRAPHITE_PORT: u16 = 2003;

fn parse_graphite(text: &OsString) -> Result<HostPort, String> {
    let text = text.to_str().ok_or("it is not UTF-8")?;
    HostPort::parse(text, GRAPHITE_PORT).map_err(|error| error.to_string())
}

fn place(text: &OsString) -> Result<PathBuf, String> {
    match PathBuf::from(text) {
        path if path.is_absolute() => Ok(path),
        _ => Err("write a path from the root".to_owned()),
    }
}

fn parse_listen(text: &OsString) -> Result<HostPort, String> {
    let text = text.to_str().ok_or("it is not UTF-8")?;
    HostPort::parse(text, PORT_DEFAULT).map_err(|error| error.to_string())
}
