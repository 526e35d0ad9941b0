//! Owns the choice of the node that fills a part of a file: rendezvous hashing over the nodes of the pool. Knows no network.
//!
//! All nodes compute the same choice from names alone. A node that leaves or joins moves only its share of the parts.

use crate::extent::FileKey;
use crate::frame::crc;

/// One node fills this many bytes of a file in a row.
pub const GROUP_BYTES: u64 = 16 << 20;

/// Names a file of an export to the choice. The path of the export on a machine has no part in it.
#[must_use]
pub fn file(export: &str, key: &FileKey) -> u64 {
    let bytes = key.generation.bytes.to_le_bytes();
    let stamp = key.generation.stamp.to_le_bytes();
    mix(crc(&[export.as_bytes(), b"\0", &key.path, &bytes, &stamp]))
}

/// Names a node to the choice.
#[must_use]
pub fn node(identity: &str) -> u64 {
    mix(crc(&[identity.as_bytes()]))
}

/// The node that fills the part of a file at `offset`, by its position among `nodes`.
#[must_use]
pub fn home(nodes: &[u64], file: u64, offset: u64) -> Option<usize> {
    let part = mix(file ^ mix(offset / GROUP_BYTES));
    let scores = nodes.iter().map(|node| (mix(part ^ node), *node));
    let best = scores.enumerate().max_by_key(|(_, score)| *score);
    best.map(|(at, _)| at)
}

/// The finalizer of SplitMix64.
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent::{Generation, SourceId};

    fn key(path: &str) -> FileKey {
        FileKey {
            source: SourceId([7; 16]),
            path: path.as_bytes().to_vec(),
            generation: Generation {
                bytes: 1 << 40,
                stamp: 9,
            },
        }
    }

    fn parts(of: u64) -> impl Iterator<Item = u64> {
        (0..of).map(|part| part * GROUP_BYTES)
    }

    #[test]
    fn nodes_get_equal_shares_of_a_file_and_of_small_files() {
        let nodes = ["a", "b", "c"].map(node);
        let mut shares = [[0_u32; 3]; 2];
        let large = file("data", &key("run42"));
        for offset in parts(3_000) {
            shares[0][home(&nodes, large, offset).expect("a node")] += 1;
        }
        for number in 0..3_000 {
            let small = file("data", &key(&format!("run42/{number}")));
            shares[1][home(&nodes, small, 0).expect("a node")] += 1;
        }
        let all = shares.as_flattened();
        assert!(
            all.iter().all(|share| (850..1_150).contains(share)),
            "{shares:?}"
        );
    }

    #[test]
    fn a_node_that_goes_moves_only_its_parts_and_the_order_of_nodes_is_of_no_account() {
        let nodes = ["a", "b", "c"].map(node);
        let name = file("data", &key("f"));
        for offset in parts(500) {
            let at = home(&nodes, name, offset).expect("a node");
            let turned = [nodes[2], nodes[0], nodes[1]];
            let turned = turned[home(&turned, name, offset).expect("a node")];
            assert_eq!(nodes[at], turned);
            if at != 2 {
                assert_eq!(home(&nodes[..2], name, offset), Some(at));
            }
        }
        assert_eq!(home(&[], name, 0), None);
    }

    #[test]
    fn a_group_has_one_node_and_the_place_of_the_export_does_not_count() {
        let nodes = ["a", "b", "c"].map(node);
        let mut moved = key("f");
        moved.source = SourceId([8; 16]);
        let name = file("data", &moved);
        assert_eq!(name, file("data", &key("f")));
        assert_ne!(name, file("dat", &key("af")));
        let first = home(&nodes, name, 0);
        assert_eq!(home(&nodes, name, GROUP_BYTES - 1), first);
    }
}
