//! Owns the words that the state, the API and the jobs share: states, reasons, codes of failures, failed entries, outcomes, peers, times, amounts, stages, hashes.
//! Decides nothing, and reads no clock.

mod amount;
mod attempt;
mod audit;
mod bottleneck;
mod digest;
pub mod failure;
mod hash;
mod job;
pub mod millis;
mod moment;
mod peer;
mod timestamp;

pub use amount::{Amount, Moved};
pub use attempt::AttemptOutcome;
pub use audit::AuditOutcome;
pub use bottleneck::Bottleneck;
pub use digest::DigestKind;
pub use failure::{Code, FailureCode};
pub use hash::fnv;
pub use job::{FailureGroup, JobState, Reason};
pub use moment::{Moment, civil_date, parse_moment};
pub use peer::Peer;
pub use timestamp::Timestamp;
