//! Starts an agent through ssh: its order, and its answer.
//! Makes no other connection with it (`connector`).

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use godwit_engine::limits;
use godwit_engine::session::Refusal;
use godwit_net::{IdentityId, is_of_a_machine};
use godwit_proto::ErrorCode;
use godwit_proto::agent::{AGENT_VERSION, AgentMessage as _, Start, Started as Answer};

use super::SOFTWARE;
use super::carry::carry;
use super::connector::SshOptions;
use super::greeting::Peer;
use super::process::SshProcess;

/// The order for an agent.
pub(crate) struct Order {
    /// The identity of the client that will connect; `None` for an errand.
    pub(crate) client: Option<IdentityId>,
    /// The sender, in the key of the journal.
    pub(crate) sender: String,
    /// Addresses where the connecting client listens.
    pub(crate) targets: Vec<SocketAddr>,
    /// The client is this process, so other addresses of it may be visible to the agent.
    pub(crate) from_here: bool,
}

/// An agent that answered.
pub(crate) struct Started {
    pub(crate) process: Arc<SshProcess>,
    /// The socket that ssh carries from now on.
    pub(crate) socket: UnixStream,
    pub(crate) identity: IdentityId,
    /// Addresses of the agent, the likeliest first.
    pub(crate) targets: Vec<SocketAddr>,
    pub(crate) port: u16,
    /// Capabilities of the agent, in the exchange with agents.
    pub(crate) capabilities: u64,
    /// Output that came before the answer.
    pub(crate) noise: Vec<u8>,
    /// Content bytes of blocks that the agent takes through ssh while there is no other path.
    pub(crate) early_bytes: u64,
}

/// Starts an agent; sends `first` after the order. Carries this program to a machine that has none, if the user agrees.
pub(crate) fn start(options: &SshOptions, order: &Order, first: &[u8]) -> Result<Started, Refusal> {
    let is_missing = |refusal: &Refusal| refusal.code() == ErrorCode::NO_COMMAND;
    let missing = match begin(options, order, first) {
        Err(refusal) if is_missing(&refusal) && options.rsh.is_usual() => refusal,
        ended => return ended,
    };
    // An earlier run may have carried it.
    options.rsh.set_carried(true);
    match begin(options, order, first) {
        Err(refusal) if is_missing(&refusal) => {}
        ended => return ended,
    }
    options.rsh.set_carried(false);
    if !options.may_carry()? {
        return Err(missing);
    }
    carry(options)?;
    options.rsh.set_carried(true);
    begin(options, order, first)
}

fn begin(options: &SshOptions, order: &Order, first: &[u8]) -> Result<Started, Refusal> {
    let login = &options.login;
    let (port_first, port_last) = options.data_ports.unwrap_or((0, 0));
    let order = Start {
        version_min: AGENT_VERSION,
        version_max: AGENT_VERSION,
        software: SOFTWARE.to_owned(),
        identity: order.client.map(|id| id.to_string()).unwrap_or_default(),
        sender: order.sender.clone(),
        port_first: port_first.into(),
        port_last: port_last.into(),
        addresses: order.targets.iter().map(SocketAddr::to_string).collect(),
        port: order
            .targets
            .first()
            .filter(|_| order.from_here)
            .map_or(0, |first| first.port().into()),
        via_ssh: options.via_ssh,
        retry_for_ms: u64::try_from(options.retry_for.as_millis()).unwrap_or(u64::MAX),
        errand: order.client.is_none(),
        early_bytes: limits::EARLY_BYTES,
    };
    let own = |code, what: String| Refusal::own(code, format!("{login}: {what}"));
    let mut words = order
        .to_bytes()
        .map_err(|error| own(ErrorCode::INTERNAL, error.to_string()))?;
    words.extend_from_slice(first);
    let named = resolve(&login.host);
    let (process, mut socket) = SshProcess::start(&options.rsh.line(login, "agent --stdio"))
        .map_err(|error| own(ErrorCode::SSH, format!("ssh cannot be started: {error}")))?;
    let (answer, noise): (Answer, Vec<u8>) = Peer {
        login,
        remote_command: &options.rsh.remote_command(),
        process: &process,
        interrupted: &options.interrupted,
        limit: options.answer_limit(),
    }
    .greet(&mut socket, &words)?;
    let identity = answer.identity.parse().map_err(|error| {
        own(
            ErrorCode::PROTOCOL,
            format!("its agent broke the protocol: {error}"),
        )
    })?;
    let port = u16::try_from(answer.port).unwrap_or_default();
    let named: Vec<IpAddr> = named.try_iter().flatten().collect();
    let targets = targets(&answer.addresses, &named, port);
    Ok(Started {
        process: Arc::new(process),
        socket,
        identity,
        targets,
        port,
        capabilities: answer.capabilities,
        noise,
        early_bytes: answer.early_bytes,
    })
}

/// Addresses to dial. A machine behind a network address translator does not know the name that it is reached by; the dialling side does.
fn targets(said: &[String], named: &[IpAddr], port: u16) -> Vec<SocketAddr> {
    let mut said = said
        .iter()
        .filter_map(|text| text.parse().ok())
        .filter(|address| is_of_a_machine(*address));
    let mut targets: Vec<SocketAddr> = Vec::new();
    let first = said.next();
    for address in first.into_iter().chain(named.iter().copied()).chain(said) {
        let target = SocketAddr::new(address, port);
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    targets
}

/// The addresses of a host, as far as this machine knows them. The host may be an alias of ssh, or known only at a jump host.
fn resolve(host: &str) -> Receiver<Vec<IpAddr>> {
    let (answer, answers) = sync_channel(1);
    let host = host.to_owned();
    let body = move || {
        let found = (host.as_str(), 0).to_socket_addrs();
        // The receiver may be gone.
        let _ = answer.send(
            found
                .into_iter()
                .flatten()
                .map(|found| found.ip())
                .collect(),
        );
    };
    // Without the thread, the addresses from the other side must suffice.
    let _ = std::thread::Builder::new()
        .name("resolve".to_owned())
        .spawn(body);
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unspecified_and_multicast_addresses_are_not_dialled() {
        let said = ["0.0.0.0", "192.0.2.1", "::", "224.0.0.1", "192.0.2.2"].map(str::to_owned);
        let named = ["192.0.2.9".parse().unwrap()];
        let found: Vec<String> = targets(&said, &named, 7)
            .iter()
            .map(SocketAddr::to_string)
            .collect();
        assert_eq!(found, ["192.0.2.1:7", "192.0.2.9:7", "192.0.2.2:7"]);
    }
}
