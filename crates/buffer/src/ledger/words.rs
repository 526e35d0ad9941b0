//! Owns the words between the ledger and its shell: settings, actions, news, answers and results. Decides nothing.

use std::sync::Arc;

use super::drain::DrainSettings;
use super::rack::Commit;
use super::room::{Reason, ReservationId};
use crate::extent::{Content, FileKey, Ticket, VolumeIndex};
use crate::health::Health;

/// Settings of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Eviction begins when more than this many thousandths of the slots are in use.
    pub high: u32,
    /// Eviction ends when at most this many thousandths of the slots are in use.
    pub low: u32,
    /// Draining.
    pub drain: DrainSettings,
    /// Size of an extent, for all volumes.
    pub extent_bytes: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            high: 950,
            low: 900,
            drain: DrainSettings::default(),
            extent_bytes: 4 << 20,
        }
    }
}

/// A range of a generation of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The file.
    pub file: Arc<FileKey>,
    /// Where the range begins.
    pub offset: u64,
    /// Its length.
    pub bytes: u32,
}

/// Work for the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make contents and records durable; answer with [`super::Ledger::handle_committed`].
    Commit(Commit),
    /// Read this extent, check its digest, and bring it to slow storage; answer with [`super::Ledger::handle_drained`].
    Drain(Ticket, Content),
    /// Write to the volume and read back; answer with [`super::Ledger::handle_probed`].
    Probe(VolumeIndex),
    /// Read the log of the volume again; answer with [`super::Ledger::handle_reopened`].
    Reopen(VolumeIndex),
}

/// News for the owner of the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A waiting reservation got its room.
    Granted(ReservationId),
    /// This extent did not become durable: its owner must get the data again.
    Failed(Ticket, Span),
    /// This was the only copy, and it cannot be read.
    Lost(Span),
    /// A volume changed its state.
    Health(VolumeIndex, Health),
}

/// Answer to a caller who wants to write an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Write it here.
    Here(Ticket),
    /// The buffer has it already, or another caller writes it now.
    Present(Ticket),
    /// Ask again after the next action.
    Later(Reason),
    /// The source has another generation by now, or the range is no extent of the file.
    Refused,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Slow storage has the content, durable.
    Done,
    /// Slow storage failed; the extent drains again later.
    TargetFailed,
    /// The volume could not read it.
    Unread,
    /// The content does not have its digest.
    Damaged,
}

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEnd {
    /// The content matches its digest.
    Good,
    /// The volume could not read it.
    Failed,
    /// The content does not have its digest, and was not served.
    Damaged,
    /// The reader gave up.
    GaveUp,
}

/// Why a write did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// The volume failed.
    Failed,
    /// The file system below a directory is full.
    NoSpace,
    /// The writer gave up.
    GaveUp,
}
