//! Decides which node leases an item of a divided job first, and in which order, if other jobs send the same files elsewhere.
//! Reads no state, and leases nothing.
//!
//! A node reads a file once for all jobs of a **family** if it leases the file's items for them at about the same time. So each item has a
//! node that gets it first. That node follows from the parent of the jobs, the item and the nodes alone (rendezvous hashing). If a node
//! leaves, only its own items get other nodes. A node without own items takes those of others, the last ones first, so that no slow node
//! holds a job up. If a node returns an item that it cannot read or write, the next node gets the item first.

use std::cmp::{Ordering, Reverse};

use godwit_seeded::{STEP, mix};

/// Most ready items of one kind among which a node finds its own.
pub(crate) const LOOKED_AT_MAX: u32 = 1_024;

/// The identity of an item, which is the same for each job of a family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<'a> {
    pub(crate) root: u32,
    pub(crate) path: &'a [u8],
    /// Offset of a part, or share of a directory.
    pub(crate) piece: u64,
    /// Bytes of a part; 0 for a scan.
    pub(crate) bytes: u64,
    /// The node that returned the item last, if one did. Only that item is affected, not those of other jobs.
    pub(crate) returned_by: Option<&'a str>,
}

/// The nodes that lease items of a job of a family, seen from one of them.
#[derive(Clone, Debug)]
pub(crate) struct Crew {
    family: u64,
    own: u64,
    others: Vec<u64>,
}

/// Ready items in the order in which a node leases them.
#[derive(Debug)]
pub(crate) struct Portion<T> {
    /// Items that the node gets first.
    pub(crate) own: Vec<T>,
    /// Items that other nodes get first.
    pub(crate) others: Vec<T>,
}

impl Crew {
    /// The nodes `all` of a job below this parent, seen from `own`.
    pub(crate) fn new<'a>(parent: &str, own: &str, all: impl Iterator<Item = &'a str>) -> Self {
        Self {
            family: hash(1, parent.as_bytes()),
            own: number_of(own),
            others: all.filter(|name| *name != own).map(number_of).collect(),
        }
    }

    /// Whether no other node leases items.
    pub(crate) const fn is_alone(&self) -> bool {
        self.others.is_empty()
    }

    /// Whether the node gets the item before others.
    pub(crate) fn is_own(&self, spot: Spot<'_>) -> bool {
        self.wins(self.number(spot), spot.returned_by)
    }

    /// Sorts ready items.
    ///
    /// Parts have a pseudo-random order among those of the same size, as they have for other jobs: an eavesdropper on one link cannot tell
    /// which parts of a file pass there. Directories have the order of their paths.
    pub(crate) fn portion<T>(&self, ready: Vec<T>, spot: impl Fn(&T) -> Spot<'_>) -> Portion<T> {
        let numbered = ready
            .into_iter()
            .map(|item| (self.number(spot(&item)), item));
        let mut numbered: Vec<(u64, T)> = numbered.collect();
        numbered.sort_by(|(one, first), (other, second)| {
            compare((*one, spot(first)), (*other, spot(second)))
        });
        let (own, mut others): (Vec<_>, Vec<_>) = numbered
            .into_iter()
            .partition(|(number, item)| self.wins(*number, spot(item).returned_by));
        others.reverse();
        // The node takes an item that it has returned only if nothing else is left.
        others.sort_by_key(|(_, item)| self.has_returned(spot(item)));
        let items = |of: Vec<(u64, T)>| of.into_iter().map(|(_, item)| item).collect();
        Portion {
            own: items(own),
            others: items(others),
        }
    }

    fn number(&self, spot: Spot<'_>) -> u64 {
        let seed = mix(self.family ^ u64::from(spot.root));
        hash(seed ^ mix(spot.piece.wrapping_add(STEP)), spot.path)
    }

    fn has_returned(&self, spot: Spot<'_>) -> bool {
        spot.returned_by
            .is_some_and(|node| number_of(node) == self.own)
    }

    /// The node with the highest score wins. If a node returned the item, the one with the next lower score does, and after the last one the
    /// first. So each node has its turn, and the node that returned the item is the last.
    fn wins(&self, number: u64, returned_by: Option<&str>) -> bool {
        let score = |node: u64| mix(number ^ node);
        let returned = returned_by.map(|node| score(number_of(node)));
        let rank = |node: u64| {
            let score = score(node);
            (returned.is_none_or(|returned| score < returned), score)
        };
        let own = rank(self.own);
        self.others.iter().all(|other| rank(*other) < own)
    }
}

