//! Answers the questions of other nodes about the cluster. Members may ask everything; strangers may only ask to join.

use std::time::Instant;

use godwit_api::ask::{
    Announce, AnswerCluster, Carried, ClusterAnswer, ClusterQuestion, JoinCluster, Joined,
    KnownNode, Peer, Refusal, code,
};
use godwit_api::endpoint::is_memory;
use godwit_api::rest::NodeState;
use godwit_state::{
    Actor, Agreed, Command, CommandError, Effect, Fault, FormerNode, Invite, Join, LEVEL_MEMBERS,
    Node, Object as _, Op, ProposeError, Secret, Timestamp, User, level_trouble,
};

use crate::carrier::peer_at;
use crate::leader::as_said;
use crate::{Cluster, Shared, known, unread};

impl AnswerCluster for Cluster {
    fn answer(&self, asker: &str, question: ClusterQuestion) -> Result<ClusterAnswer, Refusal> {
        let shared = &self.shared;
        match question {
            ClusterQuestion::Join(wish) => self.let_in(asker, *wish),
            ClusterQuestion::Carry(carried) => {
                let from = shared.admit(asker, &carried.of)?;
                carry(shared, from, &carried)
            }
            ClusterQuestion::Announce(said) => {
                shared.admit(asker, &said.of)?;
                announced(shared, asker, *said)
            }
            ClusterQuestion::Status { of } => {
                // Messages of the log are still accepted: they correct a node that only seems to be removed.
                if shared.membership.is_strange(Instant::now()) {
                    return Err(Shared::not_a_node(asker));
                }
                shared.admit(asker, &of)?;
                Ok(ClusterAnswer::Status(Box::new(self.view_here()?)))
            }
        }
    }

    fn nodes(&self, export: &str) -> Result<Vec<Peer>, Refusal> {
        let own = &self.shared.config.home.name;
        let mut nodes = self.view()?.nodes;
        nodes.retain(|node| {
            // Every node can measure with its memory, so it serves the memory export.
            let serves = is_memory(export) || node.exports.iter().any(|name| name == export);
            // A node that does not know the states of the others leaves the check to the asker.
            serves && matches!(node.state, NodeState::Up | NodeState::Unknown)
        });
        nodes.sort_by_key(|node| (node.name != *own, node.number));
        let peers = nodes.into_iter().map(|node| Peer {
            name: node.name,
            addresses: node.addresses,
            identity: node.identity,
        });
        Ok(peers.collect())
    }

    fn is_member(&self, identity: &str) -> Result<bool, Refusal> {
        self.has_member(identity).map_err(unread)
    }
}

impl Cluster {
    /// Whether the identity is that of a node of this cluster.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn has_member(&self, identity: &str) -> Result<bool, Fault> {
        // A node that was removed has no members.
        let is_strange = self.shared.membership.is_strange(Instant::now());
        Ok(!is_strange && self.shared.number_of(identity)?.is_some())
    }
}

impl Shared {
    /// The number of the node with this identity; `None` if no node of the cluster has the identity.
    fn number_of(&self, identity: &str) -> Result<Option<u64>, Fault> {
        let reader = self.config.replica.reader();
        let number = |identity: &str| {
            let rows = reader.objects_by::<Node>(identity);
            rows.map(|rows| rows.first().map(|row| row.number))
        };
        if number(&self.config.identity)?.is_some() {
            return number(identity);
        }
        // A node that joined receives the state in pieces, and the rows of the other nodes arrive before its own row. Until it has its
        // own row, it also knows the others from the list that it got when it joined. A node with neither its row nor the list was
        // removed, and has no members. A node without a row that the other nodes refuse was removed, too: its removal precedes the first entry of the
        // log.
        let known_at_join = self.membership.known_at_join();
        if known_at_join.is_empty() || self.membership.is_strange(Instant::now()) {
            return Ok(None);
        }
        let listed = known_at_join.iter().find(|node| node.identity == identity);
        Ok(number(identity)?.or_else(|| listed.map(|node| node.number)))
    }

