//! Sums up the work of each node in a divided job.
//! Draws nothing.

use std::collections::BTreeMap;

use godwit_api::rest::{
    Bottleneck, EvennessView, InterfaceShare, NodeShare, SampleView, Timestamp,
};

use super::{seconds, steps};

/// An interface with a smaller share carries no transfer.
const SHARE_MIN: f64 = 0.01;

/// The figure of an interface, behind its name.
const SENT: &str = "_sent_bytes_per_second";

/// Samples of one node.
#[derive(Default)]
struct Seen<'a> {
    began: Timestamp,
    ended: Timestamp,
    bytes: f64,
    /// Bytes that each interface of the machine sent.
    sent: BTreeMap<&'a str, f64>,
    stages: BTreeMap<Bottleneck, u64>,
}

/// The nodes by their names.
pub(super) fn shares(samples: &[SampleView]) -> Vec<NodeShare> {
    let mut nodes: BTreeMap<&str, Seen<'_>> = BTreeMap::new();
    for (before, sample) in steps(samples) {
        let span = seconds(sample.at.0.saturating_sub(before.at.0));
        for node in sample
            .nodes
            .iter()
            .filter(|node| node.bytes_per_second > 0.0)
        {
            let seen = nodes.entry(&node.node).or_insert_with(|| Seen {
                began: before.at,
                ..Seen::default()
            });
            seen.ended = sample.at;
            seen.bytes += node.bytes_per_second * span;
            for (name, rate) in &node.host {
                let interface = name.strip_prefix("interface_");
                let interface = interface.and_then(|name| name.strip_suffix(SENT));
                if let Some(interface) = interface {
                    *seen.sent.entry(interface).or_default() += rate * span;
                }
            }
            if let Some(stage) = node.bottleneck {
                *seen.stages.entry(stage).or_default() += 1;
            }
        }
    }
    let all: f64 = nodes.values().map(|seen| seen.bytes).sum();
    let share = |(name, seen): (&str, Seen<'_>)| NodeShare {
        node: name.to_owned(),
        began: seen.began,
        ended: seen.ended,
        bytes_per_second: seen.bytes / seconds(seen.ended.0 - seen.began.0).max(0.001),
        share: if all > 0.0 { seen.bytes / all } else { 0.0 },
        bottleneck: most(seen.stages),
        interfaces: interfaces(seen.sent),
    };
    nodes.into_iter().map(share).collect()
}

fn most(stages: BTreeMap<Bottleneck, u64>) -> Option<Bottleneck> {
    let most = stages.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(stage, _)| stage)
}

/// The shares of the interfaces of a machine that sent anything worth naming; none for fewer than two.
fn interfaces(sent: BTreeMap<&str, f64>) -> Vec<InterfaceShare> {
    let all: f64 = sent.values().sum();
    let share = |(name, bytes): (&str, f64)| InterfaceShare {
        interface: name.to_owned(),
        share: bytes / all,
    };
    let mut shares: Vec<InterfaceShare> = sent.into_iter().map(share).collect();
    shares.retain(|one| one.share >= SHARE_MIN);
    match shares.len() {
        0 | 1 => Vec::new(),
        _ => shares,
    }
}

/// How evenly the nodes shared the work. None if fewer than two nodes worked.
pub(super) fn evenness(nodes: &[NodeShare]) -> Option<EvennessView> {
    let first = nodes.iter().min_by_key(|node| node.ended)?;
    let last = nodes.iter().rev().max_by_key(|node| node.ended)?;
    let of_interfaces = nodes.iter().filter_map(|node| {
        let shares = node.interfaces.iter().map(|one| one.share);
        least_by_most(shares.collect())
    });
    Some(EvennessView {
        first: first.node.clone(),
        first_ended: first.ended,
        last: last.node.clone(),
        last_ended: last.ended,
        nodes: least_by_most(nodes.iter().map(|node| node.share).collect())?,
        interfaces: of_interfaces.min_by(f64::total_cmp),
    })
}

/// The smallest of several shares divided by the largest.
fn least_by_most(shares: Vec<f64>) -> Option<f64> {
    let most = shares.iter().copied().fold(0.0, f64::max);
    let least = shares.iter().copied().fold(most, f64::min);
    (shares.len() > 1 && most > 0.0).then(|| least / most)
}

#[cfg(test)]
mod tests {
    use godwit_api::rest::NodeProgress;

    use super::*;

    fn sample(second: i64, rates: &[(&str, f64)]) -> SampleView {
        let node = |(name, rate): &(&str, f64)| NodeProgress {
            node: (*name).to_owned(),
            bytes_per_second: *rate,
            bottleneck: Some(Bottleneck::Network),
            host: [("eth0", 3.0), ("eth1", 1.0), ("eth2", 0.01)]
                .map(|(name, part)| (format!("interface_{name}{SENT}"), part * rate))
                .into(),
            ..NodeProgress::default()
        };
        SampleView {
            at: Timestamp(second * 1_000),
            attempt: 1,
            nodes: rates.iter().map(node).collect(),
            ..SampleView::default()
        }
    }

    #[test]
    fn stragglers_and_uneven_nodes_show() {
        let samples = [
            sample(0, &[]),
            sample(1, &[("a1", 30.0), ("a2", 10.0)]),
            sample(2, &[("a1", 30.0), ("a2", 10.0)]),
            sample(4, &[("a1", 0.0), ("a2", 10.0)]),
        ];
        let found = shares(&samples);
        let figures: Vec<_> = found
            .iter()
            .map(|node| (node.node.as_str(), node.began.0, node.ended.0, node.share))
            .collect();
        assert_eq!(figures, [("a1", 0, 2_000, 0.6), ("a2", 0, 4_000, 0.4)]);
        let even = evenness(&found).expect("two");
        assert_eq!((even.first.as_str(), even.first_ended.0), ("a1", 2_000));
        assert_eq!((even.last.as_str(), even.last_ended.0), ("a2", 4_000));
        assert!((even.nodes - 2.0 / 3.0).abs() < 1e-9);
        // The third interface carries nothing of the job.
        let names = found[0].interfaces.iter().map(|one| one.interface.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["eth0", "eth1"]);
        assert!((even.interfaces.expect("several") - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(
            even.words(),
            "a1 was done first and a2 last, 2.0 s later. The node that moved least moved 67 % as much as the node that moved most. The interface of a node that sent least sent at least 33 % as much as the one that sent most."
        );
        assert_eq!(found[1].bottleneck, Some(Bottleneck::Network));
        assert_eq!(evenness(&found[..1]), None);
    }
}
