//! Answers nodes of the same cluster about the buffer of this node, and gives them extents. Reads no extent itself (`tree`), and finds no
//! files for a list (`node`).

use std::sync::Arc;
use std::time::Duration;

use godwit_api::ask::{
    Answer, AskExtent, EXTENT_PART_BYTES_MAX, ExtentPart, NEXT_MAX, Question, Refusal, code,
};
use godwit_net::IdentityId;
use godwit_run::Process;
use godwit_run::local::Access;
use godwit_tree::{OpenStorage, PoolFault, PoolQuestion};

use super::here::{Here, refusal_of};
use crate::Shared;

/// The longest time for which a question makes a file stay, as of a user.
const KEEP_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Answers about the transfer buffer. A member acts for the users of the cluster, and has checked their rights. A member gets
/// contents only of an export that it also serves. So it reads nothing that it could not read itself.
pub(super) fn about_buffer(
    shared: &Shared,
    (peer, is_member): (IdentityId, bool),
    question: &Question,
) -> Result<Answer, Refusal> {
    if !is_member {
        let message = "only nodes of the same cluster may use the transfer buffer of this node";
        return Err(Refusal::new(code::NOT_GRANTED, message));
    }
    // Each other node with a buffer looks at this one every few seconds.
    shared.here.extents().trim();
    let Some(buffer) = &shared.config.buffer else {
        let message = "this node shows no transfer buffer";
        return Err(Refusal::new(code::UNSUPPORTED, message));
    };
    match question {
        Question::Extent(wish) if buffer.shares(&peer.to_string(), &wish.export) => {
            shared.here.extent(&shared.config.process, wish)
        }
        Question::Extent(wish) => Err(Refusal::new(
            code::NOT_GRANTED,
            format!(
                "the asking node does not serve the export {:?}, so it gets no contents of it",
                wish.export
            ),
        )),
        Question::Buffer(question) => buffer.answer(question).map(Answer::Buffer),
        _ => Err(Refusal::new(
            code::INVALID,
            "this question is not about the buffer",
        )),
    }
}

impl Here {
    /// A part of an extent, from the buffer of this process or from the export.
    pub(super) fn extent(&self, process: &Process, wish: &AskExtent) -> Result<Answer, Refusal> {
        let Some(buffer) = &process.buffer else {
            let message = "this node has no transfer buffer";
            return Err(Refusal::new(code::UNSUPPORTED, message));
        };
        let export = self.export(&wish.export).ok_or_else(|| {
            let message = format!("this node has no export {:?}", wish.export);
            Refusal::new(code::NO_SUCH_EXPORT, message)
        })?;
        // An export that is another one by now gives nothing, from flash either.
        export.check().map_err(refusal_of)?;
        let question = PoolQuestion {
            origin: export.origin(),
            path: wish.path.0.clone(),
            bytes: wish.bytes,
            stamp: wish.stamp,
            offset: wish.offset,
            length: wish.length,
            keep_for: Duration::from_millis(wish.keep_ms.unwrap_or(0)).min(KEEP_MAX),
        };
        let open: OpenStorage = {
            let (export, spill) = (export.clone(), self.journals());
            let syncs = process.syncs.clone();
            Arc::new(move || {
                // A file that waits here is not at the export of the asking node. So it gets none of it, and waits for no drain.
                let opened = export.open_itself(&spill, Access::default(), &syncs);
                opened.map_err(|error| error.to_string())
            })
        };
        let next = wish.next.get(..NEXT_MAX.min(wish.next.len()));
        let part = self.extents().part(
            buffer,
            &question,
            (wish.from, EXTENT_PART_BYTES_MAX),
            wish.fill.then_some(&open),
            next.unwrap_or_default(),
        );
        match part {
            Ok(part) => Ok(Answer::Extent(ExtentPart {
                filled: part.filled,
                checksum: part.checksum,
                bytes: part.bytes,
            })),
            // This is no refusal, of which the log would have a line.
            Err(PoolFault::Later) => Ok(Answer::Extent(ExtentPart::default())),
            Err(fault @ PoolFault::NoExtent) => Err(Refusal::new(code::INVALID, fault.to_string())),
            Err(fault @ (PoolFault::NotHeld | PoolFault::Unread(_))) => {
                Err(Refusal::new(code::NOT_FOUND, fault.to_string()))
            }
        }
    }
}
