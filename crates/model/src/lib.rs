//! Owns the words that the state, the API and the jobs share: states, reasons, codes of failures, failed entries, times.
//! Decides nothing, and reads no clock.

pub mod failure;
mod job;
pub mod millis;
mod moment;
mod timestamp;

pub use failure::{Code, FailureCode};
pub use job::{FailureGroup, JobState, Reason};
pub use moment::{Moment, civil_date, parse_moment};
pub use timestamp::Timestamp;
