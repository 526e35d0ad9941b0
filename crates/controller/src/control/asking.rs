//! Threads that ask the nodes of the destination for one controller, and outlive it if a node does not answer.
//! Decides nothing: `claims` decides which questions are due, and the controller takes the answers.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::Builder;
use std::time::Instant;

use godwit_api::ask::Peer;

use super::{Mate, Picture, TargetAnswer};
use crate::questions::Destination;

/// Threads that ask.
pub(super) struct Asking {
    pub(super) sender: SyncSender<TargetAnswer>,
    pub(super) destination: Arc<Destination>,
}

impl Asking {
    /// Starts threads for the questions that are due.
    pub(super) fn ask_due(&self, picture: &mut Picture) {
        let destination = &self.destination;
        for (peer, ask) in picture.claims.due(picture.now()) {
            let members: Vec<&Mate> = picture.crew().collect();
            let question = destination.claim(ask, &members, &picture.taken);
            let site = Arc::clone(&destination.site);
            let measures = destination.measures();
            self.spawn(peer, move |peer| {
                let answer = match measures {
                    true => site.reached(&peer),
                    false => site.ask(&peer, &question).map(drop),
                };
                TargetAnswer::Claim(peer.identity, ask, answer)
            });
        }
        let now = Instant::now();
        let ready: Vec<Peer> = picture.claims.ready().cloned().collect();
        let Some(first) = ready.first() else {
            return;
        };
        if picture.nodes_at.is_some_and(|at| now >= at) {
            (picture.nodes_at, picture.asked) = (None, picture.asked + 1);
            let peer = ready[picture.asked % ready.len()].clone();
            let site = Arc::clone(&destination.site);
            self.spawn(peer, move |peer| TargetAnswer::Nodes(site.nodes_of(&peer)));
        }
        let is_lone = !destination.site.believed.independent.is_empty();
        let gates: Vec<Peer> = match is_lone {
            true => ready.clone(),
            false => vec![first.clone()],
        };
        for member in &mut picture.members {
            // Nodes of a cluster have one state, and any of them has answered for all.
            let is_new = is_lone && is_new(&member.asked, &gates);
            if !member.ask_at.is_some_and(|at| now >= at || is_new) {
                continue;
            }
            member.ask_at = None;
            member.asked = gates.iter().map(|gate| gate.identity.clone()).collect();
            let mate = member.mate.clone();
            let (destination, gates) = (Arc::clone(destination), gates.clone());
            self.spawn(first.clone(), move |_| {
                let answer = destination.let_in(&gates, &mate);
                TargetAnswer::Access(mate, answer)
            });
        }
    }
}

/// Whether a node was not asked for access yet. If this node is the only one that is left, everything waits
/// for its answer.
fn is_new(asked: &HashSet<String>, gates: &[Peer]) -> bool {
    gates.iter().any(|gate| !asked.contains(&gate.identity))
}

impl Asking {
    fn spawn(&self, peer: Peer, ask: impl FnOnce(Peer) -> TargetAnswer + Send + 'static) {
        let sender = self.sender.clone();
        let ask = Builder::new()
            .name("gw-ask".to_owned())
            // A controller that has ended needs no answer.
            .spawn(move || drop(sender.send(ask(peer))));
        // If no thread starts, the node is not asked, and soon counts as silent.
        drop(ask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_node_that_is_left_is_asked_at_once() {
        let gate = |identity: &str| Peer {
            name: String::new(),
            addresses: Vec::new(),
            identity: identity.to_owned(),
        };
        let asked = HashSet::from(["a".to_owned()]);
        assert!(is_new(&asked, &[gate("b")]));
        assert!(is_new(&asked, &[gate("a"), gate("b")]));
        assert!(!is_new(&asked, &[gate("a")]));
    }
}
