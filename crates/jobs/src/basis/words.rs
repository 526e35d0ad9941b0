//! Owns the reasons that several parts of this crate give, and the bound on their texts.
//! Decides nothing about a job.

use godwit_api::failure::{Code, FailureCode, Retry, Scope};
use godwit_state::{Reason, reason};

/// Longest text of one example. The state refuses longer texts.
const TEXT_BYTES_MAX: usize = 4_096;

/// Reasons whose texts name no entry.
const PLAIN_REASONS: [FailureCode; 15] = [
    reason::WAITING,
    reason::NOT_BEFORE,
    reason::PAUSED,
    reason::RESUMED,
    reason::RETRIED,
    reason::NODE_RESTARTED,
    reason::NODE_LOST,
    reason::USER_REMOVED,
    reason::COMPLETE,
    FailureCode::JobsOfNode,
    FailureCode::JobsOfOwner,
    FailureCode::JobsOfSite,
    FailureCode::OtherSource,
    FailureCode::NoNode,
    FailureCode::NodesDrained,
];

/// The reason of a job that its owner may no longer run.
pub(crate) fn denied(why: &str) -> Reason {
    Reason::new(FailureCode::AccessDenied, clip(why))
}

/// The reason of a job whose records are full here.
pub(crate) fn no_room(why: &str) -> Reason {
    Reason::new(FailureCode::PeerBusy, clip(why))
}

/// Whether a job that failed for this reason may succeed later without anybody's help, and the reason concerns the job alone.
pub(crate) fn passes(code: &Code) -> bool {
    code.known().is_some_and(|code| {
        matches!(code.scope(), Scope::Job | Scope::Entry) && code.retry() == Retry::Transient
    })
}

/// Cuts a text to the length that the state takes.
pub(crate) fn clip(text: &str) -> String {
    let mut text = text.to_owned();
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

/// Whether the code describes the end of a relay. Only this node gives it. A site that gets data could name the giver falsely.
pub(crate) fn is_of_relay(code: &Code) -> bool {
    code.is_one_of(&[
        FailureCode::Relaying,
        FailureCode::Relayed,
        FailureCode::RelayChanged,
        FailureCode::RelayWrong,
    ])
}

/// Whether the text of a reason with this code is the program's own, and names no entry. Another site may not give such a code.
pub(crate) fn is_plain_reason(code: &Code) -> bool {
    code.is_one_of(&PLAIN_REASONS)
}
