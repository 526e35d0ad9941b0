//! Joins `godwit serve` to the node: settings to a daemon, signals to its end.
//! Parses nothing.

mod api;
mod jobs;
mod service;

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use godwit_api::settings::{ServeEncryption, ServeSettings, ToldSetting};
use godwit_jobs::Guests;
use godwit_net::{Cipher, ServerTls, own_interfaces};
use godwit_node::{Announce, Daemon, DaemonConfig, Export};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::{complain, print};
use crate::signals;
use godwit_run::{Process, bounds_of};
use service::{End, Ends};

/// Runs a node until it is told to stop.
pub(crate) fn run(settings: &ServeSettings, told: Vec<ToldSetting>, home: &Home) -> Exit {
    godwit_sys::umask::clear();
    raise_descriptors();
    match serve(settings, told, home) {
        Ok(()) => Exit::Complete,
        Err(failure) => {
            complain(&failure.message);
            failure.code.into()
        }
    }
}

/// As many descriptors as the process may have: the usual limit is for programs that wait by `select`.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Without more the daemon serves fewer at a time.
    let _ = setrlimit(Resource::Nofile, raised);
}

fn serve(settings: &ServeSettings, told: Vec<ToldSetting>, home: &Home) -> Result<(), Failure> {
    crate::cores::restrict(settings.threads, &settings.pin)?;
    let ends = signals::ending()
        .and_then(Ends::of)
        .map_err(Failure::local)?;
    let identity = home.identity()?;
    let tls = ServerTls::new(&identity, &Cipher::ALL).map_err(Failure::local)?;
    let mut exports = Vec::with_capacity(settings.exports.len());
    for export in &settings.exports {
        // Absolute now: the same place whatever becomes of the working directory.
        let path = std::fs::canonicalize(&export.path).map_err(|error| {
            Failure::local(format!(
                "--export {}={}: {error}",
                export.name,
                export.path.display()
            ))
        })?;
        if !path.is_dir() {
            return Err(Failure::local(format!(
                "--export {}={}: it is not a directory",
                export.name,
                path.display()
            )));
        }
        exports.push(Export {
            name: export.name.clone(),
            path,
            set_id: export.set_id,
            owner: export.owner,
            security_xattrs: export.security_xattrs,
            devices: export.devices,
        });
    }
    if exports.is_empty() {
        complain(
            "no directory is exported: clients can only measure, with mem: and null:; to serve one: --export NAME=PATH",
        );
    }
    let mut listen: Vec<SocketAddr> = Vec::new();
    for address in &settings.listen {
        let found = (address.host.as_str(), address.port)
            .to_socket_addrs()
            .map_err(|error| Failure::local(format!("--listen {address}: {error}")))?;
        listen.extend(found);
    }
    home.journals()?;
    home.spill()?;
    let process = Process::with_pool(settings.memory_bytes);
    let jobs = jobs::start(settings, home, &exports, &process)?;
    ends.watch(&jobs);
    let mut api = api::start(settings, told, &jobs, home, &exports, &identity)?;
    let config = DaemonConfig {
        process,
        listen,
        announce: announce(&settings.announce)?,
        exports,
        home: home.path().to_owned(),
        rules: {
            let jobs = jobs.clone();
            Arc::new(move || jobs.access().rules().map_err(|error| error.to_string()))
        },
        tls,
        plain_allowed: settings.encryption == ServeEncryption::Any,
        handshake_deadline: settings.handshake_deadline,
        connections_per_peer: settings.connections_per_peer as usize,
        connections_max: settings.connections_max as usize,
        transfers_per_peer: settings.transfers_per_peer as usize,
        transfers_max: settings.transfers_max as usize,
        stall_limit: settings.stall_deadline,
        pool_bytes: usize::try_from(settings.memory_bytes).unwrap_or(usize::MAX),
        readers: bounds_of(settings.readers),
        writers: bounds_of(settings.writers),
        keep_for: settings.keep_for,
        jobs: Some(Arc::new(Guests::new(jobs.clone()))),
        web: Some(api.taker()),
        log: Arc::new(|line: &str| complain(line)),
    };
    let mut daemon = Daemon::start(config, &identity).map_err(Failure::local)?;
    for address in daemon.addresses() {
        print(&format!("listening on {address} as {}", daemon.identity()));
    }
    print(&format!(
        "API at {}, and by HTTPS on the same port; SHA-256 of its certificate: {}",
        api.socket().display(),
        api.fingerprint()
    ));
    service::ready(&jobs);
    let end = ends.wait();
    service::stopping();
    api.stop();
    jobs.stop();
    daemon.stop();
    match end {
        End::Signal => Ok(()),
        End::State(why) => Err(Failure::local(format!(
            "the state of the node ended: {why}. Transfers were stopped and can be resumed; see to the file system of {}, and start the node again",
            home.path().display()
        ))),
    }
}

/// What is announced; its words are the table's.
fn announce(words: &[String]) -> Result<Announce, Failure> {
    match words {
        [all] if all == "all" => Ok(Announce::All),
        [] => Ok(Announce::None),
        [none] if none == "none" => Ok(Announce::None),
        words if words.iter().any(|word| word == "all" || word == "none") => {
            Err(Failure::usage("--announce: `all` and `none` stand alone"))
        }
        words => {
            for word in words.iter().filter(|word| !is_here(word)) {
                complain(&format!(
                    "--announce {word}: this machine has no such interface or address now, so clients are not told of it until there is one"
                ));
            }
            Ok(Announce::Only(words.to_vec()))
        }
    }
}

/// Whether an interface or address of this machine is called so.
fn is_here(word: &str) -> bool {
    own_interfaces()
        .unwrap_or_default()
        .iter()
        .any(|own| own.interface == word || word.parse() == Ok(own.address))
}
