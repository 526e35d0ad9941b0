//! Turns the work of a divided job, as the state holds it, into the document of the API.
//! Changes nothing, and asks no other node: every node has the state.

use godwit_api::rest::{
    Reason, Timestamp, WorkDoneView, WorkKindName, WorkNodeView, WorkOpenView, WorkPairView,
    WorkRootView, WorkView,
};
use godwit_state::{HeldItems, JobState, Work, WorkKind, Works};

use crate::basis::error::JobsError;
use crate::service::Jobs;

/// The work of a divided job that has not ended.
///
/// # Errors
/// There is no such job, or it has no such work now, or the state cannot be read.
pub fn work_of(jobs: &Jobs, id: &str) -> Result<WorkView, JobsError> {
    let this = &jobs.parts.this;
    let reader = this.reader();
    let job = reader.job(id)?;
    let job = job.ok_or_else(|| JobsError::NoJob(id.to_owned()))?;
    let Some(work) = Works(&reader).of(id)? else {
        return Err(JobsError::NoWork(format!(
            "job {id} has no divided work now: one node alone runs the job, or no node has started it, or the job has ended; the job is {}",
            job.state
        )));
    };
    let items = Works(&reader).open_items(id)?;
    let runner = job.runner.filter(|_| job.state.moves());
    let problem = this.replica.readiness().check().err();
    let work = waited_for(work, job.state);
    Ok(WorkView {
        at: this.now(),
        reported_by: this.name.clone(),
        problem: problem.map(|problem| problem.words()),
        controller: runner.map(|runner| runner.node),
        ..view(work, &items)
    })
}

/// The work as a job of this state waits for it. A node that ends a transfer in order reports it as cut, since its last writes may still
/// arrive. Only a controller fences and forgets such transfers. Without this they would stay in the view of a paused job, which waits for nothing.
fn waited_for(mut work: Work, state: JobState) -> Work {
    if !state.moves() {
        work.targets.taken.clear();
        work.targets.waits = false;
    }
    work
}

/// The document, made from the tables of the work.
fn view(work: Work, items: &[HeldItems]) -> WorkView {
    let mut writers: Vec<String> = work.targets.taken.iter().map(|t| t.node.clone()).collect();
    writers.sort();
    writers.dedup();
    let target = |place: &u32| {
        let target = work.targets.nodes.get(*place as usize);
        target.map(|target| target.name.clone())
    };
    let pairs: Vec<WorkPairView> = work
        .pairs
        .iter()
        .map(|pair| WorkPairView {
            node: pair.node.clone(),
            to: pair.to.iter().filter_map(target).collect(),
            limit: (pair.limit > 0).then_some(pair.limit),
        })
        .collect();
    let counts = &work.counts;
    WorkView {
        job: work.job,
        at: Timestamp(0),
        reported_by: String::new(),
        problem: None,
        controller: None,
        epoch: work.epoch,
        claim: work.claim,
        waits_for_target: work.targets.waits,
        waits_for_writers: writers,
        done: WorkDoneView {
            scans: counts.scans,
            scans_failed: counts.scans_failed,
            parts: counts.parts,
            parts_left: counts.parts_left,
            assembled: counts.assembled,
            files_left: counts.files_left,
            closed: work.counts.closes.max(work.closed.len() as u64),
            leases: counts.leases,
            files: counts.files,
            bytes: counts.bytes,
        },
        open: open(items),
        nodes: nodes(&pairs, items),
        pairs,
        roots: work.roots.into_iter().map(root).collect(),
        targets: work.targets.nodes,
        trouble: work.trouble.map(|reason| Reason {
            code: reason.code,
            text: reason.text,
        }),
    }
}

fn root(root: godwit_state::WorkRoot) -> WorkRootView {
    WorkRootView {
        source: match root.file {
            Some(file) => format!("{}/{file}", root.source),
            None => root.source,
        },
        destination: root.destination,
    }
}

const KINDS: [(WorkKind, WorkKindName); 4] = [
    (WorkKind::Scan, WorkKindName::Scan),
    (WorkKind::Part, WorkKindName::Part),
    (WorkKind::Assemble, WorkKindName::Assemble),
    (WorkKind::Close, WorkKindName::Close),
];

