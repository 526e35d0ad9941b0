//! Gives the other nodes of this cluster access to a job that another site runs, so that they can
//! find and resume the job.
//! Starts and follows no job.

use std::time::Duration;

use godwit_api::ask::{GrantJob, Question, code};
use godwit_api::rest::Timestamp;
use godwit_state::{Job, Node};

use super::{Direction, GRANT_FOR, SiteAttempt, millis};
use crate::asking::{Asking, reached};
use crate::attempt::askers::asker;
use crate::basis::error::JobsError;
use crate::basis::this_node::ThisNode;

/// Number of nodes that get access, enough that one survives.
const MATES_MAX: usize = 8;

/// How long the node of the latest attempt may take to answer.
const WITHIN: Duration = Duration::from_secs(3);

/// The identities of the other nodes of the cluster.
pub(super) fn mates(this: &ThisNode) -> Result<Vec<String>, JobsError> {
    let rows = this.reader().objects::<Node>()?;
    let others = rows.into_iter().filter(|row| row.name != this.name);
    Ok(others.map(|row| row.identity).take(MATES_MAX).collect())
}

/// Whether this node reports to the sites about a job without an attempt. The node of the latest attempt does. If that node has left the
/// cluster or does not answer, the leader does.
pub(super) fn speaks_for(asking: &Asking, job: &Job) -> Result<bool, JobsError> {
    let this = &asking.this;
    let reader = this.reader();
    let attempts = reader.attempts(&job.id)?;
    let Some(latest) = attempts.last().map(|attempt| &attempt.node) else {
        return Ok(false);
    };
    if *latest == this.name {
        return Ok(true);
    }
    if !this.replica.is_leader() {
        return Ok(false);
    }
    let Some(row) = reader.object::<Node>(latest)? else {
        return Ok(true);
    };
    let node = reached::node(&row);
    let asked = reached::ask(asking, &node, &Question::Running {}, WITHIN, &|| true);
    Ok(asked.is_err_and(|refusal| refusal.code == code::UNREACHABLE))
}

/// The nodes of this cluster that need access for the job. This node is among them if the site knows the job by another one. The site
/// renews the access of this node only by its own right.
pub(super) fn to_be_let_in(third: &SiteAttempt<'_>) -> Vec<String> {
    let own = third.earlier.borrow().is_some();
    let own = own
        .then(|| asker(&third.context.rights.cluster, None))
        .flatten();
    let mates = third.mates.borrow();
    own.into_iter().chain(mates.iter().cloned()).collect()
}

impl SiteAttempt<'_> {
    /// Admits the other nodes of this cluster at the site that runs the job. Otherwise they could not resume it.
    pub(super) fn let_mates_in(&self, way: Direction) {
        let paths = self.ends.paths_at_runner(way);
        let own = asker(&self.context.rights.cluster, None);
        for identity in &to_be_let_in(self) {
            let question = Question::Grant(GrantJob {
                job: self.job.id.clone(),
                identity: identity.clone(),
                // One path is enough for this.
                paths: paths.iter().take(1).cloned().collect(),
                write: way == Direction::Pull,
                until: Timestamp(self.context.this.now().after(millis(GRANT_FOR)).0),
                lasts_ms: Some(millis(GRANT_FOR)),
            });
            if let Err(refusal) = self.ask(self.ends.runner(way), &question)
                && own.as_ref() != Some(identity)
            {
                let note = format!(
                    "{} gives no access to the other nodes of this cluster, so they cannot continue the job if this node is lost: {refusal}",
                    self.ends.runner(way).name
                );
                return self.note(&note);
            }
        }
    }
}
