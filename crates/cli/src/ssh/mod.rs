//! Everything about ssh: starting an agent on another machine, and reaching the agent beside ssh or through it.
//! Does not know the transferred data.
//!
//! ssh carries one stream of the transfer, without blocks. While no other stream is there, it carries the first MiB of content in each
//! direction. Further content goes beside ssh over TLS, or through ssh if the user asks (`--via-ssh`). If neither works, the client
//! fails and lists its attempts.
//!
//! A small file takes three RTTs more than `ssh HOST true`. ssh takes input once the agent runs. The agent answers with OPENED.
//! ANSWER follows the manifest, and FINISHED follows the block. The file needs no other connection, and the client does not
//! wait for the end of
//! ssh.

mod carry;
mod command;
mod connector;
mod greeting;
mod process;
mod start;

use std::net::{IpAddr, SocketAddr};

pub(crate) use command::Rsh;
pub(crate) use connector::{Carrying, SshConnector, SshOptions, unreachable};
pub(crate) use godwit_run::SOFTWARE;
pub(crate) use process::SshProcess;
pub(crate) use start::{Order, Started, start};

/// The addresses of this machine with a port, for the other side to dial; `first` comes first.
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

/// The two addresses of the connection that ssh used: of the client, and of this machine.
pub(crate) fn ssh_connection() -> Option<(IpAddr, IpAddr)> {
    let text = std::env::var("SSH_CONNECTION").ok()?;
    let mut words = text.split_whitespace();
    let client = words.next()?;
    let server = words.nth(1)?;
    // A zone means nothing on other machines.
    let parse = |word: &str| word.split('%').next()?.parse().ok();
    Some((parse(client)?, parse(server)?))
}

/// Most tried addresses of a machine.
const ADDRESSES_MAX: usize = 16;
