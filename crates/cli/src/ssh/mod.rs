//! Everything that has to do with ssh: starting an agent on another machine, and reaching it beside ssh or through it.
//! Knows nothing of what is transferred.
//!
//! ssh carries a stream of the transfer that has no blocks, but for the first MiB of content in each direction while no other
//! stream is there. More goes beside ssh over TLS, or through ssh if the user asks (`--via-ssh`). Where neither works, the client
//! fails with what it tried.
//!
//! A small file takes three round trips more than `ssh HOST true`: ssh takes input once the agent runs, which brings OPENED; the
//! manifest brings its answer; the block brings FINISHED. It needs no other connection, and the client does not wait for ssh to
//! end.

mod command;
mod connector;
mod greeting;
mod process;
mod start;

use std::net::{IpAddr, SocketAddr};

pub(crate) use command::Rsh;
pub(crate) use connector::{SshConnector, SshOptions, unreachable};
pub(crate) use godwit_run::SOFTWARE;
pub(crate) use start::{Order, Started, start};

/// The addresses of this machine with a port, for the other side to dial; `first` goes before all.
pub(crate) fn own_targets(first: Option<IpAddr>, port: u16) -> Vec<SocketAddr> {
    let own = godwit_net::own_addresses().unwrap_or_default();
    let mut targets: Vec<SocketAddr> = Vec::new();
    for address in first.into_iter().chain(own) {
        let target = SocketAddr::new(address.to_canonical(), port);
        if !targets.contains(&target) && targets.len() < ADDRESSES_MAX {
            targets.push(target);
        }
    }
    targets
}

/// The two addresses of the connection that ssh came in by: of the client, and of this machine.
pub(crate) fn ssh_connection() -> Option<(IpAddr, IpAddr)> {
    let text = std::env::var("SSH_CONNECTION").ok()?;
    let mut words = text.split_whitespace();
    let client = words.next()?;
    let server = words.nth(1)?;
    // A zone says nothing to others.
    let parse = |word: &str| word.split('%').next()?.parse().ok();
    Some((parse(client)?, parse(server)?))
}

/// Of the many that a machine may have, so many are tried.
const ADDRESSES_MAX: usize = 16;
