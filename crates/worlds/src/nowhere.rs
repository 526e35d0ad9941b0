//! Owns the ways to other machines of a machine that has none: by ssh, and to other sites. Starts no transfer.

use std::sync::Arc;
use std::time::Duration;

use godwit_api::ask::{Answer, AskSites, GoOn, Peer, Question, Refusal as SiteRefusal, code};
use godwit_api::failure::Failure;
use godwit_api::grant::Mandate;
use godwit_engine::session::{Connector, Refusal};
use godwit_net::{IdentityId, PeerAddress};
use godwit_run::{AgentOrder, Connectors, SshClient, SshTarget, StartedAgent, refusal_of};

/// Reaches no machine by ssh, and no other site.
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

impl AskSites for Nowhere {
    fn ask_for(
        &self,
        _: Option<&Mandate>,
        _: Option<&Peer>,
        _: &Question,
        _: &mut GoOn<'_>,
    ) -> Result<Answer, SiteRefusal> {
        Err(no_other_site())
    }

    fn reach(&self, _: &Peer, _: Duration) -> Result<(), SiteRefusal> {
        Err(no_other_site())
    }
}

fn no_other_site() -> SiteRefusal {
    SiteRefusal::new(code::UNREACHABLE, "there is no other site")
}
