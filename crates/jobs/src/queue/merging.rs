//! Decides which waiting jobs must wait for another job: sources that are merged into one directory are copied one after
//! another.
//! Claims nothing. The state refuses a claim that comes too early.

use std::collections::HashMap;

use godwit_api::failure::FailureCode;
use godwit_state::{Families, Job, Reader, Reason, Timestamp};

use crate::basis::error::JobsError;

/// Waiting jobs, after a look at the other children of their parents.
#[derive(Default)]
pub(crate) struct Parted {
    /// Jobs that may begin.
    pub(crate) free: Vec<Job>,
    /// Jobs that must wait for another job, and why.
    pub(crate) waiting: Vec<(Job, Reason)>,
    /// Parents of the jobs that may begin, by the ids of the jobs.
    pub(crate) parents: HashMap<String, String>,
}

/// Takes out the jobs that must wait for another child of their parent. `is_live` says of a job whether an attempt here, at the
/// node
/// `own`, has not stopped yet.
pub(crate) fn part(
    reader: &Reader,
    due: Vec<Job>,
    (own, at): (&str, Timestamp),
    is_live: &dyn Fn(&str) -> bool,
) -> Result<Parted, JobsError> {
    let mut parted = Parted::default();
    // By parent: the children that may write to a shared destination.
    let mut families: HashMap<String, Vec<Job>> = HashMap::new();
    for job in due {
        let Some(parent) = Families(reader).parent(&job.id)? else {
            parted.free.push(job);
            continue;
        };
        if !families.contains_key(&parent) {
            let children = Families(reader).children(&parent)?;
            let mut writing = Vec::new();
            for child in children.iter().filter(|child| shares(child, &children)) {
                if is_live(&child.id) || Families(reader).may_write(child, own, at)? {
                    writing.push(child.clone());
                }
            }
            families.insert(parent.clone(), writing);
        }
        let writing = families.get(&parent).map_or(&[][..], Vec::as_slice);
        if shares(&job, writing) {
            parted.waiting.push((job, reason()));
        } else {
            parted.parents.insert(job.id.clone(), parent);
            parted.free.push(job);
        }
    }
    Ok(parted)
}

/// Whether a job is one of several children with one destination. Its attempt must not outlast the contact with the cluster: another node
/// claims the next child after a time.
pub(crate) fn is_merged(reader: &Reader, job: &Job) -> Result<bool, JobsError> {
    let Some(parent) = Families(reader).parent(&job.id)? else {
        return Ok(false);
    };
    Ok(shares(job, &Families(reader).children(&parent)?))
}

/// Whether another of these children has the destination of the job.
fn shares(job: &Job, children: &[Job]) -> bool {
    let mut others = children.iter().filter(|other| other.id != job.id);
    others.any(|other| other.destination == job.destination)
}

fn reason() -> Reason {
    Reason::new(
        FailureCode::OtherSource,
        "Another source of the job is merged into the destination; this one begins when that one ends.",
    )
}

#[cfg(test)]
mod tests {
    use godwit_state::{
        Actor, Command, FEATURE_LEVEL, JobOp, NewFamily, NewJob, Op, Role, Runner, Store, Timestamp,
    };

    use super::*;
    use crate::basis::examples::new_job;

    fn new(id: &str, from: &str, to: &str) -> NewJob {
        new_job(id, from, ("here", to))
    }

    #[test]
    fn merged_sources_wait_for_the_one_that_runs_or_stops() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state.db");
        let mut store = Store::open(&path).expect("open");
        let mut index = 0;
        let mut op = |op| {
            index += 1;
            let alice = Actor {
                name: "alice".to_owned(),
                role: Some(Role::Operator),
                remote: None,
                request: None,
                via: None,
            };
            let command = Command::new(Timestamp(1), alice, op);
            let done = store.apply(index, &command).expect("applied");
            done.expect("taken");
        };
        op(Op::Level(FEATURE_LEVEL));
        // Two families: one is merged, the other is not.
        for (name, places) in [("m", ["/all/", "/all/"]), ("s", ["/all/b/", "/all/c/"])] {
            let child = |number: usize| {
                let site = ["siteB", "siteC"][number];
                new(&format!("{name}{}", number + 1), site, places[number])
            };
            op(Op::SubmitFamily(Box::new(NewFamily {
                parent: new(&format!("{name}0"), "siteB", "/all/"),
                children: (0..2).map(child).collect(),
            })));
        }
        let reader = Reader::new(path);
        let ids = |is_live: &dyn Fn(&str) -> bool| {
            let due = ["m1", "m2", "s1", "s2"].map(|id| {
                let job = reader.job(id).expect("read");
                job.expect("there")
            });
            let merged = due
                .each_ref()
                .map(|job| is_merged(&reader, job).expect("read"));
            assert_eq!(merged, [true, true, false, false]);
            let own = ("node2", Timestamp(1));
            let parted = part(&reader, due.to_vec(), own, is_live).expect("read");
            let waiting = parted.waiting.into_iter().map(|(job, _)| job.id);
            let waiting: Vec<String> = waiting.collect();
            let free: Vec<String> = parted.free.into_iter().map(|job| job.id).collect();
            for id in &free {
                assert_eq!(parted.parents[id], id.replace(['1', '2'], "0"));
            }
            (free, waiting)
        };
        let all = ["m1", "m2", "s1", "s2"].map(str::to_owned).to_vec();
        assert_eq!(ids(&|_| false), (all, Vec::new()));
        // An attempt of the first one is about to stop.
        let rest = ["m1", "s1", "s2"].map(str::to_owned).to_vec();
        let second = vec!["m2".to_owned()];
        assert_eq!(ids(&|id| id == "m1"), (rest.clone(), second.clone()));
        for id in ["m1", "s1"] {
            let claim = JobOp::Claim {
                runner: Runner {
                    node: "node1".to_owned(),
                    instance: "1".to_owned(),
                },
                seen: 0,
            };
            op(Op::Job(id.to_owned(), claim));
        }
        assert_eq!(ids(&|_| false), (rest.clone(), second.clone()));
        // Its node may not know of a pause yet.
        op(Op::Job("m1".to_owned(), JobOp::Pause));
        assert_eq!(ids(&|_| false), (rest, second));
    }
}
