//! The words of `godwit cluster`.
//! Runs nothing.

use clap::Command;

use super::node::{family, value};
use super::{positional, switch};

pub(super) fn cluster() -> Command {
    let node = || positional("name", "NODE", "Which node");
    let offline = |name: &'static str, about: &'static str, yes: &'static str| {
        Command::new(name).about(about).arg(switch("yes", yes))
    };
    family("cluster", "Join nodes to a cluster, and show their states")
        .subcommands([
            Command::new("invite")
                .about("Print a token by which one node can join")
                .arg(value(
                    "expires",
                    "TIME",
                    "Lifetime of the token [default: 1h]",
                )),
            Command::new("invites").about("List the invitations, without their tokens"),
            Command::new("revoke")
                .about("End an unused invitation at once, so that it admits no node")
                .arg(positional("id", "ID", "Id of the invitation, as the list shows it")),
            Command::new("status").about("List the nodes: the leader, the voters, and the state of each node"),
            Command::new("drain")
                .about("Stop a node from taking jobs; its running jobs move to other nodes")
                .arg(switch("undo", "Let a drained node take jobs again"))
                .arg(node()),
            Command::new("promote")
                .about("Prefer a node as a voter, if the cluster has more nodes than voters")
                .arg(node()),
            Command::new("remove")
                .about("Remove a node from the cluster")
                .arg(switch("force", "Remove the node even if it is alive and not drained"))
                .arg(node()),
        ])
        .subcommands([
            offline(
                "recover",
                "Make the stopped node of this home the only node of its cluster, after a majority was lost",
                "Confirm that a majority is lost for good",
            ),
            offline(
                "leave",
                "Make the stopped node of this home forget its cluster",
                "Confirm, even if no other node has the state",
            ),
        ])
}
