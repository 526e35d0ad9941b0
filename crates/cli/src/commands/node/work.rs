//! The work of a divided job and the nodes of a cluster, as tables.
//! Sends no request.

use godwit_api::rest::{
    ClusterNode, ClusterView, NodeState, WorkKindName, WorkNodeView, WorkPairView, WorkView,
};
use godwit_api::units::{counted, human_count, human_rate, human_size};

use super::table;
use crate::output::printable;

/// The work for people: open and done items, their holders, and the senders.
pub(super) fn text(work: &WorkView) -> String {
    let mut lines = vec![head(work)];
    lines.extend(trouble(work));
    lines.push(kinds(work));
    if !work.nodes.is_empty() {
        lines.push(String::new());
        lines.push(nodes(work));
    }
    lines.join("\n")
}

fn head(work: &WorkView) -> String {
    let by = match &work.controller {
        Some(node) => format!("controlled by {node}"),
        None => "no node controls the job now".to_owned(),
    };
    let done = &work.done;
    // The lines above count what arrived; a batch counts here once all of it did.
    let settled = match done.leases {
        0 => "no batch is finished yet".to_owned(),
        batches => format!(
            "{} finished, with {} and {}",
            counted(batches, "batch"),
            counted(done.files, "file"),
            human_size(done.bytes),
        ),
    };
    printable(&format!("divided: {by}; {settled}"))
}

/// The obstacles of the work, a line each.
fn trouble(work: &WorkView) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(problem) = &work.problem {
        lines.push(format!(
            "may be outdated, from {}: {problem}",
            work.reported_by
        ));
    }
    if work.waits_for_target {
        lines.push(
            "a node of the destination cannot be reached and may still write: files are assembled later"
                .to_owned(),
        );
    }
    if !work.waits_for_writers.is_empty() {
        lines.push(format!(
            "transfers that were cut off may still write, from {}; files are assembled once they cannot write any more",
            work.waits_for_writers.join(", ")
        ));
    }
    if let Some(reason) = &work.trouble {
        lines.push(format!("last problem of a node: {}", reason.text));
    }
    lines.iter().map(|line| printable(line)).collect()
}

/// The item that finishes a tree: its links, the times of its directories, and deletion.
const CLOSE: &str = WorkKindName::Close.name();

fn kinds(work: &WorkView) -> String {
    let done = &work.done;
    let rows = [
        ("scan", done.scans, done.scans_failed),
        ("part", done.parts, done.parts_left),
        ("assemble", done.assembled, done.files_left),
        (CLOSE, done.closed, 0),
    ];
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(kind, done, left)| {
            let open = work.open.iter().find(|open| open.kind.name() == kind);
            let number = |count: Option<u64>| human_count(count.unwrap_or(0));
            let bytes = open.map_or(0, |open| open.part_bytes);
            vec![
                match kind {
                    CLOSE => "finish".to_owned(),
                    kind => kind.to_owned(),
                },
                number(open.map(|open| open.ready)),
                number(open.map(|open| open.held)),
                number(open.map(|open| open.waiting)),
                sized(bytes),
                human_count(done),
                match left {
                    0 => String::new(),
                    left => human_count(left),
                },
            ]
        })
        .collect();
    table::plain(
        &[
            "ITEMS",
            "READY",
            "HELD",
            "WAIT",
            "BYTES",
            "DONE",
            "LEFT TO THE END",
        ],
        &rows,
    )
}

fn nodes(work: &WorkView) -> String {
    let rows: Vec<Vec<String>> = work.nodes.iter().map(|node| holds(node, work)).collect();
    table::plain(
        &[
            "NODE",
            "SCANS",
            "PARTS",
            "BYTES",
            "ASSEMBLES",
            "FINISHES",
            "LIMIT",
            "SENDS TO",
        ],
        &rows,
    )
}

