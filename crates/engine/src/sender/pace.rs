//! Keeps the pace of a transfer: waits for the limit that was set; in the background asks the controller of each channel, and
//! tells its streams. Does not judge; `live` and `background` do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_net::Stream;

use super::Sender;
use crate::{Background, PathSample, StreamLoss};

/// As often as streams measure themselves.
const PACE_EVERY: Duration = Duration::from_millis(200);

/// A wait for the limit is counted this often while it lasts: it may be longer than what the bottleneck is judged over.
const COUNT_EVERY: Duration = Duration::from_millis(100);

/// What came of a wait for the limit.
pub(super) struct Waited {
    /// The other end said something meanwhile.
    pub(super) any: bool,
    pub(super) turn: Turn,
}

/// How a wait for the limit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It may be sent, and is paid for.
    Come,
    /// The transfer ended: nothing is to be sent any more.
    Ended,
    /// The stream is to leave: others send it, and pay for it.
    Left,
}

impl Sender {
    /// Waits until the rate limit lets `bytes` go, the transfer ends or the stream is to leave; acknowledgements are still taken
    /// meanwhile.
    pub(super) fn obey_limit(
        &self,
        id: u64,
        stream: &mut dyn Stream,
        bytes: u64,
    ) -> Result<Waited, StreamLoss> {
        let mut any = false;
        let rate = self.shared.live.rate();
        let mut changes = rate.changes();
        let mut now = Instant::now();
        let mut until = now + rate.reserve(bytes, now);
        loop {
            if rate.changes() != changes {
                changes = rate.changes();
                until = now + rate.reserve(bytes, now);
            }
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                let turn = Turn::Come;
                return Ok(Waited { any, turn });
            }
            if self.shared.end().is_some() {
                let turn = Turn::Ended;
                return Ok(Waited { any, turn });
            }
            // With many streams its turn may be seconds away, and those that are to come have no room until it has left.
            if self.shared.lock_state().is_retiring(id) {
                rate.give_back(bytes, changes);
                let turn = Turn::Left;
                return Ok(Waited { any, turn });
            }
            stream.wait(left.min(COUNT_EVERY))?;
            while let Some((prelude, head)) = stream.try_recv()? {
                any = true;
                self.handle(id, stream, &prelude, &head)?;
            }
            self.shared.counters.limited_ns.add_since(now);
            now = Instant::now();
        }
    }

    /// Starts the thread that keeps the pace, if there is one to keep.
    pub(super) fn keep_pace(self: &Arc<Self>) -> std::io::Result<()> {
        if !self.shared.live.share().background {
            return Ok(());
        }
        self.shared
            .counters
            .table
            .set_pace_first(Background::first());
        let sender = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name("gw-pace".to_owned())
            .spawn(move || sender.pace())?;
        crate::lock(&self.threads).push(thread);
        Ok(())
    }

    fn pace(&self) {
        let mut paths: BTreeMap<u32, (Background, PathSample, u64)> = BTreeMap::new();
        let mut looked = Instant::now();
        while self.shared.wait(PACE_EVERY).is_none() && !self.shared.is_over() {
            let now = Instant::now();
            let passed = now.duration_since(looked).as_millis();
            looked = now;
            for (channel, sum) in self.shared.counters.table.paths() {
                let (background, before, pace) = paths.entry(channel).or_default();
                // Where streams came and went, the sums may have shrunk.
                let sample = PathSample {
                    acknowledged_bytes: sum
                        .acknowledged_bytes
                        .saturating_sub(before.acknowledged_bytes),
                    sent_bytes: sum.sent_bytes.saturating_sub(before.sent_bytes),
                    resent_bytes: sum.resent_bytes.saturating_sub(before.resent_bytes),
                    ..sum
                };
                *before = sum;
                let allowed = u128::from(*pace) * passed / 1_000;
                let allowed = u64::try_from(allowed).unwrap_or(u64::MAX);
                self.shared.counters.paced_bytes.add(allowed);
                *pace = background.step(now, &sample);
                self.shared.counters.table.set_pace(channel, *pace);
            }
        }
    }
}
