//! `godwit id` and `trust`: our identity, and those of known nodes.
//! Only changes files in the home directory.

use super::required_text;
use crate::exit::{Exit, Failure, FailureCode};
use crate::home::Home;
use crate::output::print;
use clap::ArgMatches;
use godwit_api::PORT_DEFAULT;
use godwit_api::host::HostPort;
use godwit_net::{IdentityId, KnownPeers, PeerAddress, Trusted};

/// Prints the identity, made at the first call.
pub(super) fn id(home: &Home) -> Result<Exit, Failure> {
    let identity = home.identity()?;
    print(&identity.id().to_string());
    Ok(Exit::Complete)
}

/// Stores the identity of a node.
pub(super) fn trust(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let node = required_text(matches, "node")?;
    let node = HostPort::parse(node, PORT_DEFAULT)
        .map_err(|error| Failure::usage(format!("{node}: {error}")))?;
    let identity = identity(matches)?;
    let address = PeerAddress::new(&node.host, node.port);
    let trusted = KnownPeers::new(home.path())
        .trust(&address, identity)
        .map_err(|error| Failure::new(FailureCode::HomeUnusable, error))?;
    print(&match trusted {
        Trusted::Replaced(other) => {
            format!("{node} is trusted as {identity}, no longer as {other}")
        }
        Trusted::Added | Trusted::AlreadyKnown => format!("{node} is trusted as {identity}"),
    });
    Ok(Exit::Complete)
}

fn identity(matches: &ArgMatches) -> Result<IdentityId, Failure> {
    required_text(matches, "identity")?
        .parse()
        .map_err(Failure::usage)
}
