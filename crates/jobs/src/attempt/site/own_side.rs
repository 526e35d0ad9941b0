//! Answers questions about a job to this node as the site of its destination, if the site of the sources runs the job.
//! Decides no route (`route`), and asks no other node.

use godwit_api::ask::{Answer, Question, Refusal, code};

use crate::Shared;
use crate::rights::grants;

/// Answers a question about the job that this node would ask itself. `asker` is the node of this cluster that started the job at the other site.
pub(super) fn ask_here(
    shared: &Shared,
    asker: &str,
    question: &Question,
) -> Result<Answer, Refusal> {
    match question {
        // The owner of the job may write there: the attempt checked that when it began.
        Question::Grant(wish) => grants::grant(shared, asker, None, wish, &|_, _, _| Ok(())),
        Question::Revoke { job, keep } => grants::revoke(shared, asker, asker, job, keep),
        _ => Err(Refusal::new(
            code::INVALID,
            "internal error: this node asked itself about its own job",
        )),
    }
}
