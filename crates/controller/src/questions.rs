//! The questions of the controller of a divided job to the nodes of its destination.
//! Decides nothing about the answers, and keeps none of them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use godwit_api::ask::{
    Answer, AskSites, ClaimPlace, GrantJob, Peer, Question, Refusal, ReleaseClaim, RenewClaim, code,
};
use godwit_api::endpoint::is_memory;
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::grant::Mandate;
use godwit_api::job::{ClaimId, Text};
use godwit_api::rest::Timestamp;
use godwit_state::{TARGETS_MAX, Taken};

use crate::claims::{ANSWER_WITHIN, Ask, LEASE, PROBE_LEASE};
use crate::control::Mate;
use crate::vouching::{Believed, of_site, which_nodes};

/// How long a node may take to release a claim at the end of a job.
const RELEASE_WITHIN: Duration = Duration::from_secs(4);

/// Nodes of the destination that one controller uses, also one after the other: four times as many as at once.
const VOUCHED_MAX: usize = 4 * TARGETS_MAX;

/// Characters of a name accepted from another site.
const NAME_SIGNS_MAX: usize = 60;

/// How long the access of another node of this cluster lasts at the destination unless it is
/// renewed. If a controller is lost, the access that it gave ends within this time.
const GRANT_MS: u64 = 5 * 60_000;

/// The site of the destination, as its nodes are asked. Asking threads share it, because the controller does not wait for the last answer.
pub(crate) struct Site {
    pub(crate) sites: Arc<dyn AskSites>,
    /// The controller has ended, and wants no more answers.
    pub(crate) is_over: AtomicBool,
    /// The node by which the site is known.
    pub(crate) known: Peer,
    /// Which nodes of the site are believed from the beginning on.
    pub(crate) believed: Believed,
    /// The destination of the job, export first.
    pub(crate) below: Text,
    /// Nodes that have confirmed that they are of the site.
    pub(crate) vouched: Mutex<HashSet<String>>,
}

/// The destination of one divided job.
pub(crate) struct Destination {
    pub(crate) site: Arc<Site>,
    /// The claim of the job there.
    pub(crate) claim: ClaimId,
    /// Epoch of the controller.
    pub(crate) epoch: u64,
    /// The place below which the job writes, export first.
    pub(crate) path: Text,
    /// Id by which the destination knows the access of the job.
    pub(crate) known_as: String,
    /// This node gave the access of the other nodes, and revokes it at the end.
    pub(crate) gives_access: bool,
    /// The job by its earlier controllers, which gave access, too.
    pub(crate) earlier: Vec<Mandate>,
    /// Tells the time.
    pub(crate) now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// The answers of nodes of the destination that were asked to admit another node.
#[derive(Debug, Default)]
pub(crate) struct LetIn {
    /// Identities of nodes that admit it.
    pub(crate) at: HashSet<String>,
    /// Nodes that refuse it, with the reason.
    pub(crate) refused: Vec<(Peer, Refusal)>,
}

/// The nodes that serve a destination, as one of these nodes lists them.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// Nodes that have confirmed that they are of the site.
    pub(crate) nodes: Vec<Peer>,
    /// Nodes that were asked and did not confirm their site, with the reason.
    pub(crate) refused: Vec<(Peer, Refusal)>,
}

impl Site {
    fn is_vouched(&self, identity: &str) -> bool {
        let vouched = self.vouched.lock();
        vouched
            .unwrap_or_else(PoisonError::into_inner)
            .contains(identity)
    }

    /// Remembers a node that has confirmed that it belongs to the site. Returns whether it may be used: a site can have any
    /// number of identities,
    /// and name other ones each time.
    fn vouch(&self, node: &Peer) -> bool {
        let vouched = self.vouched.lock();
        let mut vouched = vouched.unwrap_or_else(PoisonError::into_inner);
        let has_room = vouched.len() < VOUCHED_MAX || vouched.contains(&node.identity);
        if has_room {
            vouched.insert(node.identity.clone());
        }
        has_room
    }

    /// Asks a node.
    pub(crate) fn ask(&self, peer: &Peer, question: &Question) -> Result<Answer, Refusal> {
        let until = Instant::now() + ANSWER_WITHIN;
        let mut go_on = |_| self.goes_on() && Instant::now() < until;
        self.sites.ask(Some(peer), question, &mut go_on)
    }