fn holds(node: &WorkNodeView, work: &WorkView) -> Vec<String> {
    let pair = work.pairs.iter().find(|pair| pair.node == node.node);
    let controls = work.controller.as_ref() == Some(&node.node);
    let name = match controls {
        true => format!("{} (controller)", node.node),
        false => node.node.clone(),
    };
    let limit = pair.and_then(|pair| pair.limit);
    vec![
        printable(&name),
        node.scans.to_string(),
        node.parts.to_string(),
        sized(node.part_bytes),
        node.assembles.to_string(),
        node.closes.to_string(),
        limit.map_or_else(String::new, human_rate),
        printable(&pair.map_or_else(|| "no node now".to_owned(), sends_to)),
    ]
}

/// Where a node sends. A resting pair takes no more, because the path carries no more nodes or the node does not answer.
fn sends_to(pair: &WorkPairView) -> String {
    match pair.to.as_slice() {
        [] => "rests".to_owned(),
        to => to.join(", "),
    }
}

fn sized(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        bytes => human_size(bytes),
    }
}

/// The nodes of a cluster: the state and the resources of each.
pub(super) fn cluster(view: &ClusterView) -> String {
    let rows: Vec<Vec<String>> = view.nodes.iter().map(node).collect();
    let nodes = table::plain(
        &[
            "NODE",
            "STATE",
            "ROLE",
            "JOBS",
            "CORES",
            "MEMORY",
            "INTERFACES",
            "FREE",
            "VERSION",
        ],
        &rows,
    );
    let mut lines = Vec::new();
    if let Some(problem) = &view.problem {
        lines.push(format!(
            "may be outdated, from {}: {problem}",
            view.reported_by
        ));
    }
    lines.extend(problems(view));
    let shown = |line: String| table::cut(&printable(&line), table::width());
    let mut lines: Vec<String> = lines.into_iter().map(shown).collect();
    lines.push(nodes);
    lines.join("\n")
}

fn node(node: &ClusterNode) -> Vec<String> {
    let has = &node.resources;
    let [cores, memory] = capacity(node);
    let interfaces = has.interfaces.iter().map(|interface| {
        let bits = interface.bits_per_second;
        let speed = bits.map_or_else(String::new, |bits| format!(" {}", line_rate(bits)));
        format!("{}{speed}", interface.name)
    });
    let room = has.room.iter().filter_map(|room| {
        let free = human_size(room.free_bytes?);
        Some(format!("{} {free}", room.export))
    });
    let fields = [
        node.name.clone(),
        state(node),
        role(node).to_owned(),
        node.running.to_string(),
        cores,
        memory,
        interfaces.collect::<Vec<_>>().join(", "),
        room.collect::<Vec<_>>().join(", "),
        node.version.clone(),
    ];
    fields.iter().map(|field| printable(field)).collect()
}

/// Cores and memory of a node, as far as it has reported them.
pub(super) fn capacity(node: &ClusterNode) -> [String; 2] {
    let has = &node.resources;
    match has.cores {
        0 => ["-", "-"].map(ToOwned::to_owned),
        cores => [cores.to_string(), human_size(has.memory_bytes)],
    }
}

/// The state of a node, and for how long it has been lost.
pub(super) fn state(node: &ClusterNode) -> String {
    match node.silent_ms.filter(|_| node.state.name() == "lost") {
        Some(age) => format!("lost for {} s", age / 1_000),
        None => node.state.name().to_owned(),
    }
}

/// The role of a node in the consensus.
pub(super) const fn role(node: &ClusterNode) -> &'static str {
    match (node.leads, node.votes) {
        (true, _) => "leads",
        (false, true) => "votes",
        (false, false) => "follows",
    }
}

/// Nodes whose disk accepts no changes, a line each.
pub(super) fn problems(view: &ClusterView) -> impl Iterator<Item = String> {
    view.nodes.iter().filter_map(|node| {
        let problem = node.problem.as_ref()?;
        let says = match node.state {
            NodeState::Lost => "is lost, and said last",
            _ => "takes no changes",
        };
        Some(format!("{} {says}: {problem}", node.name))
    })
}

