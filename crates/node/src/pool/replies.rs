//! Owns the answers of this node about its buffer, and the words for those that other nodes do not give. Asks no node.
//! Checks no right of a user, as the asking node does that.

use godwit_api::ask::{AnswerBuffer, BufferAnswer, BufferQuestion, Refusal, code};
use godwit_state::Node;
use godwit_web::answer_of;

use super::Shared;

/// The reason why a node shows nothing. Users read it, so it has no address.
pub(super) const SILENT: &str = "it does not answer";

/// The reason in a refusal.
pub(super) fn reason(refusal: &Refusal) -> &'static str {
    match refusal.code.known() {
        Some(code::UNSUPPORTED) => "it has an older version; update it",
        Some(code::NOT_GRANTED | code::UNKNOWN_IDENTITY) => {
            "it does not know this node as a node of its cluster"
        }
        _ => SILENT,
    }
}

impl AnswerBuffer for Shared {
    fn answer(&self, question: &BufferQuestion) -> Result<BufferAnswer, Refusal> {
        Ok(answer_of(self.config.control.as_deref(), question))
    }

    fn shares(&self, member: &str, export: &str) -> bool {
        let rows = self.config.replica.reader().objects_by::<Node>(member);
        let mut rows = rows.unwrap_or_default().into_iter();
        rows.any(|row| row.exports.iter().any(|name| name == export))
    }
}
