//! The plan of a node: its settings, checked against this machine.
//! Binds nothing and changes nothing, so that all faults are reported before anything runs.

mod directories;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::thread::Builder;
use std::time::Instant;

use godwit_api::host::HostPort;
use godwit_api::settings::{
    ServeSettings, SettingError, SettingErrors, SettingProblem, Value, Values,
};
use godwit_buffer::service::Buffer;
use godwit_data_port::{Announce, Export, ExportBounds, OwnPlaces};
use godwit_net::own_interfaces;
use godwit_sys::replaceable::{self, Others};
use godwit_web::{CertificateSource, Network};
use rustix::fs::{Access, access};
use rustix::process::geteuid;

use crate::outlet::complain;
use crate::{apart, log};
use godwit_api::failure::Failure;
use godwit_run::Home;

/// Checked settings of a node.
pub struct Plan {
    /// Each with its absolute path.
    pub exports: Vec<Export>,
    /// Addresses of the data port.
    pub listen: Vec<SocketAddr>,
    /// Where API and page are served; empty is the data port.
    pub manage: Vec<SocketAddr>,
    /// The addresses that clients hear.
    pub announce: Announce,
    /// Certificate and key of the API.
    pub certificate: CertificateSource,
    /// The Unix socket of the API.
    pub socket: PathBuf,
    /// Networks that webhooks may reach.
    pub webhook_networks: Vec<Network>,
    /// The transfer buffer, once it is opened.
    pub buffer: Option<Buffer>,
}

/// Prints each thing that is wrong with the settings but the last, which is the failure.
#[must_use]
pub fn failure_of(errors: SettingErrors) -> Failure {
    let mut errors = errors.into_vec();
    let last = errors.pop();
    for error in errors {
        complain(&error.to_string());
    }
    Failure::usage(last.map_or_else(String::new, |error| error.to_string()))
}

/// Checks everything that the settings name, and notes what is odd but possible.
///
/// # Errors
/// Names each setting that cannot be had, with file and line.
pub fn make(
    values: &Values,
    settings: &ServeSettings,
    home: &Home,
) -> Result<(Plan, Vec<String>), SettingErrors> {
    let mut faults = Faults {
        values,
        found: Vec::new(),
    };
    let mut notes = Vec::new();
    let certificate = certificate(settings, home);
    let mut own = vec![home.path()];
    if let CertificateSource::Files { key, .. } = &certificate {
        own.push(key);
    }
    // A peer that may write to the settings or the invitation decides the exports, or the cluster, of the next start.
    own.extend(settings_file(values));
    if let Some(socket) = &settings.socket {
        own.push(socket);
    }
    if let Some(join) = &settings.cluster.join {
        own.push(&join.token_file);
    }
    let exports = exports(settings, home, &own, &mut faults, &mut notes);
    if settings.exports.is_empty() {
        notes.push(
            "no directory is exported: clients can only measure, with mem: and null:; to export a directory: --export NAME=PATH"
                .to_owned(),
        );
    }
    buffer(settings, &exports, &mut faults, &mut notes);
    let listen = addresses(&settings.listen, "listen", &mut faults);
    let manage = addresses(&settings.manage, "manage", &mut faults);
    if let Some(both) = manage
        .iter()
        .find(|at| at.port() != 0 && listen.contains(at))
    {
        faults.add(
            "manage",
            format!("{both} is also the data port; choose a different port"),
        );
    }
    let announce = announce(&settings.announce, &mut notes);
    let pinned = crate::cores::check(&settings.pin);
    faults.take("pin", pinned);
    let usable = godwit_web::check_certificate(&certificate).map_err(|error| error.to_string());
    faults.take("certificate", usable);
    let mut webhook_networks = Vec::with_capacity(settings.webhook_networks.len());
    for text in &settings.webhook_networks {
        let network = text.parse::<Network>();
        let network = network.map_err(|error| format!("{text}: {error}"));
        webhook_networks.extend(faults.take("webhook-network", network));
    }
    let socket = match &settings.socket {
        Some(socket) => std::path::absolute(socket).map_err(|error| error.to_string()),
        None => Ok(godwit_client::NodeAddress::socket_of(home.path())),
    };
    let socket = socket.and_then(|socket| check_socket(&socket).map(|()| socket));
    let socket = faults.take("socket", socket).unwrap_or_default();
    let plan = Plan {
        exports,
        listen,
        manage,
        announce,
        certificate,
        socket,
        webhook_networks,
        buffer: None,
    };
    SettingErrors::of(faults.found).map_or(Ok((plan, notes)), Err)
}

