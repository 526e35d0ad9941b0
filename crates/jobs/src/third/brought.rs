//! What a job asks this node as the site of its destination, where the site of the sources brings it.
//! Decides no route (`route`), and asks no other node.

use godwit_api::ask::{Answer, Peer, Question, Refusal, code};

use crate::{Shared, grants};

/// Answers what the job asks this node.
pub(super) fn ask_here(
    shared: &Shared,
    own: &Peer,
    question: &Question,
) -> Result<Answer, Refusal> {
    match question {
        // The owner of the job may write there, which was looked at when the attempt began.
        Question::Grant(wish) => {
            grants::grant(shared, &own.identity, None, wish, &|_, _, _| Ok(()))
        }
        Question::Revoke { job } => grants::revoke(shared, &own.identity, job),
        _ => Err(Refusal::new(
            code::INVALID,
            "this node is not asked that about a job of its own",
        )),
    }
}
