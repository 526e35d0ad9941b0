//! Bounds the nodes of both sites that take part in a divided job, by the setting `nodes` of the job.
//! Chooses none itself: `bound` does.

use godwit_api::ask::Peer;

use super::{Driver, Mate, Picture};
use crate::bound::Offered;

impl Driver<'_> {
    /// Removes mates from the crew that take no part. This node always takes part.
    pub(super) fn bound_crew(&self, picture: &mut Picture, crew: &mut Vec<Mate>) {
        let own = &self.node.runner.node;
        let named = crew.iter().map(|mate| Offered {
            key: &mate.name,
            name: &mate.name,
        });
        let offered: Vec<Offered<'_>> = named.collect();
        let (now, watch) = (picture.now(), &picture.watch);
        let is_lost = |name: &str| name != own && watch.is_silent(name);
        if picture.here.choose(now, &offered, is_lost) {
            self.note_bound(picture.here.said());
        }
        crew.retain(|mate| picture.here.uses(&mate.name));
    }

    /// Has the claim hold at those nodes of the destination that take part. `is_listed`: the site has just named its nodes.
    pub(super) fn bound_targets(&self, picture: &mut Picture, is_listed: bool) {
        let now = picture.now();
        let named = picture.listed.iter().map(|peer| Offered {
            key: &peer.identity,
            name: &peer.name,
        });
        let mut offered: Vec<Offered<'_>> = named.collect();
        // Each node of the site may list them in another order.
        offered.sort_by_key(|one| (one.name, one.key));
        let claims = &picture.claims;
        let is_changed = picture.there.choose(now, &offered, |key| claims.fails(key));
        if is_changed {
            self.note_bound(picture.there.said());
        }
        if is_changed || is_listed {
            let listed = picture.listed.iter();
            let used = listed.filter(|peer| picture.there.uses(&peer.identity));
            let used = used.cloned().collect();
            picture.claims.serving(now, used);
        }
    }

    /// The nodes of the destination that took part before, and those that the setting left out: none of the former may answer any more.
    pub(super) fn with_left_out(&self, before: Vec<Peer>) -> Vec<Peer> {
        if before.len() < self.order.nodes_max {
            return before;
        }
        match self.site.nodes_of(&self.order.peer) {
            Ok(listed) => with_others(before, listed.nodes),
            Err(_) => before,
        }
    }

    fn note_bound(&self, said: Option<&str>) {
        if let Some(said) = said {
            (self.order.note)(said);
        }
    }
}

/// The nodes, and the others of the list.
fn with_others(mut nodes: Vec<Peer>, listed: Vec<Peer>) -> Vec<Peer> {
    for peer in listed {
        if nodes.iter().all(|node| node.identity != peer.identity) {
            nodes.push(peer);
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_took_part_come_first_and_each_node_once() {
        let peers = |names: &[&str]| -> Vec<Peer> {
            let peer = |name: &&str| Peer {
                name: (*name).to_owned(),
                addresses: Vec::new(),
                identity: (*name).to_owned(),
            };
            names.iter().map(peer).collect()
        };
        let all = with_others(peers(&["b", "c"]), peers(&["a", "b", "c", "d"]));
        assert_eq!(all, peers(&["b", "c", "a", "d"]));
    }
}
