//! Reports the state of the cluster, and changes nodes for an operator. Makes no decisions itself.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, ClusterAnswer, ClusterQuestion, Question, Refusal};
use godwit_api::rest::{ChangeNode, ClusterNode, ClusterView, NodeState};
use godwit_state::{
    Actor, Agreed, Change, Command, CommandError, JobFilter, Member, Members, Node, Object as _,
    Op, ProposeError, Replica,
};

use crate::{Cluster, peer, unread};

/// Time within which the leader must report the state of the cluster.
const TOLD_WITHIN: Duration = Duration::from_secs(3);

/// Largest number of jobs that are counted.
const COUNTED_MAX: usize = 1_000;

impl Cluster {
    /// The state of the cluster as the leader reports it, or as this node sees it if the leader does not answer.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn view(&self) -> Result<ClusterView, Refusal> {
        let shared = &self.shared;
        if shared.config.replica.is_leader() {
            return self.view_here();
        }
        let from_leader = shared.leader().and_then(|leader| {
            let of = shared.config.home.cluster.clone();
            let question = Question::Cluster(Box::new(ClusterQuestion::Status { of }));
            let until = Instant::now() + TOLD_WITHIN;
            let to = peer(&leader);
            let sites = &shared.config.sites;
            match sites.ask(Some(&to), &question, &mut |_| Instant::now() < until) {
                Ok(Answer::Cluster(answer)) => match *answer {
                    ClusterAnswer::Status(view) if view.leader.is_some() => Some(*view),
                    _ => None,
                },
                _ => None,
            }
        });
        match from_leader {
            Some(mut view) => {
                let home = &shared.config.home;
                // The leader learns of the disk of this node a second later.
                let disk = shared.disk_problem();
                if let Some(why) = shared.config.replica.readiness().check().err()
                    && disk.is_none()
                {
                    view.problem.get_or_insert_with(|| why.words());
                }
                let mut nodes = view.nodes.iter_mut();
                if let Some(own) = nodes.find(|node| node.number == home.number) {
                    own.problem = disk;
                }
                Ok(view)
            }
            None => self.view_here(),
        }
    }

    /// The state of the cluster, as this node sees it.
    pub(crate) fn view_here(&self) -> Result<ClusterView, Refusal> {
        let shared = &self.shared;
        let rows = shared.nodes().map_err(unread)?;
        let running = running(&shared.config.replica).map_err(unread)?;
        let members = Members(&shared.config.replica).all();
        let leads = shared.config.replica.is_leader();
        let problem = shared.config.replica.readiness().check().err();
        let leader = shared.leader().filter(|_| problem.is_none());
        let now = Instant::now();
        let last = shared.config.replica.applied_index();
        let nodes = rows
            .iter()
            .map(|row| {
                let member = members.get(&row.number);
                let own = row.number == shared.config.home.number;
                let running = running.get(&row.name).copied().unwrap_or(0);
                let live = shared.live.lock();
                let entry = live.of(row.number).filter(|_| leads);
                let age = live.age(row.number, now);
                let silent_ms = age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
                let is_silent = live.is_silent(row.number, now);
                let is_lost = (is_silent || live.is_lost(row.number, now)) && !own;
                let resources = entry.map(|entry| entry.said.resources.clone());
                let said = entry.and_then(|entry| entry.said.problem.clone());
                drop(live);
                let state = Known {
                    own,
                    is_lost,
                    is_member: member.is_some() || rows.len() <= 1,
                    has_contact: silent_ms.is_some(),
                    draining: row.draining,
                    running,
                }
                .state();
                let behind = member.and_then(|member: &Member| member.matched);
                ClusterNode {
                    name: row.name.clone(),
                    number: row.number,
                    identity: row.identity.clone(),
                    state,
                    votes: member.is_some_and(|member| member.votes),
                    leads: leader
                        .as_ref()
                        .is_some_and(|leader| leader.number == row.number),
                    silent_ms: if own { Some(0) } else { silent_ms },
                    behind: match own {
                        true => Some(0),
                        false => behind.map(|at| last.saturating_sub(at)),
                    },
                    running,
                    addresses: row.addresses.clone(),
                    exports: row.exports.clone(),
                    version: row.version.clone(),
                    level: row.level,
                    joined: row.joined,
                    resources: match own {
                        true => (shared.config.resources)(),
                        false => resources.unwrap_or_default(),
                    },
                    problem: match own {
                        true => shared.disk_problem(),
                        false => said,
                    },
                }
            })
            .collect();
        Ok(ClusterView {
            cluster: shared.config.home.cluster.clone(),
            reported_by: shared.config.home.name.clone(),
            leader: leader.map(|leader| leader.name),
            problem: problem.map(|problem| problem.words()),
            level: Agreed(&shared.config.replica.reader())
                .level()
                .map_err(unread)?,
            nodes,
        })
    }

    /// Changes a node: whether it accepts jobs, and whether it is preferred as a voter.
    ///
    /// # Errors
    /// The node does not exist, or the state cannot be changed.
    pub fn change(&self, actor: Actor, name: &str, wish: ChangeNode) -> Result<(), ProposeError> {
        let replica = &self.shared.config.replica;
        if name == self.node() {
            self.make_own_row()?;
        }
        let row: Option<Node> = replica.reader().object(name)?;
        let row = row.ok_or_else(|| {
            ProposeError::Refused(CommandError::NotFound {
                kind: Node::KIND.to_owned(),
                id: name.to_owned(),
            })
        })?;
        let changed = Node {
            draining: wish.draining.unwrap_or(row.draining),
            voter: wish.voter.unwrap_or(row.voter),
            ..row
        };
        self.propose(actor, Op::Node(Change::Put(changed)))
    }

    /// Removes a node. Its jobs resume on other nodes. A node that lives and is not drained is removed only with
    /// `force`.
    ///
    /// # Errors
    /// The node does not exist, is the last one, or lives; or the state cannot be changed.
    pub fn remove(&self, actor: Actor, name: &str, force: bool) -> Result<(), ProposeError> {
        let refused = |what: String| {
            ProposeError::Refused(CommandError::Invalid {
                field: "node".to_owned(),
                what,
            })
        };
        let view = self
            .view()
            .map_err(|refusal| refused(refusal.message.clone()))?;
        if view.nodes.len() < 2 {
            return Err(refused(format!(
                "{name} is the only node; to end the cluster, stop the node and remove its home"
            )));
        }
        let state = view.nodes.iter().find(|node| node.name == name);
        let state = state.map(|node| node.state);
        if !force && matches!(state, Some(NodeState::Up | NodeState::Draining)) {
            return Err(refused(format!(
                "{name} is alive and may run jobs; drain the node first (godwit cluster drain {name}), or remove it with --force"
            )));
        }
        self.propose(actor, Op::Node(Change::Remove(name.to_owned())))
    }

    fn propose(&self, actor: Actor, op: Op) -> Result<(), ProposeError> {
        let command = Command::new((self.shared.config.now)(), actor, op);
        self.shared
            .config
            .replica
            .propose_blocking(command)
            .map(drop)
    }
}