/// The speed of an interface.
fn line_rate(bits: u64) -> String {
    match bits {
        0..1_000_000_000 => format!("{} Mbit/s", bits / 1_000_000),
        _ if bits.is_multiple_of(1_000_000_000) => format!("{} Gbit/s", bits / 1_000_000_000),
        _ => format!(
            "{}.{} Gbit/s",
            bits / 1_000_000_000,
            bits / 100_000_000 % 10
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use godwit_api::rest::{Timestamp, WorkDoneView, WorkKindName, WorkOpenView, WorkPairView};

    #[test]
    fn a_node_without_room_is_named_though_it_is_lost() {
        let node = |name: &str, state: &str, problem: Option<&str>| {
            serde_json::json!({
                "name": name, "number": 1, "identity": "gw1-x", "state": state, "votes": true,
                "leads": false, "silent_ms": null, "behind": null, "running": 0, "addresses": [],
                "exports": [], "version": "1", "joined": "1970-01-01T00:00:00Z", "resources": {}, "problem": problem,
            })
        };
        let view = serde_json::json!({
            "cluster": "c", "reported_by": "dtn1", "leader": "dtn1", "problem": null, "level": 4,
            "nodes": [node("dtn1", "up", None), node("dtn2", "up", Some("full")), node("dtn3", "lost", Some("full"))],
        });
        let view: ClusterView = serde_json::from_value(view).expect("a view");
        assert_eq!(
            problems(&view).collect::<Vec<_>>(),
            [
                "dtn2 takes no changes: full",
                "dtn3 is lost, and said last: full"
            ]
        );
    }

    #[test]
    fn the_work_is_a_table_of_kinds_and_a_table_of_nodes() {
        let work = WorkView {
            job: "j".to_owned(),
            at: Timestamp(0),
            reported_by: "dtn2".to_owned(),
            problem: None,
            controller: Some("dtn1".to_owned()),
            epoch: 2,
            claim: "c".to_owned(),
            roots: Vec::new(),
            targets: Vec::new(),
            pairs: vec![WorkPairView {
                node: "dtn1".to_owned(),
                to: vec!["x1".to_owned(), "x2".to_owned()],
                limit: Some(1_000_000),
            }],
            waits_for_target: false,
            waits_for_writers: vec!["dtn3".to_owned()],
            done: WorkDoneView {
                leases: 2,
                files: 1,
                bytes: 5_000_000,
                ..WorkDoneView::default()
            },
            open: vec![WorkOpenView {
                kind: WorkKindName::Part,
                ready: 3,
                held: 1,
                waiting: 0,
                part_bytes: 4_000_000,
            }],
            nodes: ["dtn1", "dtn3"]
                .map(|node| WorkNodeView {
                    node: node.to_owned(),
                    scans: 0,
                    parts: 1,
                    assembles: 0,
                    closes: 0,
                    part_bytes: 1_000_000,
                })
                .to_vec(),
            trouble: None,
        };
        let text = text(&work);
        let has = |row: &[&str]| {
            text.lines()
                .any(|line| line.split_whitespace().eq(row.iter().copied()))
        };
        let head = "divided: controlled by dtn1; 2 batches finished, with 1 file and 5.00 MB";
        assert!(text.contains(head), "{text}");
        assert!(text.contains("dtn1 (controller)"), "{text}");
        assert!(text.contains("may still write, from dtn3;"), "{text}");
        assert!(has(&["part", "3", "1", "0", "4.00", "MB", "0"]), "{text}");
        assert!(text.contains("x1, x2"), "{text}");
        assert!(text.contains("no node now"), "{text}");
    }

    #[test]
    fn speeds_are_as_people_name_them() {
        let reported = [100_000_000, 1_000_000_000, 2_500_000_000, 400_000_000_000].map(line_rate);
        assert_eq!(
            reported,
            ["100 Mbit/s", "1 Gbit/s", "2.5 Gbit/s", "400 Gbit/s"]
        );
    }
}