/// The exports, each with the real path of its directory, apart from the node's own places.
fn exports(
    settings: &ServeSettings,
    home: &Home,
    own: &[&Path],
    faults: &mut Faults<'_>,
    notes: &mut Vec<String>,
) -> Vec<Export> {
    let files = own.get(1..).unwrap_or_default();
    let real = std::fs::canonicalize(home.path()).unwrap_or_else(|_| home.path().to_owned());
    let places = OwnPlaces::new(real, files);
    let named = settings.exports.iter();
    let named = named.map(|export| (export.name.as_str(), export.path.as_path()));
    let looked = directories::look(&named.collect::<Vec<_>>(), own);
    let mut exports = Vec::with_capacity(looked.len());
    for (export, found) in settings.exports.iter().zip(looked) {
        let setting = format!("{}={}", export.name, export.path.display());
        let found = found.map_err(|why| format!("{setting}: {why}"));
        let Some(found) = faults.take("export", found) else {
            continue;
        };
        if found.is_late {
            notes.push(format!(
                "--export {setting}: its file system does not answer; the export is closed until it does: check the mount"
            ));
        }
        let export = Export {
            name: export.name.clone(),
            path: found.path,
            set_id: export.set_id,
            owner: export.owner,
            security_xattrs: export.security_xattrs,
            devices: export.devices,
            require_mount: export.require_mount,
            watched: found.watched,
            arrivals: None,
            bounds: ExportBounds {
                own: places.clone(),
                ..ExportBounds::default()
            },
        };
        log_others_apart(&export);
        exports.push(export);
    }
    Export::keep_places(&mut exports);
    exports
}

/// Keeps the places of the buffer and the exports apart: a peer must not reach what others get from the buffer.
fn buffer(
    settings: &ServeSettings,
    exports: &[Export],
    faults: &mut Faults<'_>,
    notes: &mut Vec<String>,
) {
    let places = |paths: &[PathBuf], setting: &'static str| {
        let paths = paths.iter().cloned();
        paths.map(move |path| (path, setting)).collect::<Vec<_>>()
    };
    let mut all = places(&settings.buffer.paths, "buffer-path");
    all.extend(places(&settings.buffer.devices, "buffer-device"));
    arrivals(settings, exports, all.is_empty(), faults);
    for (place, setting) in all {
        let shown = place.display();
        for export in exports {
            let name = &export.name;
            // An export whose file system hangs is not asked.
            if export.watched.hangs_for(Instant::now()).is_some() {
                continue;
            }
            if apart::trouble(&export.path, &[&place]).is_some() {
                faults.add(
                    setting,
                    format!(
                        "{shown}: the directory of the export {name} and this place lie in each other; peers could read and change there what others get from the buffer"
                    ),
                );
            } else if crate::buffer::is_on_file_system_of(&place, &export.path) {
                notes.push(format!(
                    "buffer {shown}: it lies on the file system of the export {name}, so it makes nothing faster; choose a place on flash"
                ));
            }
        }
    }
}

/// The exports whose files arrive on flash must exist, and files must be able to go there.
fn arrivals(
    settings: &ServeSettings,
    exports: &[Export],
    is_without: bool,
    faults: &mut Faults<'_>,
) {
    const SETTING: &str = "buffer-arrivals";
    for name in &settings.buffer.arrivals {
        let Some(export) = exports.iter().find(|export| export.name == *name) else {
            faults.add(SETTING, format!("this node has no export {name}"));
            continue;
        };
        let hangs = export.watched.hangs_for(Instant::now()).is_some();
        let meets = |other: &&Export| {
            let lies = |one: &Export, in_other: &Export| one.path.starts_with(&in_other.path);
            other.name != *name && (lies(other, export) || lies(export, other))
        };
        if let Some(other) = exports.iter().find(meets) {
            let what = format!(
                "the exports {name} and {} lie in each other: a file that waits for {name} is not seen through the other one, and does not keep to its claims; leave {name} out, or export directories that are apart",
                other.name
            );
            faults.add(SETTING, what);
        } else if is_without {
            let what = format!(
                "the export {name} can get no file through a transfer buffer, because the node has none: set buffer-path or buffer-device"
            );
            faults.add(SETTING, what);
        } else if !hangs && let Err(error) = access(&export.path, Access::WRITE_OK) {
            let path = export.path.display();
            let error = std::io::Error::from(error);
            let what = format!("the node cannot write to {path}, the export {name}: {error}");
            faults.add(SETTING, what);
        }
    }
}

