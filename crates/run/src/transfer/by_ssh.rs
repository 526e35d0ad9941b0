//! Runs transfers with another machine by ssh: interprets paths there, and makes the identities of both
//! ends. Does not start ssh; the connectors of the job do.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use godwit_api::endpoint::{Endpoint, SshPlace};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::login::Login;
use godwit_api::settings::Cipher;
use godwit_engine::session::Client;
use godwit_net::Identity;

use super::Job;
use super::ends::Ends;
use super::from_settings::bounds_of;
use super::reach::{OtherEnd, client_tls, wishes};
use super::remote::{Wanted, WithNode};
use super::report::Report;
use crate::Home;
use crate::env::{SshClient, SshTarget};
use crate::local;

/// Runs a transfer from local sources to another machine.
pub(super) fn push(
    ends: &Ends<'_>,
    sources: &[Endpoint],
    place: &SshPlace,
) -> Result<Report, Failure> {
    let local = ends.sources(sources)?;
    let far = reach(ends.job, &place.login)?;
    WithNode { ends, far }.push(local, place.path.clone(), false)
}

/// Runs a transfer from another machine to a local destination.
pub(super) fn pull(
    ends: &Ends<'_>,
    sources: &[Endpoint],
    destination: &Endpoint,
) -> Result<Report, Failure> {
    let places = ssh_places(sources);
    let Some(first) = places.first() else {
        return Err(Failure::usage("no source was named"));
    };
    let far = reach(ends.job, &first.login)?;
    let wanted = places
        .iter()
        .map(|place| Wanted {
            path: place.path.clone(),
            key: place.path.clone(),
            name: name_of(&place.path),
            shown: shown(place),
        })
        .collect();
    WithNode { ends, far }.pull(wanted, destination)
}

fn reach(job: &Job<'_>, login: &Login) -> Result<OtherEnd, Failure> {
    let settings = &job.settings;
    let mut target = ssh_target(job, login);
    target.channels = wishes(&settings.channels)?;
    if target.via_ssh && !target.channels.is_empty() {
        return Err(Failure::usage(
            "--channel: with --via-ssh all data goes through ssh, which chooses its own path; leave one of them out",
        ));
    }
    let client = ssh_client(&job.env.home, settings.cipher)?;
    let tls = client.tls.clone();
    let client = Client {
        connector: job.env.connectors.by_ssh(target, client)?,
        streams: bounds_of(settings.streams),
        retry_for: settings.retry_for,
        once: job.pipes.once(),
        retries_first: job.env.retries_first,
    };
    let name = format!("ssh {login}").into_bytes();
    Ok(OtherEnd::new(client, name, format!("{login}:"), tls))
}

/// The ssh connection to a machine, with any network path.
pub(super) fn ssh_target<'a>(job: &'a Job<'_>, login: &'a Login) -> SshTarget<'a> {
    let settings = &job.settings;
    SshTarget {
        login,
        rsh: &settings.rsh,
        remote_command: &settings.remote_command,
        install_remote: settings.install_remote,
        data_ports: settings.data_ports,
        channels: Vec::new(),
        via_ssh: settings.via_ssh,
        retry_for: settings.retry_for,
        handshake_deadline: settings.handshake_deadline,
        stall_deadline: settings.stall_deadline,
        cancelled: Arc::clone(job.run.control.cancelled()),
    }
}

/// Our identities for an agent. The permanent identity names the transfer; the one on the network is new
/// each time.
pub(crate) fn ssh_client(home: &Home, cipher: Cipher) -> Result<SshClient, Failure> {
    let known = home.identity()?;
    let once =
        Identity::ephemeral().map_err(|error| Failure::new(FailureCode::OutOfResources, error))?;
    Ok(SshClient {
        sender: known.id().to_string(),
        identity: *once.id(),
        tls: client_tls(cipher, &once)?,
    })
}

/// The sources on another machine; all sources must be on it, or none.
pub(super) fn ssh_places(sources: &[Endpoint]) -> Vec<&SshPlace> {
    sources
        .iter()
        .filter_map(|source| match source {
            Endpoint::Ssh(place) => Some(place),
            _ => None,
        })
        .collect()
}

/// The name that a path gets in a directory; empty for a home directory.
pub(super) fn name_of(path: &[u8]) -> Vec<u8> {
    if path == b"~" {
        return Vec::new();
    }
    let path = path.strip_prefix(b"~/").unwrap_or(path);
    local::last_name(Path::new(OsStr::from_bytes(path))).unwrap_or_default()
}

fn shown(place: &SshPlace) -> Vec<u8> {
    let path = local::called(&place.path);
    [place.login.to_string().as_bytes(), b":", &path].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_cp_gives() {
        for (path, name) in [
            ("", ""),
            ("~", ""),
            ("~/", ""),
            ("~/a", "a"),
            ("a/b/", "b"),
            ("/", ""),
            ("a/..", ""),
            (".", ""),
            ("/data/a b", "a b"),
        ] {
            assert_eq!(name_of(path.as_bytes()), name.as_bytes(), "{path}");
        }
    }
}
