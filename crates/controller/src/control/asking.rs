//! Threads that ask the nodes of the destination for one controller.
//! Decides nothing: `claims` says what is due, and the controller hears the answers.

use std::sync::mpsc::SyncSender;
use std::thread::Scope;
use std::time::Instant;

use godwit_api::ask::Peer;

use super::{Heard, Mate, Sight};
use crate::questions::Destination;

/// Threads that ask.
pub(super) struct Asking<'scope, 'env, 'a> {
    pub(super) scope: &'scope Scope<'scope, 'env>,
    pub(super) tell: SyncSender<Heard>,
    pub(super) destination: &'scope Destination<'a>,
}

impl Asking<'_, '_, '_> {
    /// Has threads ask what is to be asked.
    pub(super) fn ask_due(&self, sight: &mut Sight) {
        let destination = self.destination;
        for (peer, ask) in sight.claims.due(sight.now()) {
            let members: Vec<&Mate> = sight.crew().collect();
            let question = destination.claim(ask, &members, &sight.taken);
            self.spawn(peer, move |peer| {
                let answer = destination.driver.ask(&peer, &question).map(drop);
                Heard::Claim(peer.identity, ask, answer)
            });
        }
        let now = Instant::now();
        let ready: Vec<Peer> = sight.claims.ready().cloned().collect();
        let Some(first) = ready.first() else {
            return;
        };
        if sight.nodes_at.is_some_and(|at| now >= at) {
            (sight.nodes_at, sight.asked) = (None, sight.asked + 1);
            let peer = ready[sight.asked % ready.len()].clone();
            self.spawn(peer, |peer| {
                Heard::Nodes(destination.driver.nodes_of(&peer))
            });
        }
        for member in &mut sight.members {
            if member.ask_at.is_none_or(|at| now < at) {
                continue;
            }
            member.ask_at = None;
            let mate = member.mate.clone();
            self.spawn(first.clone(), move |peer| {
                let answer = destination.let_in(&peer, &mate);
                Heard::Access(mate, answer)
            });
        }
    }
}

impl<'scope> Asking<'scope, '_, '_> {
    fn spawn(&self, peer: Peer, ask: impl FnOnce(Peer) -> Heard + Send + 'scope) {
        let tell = self.tell.clone();
        // Who is gone needs no answer.
        self.scope.spawn(move || drop(tell.send(ask(peer))));
    }
}
