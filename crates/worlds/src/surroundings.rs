//! Owns the surroundings of a transfer on a machine that reaches no other one by ssh. Starts no transfer.

use std::path::Path;
use std::sync::Arc;

use godwit_api::failure::Failure;
use godwit_engine::session::{Connector, Refusal};
use godwit_net::{IdentityId, PeerAddress};
use godwit_run::{
    AgentOrder, Connectors, Env, Home, SshClient, SshTarget, StartedAgent, refusal_of,
};

/// Connectors that reach no machine by ssh.
#[derive(Debug)]
pub struct Nowhere;

impl Connectors for Nowhere {
    fn by_ssh(&self, _: SshTarget<'_>, _: SshClient) -> Result<Arc<dyn Connector>, Failure> {
        Err(Failure::usage("there are no other machines"))
    }

    fn start_agent(&self, _: SshTarget<'_>, _: &AgentOrder) -> Result<StartedAgent, Refusal> {
        Err(refusal_of(Failure::usage("there are no other machines")))
    }

    fn trusts(&self, _: &PeerAddress, _: &IdentityId) -> Result<bool, Failure> {
        Ok(false)
    }
}

/// Surroundings with this home, all files of the machine, and a separate governor.
#[must_use]
pub fn surroundings(home: &Path) -> Env {
    Env {
        umask: 0o077,
        ..Env::new(Home::at(home.to_owned()), Arc::new(Nowhere))
    }
}
