//! Owns the view on waiting files: lists, sums, and places that stall. Changes nothing.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::super::{lock, now};
use super::{Arrivals, arriving};
use crate::extent::SourceId;
use crate::waiting::{Stall, Sums, WaitingFile};

impl Arrivals {
    /// The next waiting files at and below a path, behind the path `after`.
    #[must_use]
    pub fn list(
        &self,
        source: SourceId,
        below: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> Vec<WaitingFile> {
        lock(&self.0.desk.waiting).list(arriving(source), below, after, most)
    }

    /// Bytes of the waiting files at and below a path that arrived in this time.
    #[must_use]
    pub fn bytes(&self, source: SourceId, below: &[u8], arrived: &RangeInclusive<Duration>) -> u64 {
        let waiting = lock(&self.0.desk.waiting);
        match waiting.sums().files {
            0 => 0,
            _ => waiting.bytes(arriving(source), below, arrived),
        }
    }

    /// Sums over the waiting files.
    #[must_use]
    pub fn sums(&self) -> Sums {
        self.0.desk.sums()
    }

    /// The places to which files drain, and where nothing moves.
    #[must_use]
    pub fn stalls(&self) -> Vec<Stall> {
        let waiting = lock(&self.0.desk.waiting);
        let stalls = waiting.turns.stalls(now()).map(|stall| Stall {
            source: arriving(stall.source),
            ..stall
        });
        stalls.collect()
    }
}
