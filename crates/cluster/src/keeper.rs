//! The thread that maintains the cluster. Each second it reports to the leader that this node lives. The leader's thread updates rows,
//! members and voters. Answers no questions: `hearing` does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use godwit_api::ask::{
    Announce, Answer, ClusterAnswer, ClusterQuestion, KnownNode, Peer, Question, Refusal, code,
};
use godwit_api::sight::odd_ones;
use godwit_state::{Actor, Agreed, Change, Command, Member, Members, Node, Op, ProposeError};

use crate::carrier::{address_of, peer_at};
use crate::live::GONE_AFTER;
use crate::sights::Compared;
use crate::voters::{self, Candidate};
use crate::{Cluster, NUMBER_ALONE, Shared, known, peer, unread};

/// Interval between beats.
const BEAT: Duration = Duration::from_secs(1);

/// Time within which one node must answer an announcement.
const HEARD_WITHIN: Duration = Duration::from_secs(3);

/// A node may vote if it lacks fewer commands than this number.
const BEHIND_MAX: u64 = 1_000;

/// Main function of the thread.
pub(crate) fn run(shared: &Arc<Shared>) {
    let mut said = String::new();
    while !shared.stopping.load(Ordering::SeqCst) {
        let began = Instant::now();
        let beaten = beat(shared).and_then(|()| shared.forget_told());
        shared.mark_odd();
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
        shared.note_strange(false, Instant::now());
        return lead(shared);
    }
    let announced = announce(shared);
    let refused = announced.as_ref().err();
    let is_strange = refused.is_some_and(|refusal| refusal.code == code::OTHER_CLUSTER);
    shared.note_strange(is_strange, Instant::now());
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
            sights: self.sights.seen(),
            admins: self.config.admins.clone(),
            problem: self.disk_problem().map(Announce::problem_of),
        }
    }

    /// The reason why the disk of this node's state cannot store changes.
    pub(crate) fn disk_problem(&self) -> Option<String> {
        let checked = self.config.replica.check_disk();
        checked.err().map(|error| error.words())
    }

    /// Records that the leader lives, and when the leader heard the other nodes: a later leader starts from these times.
    fn note_ages(&self, leader: &str, ages: &[(u64, u64)]) {
        let rows = self.config.replica.reader().objects_by::<Node>(leader);
        let leader = rows
            .ok()
            .and_then(|rows| rows.first().map(|row| row.number));
        let own = self.config.home.number;
        let mut live = self.live.lock();
        let now = Instant::now();
        let others = ages.iter().filter(|(number, _)| *number != own);
        for (number, age) in others.copied() {
            live.told(number, Duration::from_millis(age), now);
        }
        if let Some(leader) = leader {
            live.reported(leader, now);
        }
    }

    fn propose(&self, op: Op) -> Result<(), ProposeError> {
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

/// Work that the leader does each second. It makes one change of the consensus at a time, so that each builds on the last.
fn lead(shared: &Shared) -> Result<(), String> {
    let replica = &shared.config.replica;
    let rows: Vec<Node> = replica.reader().objects().map_err(told)?;
    let number = shared.config.home.number;
    let own = rows.iter().find(|row| row.number == number);
    // A node that has always been alone needs no row.
    if own.is_none() && rows.is_empty() && number == NUMBER_ALONE {
        return raise(shared, shared.config.level);
    }
    let known = rows.iter().map(|row| row.level).min();
    raise(shared, known.unwrap_or_default())?;
    let knows_origin = shared.knows_origin();
    let now = Instant::now();
    let odd = odd_exports(shared, &rows, now);
    for row in &rows {
        let own = (row.number == number).then(|| shared.own_row(Some(row)));
        let said = shared.live.lock();
        let wanted = said
            .of(row.number)
            .map(|entry| as_said(row, &entry.said, knows_origin));
        drop(said);
        let wanted = own.or(wanted).map(|mut wanted| {
            let is_odd = |export: &String| odd.contains(&(row.number, export.clone()));
            wanted.exports.retain(|export| !is_odd(export));
            wanted
        });
        if let Some(wanted) = wanted.filter(|wanted| wanted != row) {
            shared
                .propose(Op::Node(Change::Put(wanted)))
                .map_err(told)?;
        }
        if row.number != number && shared.live.lock().tell_lost(row.number, now) {
            (shared.config.log)(&format!(
                "cluster: the node {} is silent; its jobs move to other nodes",
                row.name
            ));
            let done = shared.propose(Op::Lost(row.name.clone()));
            done.map_err(|error| {
                shared.live.lock().tell_again(row.number);
                told(error)
            })?;
        }
    }
    shared
        .live
        .lock()
        .keep(|number| rows.iter().any(|row| row.number == number));
    members(shared, &rows, now)
}

/// The exports whose file system differs from that of most nodes: their nodes accept no jobs for them.
fn odd_exports(shared: &Shared, rows: &[Node], now: Instant) -> Vec<(u64, String)> {
    let own = shared.config.home.number;
    let mut sights: BTreeMap<String, Vec<(u64, Vec<u64>)>> = BTreeMap::new();
    let heard = shared.live.lock();
    for row in rows {
        let seen = match row.number == own {
            true => shared.sights.seen(),
            false => match heard.of(row.number) {
                Some(entry) if !heard.is_lost(row.number, now) => entry.said.sights.clone(),
                _ => continue,
            },
        };
        for (export, sight) in seen {
            sights.entry(export).or_default().push((row.number, sight));
        }
    }
    drop(heard);
    let (mut odd, mut compared) = (Vec::new(), Vec::new());
    for (export, seen) in sights {
        for (number, sight) in &seen {
            let row = rows.iter().find(|row| row.number == *number);
            compared.push(Compared {
                export: (*number, export.clone()),
                directory: sight.first().copied().unwrap_or(0),
                is_listed: row.is_some_and(|row| row.exports.contains(&export)),
            });
        }
        let all: Vec<&[u64]> = seen.iter().map(|(_, sight)| sight.as_slice()).collect();
        let ones = odd_ones(&all).into_iter();
        odd.extend(ones.map(|at| (seen[at].0, export.clone())));
    }
    let odd = shared.sights.lasting(odd, &compared, now);
    for (number, export) in shared.sights.new_ones(&odd) {
        let row = rows.iter().find(|row| row.number == number);
        let name = row.map_or("", |row| row.name.as_str());
        (shared.config.log)(&format!(
            "cluster: the export {export} of the node {name} is a different file system than at most nodes, or is not mounted there; the node takes no jobs of this export until the file system is mounted as at the other nodes"
        ));
    }
    odd
}

/// Raises the level of the cluster to the level that all of its nodes know.
fn raise(shared: &Shared, known: u32) -> Result<(), String> {
    if known
        <= Agreed(&shared.config.replica.reader())
            .level()
            .map_err(told)?
    {
        return Ok(());
    }
    shared.propose(Op::Level(known)).map_err(told)?;
    (shared.config.log)(&format!(
        "cluster: all nodes know level {known}; the cluster uses it from now on"
    ));
    Ok(())
}

/// The row of a node, updated from its announcement.
pub(crate) fn as_said(row: &Node, said: &Announce, knows_origin: bool) -> Node {
    Node {
        addresses: said.node.addresses.clone(),
        exports: said.exports.clone(),
        version: said.version.clone(),
        level: said.level,
        admins: match knows_origin {
            true => said.admins.clone(),
            false => Vec::new(),
        },
        ..row.clone()
    }
}

/// Makes the members of the consensus equal to the nodes in the rows.
fn members(shared: &Shared, rows: &[Node], now: Instant) -> Result<(), String> {
    let members = Members(&shared.config.replica);
    let present = members.all();
    for row in rows {
        let address = address_of(&known(row));
        let is_same = |member: &Member| member.address == address;
        if !row.addresses.is_empty() && !present.get(&row.number).is_some_and(is_same) {
            return members.put(row.number, &address);
        }
    }
    let last = shared.config.replica.applied_index();
    let candidates: Vec<Candidate> = rows
        .iter()
        .filter_map(|row| Some((row, present.get(&row.number)?)))
        .map(|(row, member)| {
            let own = row.number == shared.config.home.number;
            let heard = shared.live.lock();
            let silent = heard.silent_for(row.number, now);
            let heard_of =
                own || (heard.of(row.number).is_some() && !heard.is_lost(row.number, now));
            let has_state = own || member.matched.is_some_and(|at| at + BEHIND_MAX >= last);
            Candidate {
                number: row.number,
                votes: member.votes,
                wanted: row.voter,
                fit: heard_of && has_state,
                gone: !own && silent.is_some_and(|silent| silent > GONE_AFTER),
            }
        })
        .collect();
    let voters: BTreeSet<u64> = present
        .iter()
        .filter(|(_, member)| member.votes)
        .map(|(number, _)| *number)
        .collect();
    let chosen = voters::choose(&candidates);
    if !chosen.is_empty() && chosen != voters {
        return members.vote(chosen);
    }
    let is_row = |number: &u64| rows.iter().any(|row| row.number == *number);
    if let Some(gone) = present.keys().find(|number| !is_row(number))
        && !rows.is_empty()
    {
        return members.remove(*gone);
    }
    Ok(())
}

/// Announces to the leader that this node lives.
fn announce(shared: &Shared) -> Result<(), Refusal> {
    let said = shared.announcement();
    let question = Question::Cluster(Box::new(ClusterQuestion::Announce(Box::new(said))));
    let own = &shared.config.identity;
    let hint = shared.config.replica.leader_hint();
    let first = hint.map(|(_, address)| peer_at(&address));
    let rows: Result<Vec<Node>, _> = shared.config.replica.reader().objects();
    let rows = rows.map_err(unread)?;
    let told_of = shared.told().clone();
    let others = rows.iter().map(known).chain(told_of);
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
        match tell(shared, &to, &question) {
            Ok(None) => return Ok(()),
            Ok(Some(leader)) if leader.identity != *own => {
                let leader = peer(&leader);
                if let Ok(None) = tell(shared, &leader, &question) {
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

/// `None` if the asked node leads; otherwise the leader, or a refusal.
fn tell(shared: &Shared, to: &Peer, question: &Question) -> Result<Option<KnownNode>, Refusal> {
    let until = Instant::now() + HEARD_WITHIN;
    let sites = &shared.config.sites;
    let answer = sites.ask(Some(to), question, &mut |_| Instant::now() < until)?;
    match answer {
        Answer::Cluster(answer) => match *answer {
            ClusterAnswer::Heard {
                leads: true, ages, ..
            } => {
                let leader = to.identity.clone();
                shared.note_ages(&leader, &ages);
                Ok(None)
            }
            ClusterAnswer::Heard {
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

/// Whether all other nodes would answer the same.
fn is_final(refusal: &Refusal) -> bool {
    let last = [code::RECOVERED, code::UNSUPPORTED];
    refusal.code.is_one_of(&last)
}

fn told(error: impl ToString) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_stranger_only_if_no_other_says_otherwise() {
        let refuses = || Refusal::new(code::OTHER_CLUSTER, "you are no node");
        let lacks_leader = || Refusal::later(code::NO_LEADER, "no node leads");
        let silent = || Refusal::later(code::IO, "no route");
        let is_strange = |heard: &[Refusal]| {
            let mut answers = Answers::default();
            heard.iter().for_each(|refusal| answers.note(refusal));
            answers.refusal(heard.len()).is_some()
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
