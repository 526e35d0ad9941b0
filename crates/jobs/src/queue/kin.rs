//! Says of waiting jobs with one parent which of them run already, and whether here: one node reads their source once for all.
//! Claims nothing.

use std::collections::HashMap;

use godwit_api::rest::HERE;
use godwit_state::{Families, Job, Reader};

use crate::basis::error::JobsError;

/// Where the other jobs of a parent run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Kin {
    /// The parent.
    pub(crate) parent: String,
    /// Some other jobs of the parent run at this node.
    pub(crate) here: bool,
    /// Some other jobs of the parent run at other nodes.
    pub(crate) elsewhere: bool,
}

/// The kin of jobs, by id. Jobs without a parent or of a gather, or with a source elsewhere, have none.
pub(crate) type Kinship = HashMap<String, Kin>;

/// Reads the kin of waiting jobs.
pub(crate) fn read(reader: &Reader, own: &str, due: &[Job]) -> Result<Kinship, JobsError> {
    // None for a gather.
    let mut parents: HashMap<String, Option<Kin>> = HashMap::new();
    let mut found = Kinship::new();
    let are_here = |job: &&Job| job.sources.iter().all(|place| place.site == HERE);
    for job in due.iter().filter(are_here) {
        let Some(parent) = Families(reader).parent(&job.id)? else {
            continue;
        };
        if !parents.contains_key(&parent) {
            let mut kin = Kin {
                parent: parent.clone(),
                ..Kin::default()
            };
            let children = Families(reader).children(&parent)?;
            let share = children.iter().all(|child| child.sources == job.sources);
            for runner in children.into_iter().filter_map(|child| child.runner) {
                match runner.node == own {
                    true => kin.here = true,
                    false => kin.elsewhere = true,
                }
            }
            parents.insert(parent.clone(), share.then_some(kin));
        }
        if let Some(Some(kin)) = parents.get(&parent) {
            found.insert(job.id.clone(), kin.clone());
        }
    }
    Ok(found)
}