    /// Whether a recovery removed the node with this identity.
    fn was_left_behind(&self, identity: &str) -> Result<bool, Fault> {
        let former = self.config.replica.reader().object::<FormerNode>(identity);
        Ok(former?.is_some())
    }

    /// Accepts only nodes of this cluster; returns the number of the asking node. Other peers learn neither the name of this node nor the
    /// id of the cluster. After a recovery, former nodes learn the name: they must not continue beside this node.
    fn admit(&self, asker: &str, of: &str) -> Result<u64, Refusal> {
        let home = &self.config.home;
        let number = self.number_of(asker).map_err(unread)?;
        let is_of_before = home.is_recovered_from(of);
        if is_of_before && (number.is_some() || self.was_left_behind(asker).map_err(unread)?) {
            let message = format!(
                "the node {} became the only one of its cluster by a recovery, and the asking node belongs to the cluster before the recovery; let the asking node join again: godwit cluster leave, then godwit serve --join",
                home.name
            );
            return Err(Refusal::new(code::RECOVERED, message));
        }
        match number {
            Some(number) if of == home.cluster => Ok(number),
            Some(_) => {
                let message = format!(
                    "the node {} belongs to a different cluster ({}); to move the asking node to that cluster: godwit cluster leave, then godwit serve --join",
                    home.name, home.cluster
                );
                Err(Refusal::new(code::OTHER_CLUSTER, message))
            }
            None => Err(Self::not_a_node(asker)),
        }
    }

    fn not_a_node(asker: &str) -> Refusal {
        let message = format!(
            "{asker} is not a node of this cluster; if the node was removed, let it join again: godwit cluster leave, then godwit serve --join"
        );
        Refusal::new(code::OTHER_CLUSTER, message)
    }

    /// Refuses a node whose program does not fit the level of the cluster.
    fn fits(&self, known: u32) -> Result<(), Refusal> {
        let committed = Agreed(&self.config.replica.reader()).level();
        let committed = committed.map_err(unread)?;
        match level_trouble(known, committed) {
            Some(trouble) => Err(Refusal::new(code::UNSUPPORTED, trouble)),
            None => Ok(()),
        }
    }

    /// The leader, as far as this node knows.
    pub(crate) fn leader(&self) -> Option<KnownNode> {
        let (number, address) = self.config.replica.leader_hint()?;
        if number == self.config.home.number {
            return Some(self.known());
        }
        let rows: Vec<Node> = self.config.replica.reader().objects().unwrap_or_default();
        if let Some(row) = rows.iter().find(|row| row.number == number) {
            return Some(known(row));
        }
        let at = peer_at(&address);
        Some(KnownNode {
            name: format!("number {number}"),
            number,
            identity: at.identity,
            addresses: at.addresses,
        })
    }
}

/// Passes on a message of the consensus from the node with the number `from`, which the connection has proven.
fn carry(shared: &Shared, from: u64, carried: &Carried) -> Result<ClusterAnswer, Refusal> {
    let failed = |error: std::io::Error| Refusal::later(code::IO, error.to_string());
    let message = serde_json::to_vec(&carried.message).map_err(|error| failed(error.into()))?;
    let answer = shared
        .config
        .replica
        .answer(from, carried.to, &carried.kind, &message);
    let answer = answer.map_err(failed)?;
    let answer = serde_json::from_slice(&answer).map_err(|error| failed(error.into()))?;
    Ok(ClusterAnswer::Carried(answer))
}

