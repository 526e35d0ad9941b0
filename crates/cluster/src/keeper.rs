//! The thread that maintains the cluster. Each second it reports to the leader that this node lives, or does the work of the `leader`.
//! Answers no questions: `answers` does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use godwit_api::ask::{
    Announce, Answer, ClusterAnswer, ClusterQuestion, KnownNode, Peer, Question, Refusal, code,
};
use godwit_state::{Actor, Change, Command, Node, Op, ProposeError};

use crate::carrier::peer_at;
use crate::leader::Leader;
use crate::{Cluster, LookAtAddresses, NUMBER_ALONE, Shared, known, peer, unread};

/// Interval between beats.
const BEAT: Duration = Duration::from_secs(1);

/// Time within which one node must answer an announcement.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);

/// Main function of the thread.
pub(crate) fn run(shared: &Arc<Shared>, look: &LookAtAddresses) {
    let mut said = String::new();
    while !shared.stopping.load(Ordering::SeqCst) {
        let began = Instant::now();
        shared.look_at_addresses(look);
        let beaten = beat(shared).and_then(|()| shared.forget_known_at_join());
        shared.lacks.mark_odd(&shared.config);
        let trouble = beaten.err().unwrap_or_default();
        if !trouble.is_empty() && trouble != said {
            (shared.config.log)(&format!("cluster: {trouble}"));
        } else if trouble.is_empty() && !said.is_empty() {
            (shared.config.log)("cluster: no problems any more");
        }
        said = trouble;
        std::thread::park_timeout(BEAT.saturating_sub(began.elapsed()));
    }
}

fn beat(shared: &Shared) -> Result<(), String> {
    let leads = shared.config.replica.is_leader();
    shared.live.lock().leads(leads, Instant::now());
    if leads {
        shared.membership.note_refused(false, Instant::now());
        return Leader::new(shared)?.lead();
    }
    let announced = Announcing::new(shared).send();
    let refused = announced.as_ref().err();
    // A node that does not vote sends no messages of the consensus, which would have the same answer.
    if let Some(refusal) = refused.filter(|refusal| refusal.code == code::RECOVERED) {
        (shared.config.left_behind)(&refusal.message);
    }
    let is_strange = refused.is_some_and(|refusal| refusal.code == code::OTHER_CLUSTER);
    shared.membership.note_refused(is_strange, Instant::now());
    announced.map_err(|refusal| refusal.to_string())
}

impl Shared {
    pub(crate) fn announcement(&self) -> Announce {
        Announce {
            of: self.config.home.cluster.clone(),
            node: self.known(),
            exports: self.exports(),
            version: self.config.version.clone(),
            level: self.config.level,
            resources: (self.config.resources)(),
            observations: self.observations.seen(),
            admins: self.config.admins.clone(),
            problem: self.disk_problem().map(Announce::problem_of),
        }
    }

    /// The reason why the disk of this node's state cannot store changes.
    pub(crate) fn disk_problem(&self) -> Option<String> {
        let checked = self.config.replica.readiness().check_disk();
        checked.err().map(|error| error.words())
    }

    pub(crate) fn propose(&self, op: Op) -> Result<(), ProposeError> {
        let actor = Actor::node(self.config.home.name.clone());
        let command = Command::new((self.config.now)(), actor, op);
        self.config.replica.propose_blocking(command).map(drop)
    }
}

impl Cluster {
    /// Makes sure that this node has a row, before another node looks for it. A node that joined has its row already.
    pub(crate) fn make_own_row(&self) -> Result<(), ProposeError> {
        let shared = &self.shared;
        if shared.config.home.number != NUMBER_ALONE {
            return Ok(());
        }
        let name = &shared.config.home.name;
        let row: Option<Node> = shared.config.replica.reader().object(name)?;
        match row {
            Some(_) => Ok(()),
            None => shared.propose(Op::Node(Change::Put(shared.own_row(None)))),
        }
    }
}

/// The announcement to the leader that this node lives.
struct Announcing<'a> {
    shared: &'a Shared,
    question: Question,
}

impl<'a> Announcing<'a> {
    fn new(shared: &'a Shared) -> Self {
        let said = ClusterQuestion::Announce(Box::new(shared.announcement()));
        let question = Question::Cluster(Box::new(said));
        Self { shared, question }
    }

