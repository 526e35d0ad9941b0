//! Transfers with another machine by ssh: which paths mean what there, and who is told to whom.
//! Starts no ssh itself; `ssh` does.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_api::endpoint::{Endpoint, SshPlace};
use godwit_api::login::Login;
use godwit_engine::session::Connector;
use godwit_net::Identity;
use godwit_proto::agent::Errand;
use godwit_run::local;

use super::Job;
use super::remote::{Far, Wanted, client_tls};
use super::report::Report;
use crate::exit::Failure;
use crate::ssh::{Rsh, SshConnector, SshOptions};

impl Job<'_> {
    /// Local sources, a destination on another machine.
    pub(super) fn push_by_ssh(
        &self,
        sources: &[Endpoint],
        place: &SshPlace,
    ) -> Result<Report, Failure> {
        let far = self.far_by_ssh(&place.login)?;
        self.push_to(sources, &far, place.path.clone(), false)
    }

    /// Sources on another machine, a local destination.
    pub(super) fn pull_by_ssh(
        &self,
        sources: &[Endpoint],
        destination: &Endpoint,
    ) -> Result<Report, Failure> {
        let places = ssh_places(sources);
        let Some(first) = places.first() else {
            return Err(Failure::usage("no source was named"));
        };
        let far = self.far_by_ssh(&first.login)?;
        let wanted = places
            .iter()
            .map(|place| Wanted {
                path: place.path.clone(),
                key: place.path.clone(),
                name: name_of(&place.path),
                shown: shown(place),
            })
            .collect();
        self.pull_from(&far, wanted, destination)
    }

    /// Sources of this machine, to another agent, as an agent's errand.
    pub(super) fn send_for(
        &self,
        errand: &Errand,
        connector: Arc<dyn Connector>,
    ) -> Result<Report, Failure> {
        let sources: Vec<Endpoint> = errand
            .sources
            .iter()
            .map(|path| Endpoint::Local(local_path(path)))
            .collect();
        let far = Far {
            client: self.client_by(connector),
            name: errand.peer.clone().into_bytes(),
            prefix: format!("{}:", errand.peer),
        };
        self.push_to(&sources, &far, errand.destination.clone(), false)
    }

    fn far_by_ssh(&self, login: &Login) -> Result<Far, Failure> {
        let rsh = Rsh::new(&self.settings.rsh, &self.settings.remote_command)?;
        let mut options = SshOptions::new(self.settings, login, &self.interrupted, rsh);
        options.channels = super::remote::wishes(&self.settings.channels)?;
        if options.via_ssh && !options.channels.is_empty() {
            return Err(Failure::usage(
                "--channel: with --via-ssh all data goes through ssh, which chooses its own path; leave one of them out",
            ));
        }
        // Who we are for good names the transfer; who we are on the network is new each time.
        let known = Identity::load_or_create(self.home.path()).map_err(Failure::failed)?;
        let once = Identity::ephemeral().map_err(Failure::failed)?;
        let tls = client_tls(self.settings.cipher, &once)?;
        let connector = SshConnector::new(options, known.id().to_string(), *once.id(), tls);
        Ok(Far {
            client: self.client_by(Arc::new(connector)),
            name: format!("ssh {login}").into_bytes(),
            prefix: format!("{login}:"),
        })
    }
}

/// Those of the sources that are on another machine: all or none.
pub(super) fn ssh_places(sources: &[Endpoint]) -> Vec<&SshPlace> {
    sources
        .iter()
        .filter_map(|source| match source {
            Endpoint::Ssh(place) => Some(place),
            _ => None,
        })
        .collect()
}

/// A path relative to the home, where the process is.
fn local_path(path: &[u8]) -> PathBuf {
    let below = match path {
        b"" | b"~" | b"~/" => b"./",
        _ => path.strip_prefix(b"~/").unwrap_or(path),
    };
    PathBuf::from(OsStr::from_bytes(below))
}

/// The name that a path gets in a directory; a home has none.
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