fn number_of(node: &str) -> u64 {
    hash(0, node.as_bytes())
}

fn compare((one, first): (u64, Spot<'_>), (other, second): (u64, Spot<'_>)) -> Ordering {
    let by_size = Reverse(first.bytes).cmp(&Reverse(second.bytes));
    by_size.then_with(|| match first.bytes {
        0 => (first.root, first.path, first.piece).cmp(&(second.root, second.path, second.piece)),
        _ => one.cmp(&other),
    })
}

/// The same number at each voter.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let begin = mix(seed ^ mix(bytes.len() as u64));
    bytes.chunks(8).fold(begin, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash.wrapping_add(STEP) ^ u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use godwit_seeded::Seeded;

    use super::*;

    const NODES: [&str; 3] = ["node1", "node2", "node3"];
    const ITEMS: u64 = 600;
    /// Most items of one lease.
    const LEASED: usize = 4;

    #[derive(Clone, Debug, Eq, PartialEq)]
    struct Item {
        path: String,
        bytes: u64,
    }

    fn spot(item: &Item) -> Spot<'_> {
        Spot {
            root: 0,
            path: item.path.as_bytes(),
            piece: 0,
            bytes: item.bytes,
            returned_by: None,
        }
    }

    fn crew(own: &str) -> Crew {
        Crew::new("family", own, NODES.into_iter())
    }

    fn items(bytes: u64) -> Vec<Item> {
        let item = |number| Item {
            path: format!("run/d{number:03}"),
            bytes,
        };
        (0..ITEMS).map(item).collect()
    }

    /// The items in another order, as another job finds them.
    fn shuffled(seeded: &mut Seeded, mut items: Vec<Item>) -> Vec<Item> {
        for last in (1..items.len()).rev() {
            let at = seeded.below(last as u64 + 1);
            items.swap(last, usize::try_from(at).expect("small"));
        }
        items
    }

    /// The node of each item, and the ticks that a job takes: nodes lease as they become idle. An item takes a node about `ticks`.
    fn run(seeded: &mut Seeded, ticks: [u64; 3]) -> (Vec<(Item, usize)>, u64) {
        let all = items(0);
        let mut ready = shuffled(seeded, all);
        let (mut handed, mut busy) = (Vec::new(), [0_u64; 3]);
        for now in 0.. {
            for (at, node) in NODES.into_iter().enumerate() {
                if busy[at] > now || ready.is_empty() {
                    continue;
                }
                let most = ready.len().div_ceil(NODES.len()).min(LEASED);
                let portion = crew(node).portion(ready.clone(), spot);
                let from = match portion.own.is_empty() {
                    true => portion.others,
                    false => portion.own,
                };
                let leased: Vec<Item> = from.into_iter().take(most).collect();
                ready.retain(|item| !leased.contains(item));
                let lasts = |_: &Item| ticks[at] * (90 + seeded.below(21)) / 100;
                busy[at] = now + leased.iter().map(lasts).sum::<u64>();
                handed.extend(leased.into_iter().map(|item| (item, at)));
            }
            if ready.is_empty() {
                let end = busy.into_iter().max().unwrap_or(0);
                return (handed, end);
            }
        }
        unreachable!("the job ends");
    }

    fn preferred(handed: &[(Item, usize)]) -> usize {
        let is_own = |(item, node): &&(Item, usize)| crew(NODES[*node]).is_own(spot(item));
        handed.iter().filter(is_own).count()
    }

    fn assert_each_once(handed: &[(Item, usize)]) {
        let mut paths: Vec<&String> = handed.iter().map(|(item, _)| &item.path).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!((handed.len(), paths.len()), (600, 600));
    }

    #[test]
    fn equal_nodes_get_their_own_items_and_each_item_once() {
        for seed in 0..20 {
            let (handed, _) = run(&mut Seeded(seed), [10; 3]);
            assert_each_once(&handed);
            let own = preferred(&handed);
            assert!(own * 10 >= handed.len() * 8, "seed {seed}: {own}");
        }
    }

    #[test]
    fn idle_nodes_take_the_items_of_a_slow_one() {
        for seed in 0..20 {
            let (handed, took) = run(&mut Seeded(seed), [100, 20, 10]);
            assert_each_once(&handed);
            assert!(preferred(&handed) < handed.len(), "seed {seed}");
            // All together need 600 / (1/100 + 1/20 + 1/10) ticks; the last lease of the slow node may begin just before.
            let most = 3_750 + 100 * 110 * LEASED as u64 / 100;
            assert!(took <= most, "seed {seed}: {took} ticks");
        }
    }

    #[test]
    fn jobs_that_find_items_in_any_order_lease_them_in_one() {
        let mut seeded = Seeded(3);
        for bytes in [0, 256 << 20] {
            let portion = |seeded: &mut Seeded, own: &str| {
                let portion = crew(own).portion(shuffled(seeded, items(bytes)), spot);
                (portion.own, portion.others)
            };
            for own in NODES {
                let (first, others) = portion(&mut seeded, own);
                assert_eq!(portion(&mut seeded, own), (first.clone(), others));
                let is_sorted = first.is_sorted_by_key(|item| item.path.clone());
                // Parts of a file do not leave in its order.
                assert_eq!(is_sorted, bytes == 0);
            }
        }
    }

    #[test]
    fn each_item_has_one_first_node_and_keeps_it_while_another_one_rests() {
        for item in items(0) {
            let first = |nodes: &[&'static str]| {
                let is_first = |own: &&&'static str| {
                    let crew = Crew::new("family", own, nodes.iter().copied());
                    crew.is_own(spot(&item))
                };
                let first: Vec<&str> = nodes.iter().filter(is_first).copied().collect();
                assert_eq!(first.len(), 1, "{item:?}: {first:?}");
                first[0]
            };
            let of_all = first(&NODES);
            let of_two = first(&NODES[..2]);
            assert!(of_all == of_two || of_all == NODES[2], "{item:?}");
        }
    }

    #[test]
    fn an_item_that_nodes_return_goes_round_all_of_them() {
        for item in items(0) {
            let first = |returned_by: Option<&str>, nodes: &[&'static str]| {
                let is_first = |own: &&&'static str| {
                    let crew = Crew::new("family", own, nodes.iter().copied());
                    crew.is_own(Spot {
                        returned_by,
                        ..spot(&item)
                    })
                };
                let first: Vec<&str> = nodes.iter().filter(is_first).copied().collect();
                assert_eq!(first.len(), 1, "{item:?}: {first:?}");
                first[0]
            };
            let one = first(None, &NODES);
            let two = first(Some(one), &NODES);
            let three = first(Some(two), &NODES);
            assert!(one != two && two != three && three != one, "{item:?}");
            assert_eq!(first(Some(three), &NODES), one);
            // A lone node gets back what it returned.
            assert_eq!(first(Some("node1"), &NODES[..1]), "node1");
        }
    }

    #[test]
    fn the_largest_parts_come_first() {
        let part = |path: &str, bytes: u64| Item {
            path: path.to_owned(),
            bytes,
        };
        let ready = vec![part("a", 1), part("b", 3), part("c", 2)];
        let lone = Crew::new("family", "node1", ["node1"].into_iter());
        let own = lone.portion(ready, spot).own;
        let bytes: Vec<u64> = own.iter().map(|item| item.bytes).collect();
        assert_eq!(bytes, [3, 2, 1]);
    }
}