fn announced(shared: &Shared, asker: &str, said: Announce) -> Result<ClusterAnswer, Refusal> {
    let leads = shared.config.replica.is_leader();
    let mut ages = Vec::new();
    if leads {
        let rows = shared.config.replica.reader().objects_by::<Node>(asker);
        let row = rows.ok().and_then(|rows| rows.into_iter().next());
        let is_itself = |row: &Node| {
            let node = &said.node;
            row.number == node.number && row.name == node.name && row.identity == node.identity
        };
        let Some(row) = row.filter(is_itself) else {
            let message = "a node can announce only itself";
            return Err(Refusal::new(code::INVALID, message));
        };
        shared.fits(said.level)?;
        // An announcement that the state would refuse must not delay the leader.
        let invalid = |what: String| Refusal::new(code::INVALID, format!("announcement: {what}"));
        if !said.is_bounded() {
            return Err(invalid(
                "it is longer than any announcement of a node".to_owned(),
            ));
        }
        as_said(&row, &said, true)
            .check()
            .map_err(|error| invalid(error.to_string()))?;
        let now = Instant::now();
        let mut live = shared.live.lock();
        live.announced(said, now);
        ages = live.ages(now);
    }
    Ok(ClusterAnswer::Announced {
        leads,
        leader: shared.leader(),
        ages,
    })
}

impl Cluster {
    /// Lets a node in. Any node may ask, so nothing is written unless the invitation is valid: the replica looks the
    /// invitation up before it proposes the change, and so does the leader.
    fn let_in(&self, asker: &str, wish: JoinCluster) -> Result<ClusterAnswer, Refusal> {
        let shared = &self.shared;
        let node = Node {
            name: wish.name.clone(),
            number: 0,
            identity: asker.to_owned(),
            addresses: Vec::new(),
            exports: wish.exports,
            version: wish.version,
            level: wish.level,
            draining: false,
            voter: false,
            joined: Timestamp(0),
            admins: Vec::new(),
        };
        let level = Agreed(&shared.config.replica.reader()).level();
        // An older leader does not read it.
        let proves = level.map_err(unread)? >= LEVEL_MEMBERS;
        let op = Op::Join(Box::new(Join {
            hash: Invite::hash_of(&wish.secret),
            secret: proves.then(|| Secret::new(wish.secret)),
            node,
        }));
        let actor = Actor::node(shared.config.home.name.clone());
        let command = Command::new((shared.config.now)(), actor, op);
        let done = shared.config.replica.propose_blocking(command);
        let done = done.map_err(|error| refusal(error, &wish.name))?;
        let Effect::Joined { name, number } = done.effect else {
            return Err(Refusal::new(
                code::BROKEN,
                "internal error: the state returned a different effect",
            ));
        };
        (shared.config.log)(&format!(
            "cluster: the node {name} joined, as number {number}"
        ));
        let rows = shared.nodes();
        let rows = rows.map_err(unread)?;
        Ok(ClusterAnswer::Joined(Box::new(Joined {
            cluster: shared.config.home.cluster.clone(),
            name,
            number,
            nodes: rows
                .iter()
                .filter(|row| row.number != number)
                .map(known)
                .collect(),
        })))
    }
}

/// The refusal of a node that may not join, with a message for its operator.
fn refusal(error: ProposeError, name: &str) -> Refusal {
    match error {
        ProposeError::Refused(CommandError::NotFound { .. }) => Refusal::new(
            code::BAD_INVITATION,
            "the cluster does not know this invitation: it was mistyped, belongs to a different cluster, or ended long ago; make a new invitation with: godwit cluster invite",
        ),
        ProposeError::Refused(CommandError::Invalid { field, what }) if field == "token" => {
            Refusal::new(
                code::BAD_INVITATION,
                format!("{what}; an admin makes a new invitation with: godwit cluster invite"),
            )
        }
        ProposeError::Refused(CommandError::Invalid { field, what }) if field == "level" => {
            Refusal::new(code::UNSUPPORTED, what)
        }
        ProposeError::Refused(CommandError::Conflict { kind, .. }) if kind == User::KIND => {
            Refusal::new(
                code::NAME_TAKEN,
                format!(
                    "the cluster already has a user {name:?}; choose a different name with --name"
                ),
            )
        }
        ProposeError::Refused(CommandError::Conflict { .. }) => Refusal::new(
            code::NAME_TAKEN,
            format!("the cluster already has a node {name:?}; choose a different name with --name"),
        ),
        ProposeError::Refused(error) => Refusal::new(code::INVALID, error.to_string()),
        error => Refusal::later(code::NO_LEADER, error.words()),
    }
}