    /// Whether a node of the destination answers and lets the job measure there. There is nothing to claim in memory.
    pub(crate) fn reached(&self, peer: &Peer) -> Result<(), Refusal> {
        match self.ask(peer, &which_nodes(&self.below)) {
            Err(refusal) if refusal.code != code::UNSUPPORTED => Err(refusal),
            _ => Ok(()),
        }
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::SeqCst)
    }

    /// The part of an answer that is accepted from a node: the node named with the site may name any nodes; any other node only gives
    /// addresses of known ones.
    fn allowed(&self, asked: &Peer, mut nodes: Vec<Peer>) -> Vec<Peer> {
        if asked.identity != self.believed.first {
            nodes.retain(|node| {
                let identity = &node.identity;
                [&self.believed.first, &self.known.identity].contains(&identity)
                    || self.believed.others.contains(identity)
                    || self.is_vouched(identity)
            });
        }
        nodes
    }

    /// The nodes that serve the destination, as the asked node lists them. Independent nodes are asked one by one, and each
    /// answers for itself.
    ///
    /// # Errors
    /// The asked node refuses or does not answer. With independent nodes: none answers.
    pub(crate) fn nodes_of(&self, asked: &Peer) -> Result<Listed, Refusal> {
        match self.believed.independent.is_empty() {
            true => self.listed_by(asked),
            false => self.answering(),
        }
    }

    /// The independent nodes that answer.
    fn answering(&self) -> Result<Listed, Refusal> {
        let question = which_nodes(&self.below);
        let ask = |node: &Peer| (self.named(node.clone()), self.ask(node, &question));
        let answers: Vec<(Peer, Result<Answer, Refusal>)> = thread::scope(|scope| {
            let nodes = self.believed.independent.iter();
            // All threads run before the first is waited for.
            let asked: Vec<_> = nodes.map(|node| scope.spawn(|| ask(node))).collect();
            asked
                .into_iter()
                .filter_map(|asked| asked.join().ok())
                .collect()
        });
        let mut listed = Listed::default();
        for (node, answer) in answers {
            match answer {
                Ok(_) => listed.nodes.push(node),
                Err(refusal) => listed.refused.push((node, refusal)),
            }
        }
        match listed.refused.first() {
            Some((_, refusal)) if listed.nodes.is_empty() => Err(refusal.clone()),
            _ => Ok(listed),
        }
    }

    /// A node with a name that contains the name of its site.
    fn named(&self, node: Peer) -> Peer {
        let name = format!("{}.{}", self.known.name, node.name);
        Peer {
            name: name.chars().take(NAME_SIGNS_MAX).collect(),
            ..node
        }
    }

    /// The nodes that serve the destination, as the asked node lists them. The node by which the site is known keeps its known addresses.
    fn listed_by(&self, asked: &Peer) -> Result<Listed, Refusal> {
        let known = &self.known;
        let nodes = match self.ask(asked, &which_nodes(&self.below)) {
            Ok(Answer::Nodes(nodes)) if !nodes.is_empty() => self.allowed(asked, nodes),
            Ok(_) => vec![known.clone()],
            // The asked node takes part in no cluster, or knows none.
            Err(refusal) if refusal.code == code::UNSUPPORTED => vec![known.clone()],
            Err(refusal) => return Err(refusal),
        };
        let named = |mut peer: Peer| {
            if peer.identity == known.identity {
                peer.addresses.clone_from(&known.addresses);
            }
            self.named(peer)
        };
        let trusted = |identity: &str| {
            let is_known = identity == known.identity || identity == asked.identity;
            is_known || self.is_vouched(identity)
        };
        let refused = Mutex::new(Vec::new());
        let ask = |one: &Peer, question: &Question, within: Duration| {
            let until = Instant::now() + within;
            let mut go_on = |_| self.goes_on() && Instant::now() < until;
            let answer = self.sites.ask(Some(one), question, &mut go_on);
            if let Err(refusal) = &answer {
                let mut refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
                refused.push((one.clone(), refusal.clone()));
            }
            answer
        };
        let mut nodes = of_site(nodes, known, &self.below, &trusted, &ask);
        nodes.retain(|node| self.vouch(node) || node.identity == known.identity);
        // The asked node has answered, and belongs to the site.
        if nodes.is_empty() {
            nodes.push(asked.clone());
        }
        let refused = refused.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Listed {
            refused: refused
                .into_iter()
                .map(|(node, refusal)| (named(node), refusal))
                .collect(),
            nodes: nodes.into_iter().map(named).collect(),
        })
    }
}

impl Destination {
    /// Whether the job goes to memory, where nothing can be claimed.
    pub(crate) fn measures(&self) -> bool {
        is_memory(&String::from_utf8_lossy(&self.path.0))
    }

