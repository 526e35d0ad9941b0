//! Owns the addresses at which the other nodes reach this node: those of its interfaces now, and the earlier ones while it has none.
//! Looks at no interface: the node does. Sends nothing: `keeper` does.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use godwit_state::{Fault, Node};

use crate::{Shared, known};

/// An address that is missing is still announced for this time: an interface that fails for a moment changes no member of the consensus.
const MISSING_FOR: Duration = Duration::from_secs(5);

/// The addresses of a node at a moment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NodeAddresses {
    /// Addresses that the operator chose, or those of the interfaces that work now. Loopback only if the operator chose it.
    pub addresses: Vec<String>,
    /// The address that only nodes of the same machine reach.
    pub local: String,
}

/// Returns the addresses of this node now.
pub type LookAtAddresses = dyn Fn() -> NodeAddresses + Send + Sync;

/// Addresses in the rows of the cluster.
#[derive(Default)]
struct Rows {
    own: Vec<String>,
    others: Vec<String>,
}

/// The announced addresses.
#[derive(Default)]
pub(crate) struct Announced {
    list: Vec<String>,
    /// When each address was last found.
    found: Vec<(String, Instant)>,
    is_begun: bool,
    lacks: bool,
}

impl Announced {
    pub(crate) fn list(&self) -> &[String] {
        &self.list
    }

    /// Takes the addresses of this moment. Returns the line for the log, if the operator should know.
    fn take(&mut self, now_there: NodeAddresses, rows: &Rows, now: Instant) -> Option<String> {
        let NodeAddresses { addresses, local } = now_there;
        self.found.retain(|(address, at)| {
            let is_recent = now.saturating_duration_since(*at) < MISSING_FOR;
            is_recent && !addresses.contains(address)
        });
        let missing: Vec<String> = self
            .found
            .iter()
            .map(|(address, _)| address.clone())
            .collect();
        let found = addresses.iter().map(|address| (address.clone(), now));
        self.found.extend(found);
        let mut list = addresses;
        if !missing.is_empty() {
            list.extend(missing);
            list.sort();
        }
        let lacks = list.is_empty();
        if lacks {
            list = self.without_interface(&local, rows);
        }
        let is_new = list != self.list;
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        self.list = list;
        // A cluster on one machine needs no interface.
        let lacks = lacks && !self.list.contains(&local);
        let lacked = std::mem::replace(&mut self.lacks, lacks);
        if lacks && !lacked {
            return Some(
                "cluster: no interface of this machine has an address and a carrier, so this node announces no new address to the other nodes; it will announce its addresses once an interface is up. `--address` sets them"
                    .to_owned(),
            );
        }
        let is_reported = (is_new && !is_first) || (lacked && !lacks);
        (is_reported && !lacks).then(|| {
            format!(
                "cluster: other nodes reach this node at {}",
                self.list.join(", ")
            )
        })
    }

    /// The addresses while no interface has one. Other machines never get a loopback address, which would lead them to themselves.
    fn without_interface(&self, local: &str, rows: &Rows) -> Vec<String> {
        for earlier in [&self.list, &rows.own] {
            let far = earlier.iter().filter(|address| !is_loopback(address));
            let far: Vec<String> = far.cloned().collect();
            if !far.is_empty() {
                return far;
            }
        }
        let is_one_machine = rows.others.iter().all(|address| is_loopback(address));
        match is_one_machine {
            true => vec![local.to_owned()],
            false => Vec::new(),
        }
    }
}

/// Whether an address leads every machine to itself.
fn is_loopback(address: &str) -> bool {
    if let Ok(address) = address.parse::<SocketAddr>() {
        return address.ip().to_canonical().is_loopback();
    }
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.eq_ignore_ascii_case("localhost")
}

impl Shared {
    /// Looks again at which addresses the other nodes reach this node.
    pub(crate) fn look_at_addresses(&self, look: &LookAtAddresses) {
        let now_there = look();
        let rows = match now_there.addresses.is_empty() {
            true => self.addresses_in_rows(),
            false => Ok(Rows::default()),
        };
        // The beat reports why the state cannot be read. The addresses stay as they are.
        let Ok(rows) = rows else {
            return;
        };
        let line = self.announced().take(now_there, &rows, Instant::now());
        if let Some(line) = line {
            (self.config.log)(&line);
        }
    }

