//! Finds the other nodes of this cluster, and the node that reports about a job without an attempt.
//! Gives no access: `let_in` does.

use std::time::Duration;

use godwit_api::ask::{Question, code};
use godwit_state::{Job, Node};

use crate::asking::{Asking, reached};
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

/// Whether this node reports to the sites about a job without an attempt. The node of the latest attempt reports. The leader reports if
/// that node has left the cluster or does not answer.
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
