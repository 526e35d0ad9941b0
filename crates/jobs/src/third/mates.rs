//! The other nodes of this cluster, which may go on with a job that another site runs: they are let in there for this job, and find it again.
//! Starts and follows no job.

use godwit_api::ask::{GrantJob, Question};
use godwit_api::grant::Mandate;
use godwit_api::rest::Timestamp;
use godwit_state::{Job, Node};

use super::{GRANT_FOR, Third, Way, millis};
use crate::Shared;
use crate::error::JobsError;

/// Nodes that are let in: enough for one to be left.
const MATES_MAX: usize = 8;

/// The identities of the other nodes of the cluster.
pub(super) fn mates(shared: &Shared) -> Result<Vec<String>, JobsError> {
    let rows = shared.replica.reader().objects::<Node>()?;
    let others = rows
        .into_iter()
        .filter(|row| row.name != shared.config.node);
    Ok(others.map(|row| row.identity).take(MATES_MAX).collect())
}

/// The job as that of each other node that ran an attempt of it, the latest first: a site knows it by the node that asked. None where
/// another node ran the latest attempt, which says itself what is to be said.
pub(super) fn askers(shared: &Shared, job: &Job) -> Result<Vec<Mandate>, JobsError> {
    let reader = shared.replica.reader();
    let mut names: Vec<String> = Vec::new();
    for attempt in reader.attempts(&job.id)?.into_iter().rev() {
        if !names.contains(&attempt.node) {
            names.push(attempt.node);
        }
    }
    let own = &shared.config.node;
    if names.first() != Some(own) {
        return Ok(Vec::new());
    }
    let mut mandates = Vec::new();
    for name in names.iter().filter(|name| *name != own) {
        // A node that was removed is asked for no more.
        mandates.extend(reader.object::<Node>(name)?.map(|row| Mandate {
            asker: row.identity,
            job: job.id.clone(),
        }));
    }
    Ok(mandates)
}

impl Third<'_> {
    /// Lets the other nodes of this cluster in at the site that runs the job. Without that they could not go on with it.
    pub(super) fn let_mates_in(&self, way: Way) {
        let paths = self.paths_at_runner(way);
        let mates = self.mates.borrow().clone();
        for identity in &mates {
            let question = Question::Grant(GrantJob {
                job: self.job.id.clone(),
                identity: identity.clone(),
                // One path says enough.
                paths: paths.iter().take(1).cloned().collect(),
                write: way == Way::Pull,
                until: Timestamp(self.shared.now().after(millis(GRANT_FOR)).0),
                lasts_ms: Some(millis(GRANT_FOR)),
            });
            if let Err(refusal) = self.ask(self.runner(way), &question) {
                let note = format!(
                    "{} does not let the other nodes of this cluster in, so none of them can go on with the job if this node is lost: {refusal}",
                    self.runner(way).name
                );
                return self.note(&note);
            }
        }
    }
}
