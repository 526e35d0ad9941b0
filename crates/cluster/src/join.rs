//! Makes a node join a cluster: it presents an invitation to a node of the cluster, and stores the
//! answer. Starts nothing.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use godwit_api::ask::{
    Answer, AskSites, ClusterAnswer, ClusterQuestion, JoinCluster, Peer, Question, Refusal, code,
};

use crate::{ClusterHome, HomeError, Token};

/// Time within which the cluster must let a node in.
const JOIN_WITHIN: Duration = Duration::from_secs(30);

/// The request of a node that joins.
pub struct Joining<'a> {
    /// Address of a node of the cluster: the node that made the invitation.
    pub address: &'a str,
    /// The invitation.
    pub token: &'a Token,
    /// Requested name of the node.
    pub name: &'a str,
    /// Exports of the node.
    pub exports: Vec<String>,
    /// Version of the node's program.
    pub version: &'a str,
    /// The newest feature level that the program knows.
    pub level: u32,
}

/// Reason why a node did not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The home has a state, which the state of the cluster would replace.
    #[error(
        "this node already has a state in {state}, and a node must join without a state; move the state aside with: godwit cluster leave, or use a different GODWIT_HOME"
    )]
    HasState {
        /// Directory of the state.
        state: PathBuf,
    },
    /// The cluster refused.
    #[error("joining the cluster: {0}")]
    Refused(Refusal),
    /// The node that made the invitation could not be reached.
    #[error(
        "joining the cluster: {refusal}; give --join an address of the node that made the invitation, {identity}"
    )]
    Unreachable {
        /// The errors of all addresses.
        refusal: Refusal,
        /// Identity of that node.
        identity: String,
    },
    /// The answer cannot be written to the home.
    #[error(transparent)]
    Home(#[from] HomeError),
}

/// Joins, unless the node of this home is a member of a cluster already. Blocks.
///
/// # Errors
/// The home already has a state, or the cluster refuses the node.
pub fn join(
    home: &Path,
    sites: &dyn AskSites,
    joining: Joining<'_>,
) -> Result<ClusterHome, JoinError> {
    if let Some(member) = ClusterHome::read(home)? {
        return Ok(member);
    }
    let state = home.join("state");
    if state.join("state.db").exists() {
        return Err(JoinError::HasState { state });
    }
    let peer = Peer {
        name: joining.address.to_owned(),
        addresses: vec![joining.address.to_owned()],
        identity: joining.token.identity.clone(),
    };
    let wish = JoinCluster {
        secret: joining.token.secret.clone(),
        name: joining.name.to_owned(),
        exports: joining.exports,
        version: joining.version.to_owned(),
        level: joining.level,
    };
    let question = Question::Cluster(Box::new(ClusterQuestion::Join(Box::new(wish))));
    let until = Instant::now() + JOIN_WITHIN;
    let answer = sites.ask(Some(&peer), &question, &mut |_| Instant::now() < until);
    let answer = answer.map_err(|refusal| match refusal.code == code::UNREACHABLE {
        true => JoinError::Unreachable {
            refusal,
            identity: joining.token.identity.clone(),
        },
        false => JoinError::Refused(refusal),
    })?;
    let joined = match answer {
        Answer::Cluster(answer) => match *answer {
            ClusterAnswer::Joined(joined) => joined,
            _ => return Err(other()),
        },
        _ => return Err(other()),
    };
    let mut nodes = joined.nodes;
    // This address reaches the node, even if the cluster has different addresses for the node.
    for node in &mut nodes {
        let address = joining.address.to_owned();
        if node.identity == joining.token.identity && !node.addresses.contains(&address) {
            node.addresses.insert(0, address);
        }
    }
    let member = ClusterHome::joined(joined.cluster, joined.number, joined.name, nodes);
    member.write(home)?;
    Ok(member)
}

fn other() -> JoinError {
    JoinError::Refused(Refusal::new(
        code::BROKEN,
        "the other node answered a different question; update the older of the two nodes",
    ))
}
