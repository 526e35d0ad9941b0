//! Takes the answers of nodes of the destination, and the reports of workers about those nodes.
//! Asks no node.

use std::time::Instant;

use godwit_api::ask::{Peer, Refusal, code};
use godwit_api::failure::FailureCode;
use godwit_state::TARGETS_MAX;

use super::{Driver, GRANT_AGAIN, GRANT_REFUSED, NODES_EVERY, Picture, TargetAnswer};
use crate::questions::LetIn;
use crate::watch::Traffic;

/// Refusals of a node that lacks a grant for this one.
const SHUT: [FailureCode; 2] = [code::UNKNOWN_IDENTITY, code::NOT_GRANTED];

impl Driver<'_> {
    /// Workers report nodes that could not write. The job names those that are aside.
    pub(super) fn take_faults(&self, picture: &mut Picture, traffic: &[Traffic]) {
        let now = picture.now();
        let (claims, aside) = (&picture.claims, &mut picture.aside);
        let named = |identity: &str| {
            let peer = claims.all().find(|peer| peer.identity == identity);
            peer.map(|peer: &Peer| peer.name.clone())
        };
        // A lone node is the destination, and the job is as full as it is.
        if claims.ready().nth(1).is_some() {
            aside.take(now, traffic, named);
        }
        picture.rates.leave_out(aside.now(now));
        let decided = aside.decided();
        let shown = aside.shown(now, claims.ready());
        if picture.shown != shown {
            picture.shown.clone_from(&shown);
            (self.order.without)(shown);
        }
        for decided in decided {
            (self.order.note)(&decided);
        }
    }

    pub(super) fn take_answer(&self, picture: &mut Picture, answer: TargetAnswer) {
        let now = Instant::now();
        match answer {
            TargetAnswer::Claim(identity, ask, answer) => {
                picture
                    .claims
                    .answered(picture.now(), &identity, ask, answer);
            }
            TargetAnswer::Nodes(answer) => {
                picture.nodes_at = Some(now + NODES_EVERY);
                if let Ok(listed) = answer {
                    self.note_shut(picture, &listed.refused);
                    picture.listed = listed.nodes;
                    self.bound_targets(picture, true);
                }
            }
            TargetAnswer::Access(mate, answer) => {
                let found = picture
                    .members
                    .iter_mut()
                    .find(|member| member.mate == mate);
                let Some(member) = found else {
                    return;
                };
                match answer {
                    Ok(LetIn { at, refused }) => {
                        for (gate, refusal) in &refused {
                            if !member.refused.contains(&gate.identity) {
                                let (name, gate) = (&mate.name, &gate.name);
                                (self.order.note)(&format!(
                                    "the node {name} has no access at {gate}: {refusal}"
                                ));
                            }
                        }
                        let refused = refused.into_iter().map(|(gate, _)| gate.identity);
                        member.refused = refused.collect();
                        let wait = match at.len() < member.asked.len() {
                            true => GRANT_REFUSED,
                            false => GRANT_AGAIN,
                        };
                        member.ask_at = Some(now + wait);
                        member.at = at;
                        if !std::mem::replace(&mut member.is_let_in, true) {
                            picture.claims.members_changed(picture.now());
                        }
                    }
                    Err(refusal) => {
                        member.ask_at = Some(now + GRANT_REFUSED);
                        let name = &mate.name;
                        (self.order.note)(&format!(
                            "the node {name} has no access at the destination: {refusal}"
                        ));
                    }
                }
            }
        }
    }

    /// Notes each node of the destination that lacks a grant for this node: the other nodes receive everything. Another node's job may
    /// name any addresses, and its owner must not learn which of them answer.
    fn note_shut(&self, picture: &mut Picture, refused: &[(Peer, Refusal)]) {
        if !self.order.gives_access {
            return;
        }
        for (node, why) in refused.iter().filter(|(_, why)| why.code.is_one_of(&SHUT)) {
            if picture.shut.len() < TARGETS_MAX && picture.shut.insert(node.identity.clone()) {
                let name = &node.name;
                (self.order.note)(&format!(
                    "the node {name} of the destination is not used until it grants access: {why}"
                ));
            }
        }
    }
}