    /// The question by which a node sets or renews the claim, for these members. Transfers of the members in `taken` end.
    pub(crate) fn claim(&self, ask: Ask, members: &[&Mate], taken: &[Taken]) -> Question {
        let claim = self.claim;
        let lease = if ask.probes { PROBE_LEASE } else { LEASE };
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        if !ask.sets {
            return Question::Renew(RenewClaim {
                claim,
                epoch: self.epoch,
                lease_ms,
            });
        }
        let is_fenced =
            |mate: &&&Mate| ask.fences_all || taken.iter().any(|taken| taken.node == mate.name);
        let fence = members.iter().filter(is_fenced);
        Question::Claim(ClaimPlace {
            claim,
            epoch: self.epoch,
            path: self.path.clone(),
            fence: fence.map(|mate| mate.identity.clone()).collect(),
            members: members.iter().map(|mate| mate.identity.clone()).collect(),
            lease_ms,
            copies: ask.copies,
            mark: ask.mark,
        })
    }

    /// Has these nodes of the destination admit another node for this job, with the rights of this node.
    ///
    /// # Errors
    /// No gate admits the node.
    pub(crate) fn let_in(&self, gates: &[Peer], mate: &Mate) -> Result<LetIn, Refusal> {
        let answers: Vec<(&Peer, Result<(), Refusal>)> = thread::scope(|scope| {
            let asked: Vec<_> = gates
                .iter()
                .map(|gate| scope.spawn(move || (gate, self.let_in_at(gate, mate))))
                .collect();
            asked
                .into_iter()
                .filter_map(|asked| asked.join().ok())
                .collect()
        });
        let mut found = LetIn::default();
        for (gate, answer) in answers {
            match answer {
                Ok(()) => drop(found.at.insert(gate.identity.clone())),
                Err(refusal) => found.refused.push((gate.clone(), refusal)),
            }
        }
        match found.refused.first() {
            Some((_, refusal)) if found.at.is_empty() => Err(refusal.clone()),
            _ => Ok(found),
        }
    }

    fn let_in_at(&self, peer: &Peer, mate: &Mate) -> Result<(), Refusal> {
        let until = (self.now)().after(GRANT_MS);
        let question = Question::Grant(GrantJob {
            job: self.known_as.clone(),
            identity: mate.identity.clone(),
            paths: vec![self.path.clone()],
            write: true,
            until,
            lasts_ms: Some(GRANT_MS),
        });
        self.site.ask(peer, &question).map(drop)
    }

    /// Ends the claim, so that others may write to the destination. If that fails, the claim expires. A node that does not answer delays
    /// the end of the job by up to [`RELEASE_WITHIN`].
    pub(crate) fn release(&self, nodes: &[Peer], ready: Option<&Peer>, let_in: bool) {
        let claim = self.claim;
        let ask_for = |mandate: Option<&Mandate>, peer: &Peer, question: &Question| {
            let until = Instant::now() + RELEASE_WITHIN;
            let mut go_on = |_| Instant::now() < until;
            let sites = &self.site.sites;
            drop(sites.ask_for(mandate, Some(peer), question, &mut go_on));
        };
        let ask = |peer: &Peer, question: &Question| ask_for(None, peer, question);
        let release = Question::Release(ReleaseClaim {
            claim,
            epoch: self.epoch,
            path: Some(self.path.clone()),
        });
        let revoke = Question::Revoke {
            job: self.known_as.clone(),
            keep: Vec::new(),
        };
        let revoke_at = |gate: &Peer| {
            // First by those that let this node in.
            for mandate in &self.earlier {
                ask_for(Some(mandate), gate, &revoke);
            }
            ask(gate, &revoke);
        };
        thread::scope(|scope| {
            for peer in nodes.iter().filter(|_| !self.measures()) {
                scope.spawn(|| ask(peer, &release));
            }
            let gives = let_in && self.gives_access;
            // Any node of a cluster takes it: they have one state.
            let of_cluster = ready.or_else(|| nodes.first());
            let gates = match self.site.believed.independent.is_empty() {
                true => of_cluster.into_iter().collect(),
                false => nodes.iter().collect::<Vec<_>>(),
            };
            for gate in gates.into_iter().filter(|_| gives) {
                scope.spawn(|| revoke_at(gate));
            }
        });
    }
}

/// A refusal of the destination, as a failure of the job.
pub(crate) fn failure_of(refusal: &Refusal) -> Failure {
    let code = match refusal.code.known() {
        Some(code::NOT_GRANTED | code::PERMISSION) => FailureCode::AccessDenied,
        Some(code::UNKNOWN_IDENTITY) => FailureCode::Unauthorized,
        Some(code::NO_SPACE) => FailureCode::NoSpace,
        Some(code::NO_SUCH_EXPORT) => FailureCode::NoSuchExport,
        Some(code::OUTSIDE) => FailureCode::PathOutsideExport,
        Some(code::UNSUPPORTED) => FailureCode::NotSupported,
        Some(code::BUSY | code::NO_SUCH_CLAIM) => FailureCode::BusyDestination,
        _ => FailureCode::Unreachable,
    };
    Failure::new(code, refusal.message.clone())
}

#[cfg(test)]
mod tests;