    /// Sends the announcement to the leader.
    fn send(&self) -> Result<(), Refusal> {
        let shared = self.shared;
        let own = &shared.config.identity;
        let hint = shared.config.replica.leader_hint();
        let first = hint.map(|(_, address)| peer_at(&address));
        let rows: Result<Vec<Node>, _> = shared.config.replica.reader().objects();
        let rows = rows.map_err(unread)?;
        let known_at_join = shared.membership.known_at_join().clone();
        let others = rows.iter().map(known).chain(known_at_join);
        let others = others.map(|node| peer(&node));
        let mut asked: Vec<Peer> = Vec::new();
        let mut answers = Answers::default();
        let no_leader = || Refusal::later(code::NO_LEADER, "no node leads the cluster now");
        let mut trouble = Refusal::later(
            code::NO_LEADER,
            "this node knows no other node of its cluster",
        );
        for to in first.into_iter().chain(others) {
            let is_known = asked.iter().any(|before| before.identity == to.identity);
            if to.identity == *own || to.addresses.is_empty() || is_known {
                continue;
            }
            match self.announce(&to) {
                Ok(None) => return Ok(()),
                Ok(Some(leader)) if leader.identity != *own => {
                    let leader = peer(&leader);
                    if let Ok(None) = self.announce(&leader) {
                        return Ok(());
                    }
                    answers.note_other();
                    trouble = no_leader();
                }
                Ok(Some(_)) => {
                    answers.note_other();
                    trouble = no_leader();
                }
                Err(refusal) if is_final(&refusal) => return Err(refusal),
                Err(refusal) => {
                    answers.note(&refusal);
                    trouble = refusal;
                }
            }
            asked.push(to);
            if shared.stopping.load(Ordering::SeqCst) {
                return Ok(());
            }
        }
        Err(match answers.refusal(asked.len()) {
            Some(refusal) => refusal,
            None if trouble.code == code::OTHER_CLUSTER => no_leader(),
            None => trouble,
        })
    }

    /// `None` if the asked node leads; otherwise the leader, or a refusal.
    fn announce(&self, to: &Peer) -> Result<Option<KnownNode>, Refusal> {
        let until = Instant::now() + ANSWERED_WITHIN;
        let sites = &self.shared.config.sites;
        let answer = sites.ask(Some(to), &self.question, &mut |_| Instant::now() < until)?;
        match answer {
            Answer::Cluster(answer) => match *answer {
                ClusterAnswer::Announced {
                    leads: true, ages, ..
                } => {
                    let leader = to.identity.clone();
                    self.note_ages(&leader, &ages);
                    Ok(None)
                }
                ClusterAnswer::Announced {
                    leader: Some(leader),
                    ..
                } => Ok(Some(leader)),
                _ => Err(Refusal::later(
                    code::NO_LEADER,
                    "no node leads the cluster now",
                )),
            },
            _ => Err(Refusal::new(
                code::BROKEN,
                "another node answered a different question",
            )),
        }
    }

    /// Records that the leader lives, and when the leader heard the other nodes: a later leader starts from these times.
    fn note_ages(&self, leader: &str, ages: &[(u64, u64)]) {
        let reader = self.shared.config.replica.reader();
        let rows: Vec<Node> = reader.objects().unwrap_or_default();
        let leader = rows.iter().find(|row| row.identity == leader);
        let leader = leader.map(|row| row.number);
        // A node that only claims to lead may name any number.
        let numbers: BTreeSet<u64> = rows.iter().map(|row| row.number).collect();
        let own = self.shared.config.home.number;
        let mut live = self.shared.live.lock();
        let now = Instant::now();
        let others = ages.iter().copied();
        for (number, age) in others.filter(|(number, _)| *number != own && numbers.contains(number))
        {
            live.seen_by_leader(number, Duration::from_millis(age), now);
        }
        if let Some(leader) = leader {
            live.reported(leader, now);
        }
    }
}

/// The answers of the other nodes to one announcement.
#[derive(Default)]
struct Answers {
    /// A node that left this cluster refuses the nodes of the cluster, too.
    refusals: Vec<Refusal>,
    has_other: bool,
}

impl Answers {
    fn note(&mut self, refusal: &Refusal) {
        if refusal.code == code::OTHER_CLUSTER {
            self.refusals.push(refusal.clone());
        } else if refusal.code == code::NO_LEADER {
            self.has_other = true;
        }
    }

    fn note_other(&mut self) {
        self.has_other = true;
    }

    /// The refusal of this node as a stranger: no node gives another answer, and at least two nodes, or all of `asked`, refuse it.
    fn refusal(mut self, asked: usize) -> Option<Refusal> {
        let are_enough = self.refusals.len() >= 2 || self.refusals.len() == asked;
        let refusal = self.refusals.pop();
        refusal.filter(|_| are_enough && !self.has_other)
    }
}

/// Whether all other nodes would answer the same.
fn is_final(refusal: &Refusal) -> bool {
    let last = [code::RECOVERED, code::UNSUPPORTED];
    refusal.code.is_one_of(&last)
}

#[cfg(test)]
mod reported;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_stranger_only_if_no_other_says_otherwise() {
        let refuses = || Refusal::new(code::OTHER_CLUSTER, "you are no node");
        let lacks_leader = || Refusal::later(code::NO_LEADER, "no node leads");
        let silent = || Refusal::later(code::IO, "no route");
        let is_strange = |refusals: &[Refusal]| {
            let mut answers = Answers::default();
            refusals.iter().for_each(|refusal| answers.note(refusal));
            answers.refusal(refusals.len()).is_some()
        };
        assert!(is_strange(&[refuses()]));
        assert!(is_strange(&[refuses(), silent(), refuses()]));
        // A node that left the cluster refuses every asker.
        assert!(!is_strange(&[refuses(), silent(), silent()]));
        assert!(!is_strange(&[refuses(), lacks_leader(), refuses()]));
        assert!(!is_strange(&[silent(), silent()]));
        assert!(!is_strange(&[]));
    }
}
