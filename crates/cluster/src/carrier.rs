//! Carries messages of the consensus to other nodes, as questions on their data ports. Does not interpret the messages.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_api::ask::{
    Answer as Replied, AskSites, Carried, ClusterAnswer, ClusterQuestion, KnownNode, Peer,
    Question, code,
};
use godwit_state::{Answer, PROPOSE, Peers, is_short};

/// The carrier of one node.
pub struct Carrier {
    sites: Arc<dyn AskSites>,
    cluster: String,
    left_behind: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Carrier {
    /// A carrier for the cluster with this id. `left_behind` is called if a recovery made another node the only one of this cluster. The
    /// former nodes must not continue beside that node.
    #[must_use]
    pub fn new(
        sites: Arc<dyn AskSites>,
        cluster: String,
        left_behind: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self {
            sites,
            cluster,
            left_behind,
        }
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Carrier({})", self.cluster)
    }
}

/// The address of a node in the form that the consensus stores: identity and addresses, separated by blanks.
#[must_use]
pub fn address_of(node: &KnownNode) -> String {
    let mut text = node.identity.clone();
    for address in &node.addresses {
        text.push(' ');
        text.push_str(address);
    }
    text
}

/// The node whose address has this form.
pub(crate) fn peer_at(address: &str) -> Peer {
    let mut words = address.split(' ').map(ToOwned::to_owned);
    let identity = words.next().unwrap_or_default();
    Peer {
        name: "of the cluster".to_owned(),
        addresses: words.collect(),
        identity,
    }
}

impl Peers for Carrier {
    fn call(
        &self,
        to: u64,
        address: &str,
        kind: &'static str,
        message: Vec<u8>,
        within: Duration,
    ) -> Answer {
        let (sites, of, peer) = (
            Arc::clone(&self.sites),
            self.cluster.clone(),
            peer_at(address),
        );
        let until = Instant::now() + within;
        let left_behind = Arc::clone(&self.left_behind);
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(move || {
                let message = serde_json::from_slice(&message)?;
                let carried = Carried {
                    of,
                    to,
                    kind: kind.to_owned(),
                    once: kind == PROPOSE,
                    is_short: is_short(kind),
                    message,
                };
                let question = Question::Cluster(Box::new(ClusterQuestion::Carry(carried)));
                ask(&*sites, &peer, &question, until, &*left_behind)
            });
            asked.await.map_err(io::Error::other)?
        })
    }
}

fn ask(
    sites: &dyn AskSites,
    peer: &Peer,
    question: &Question,
    until: Instant,
    left_behind: &dyn Fn(&str),
) -> io::Result<Vec<u8>> {
    match sites.ask(Some(peer), question, &mut |_| Instant::now() < until) {
        Ok(Replied::Cluster(answer)) => match *answer {
            ClusterAnswer::Carried(message) => Ok(serde_json::to_vec(&message)?),
            _ => Err(io::Error::other(
                "another node answered a different question",
            )),
        },
        Ok(_) => Err(io::Error::other(
            "another node answered a different question",
        )),
        // Whether the message arrived is not known.
        Err(refusal) if refusal.code.is_one_of(&[code::BROKEN, code::GIVEN_UP]) => {
            Err(io::Error::other(refusal.message))
        }
        Err(refusal) => {
            if refusal.code == code::RECOVERED {
                left_behind(&refusal.message);
            }
            Err(io::Error::new(io::ErrorKind::NotConnected, refusal.message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_the_node() {
        let node = KnownNode {
            name: "dtn2".to_owned(),
            number: 7,
            identity: "gw1-a".to_owned(),
            addresses: vec!["10.0.0.1:7272".to_owned(), "[fd00::1]:7272".to_owned()],
        };
        let peer = peer_at(&address_of(&node));
        assert_eq!(
            (peer.identity, peer.addresses),
            (node.identity, node.addresses)
        );
    }
}
