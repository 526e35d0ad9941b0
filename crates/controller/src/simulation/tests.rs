//! Tests the time of whole jobs, and the rate of the others while something happens to one node.
//! Simulates nothing itself.

use super::*;

const MIB: f64 = 1_048_576.0;
const GB: f64 = 1e9;

/// Parts of large files, a walk's share of files of 4 MiB, and one of small files.
const KINDS: [Kind; 3] = [
    Kind {
        name: "parts",
        bytes: 256.0 * MIB,
        files: 0,
        are_parts: true,
    },
    Kind {
        name: "4 MiB",
        bytes: 64.0 * MIB,
        files: 16,
        are_parts: false,
    },
    Kind {
        name: "16 KiB",
        bytes: 64.0 * MIB,
        files: 4_096,
        are_parts: false,
    },
];

/// Mbit/s.
fn links(rates: &[f64]) -> Vec<f64> {
    rates.iter().map(|rate| rate * 125_000.0).collect()
}

/// The longest allowed time of a job. Its links alone need the time `best`. A part is held by one node alone, which may be the
/// slowest one at the end.
///
/// `docs/decisions/last-parts.md` says why parts do not meet 1.15 × `best` + 3 s.
fn most(kind: Kind, best: f64) -> f64 {
    let held = if kind.are_parts { 25.0 } else { 3.0 };
    1.15 * best + held
}

fn items(kind: Kind, bytes: f64) -> u64 {
    whole((bytes / kind.bytes).ceil())
}

#[test]
fn jobs_of_unequal_nodes_take_little_longer_than_their_links_need() {
    let orders = [
        [130.0, 470.0, 820.0],
        [820.0, 130.0, 470.0],
        [470.0, 820.0, 130.0],
    ];
    for kind in KINDS {
        for sources in orders {
            for bytes in [2.0 * GB, 6.0 * GB, 20.0 * GB] {
                let world = World {
                    sources: links(&sources),
                    targets: links(&[470.0, 820.0]),
                    kind,
                    fault: None,
                };
                let items = items(kind, bytes);
                let course = world.run(items);
                let best = float(items) * kind.bytes / world.usable(0.0);
                let most = most(kind, best);
                let took = course.seconds;
                let name = kind.name;
                assert!(
                    took <= most,
                    "{name} {sources:?} {bytes}: {took:.1} s of {best:.1} s"
                );
            }
        }
    }
}

#[test]
fn after_a_kill_the_others_bring_the_rest_at_their_rate() {
    for kind in KINDS {
        for side in [
            Side::Source(0),
            Side::Source(2),
            Side::Target(0),
            Side::Target(1),
        ] {
            let world = World {
                sources: links(&[130.0, 470.0, 820.0]),
                targets: links(&[470.0, 820.0]),
                kind,
                fault: Some((12.0, side, Fault::Kill)),
            };
            let course = world.run(items(kind, 10.0 * GB));
            let best = course.left_at_fault / world.usable(12.0);
            let took = course.seconds - 12.0;
            let (name, most) = (kind.name, most(kind, best));
            assert!(took <= most, "{name} {side:?}: {took:.1} s of {best:.1} s");
        }
    }
}

#[test]
fn whatever_one_node_does_the_others_continue() {
    let faults = [
        Fault::Kill,
        Fault::Stop,
        Fault::Cut,
        Fault::Hang,
        Fault::Slow,
        Fault::Full,
        Fault::Unread,
    ];
    for (sources, targets) in [
        (vec![400.0; 3], vec![400.0; 3]),
        (vec![400.0; 2], vec![400.0; 3]),
        (vec![400.0; 4], vec![400.0; 2]),
    ] {
        for kind in KINDS {
            for fault in faults {
                for side in [Side::Source(0), Side::Target(0), Side::Target(1)] {
                    let is_of_side = match fault {
                        Fault::Full => matches!(side, Side::Target(_)),
                        Fault::Unread => matches!(side, Side::Source(_)),
                        _ => true,
                    };
                    if !is_of_side {
                        continue;
                    }
                    let world = World {
                        sources: links(&sources),
                        targets: links(&targets),
                        kind,
                        fault: Some((15.0, side, fault)),
                    };
                    let course = world.run(items(kind, 12.0 * GB));
                    let (name, low) = (kind.name, course.low);
                    let pairs = (sources.len(), targets.len());
                    // If several sources share a destination, a source that was just moved there stays until its lease ends.
                    let is_shared = sources.len() > targets.len();
                    let most = if is_shared { 12.5 } else { 10.0 };
                    assert!(
                        low <= most,
                        "{name} {pairs:?} {fault:?} {side:?}: {low:.1} s"
                    );
                }
            }
        }
    }
}