    fn addresses_in_rows(&self) -> Result<Rows, Fault> {
        let rows: Vec<Node> = self.config.replica.reader().objects()?;
        let known_at_join = self.membership.known_at_join().clone();
        let mut found = Rows::default();
        for node in rows.iter().map(known).chain(known_at_join) {
            match node.identity == self.config.identity {
                true => found.own.extend(node.addresses),
                false => found.others.extend(node.addresses),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: &str = "127.0.0.1:7272";

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    fn there(list: &[&str]) -> NodeAddresses {
        NodeAddresses {
            addresses: texts(list),
            local: LOCAL.to_owned(),
        }
    }

    fn rows(own: &[&str], others: &[&str]) -> Rows {
        Rows {
            own: texts(own),
            others: texts(others),
        }
    }

    #[test]
    fn an_interface_that_comes_up_is_announced_at_once_and_one_that_stays_away_is_not() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut announced = Announced::default();
        let rows = Rows::default();
        let (first, second) = ("10.0.0.1:7272", "10.0.1.1:7272");
        assert_eq!(announced.take(there(&[first]), &rows, start), None);
        let line = announced.take(there(&[first, second]), &rows, after(1));
        let line = line.expect("a new address is logged");
        assert!(line.ends_with("10.0.0.1:7272, 10.0.1.1:7272"), "{line}");
        // A short failure changes nothing.
        for seconds in 2..6 {
            let line = announced.take(there(&[second]), &rows, after(seconds));
            assert_eq!(line, None);
            assert_eq!(announced.list(), [first, second], "{seconds}");
        }
        let line = announced.take(there(&[second]), &rows, after(6));
        assert!(line.is_some());
        assert_eq!(announced.list(), [second]);
    }

    #[test]
    fn no_loopback_address_goes_to_another_machine() {
        let now = Instant::now();
        let other = "10.0.0.2:7272";
        let cases: [(&[&str], &[&str], &[&str]); 6] = [
            // A node alone, and a cluster on one machine.
            (&[], &[], &[LOCAL]),
            (&[LOCAL], &["127.0.0.1:7273", "localhost:7274"], &[LOCAL]),
            (&[], &[other], &[]),
            (&[LOCAL], &[LOCAL, other], &[]),
            (&["10.0.0.1:7272"], &[other], &["10.0.0.1:7272"]),
            (&[LOCAL, "10.0.0.1:7272"], &[other], &["10.0.0.1:7272"]),
        ];
        for (own, others, expected) in cases {
            let mut announced = Announced::default();
            let rows = rows(own, others);
            let line = announced.take(there(&[]), &rows, now);
            assert_eq!(announced.list(), expected, "{own:?} {others:?}");
            assert_eq!(line.is_some(), expected != [LOCAL], "{line:?}");
            // The log has one line about it, and one about its end.
            assert_eq!(announced.take(there(&[]), &rows, now), None);
            let line = announced.take(there(&["10.0.0.1:7272"]), &rows, now);
            assert_eq!(announced.list(), ["10.0.0.1:7272"]);
            assert!(line.is_some(), "{own:?} {others:?}");
        }
    }

    #[test]
    fn the_addresses_of_the_operator_stay_as_they_are() {
        let start = Instant::now();
        let mut announced = Announced::default();
        let chosen = ["node7.example:7272", "127.0.0.2:7272"];
        for seconds in [0, 1, 100] {
            let now = start + Duration::from_secs(seconds);
            let line = announced.take(there(&chosen), &Rows::default(), now);
            assert_eq!(line, None);
            assert_eq!(announced.list(), chosen);
        }
    }

    #[test]
    fn a_node_that_loses_its_last_interface_keeps_its_addresses() {
        let start = Instant::now();
        let mut announced = Announced::default();
        let rows = rows(&[], &["10.0.0.2:7272"]);
        announced.take(there(&["10.0.0.1:7272"]), &rows, start);
        let line = announced.take(there(&[]), &rows, start + Duration::from_secs(60));
        assert!(line.is_some_and(|line| line.contains("no new address")));
        assert_eq!(announced.list(), ["10.0.0.1:7272"]);
    }

    #[test]
    fn loopback_is_known_in_all_its_forms() {
        for address in [LOCAL, "127.4.5.6:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["LocalHost:1", "localhost"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["10.0.0.1:1", "[fd00::1]:1", "[fe80::1%eth0]:1", "host:1"] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
