//! Sums up the work of each node in a divided job.
//! Draws nothing.

use std::collections::BTreeMap;

use godwit_api::rest::{NodeShare, SampleView, Timestamp};

use super::{float, seconds, steps};

/// Samples of one node.
#[derive(Default)]
struct Seen {
    began: Timestamp,
    ended: Timestamp,
    bytes: f64,
    stages: BTreeMap<String, u64>,
}

/// The nodes by their names.
pub(super) fn shares(samples: &[SampleView]) -> Vec<NodeShare> {
    let mut nodes: BTreeMap<&str, Seen> = BTreeMap::new();
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
            if let Some(stage) = &node.bottleneck {
                *seen.stages.entry(stage.clone()).or_default() += 1;
            }
        }
    }
    let all: f64 = nodes.values().map(|seen| seen.bytes).sum();
    let share = |(name, seen): (&str, Seen)| NodeShare {
        node: name.to_owned(),
        began: seen.began,
        ended: seen.ended,
        bytes_per_second: seen.bytes / seconds(seen.ended.0 - seen.began.0).max(0.001),
        share: if all > 0.0 { seen.bytes / all } else { 0.0 },
        bottleneck: most(seen.stages),
    };
    nodes.into_iter().map(share).collect()
}

fn most(stages: BTreeMap<String, u64>) -> Option<String> {
    let most = stages.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(stage, _)| stage)
}

/// How evenly the nodes shared the work: the smallest share divided by the largest; 1 means equal shares. None of fewer than two nodes.
pub(super) fn evenness(nodes: &[NodeShare]) -> Option<f64> {
    let parts = || nodes.iter().map(|node| node.share);
    let greatest = parts().fold(0.0, f64::max);
    (nodes.len() > 1 && greatest > 0.0).then(|| parts().fold(greatest, f64::min) / greatest)
}

/// Seconds between the end of the first node without more work and the end of the last node.
pub(super) fn spread(nodes: &[NodeShare]) -> f64 {
    let ends = || nodes.iter().map(|node| node.ended.0);
    let (first, last) = (ends().min(), ends().max());
    float(u64::try_from(last.unwrap_or(0) - first.unwrap_or(0)).unwrap_or(0)) / 1_000.0
}

#[cfg(test)]
mod tests {
    use godwit_api::rest::NodeProgress;

    use super::*;

    fn sample(second: i64, rates: &[(&str, f64)]) -> SampleView {
        let node = |(name, rate): &(&str, f64)| NodeProgress {
            node: (*name).to_owned(),
            bytes_per_second: *rate,
            bottleneck: Some("network".to_owned()),
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
        assert!((evenness(&found).expect("two") - 2.0 / 3.0).abs() < 1e-9);
        assert!((spread(&found) - 2.0).abs() < 1e-9);
        assert_eq!(found[1].bottleneck.as_deref(), Some("network"));
        assert_eq!(evenness(&found[..1]), None);
    }
}
