//! Finds the named node, and the credentials for it.
//! Sends no request.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use godwit_api::host::HostPort;
use godwit_client::{Client, Fingerprint, KnownWeb, NodeAddress, Token, Trust};

use super::{optional, text};
use crate::exit::{Exit, Failure};
use crate::home::{self, Home};
use crate::output::print;

/// Home of a node that the system starts.
const SYSTEM_HOME: &str = "/var/lib/godwit";

/// A client of the node that options and environment name.
pub(super) fn connect(matches: &ArgMatches) -> Result<Client, Failure> {
    let node = match optional(matches, "node")? {
        Some(node) => Some(("--node", node)),
        None => from_environment("GODWIT_NODE").map(|node| ("GODWIT_NODE", node)),
    };
    let Some((origin, node)) = node else {
        for option in ["token-file", "fingerprint"] {
            if matches.contains_id(option) {
                return Err(Failure::usage(format!(
                    "--{option} is for a node on another machine: add --node https://HOST; a node on this machine identifies the caller by itself"
                )));
            }
        }
        return here();
    };
    let host = https(origin, &node)?;
    let file = matches
        .get_one::<OsString>("token-file")
        .cloned()
        .or_else(|| std::env::var_os("GODWIT_TOKEN_FILE").filter(|file| !file.is_empty()))
        .ok_or_else(|| {
            Failure::usage(
                "a node on another machine needs a token: name the token's file with --token-file or GODWIT_TOKEN_FILE; make a token on the node's machine with godwit token create",
            )
        })?;
    let token = Token::load(Path::new(&file)).map_err(Failure::usage)?;
    let trust = match optional(matches, "fingerprint")? {
        Some(text) => {
            let pin: Fingerprint = text
                .parse()
                .map_err(|error| Failure::usage(format!("--fingerprint: {error}")))?;
            Trust::Pin(pin)
        }
        None => known(&host)?.map_or(Trust::Roots, Trust::Pin),
    };
    Ok(Client::remote(host, token, trust)?)
}

/// `godwit node trust`: remembers a certificate.
pub(super) fn trust(matches: &ArgMatches) -> Result<Exit, Failure> {
    let host = https("URL", &text(matches, "url")?)?;
    let fingerprint: Fingerprint = text(matches, "fingerprint")?
        .parse()
        .map_err(Failure::usage)?;
    let home = home::find()?;
    let _owner = home::as_owner(&home)?;
    let known = KnownWeb::of(home.path());
    let before = known.remember(&host, fingerprint).map_err(Failure::local)?;
    let instead = match before {
        Some(before) if before != fingerprint => format!(", no longer with {before}"),
        _ => String::new(),
    };
    print(&format!(
        "https://{host} is trusted with the key or certificate {fingerprint}{instead}"
    ));
    Ok(Exit::Complete)
}

fn https(origin: &str, node: &str) -> Result<HostPort, Failure> {
    match node.parse() {
        Ok(NodeAddress::Https(host)) => Ok(host),
        Ok(NodeAddress::Home(_) | NodeAddress::Socket(_)) => {
            Err(Failure::usage(format!("{origin}: {node}: not a URL")))
        }
        Err(error) => Err(Failure::usage(format!("{origin}: {error}"))),
    }
}

fn known(host: &HostPort) -> Result<Option<Fingerprint>, Failure> {
    // Without a home, no certificate is pinned.
    let Ok(home) = home::find() else {
        return Ok(None);
    };
    KnownWeb::of(home.path()).find(host).map_err(Failure::local)
}

/// A client of the node of this machine. A named socket or home comes first, then the user's node if one was started, then the
/// node of the system. The system's home is closed to most users.
///
/// # Errors
/// No home is named, and there is none to take.
pub(crate) fn here() -> Result<Client, Failure> {
    if let Some(socket) = from_environment("GODWIT_SOCKET") {
        return Ok(Client::at_socket(PathBuf::from(socket))?);
    }
    let named = from_environment("GODWIT_HOME").is_some();
    let home = match home::find() {
        Ok(home) if named || NodeAddress::socket_of(home.path()).exists() => home.path().to_owned(),
        Err(failure) if named => return Err(failure),
        _ if Path::new(NodeAddress::SYSTEM_SOCKET).exists() => {
            return Ok(Client::at_socket(NodeAddress::SYSTEM_SOCKET.into())?);
        }
        _ => PathBuf::from(SYSTEM_HOME),
    };
    Ok(Client::local(home)?)
}

/// The home of the node of this machine. A named home comes first, then the user's home if a node runs there. The home of the
/// system's node comes next, if that node runs, or has run and no node of the user has.
///
/// # Errors
/// No home is named, and there is none to take.
pub(crate) fn home_of_node() -> Result<Home, Failure> {
    let own = home::find();
    let is_own = |home: &Home| NodeAddress::socket_of(home.path()).exists();
    if from_environment("GODWIT_HOME").is_some() || own.as_ref().is_ok_and(is_own) {
        return own;
    }
    let was_node = |home: &Path| home.join("state").exists();
    let is_systems = system_home().is_some()
        || was_node(Path::new(SYSTEM_HOME)) && !own.as_ref().is_ok_and(|own| was_node(own.path()));
    match is_systems {
        true => Ok(Home::at(SYSTEM_HOME.into())),
        false => own,
    }
}

/// The home of the node that the system starts, if that node runs.
pub(super) fn system_home() -> Option<&'static Path> {
    let home = Path::new(SYSTEM_HOME);
    let own = NodeAddress::socket_of(home);
    [own.as_path(), Path::new(NodeAddress::SYSTEM_SOCKET)]
        .into_iter()
        .any(|socket| UnixStream::connect(socket).is_ok())
        .then_some(home)
}

fn from_environment(name: &str) -> Option<String> {
    std::env::var_os(name)
        .filter(|text| !text.is_empty())
        .map(|text| text.to_string_lossy().into_owned())
}
