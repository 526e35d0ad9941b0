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
    family("cluster", "Join nodes to one mover, and see how they are")
        .subcommands([
            Command::new("invite")
                .about("Print a token by which one node can join")
                .arg(value(
                    "expires",
                    "TIME",
                    "How long it is good [default: 1h]",
                )),
            Command::new("status").about("List the nodes, who leads, who votes, and how each is"),
            Command::new("drain")
                .about("Have a node take no more jobs; those that it runs go on at other nodes")
                .arg(switch("undo", "Have the node take jobs again"))
                .arg(node()),
            Command::new("promote")
                .about("Have a node vote before others, if there are more nodes than seats")
                .arg(node()),
            Command::new("remove")
                .about("Remove a node from the cluster")
                .arg(switch("force", "Even if it lives and is not drained"))
                .arg(node()),
        ])
        .subcommands([
            offline(
                "recover",
                "Make the stopped node of this home the only one, after a majority was lost",
                "Yes, a majority is lost for good",
            ),
            offline(
                "leave",
                "Have the stopped node of this home forget its cluster",
                "Yes, even if its state is the only one",
            ),
        ])
}