/// Looks on a thread who can replace the directory, and logs it: the file system may hang.
fn log_others_apart(export: &Export) {
    let export = export.clone();
    let look = move || {
        if let Some(note) = note_others(&export) {
            log::line(&note);
        }
    };
    let thread = Builder::new().name("gw-look".to_owned());
    // Without a thread there is no note.
    drop(thread.spawn(look));
}

/// Names the others on this machine who can put another directory in place of an export.
fn note_others(export: &Export) -> Option<String> {
    let weakness = replaceable::weakness(&export.path, geteuid().as_raw()).ok()??;
    let (name, path) = (&export.name, export.path.display());
    Some(match weakness.by {
        Others::Owner(uid) => format!(
            "export {name}: another user (uid {uid}) owns {} and could put another directory in place of {path}",
            weakness.path.display()
        ),
        Others::Writers(mode) => format!(
            "export {name}: other users may write in {} (mode {mode:03o}), and could put another directory in place of {path}",
            weakness.path.display()
        ),
    })
}

/// Faults found so far.
struct Faults<'a> {
    values: &'a Values,
    found: Vec<SettingError>,
}

impl Faults<'_> {
    fn take<T>(&mut self, setting: &str, found: Result<T, String>) -> Option<T> {
        found.map_err(|what| self.add(setting, what)).ok()
    }

    fn add(&mut self, setting: &str, what: String) {
        self.found.push(SettingError {
            origin: self.values.get(setting).1.clone(),
            problem: SettingProblem::Other(what),
        });
    }
}

fn addresses(named: &[HostPort], setting: &str, faults: &mut Faults<'_>) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for address in named {
        let resolved = (address.host.as_str(), address.port).to_socket_addrs();
        let resolved = resolved.map_err(|error| format!("{address}: {error}"));
        found.extend(faults.take(setting, resolved).into_iter().flatten());
    }
    found
}

/// The parsed setting `announce`; the settings table defines its words.
fn announce(words: &[String], notes: &mut Vec<String>) -> Announce {
    match words {
        [all] if all == "all" => Announce::All,
        [] => Announce::None,
        [none] if none == "none" => Announce::None,
        words => {
            for word in words.iter().filter(|word| !is_here(word)) {
                notes.push(format!(
                    "--announce {word}: this machine has no such interface or address now; the address is announced once it exists"
                ));
            }
            Announce::Only(words.to_vec())
        }
    }
}

/// Whether this machine has an interface or address of this name.
fn is_here(word: &str) -> bool {
    own_interfaces()
        .unwrap_or_default()
        .iter()
        .any(|own| own.interface == word || word.parse() == Ok(own.address))
}

/// The operator's certificate, or the node's self-signed one.
fn certificate(settings: &ServeSettings, home: &Home) -> CertificateSource {
    match &settings.certificate {
        Some(files) => CertificateSource::Files {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
        },
        None => CertificateSource::Own {
            directory: home.path().join("web"),
            host: rustix::system::uname()
                .nodename()
                .to_str()
                .map(ToOwned::to_owned)
                .ok(),
            names: settings.certificate_names.clone(),
        },
    }
}

/// Whether a Unix socket may have this path: the kernel takes few bytes.
fn check_socket(socket: &Path) -> Result<(), String> {
    const PATH_BYTES_MAX: usize = 107;
    let bytes = socket.as_os_str().len();
    if bytes > PATH_BYTES_MAX {
        return Err(format!(
            "{} has {bytes} bytes, but the path of a Unix socket has at most {PATH_BYTES_MAX}; name a shorter path with --socket",
            socket.display()
        ));
    }
    Ok(())
}

/// The settings file that the caller named, outside the home.
pub(crate) fn settings_file(values: &Values) -> Option<&Path> {
    match values.get("config") {
        (Value::Text(file), _) if !file.is_empty() => Some(Path::new(file)),
        _ => None,
    }
}
