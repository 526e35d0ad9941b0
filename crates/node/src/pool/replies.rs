//! Owns the answers of this node about its buffer, the words for those that others do not give, and the exports that others serve.
//! Asks no node, and checks no right of a user, as the asking node does that.

use godwit_api::ask::{AnswerBuffer, BufferAnswer, BufferQuestion, Refusal, code};
use godwit_state::Node;
use godwit_web::answer_of;

use super::Shared;

/// The reason why a node shows nothing. Users read this reason, so it contains no address.
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

impl Shared {
    /// Reports the exports of the other nodes. While the state cannot be read, the latest report counts.
    pub(super) fn share(&self) {
        let Ok(rows) = self.config.replica.reader().objects::<Node>() else {
            return;
        };
        let others = rows
            .iter()
            .filter(|row| row.identity != self.config.identity);
        let exports = others.flat_map(|node| &node.exports);
        (self.config.share)(&exports.cloned().collect());
    }
}
