//! The connectors of a typed command: ssh, and a question on the terminal.
//! Decides nothing about the job.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use godwit_engine::session::{Connector, Refusal};
use godwit_net::{IdentityId, PeerAddress};
use godwit_run::{AgentOrder, Connectors, SshClient, SshTarget, StartedAgent, refusal_of};

use crate::exit::Failure;
use crate::ssh::{Carrying, Order, Rsh, SshConnector, SshOptions, start};

/// The connectors of a command that a user has typed.
pub(crate) struct SshConnectors {
    /// The user cannot be asked.
    pub(crate) quiet: bool,
}

impl Connectors for SshConnectors {
    fn by_ssh(&self, way: SshTarget<'_>, client: SshClient) -> Result<Arc<dyn Connector>, Failure> {
        let SshClient {
            sender,
            identity,
            tls,
        } = client;
        let options = self.options(way)?;
        Ok(Arc::new(SshConnector::new(options, sender, identity, tls)))
    }

    fn start_agent(&self, way: SshTarget<'_>, order: &AgentOrder) -> Result<StartedAgent, Refusal> {
        let options = self.options(way).map_err(refusal_of)?;
        let order = Order {
            client: order.client,
            sender: order.sender.clone(),
            targets: order.targets.clone(),
            from_here: false,
        };
        let started = start(&options, &order, &[])?;
        Ok(StartedAgent {
            process: started.process,
            socket: started.socket,
            identity: started.identity,
            targets: started.targets,
            capabilities: started.capabilities,
        })
    }

    fn trusts(&self, address: &PeerAddress, found: &IdentityId) -> Result<bool, Failure> {
        let question = format!(
            "{address} is not known here. It says it is\n  {found}\nIts operator can check this with: godwit id. Trust it from now on? [y/N] "
        );
        Ok(!self.quiet && ask(&question)?)
    }
}

/// Asks the user on the terminal. Without a terminal the answer is no.
pub(crate) fn ask(question: &str) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(false);
    }
    // Transfers to several destinations ask one after the other.
    static ASKING: Mutex<()> = Mutex::new(());
    let _asking = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut terminal = std::io::stderr();
    terminal
        .write_all(question.as_bytes())
        .and_then(|()| terminal.flush())
        .map_err(Failure::local)?;
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(Failure::local)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

impl SshConnectors {
    fn options(&self, way: SshTarget<'_>) -> Result<SshOptions, Failure> {
        Ok(SshOptions {
            rsh: Rsh::new(way.rsh, way.remote_command)?,
            login: way.login.clone(),
            data_ports: way.data_ports,
            channels: way.channels,
            via_ssh: way.via_ssh,
            retry_for: way.retry_for,
            handshake_deadline: way.handshake_deadline,
            stall_limit: way.stall_deadline,
            interrupted: way.cancelled,
            carrying: Carrying::of(way.install_remote, self.quiet),
        })
    }
}