fn open(items: &[HeldItems]) -> Vec<WorkOpenView> {
    let kinds = KINDS.into_iter().map(|(kind, name)| {
        let mut open = WorkOpenView {
            kind: name,
            ready: 0,
            held: 0,
            waiting: 0,
            part_bytes: 0,
        };
        for items in items.iter().filter(|items| items.kind == kind) {
            let count = match (&items.node, items.waits) {
                (Some(_), _) => &mut open.held,
                (None, true) => &mut open.waiting,
                (None, false) => &mut open.ready,
            };
            *count += items.items;
            open.part_bytes = open.part_bytes.saturating_add(items.part_bytes);
        }
        open
    });
    kinds
        .filter(|open| open.ready + open.held + open.waiting > 0)
        .collect()
}

/// Nodes that send, in the order of the pairs, then others that still hold something.
fn nodes(pairs: &[WorkPairView], items: &[HeldItems]) -> Vec<WorkNodeView> {
    let mut nodes: Vec<WorkNodeView> = Vec::new();
    let senders = pairs.iter().map(|pair| &pair.node);
    for name in senders.chain(items.iter().filter_map(|items| items.node.as_ref())) {
        if nodes.iter().any(|node| node.node == *name) {
            continue;
        }
        let count = |kind: WorkKind| {
            let own = items.iter();
            let own = own.filter(|items| items.kind == kind && items.node.as_ref() == Some(name));
            own.fold((0, 0), |(count, bytes), items| {
                let bytes = items.part_bytes.saturating_add(bytes);
                (count + items.items, bytes)
            })
        };
        let (parts, part_bytes) = count(WorkKind::Part);
        nodes.push(WorkNodeView {
            node: name.clone(),
            scans: count(WorkKind::Scan).0,
            parts,
            assembles: count(WorkKind::Assemble).0,
            closes: count(WorkKind::Close).0,
            part_bytes,
        });
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use godwit_api::rest::Peer;
    use godwit_state::{Pair, Taken, WorkCounts, WorkTargets};

    fn held(kind: WorkKind, node: Option<&str>, waits: bool, part_bytes: u64) -> HeldItems {
        HeldItems {
            kind,
            waits,
            node: node.map(str::to_owned),
            items: 2,
            part_bytes,
        }
    }

    #[test]
    fn the_view_names_senders_and_holders_and_what_a_running_job_waits_for() {
        let target = |name: &str| Peer {
            name: name.to_owned(),
            identity: "gw1".to_owned(),
            addresses: Vec::new(),
        };
        let taken = |index| Taken {
            node: "c".to_owned(),
            index,
        };
        let work = Work {
            job: "j".to_owned(),
            epoch: 3,
            claim: "claim".to_owned(),
            roots: Vec::new(),
            pairs: vec![Pair {
                node: "a".to_owned(),
                to: vec![1, 0, 7],
                limit: 0,
            }],
            targets: WorkTargets {
                nodes: vec![target("x"), target("y")],
                waits: true,
                taken: vec![taken(4), taken(9)],
                declined: Vec::new(),
            },
            trouble: None,
            closed: Vec::new(),
            open: 8,
            closes: 1,
            counts: WorkCounts::default(),
        };
        let items = [
            held(WorkKind::Part, Some("b"), false, 10),
            held(WorkKind::Part, None, false, 20),
            held(WorkKind::Assemble, None, true, 0),
        ];
        let paused = waited_for(work.clone(), JobState::Paused);
        let paused = view(paused, &items);
        assert!(!paused.waits_for_target && paused.waits_for_writers.is_empty());
        let view = view(waited_for(work, JobState::Running), &items);
        assert!(view.waits_for_target);
        assert_eq!(
            view.pairs[0].to,
            ["y", "x"],
            "a place that is not there is passed over"
        );
        assert_eq!(view.waits_for_writers, ["c"]);
        let names: Vec<&str> = view.nodes.iter().map(|node| node.node.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!((view.nodes[0].parts, view.nodes[1].part_bytes), (0, 10));
        let open: Vec<_> = view
            .open
            .iter()
            .map(|o| (o.kind.name(), o.ready, o.held, o.waiting, o.part_bytes))
            .collect();
        assert_eq!(open, [("part", 2, 2, 0, 30), ("assemble", 0, 0, 2, 0)]);
    }
}
