//! Answers the questions that this node would ask itself about a job: it has the destination, and the site of the sources runs the job.
//! Decides no route (`route`), and asks no other node.

use godwit_api::ask::{Answer, Question, Refusal, code};

use crate::rights::{Rights, grants};

/// Answers a question about the job that this node would ask itself. `asker` is the node of this cluster that started the job at the other site.
pub(super) fn ask_here(
    rights: &Rights,
    asker: &str,
    question: &Question,
) -> Result<Answer, Refusal> {
    match question {
        // The owner of the job may write there: the attempt checked that when it began.
        Question::Grant(wish) => grants::grant(rights, asker, None, wish, &|_, _, _| Ok(())),
        Question::Revoke { job, keep } => grants::revoke(rights, asker, asker, job, keep),
        _ => Err(Refusal::new(
            code::INVALID,
            "internal error: this node asked itself about its own job",
        )),
    }
}
