//! Asks the node that the operator named of each site, once an hour, which nodes the site has: those are believed for a day from then on.
//! Decides nothing about jobs, and wakes none (`probe`).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use godwit_state::{Site, Timestamp};

use crate::asking::{Asking, reached};
use crate::basis::error::JobsError;
use crate::basis::this_node::ThisNode;

/// Interval between two looks at the state.
const EVERY: Duration = Duration::from_secs(30);

/// Between two looks whether the node stops.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A node that did not answer is asked again after this time.
const AGAIN_AFTER: Duration = Duration::from_mins(10);

/// Sites that one look asks, one after the other. Sites that have waited longest are asked first.
const SITES_MAX: usize = 16;

/// Body of the thread.
pub(crate) fn run(asking: &Asking) {
    let is_stopping = || asking.this.is_stopping();
    // Time of the last question to each site, by its identity.
    let mut asked: HashMap<String, Instant> = HashMap::new();
    while !is_stopping() {
        asked.retain(|_, at| at.elapsed() < AGAIN_AFTER);
        // A state that cannot be read now is read at the next look.
        for site in due(&asking.this, &asked).unwrap_or_default() {
            if is_stopping() {
                return;
            }
            asked.insert(site.identity.clone(), Instant::now());
            // A job that needs the site reports why it does not answer.
            drop(reached::renew(asking, &site));
        }
        let until = Instant::now() + EVERY;
        while Instant::now() < until && !is_stopping() {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// The sites that are to be asked. One node of the cluster asks for all.
fn due(this: &ThisNode, asked: &HashMap<String, Instant>) -> Result<Vec<Site>, JobsError> {
    if !this.replica.is_leader() {
        return Ok(Vec::new());
    }
    let now = this.now();
    let sites = this.reader().objects::<Site>()?;
    let mut sites: Vec<(Timestamp, Site)> = sites
        .into_iter()
        .filter_map(|site| Some((newest(&site)?, site)))
        .filter(|(named, site)| {
            named.after(reached::RENEW_EVERY_MS) <= now && !asked.contains_key(&site.identity)
        })
        .collect();
    sites.sort_by_key(|(named, _)| *named);
    Ok(sites
        .into_iter()
        .map(|(_, site)| site)
        .take(SITES_MAX)
        .collect())
}

/// Time when the node named by the operator last answered with the nodes of its site. Nodes that it names no longer keep their earlier times. None for a
/// site without learned nodes, or below the level that notes such times.
fn newest(site: &Site) -> Option<Timestamp> {
    site.nodes.iter().filter_map(|node| node.named).max()
}

#[cfg(test)]
mod tests {
    use godwit_state::{Peer, SiteNode};

    use super::*;

    #[test]
    fn a_node_that_is_named_no_longer_makes_no_site_due() {
        let node = |name: &str, named| SiteNode {
            peer: Peer {
                name: name.to_owned(),
                identity: format!("gw1-{name}"),
                addresses: Vec::new(),
            },
            named,
            independent: false,
        };
        let mut site = Site {
            name: "siteB".to_owned(),
            addresses: Vec::new(),
            identity: "gw1-first".to_owned(),
            comment: String::new(),
            nodes: vec![node("first", None)],
        };
        assert_eq!(newest(&site), None);
        site.nodes = vec![
            node("first", Some(Timestamp(9))),
            node("left", Some(Timestamp(3))),
        ];
        assert_eq!(newest(&site), Some(Timestamp(9)));
    }
}