/// The number of jobs that each node runs.
fn running(replica: &Replica) -> Result<HashMap<String, u64>, godwit_state::Fault> {
    let mut counts = HashMap::new();
    let reader = replica.reader();
    let filter = JobFilter::moving();
    for job in reader.jobs(&filter, None, COUNTED_MAX)?.jobs {
        if let Some(runner) = job.runner {
            *counts.entry(runner.node).or_insert(0) += 1;
        }
    }
    Ok(counts)
}

/// Facts that the asked node knows about another node.
struct Known {
    /// The other node is the asked node itself.
    own: bool,
    is_lost: bool,
    /// The node is a member of the consensus, or is alone.
    is_member: bool,
    /// This leader or an earlier one has heard the node.
    has_contact: bool,
    draining: bool,
    running: u64,
}

impl Known {
    const fn state(&self) -> NodeState {
        match () {
            () if self.is_lost => NodeState::Lost,
            () if !self.is_member => NodeState::Joining,
            // No leader has heard the node yet.
            () if !self.own && !self.has_contact => NodeState::Unknown,
            () if self.draining && self.running > 0 => NodeState::Draining,
            () if self.draining => NodeState::Drained,
            () => NodeState::Up,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_leader_calls_no_node_up_that_it_has_not_heard() {
        let known = |own, has_contact| Known {
            own,
            is_lost: false,
            is_member: true,
            has_contact,
            draining: false,
            running: 0,
        };
        assert_eq!(known(false, false).state(), NodeState::Unknown);
        assert_eq!(known(false, true).state(), NodeState::Up);
        assert_eq!(known(true, false).state(), NodeState::Up);
        let lost = Known {
            is_lost: true,
            ..known(false, false)
        };
        assert_eq!(lost.state(), NodeState::Lost);
    }
}
