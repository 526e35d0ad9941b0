//! Combines the reports of the nodes of a divided job: the figures of each stage over all of them, and the bottleneck of the job with its
//! place.
//! Asks no node.

use std::collections::BTreeMap;

use godwit_api::rest::{Bottleneck, NodeProgress};
use godwit_api::units::human_rate;

/// The figures of all nodes: rates and counts together, shares of time on average.
pub(super) fn stages(nodes: &[NodeProgress]) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<&str, (f64, u32)> = BTreeMap::new();
    for (name, figure) in nodes.iter().flat_map(|node| &node.stages) {
        let (sum, count) = sums.entry(name).or_default();
        *sum += figure;
        *count += 1;
    }
    let figure = |(name, (sum, count)): (&str, (f64, u32))| match adds_up(name) {
        true => (name.to_owned(), sum),
        false => (name.to_owned(), sum / f64::from(count)),
    };
    sums.into_iter().map(figure).collect()
}

fn adds_up(name: &str) -> bool {
    name.ends_with("_per_second") || name.ends_with("_bytes") || name.contains("_processors")
}

/// The stage that limits the job, with a sentence that names its nodes. The stage is that of most nodes or, without a majority, the stage of the slowest node.
pub(super) fn limited(nodes: &[NodeProgress], limit: u64) -> Option<(Bottleneck, String)> {
    let named = |node: &&NodeProgress| node.bottleneck.is_some();
    let mut slowest: Vec<&NodeProgress> = nodes.iter().filter(named).collect();
    slowest.sort_by(|one, other| one.bytes_per_second.total_cmp(&other.bytes_per_second));
    let count = |stage: Option<Bottleneck>| {
        let same = slowest.iter().filter(|node| node.bottleneck == stage);
        same.count()
    };
    // The reversal makes the first of equal stages win.
    let most = slowest
        .iter()
        .rev()
        .max_by_key(|node| count(node.bottleneck));
    let stage = most?.bottleneck?;
    if stage == Bottleneck::Limit && limit > 0 {
        let text = format!(
            "{}: {} for all nodes together",
            stage.words(),
            human_rate(limit)
        );
        return Some((stage, text));
    }
    let of_stage = slowest.iter().filter(|node| node.bottleneck == Some(stage));
    let mut places: Vec<String> = of_stage.clone().map(|node| place(stage, node)).collect();
    let why = of_stage
        .clone()
        .find_map(|node| node.bottleneck_text.as_deref());
    let figure = why
        .and_then(|text| text.strip_prefix(stage.words()))
        .unwrap_or("");
    places.sort();
    places.dedup();
    let text = format!("{} at {}{figure}", stage.words(), listed(&places));
    Some((stage, text))
}

/// Where a stage is.
fn place(stage: Bottleneck, node: &NodeProgress) -> String {
    match stage {
        _ if node.to.is_empty() => node.node.clone(),
        Bottleneck::DestinationCpu | Bottleneck::DestinationStorage => node.to.clone(),
        Bottleneck::Network => format!("{} to {}", node.node, node.to),
        Bottleneck::SourceStorage | Bottleneck::SourceCpu | Bottleneck::Limit => node.node.clone(),
    }
}

fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, to: &str, rate: f64, stage: Option<Bottleneck>) -> NodeProgress {
        NodeProgress {
            node: name.to_owned(),
            to: to.to_owned(),
            bytes_per_second: rate,
            bottleneck: stage,
            bottleneck_text: stage.map(|stage| format!("{}: busy 97 % at {to}", stage.words())),
            stages: BTreeMap::from([
                ("write_busy".to_owned(), rate / 10.0),
                ("write_bytes_per_second".to_owned(), rate),
            ]),
            ..NodeProgress::default()
        }
    }

    #[test]
    fn the_sentence_names_stage_and_nodes() {
        let writing = Some(Bottleneck::DestinationStorage);
        let nodes = [
            node("a1", "b1", 2.0, Some(Bottleneck::Network)),
            node("a2", "b2", 1.0, writing),
            node("a3", "b3", 3.0, writing),
        ];
        let text = |nodes: &[NodeProgress], limit| limited(nodes, limit).map(|(_, text)| text);
        assert_eq!(
            text(&nodes, 0).as_deref(),
            Some("destination storage at b2 and b3: busy 97 % at b2")
        );
        // One of each: the slowest node decides.
        assert_eq!(
            text(&nodes[..2], 0).as_deref(),
            Some("destination storage at b2: busy 97 % at b2")
        );
        assert_eq!(
            text(&nodes[..1], 0).as_deref(),
            Some("network at a1 to b1: busy 97 % at b1")
        );
        assert_eq!(text(&[node("a1", "b1", 1.0, None)], 0), None);
        let held = [node("a1", "b1", 1.0, Some(Bottleneck::Limit))];
        let (stage, text) = limited(&held, 20_000_000).expect("limited");
        assert_eq!(stage, Bottleneck::Limit);
        assert_eq!(
            text,
            "the limit that is set: 20.0 MB/s for all nodes together"
        );
    }

    #[test]
    fn rates_add_up_and_shares_are_averages() {
        let nodes = [node("a1", "b1", 2.0, None), node("a2", "b2", 4.0, None)];
        let found = stages(&nodes);
        assert!((found["write_bytes_per_second"] - 6.0).abs() < 1e-9);
        assert!((found["write_busy"] - 0.3).abs() < 1e-9);
    }
}
