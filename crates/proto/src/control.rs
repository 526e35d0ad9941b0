//! Owns the messages that set up, end and watch a transfer; they evolve, so they are protobuf. Does
//! not interpret them. `docs/wire.md`, "Control messages".

mod announced;
mod asking;
mod beacon;
mod codes;
mod comparison;
mod earlier;
mod examination;
mod ground;
mod join;
mod mandate;
mod member;
mod order;
mod preserve;
mod retire;
mod selection;
mod sending;
mod setup;
mod sharing;
mod sources;
mod tuned;
mod verification;
mod watch;

pub use announced::Announced;
pub use asking::{Ask, Reply};
pub use beacon::Beacon;
pub use codes::{Direction, ErrorCode};
pub use comparison::{Comparison, Judge};
pub use earlier::{Earlier, Mapping};
pub use examination::{
    DIALLED_MAX, Dialled, Examine, Examined, MachineSeen, PathSeen, StorageSeen,
};
pub use ground::Ground;
pub use join::{Join, Joined};
pub use mandate::Mandate;
pub use member::Member;
pub use preserve::Preserve;
pub use retire::{Retire, Retired};
pub use selection::{Moment, Rule, Selection};
pub use sending::SendingStream;
pub use setup::{Open, Opened};
pub use sharing::{Limit, Sharing, priority};
pub use sources::PartialOpen;
pub use tuned::Tuned;
pub use verification::Verification;
pub use watch::{Cancel, Error, Finish, Finished, Ping, Pong, Status};

use prost::Message;

use crate::bytes::{cut, encode_frame, encode_small};
use crate::error::WireError;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::prelude::FrameKind;

/// Appends a message whose fields the caller bounds.
fn encode(message: &impl Message, kind: FrameKind, out: &mut Vec<u8>) {
    encode_small(out, kind, |out| out.extend(message.encode_to_vec()));
}

/// Appends a message that may be too long.
fn try_encode(message: &impl Message, kind: FrameKind, out: &mut Vec<u8>) -> Result<(), WireError> {
    encode_frame(out, kind, 0, |out| {
        out.extend(message.encode_to_vec());
        Ok(())
    })
}

/// Reads a message; the caller checks its fields.
fn decode<M: Message + Default>(head: &[u8], name: &'static str) -> Result<M, WireError> {
    M::decode(head).map_err(|source| WireError::Malformed {
        message: name,
        source,
    })
}

fn cut_message(message: &str) -> String {
    cut(message, MESSAGE_BYTES_MAX).to_owned()
}

fn check_message(message: &str) -> Result<(), WireError> {
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(WireError::too_long("message", MESSAGE_BYTES_MAX as u64));
    }
    Ok(())
}
