//! Makes the refusals of questions about a claim that has ended or was taken over. Does not decide.

use godwit_api::ask::{Refusal, code};
use godwit_api::job::ClaimId;

pub(super) fn no_such(claim: ClaimId) -> Refusal {
    let message =
        format!("the claim {claim} has ended at this node, or was never set; set it again");
    Refusal::new(code::NO_SUCH_CLAIM, message)
}

pub(super) fn passed(epoch: u64) -> Refusal {
    let message = format!("the claim is in epoch {epoch}: a different controller has taken over");
    Refusal::new(code::NO_SUCH_CLAIM, message)
}
