//! Says which waiting jobs let another one go first: sources that are merged into one directory go one after another.
//! Claims nothing. The state refuses a claim that comes too early.

use godwit_api::failure::FailureCode;
use godwit_state::{Families, Job, Reader, Reason};

use crate::basis::error::JobsError;

/// Takes out the jobs that have to let another child of their parent go first, each with its reason. `is_live` says of a job whether an
/// attempt here has not stopped yet.
pub(crate) fn part(
    reader: &Reader,
    due: Vec<Job>,
    is_live: &dyn Fn(&str) -> bool,
) -> Result<(Vec<Job>, Vec<(Job, Reason)>), JobsError> {
    let (mut free, mut waiting) = (Vec::new(), Vec::new());
    for job in due {
        match comes_first(reader, &job, is_live)? {
            true => free.push(job),
            false => waiting.push((job, reason())),
        }
    }
    Ok((free, waiting))
}

/// Whether no other child of the parent writes to the same destination.
fn comes_first(
    reader: &Reader,
    job: &Job,
    is_live: &dyn Fn(&str) -> bool,
) -> Result<bool, JobsError> {
    let Some(parent) = Families(reader).parent(&job.id)? else {
        return Ok(true);
    };
    let children = Families(reader).children(&parent)?;
    let writes = |other: &Job| other.state.moves() || is_live(&other.id);
    let mut others = children.iter().filter(|other| other.id != job.id);
    Ok(!others.any(|other| other.destination == job.destination && writes(other)))
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
        Actor, Command, FEATURE_LEVEL, JobOp, NewFamily, NewJob, Op, RetryPolicy, Runner, Store,
        StoredPlace, Timestamp,
    };

    use super::*;

    fn new(id: &str, from: &str, to: &str) -> NewJob {
        let place = |site: &str, path: &str| StoredPlace {
            site: site.to_owned(),
            path: path.to_owned(),
        };
        NewJob {
            id: id.to_owned(),
            label: String::new(),
            owner: "alice".to_owned(),
            spec: "{}".to_owned(),
            sources: vec![place(from, "/raw/.")],
            destination: place("here", to),
            priority: 0,
            limit: None,
            not_before: None,
            deadline: None,
            retry: RetryPolicy::default(),
            idempotency_key: None,
        }
    }

    #[test]
    fn merged_sources_wait_for_the_one_that_runs_or_stops() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state.db");
        let mut store = Store::open(&path).expect("open");
        let mut index = 0;
        let mut op = |op| {
            index += 1;
            let command = Command::new(Timestamp(1), Actor::node("node1"), op);
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
            let (free, waiting) = part(&reader, due.to_vec(), is_live).expect("read");
            let waiting: Vec<String> = waiting.into_iter().map(|(job, _)| job.id).collect();
            let free: Vec<String> = free.into_iter().map(|job| job.id).collect();
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
        assert_eq!(ids(&|_| false), (rest, second));
    }
}
