//! Owns the addresses at which others reach this node, and looks them up again while the node runs.
//! Knows no interfaces: the caller lists their addresses.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use godwit_api::ask::KnownNode;
use godwit_state::Node;

use crate::{Shared, known};

/// The addresses at which a node listens now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Each with its port. None is unspecified.
    pub addresses: Vec<String>,
    /// The node has no address but loopback, and listens at all addresses. Other machines cannot use these.
    pub is_loopback_alone: bool,
}

/// Lists the addresses at which the node listens.
pub type LookUp = dyn Fn() -> Reached + Send + Sync;

/// The addresses that this node announces.
#[derive(Default)]
pub(crate) struct Addresses(Mutex<Known>);

#[derive(Default)]
struct Known {
    look: Option<Arc<LookUp>>,
    own: Vec<String>,
}

impl Addresses {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, look: Arc<LookUp>) {
        self.lock().look = Some(look);
    }

    pub(crate) fn own(&self) -> Vec<String> {
        self.lock().own.clone()
    }

    /// Takes these addresses. Returns the earlier ones if they differ.
    fn take(&self, found: Vec<String>) -> Option<Vec<String>> {
        let mut known = self.lock();
        (known.own != found).then(|| std::mem::replace(&mut known.own, found))
    }
}

impl Shared {
    /// Looks up the addresses of this node: an interface may come up after the node has started, and go away.
    pub(crate) fn look_up_addresses(&self) {
        let Some(look) = self.addresses.lock().look.clone() else {
            return;
        };
        let found = look();
        if found.is_loopback_alone && self.has_distant_node() {
            return;
        }
        let now = found.addresses.join(", ");
        let earlier = self.addresses.take(found.addresses);
        if earlier.is_some_and(|earlier| !earlier.is_empty()) {
            (self.config.log)(&format!(
                "cluster: the addresses of this node have changed: {now}"
            ));
        }
    }

    /// Whether another node is reached at an address that is not loopback. A fault of the state counts as such a node.
    fn has_distant_node(&self) -> bool {
        let rows: Result<Vec<Node>, _> = self.config.replica.reader().objects();
        let Ok(rows) = rows else {
            return true;
        };
        let others = rows.iter().map(known);
        let others = others.chain(self.membership.known_at_join().clone());
        is_any_distant(others, &self.config.identity)
    }
}

fn is_any_distant(nodes: impl IntoIterator<Item = KnownNode>, own: &str) -> bool {
    let others = nodes.into_iter().filter(|node| node.identity != own);
    let mut addresses = others.flat_map(|node| node.addresses);
    addresses.any(|address| {
        let address: Result<SocketAddr, _> = address.parse();
        address.map_or(true, |address| !address.ip().is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(identity: &str, addresses: &[&str]) -> KnownNode {
        KnownNode {
            name: identity.to_owned(),
            number: 1,
            identity: identity.to_owned(),
            addresses: addresses.iter().map(|one| (*one).to_owned()).collect(),
        }
    }

    #[test]
    fn loopback_is_an_address_among_nodes_of_one_machine_alone() {
        let own = node("own", &["10.0.0.1:7272"]);
        let near = node("near", &["127.0.0.1:7273", "[::1]:7273"]);
        assert!(!is_any_distant([own.clone(), near.clone()], "own"));
        for address in ["10.0.0.2:7272", "dtn2:7272"] {
            let far = node("far", &["127.0.0.1:7272", address]);
            assert!(is_any_distant([own.clone(), near.clone(), far], "own"));
        }
    }

    #[test]
    fn a_change_of_addresses_returns_the_earlier_ones() {
        let addresses = Addresses::default();
        let one = || vec!["10.0.0.1:7272".to_owned()];
        assert_eq!(addresses.take(one()), Some(Vec::new()));
        assert_eq!(addresses.take(one()), None);
        assert_eq!(addresses.take(Vec::new()), Some(one()));
    }
}
