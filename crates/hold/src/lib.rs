//! Decides how several destinations share the reads of one source: which blocks are kept, which destination reads, waits or is behind.
//! Has no clock, thread, lock or file: the caller passes the time, reads, and wakes the askers.
//!
//! A **key** names bytes of one generation of one file. The first destination that asks for a key reads it. Destinations that ask during
//! the read wait for it; those that ask later take the kept block. A block leaves when all have taken it, or when room is needed and no
//! destination that keeps up wants the oldest one.
//!
//! Patience bounds how long a destination holds others up: [`PATIENCE_PART`] of the elapsed time. A destination is held up while all its
//! lanes wait, so that it sends nothing. A destination for which no patience is left is **behind**. It reads again at low priority. It is
//! current again when it asks for a block that is kept, in flight, or new to all.
//!
//! Scans share their **pages** by other rules, without patience ([`PageHold`]).

mod blocks;
mod destinations;
mod hold;
mod pages;
mod room;
mod seen;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use hold::ReadHold;
pub use pages::{PageAnswer, PageBound, PageFigures, PageHold, READER_WAIT};

/// Most destinations of one source: the bits of a mask.
pub const DESTINATIONS_MAX: usize = 64;

/// A destination holds others up for at most one part in this many of the elapsed time …
pub const PATIENCE_PART: u32 = 33;

/// … plus this time once …
pub const PATIENCE_FIRST: Duration = Duration::from_millis(250);

/// … and never longer than this in a row.
pub const PATIENCE_MOST: Duration = Duration::from_secs(2);

/// Others wait this long for the first question of a destination. If one began without it, each byte would be read twice.
pub const PATIENCE_FOR_BEGIN: Duration = Duration::from_secs(5);

/// While destinations that keep up read, those behind get one part in this many of the time of the storage …
pub const LOW_PART: u32 = 50;

/// … and at least one block in this time, so that no peer takes the transfer for dead.
pub const LOW_EVERY_MOST: Duration = Duration::from_secs(1);

/// A destination, numbered from 0.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Destination(pub usize);

/// One of the threads of a destination, by any number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lane(pub Destination, pub u64);

/// A question that waits.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AskId(u64);

/// A read that an asker must make.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ReadId(u64);

/// A kept block that an asker copies.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TakeId(u64);

/// The most that is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bound {
    /// Bytes of blocks that are kept, being read to be kept, or copied, with the memory around their contents.
    pub bytes: u64,
    /// Number of these blocks.
    pub blocks: usize,
    /// Bytes that each block takes beside its contents.
    pub beside: u64,
}

/// The next act of an asker.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer<B, E> {
    /// Copy the block, then call [`ReadHold::handle_copied`].
    Take(TakeId, B),
    /// Read, then call [`ReadHold::finish`]. If the flag is false, the contents are not kept.
    Read(ReadId, bool),
    /// Wait until woken, or until this time, then call [`ReadHold::again`].
    Wait(AskId, Option<Duration>),
    /// The destination that read for this asker has failed.
    Failed(E),
    /// The destination has left.
    Gone,
}

/// The end of a read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome<B, E> {
    /// The contents; `None` if they are not kept.
    Content(Option<B>),
    /// The reason why the contents cannot be read. All destinations that wait for these blocks get the failure.
    Failed(E),
    /// The reader gave up. Another one reads.
    Abandoned,
}

/// Figures of a hold.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Figures {
    /// Bytes that were read from storage.
    pub read_bytes: u64,
    /// Bytes of `read_bytes` that had been read before.
    pub again_bytes: u64,
    /// Bytes that are kept now, as the bound counts them.
    pub kept_bytes: u64,
}
