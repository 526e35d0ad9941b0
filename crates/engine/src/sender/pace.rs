//! Keeps the pace of a transfer in the background: asks the controller of each channel, and tells its streams.
//! Does not judge; `background` does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Sender;
use crate::{Background, PathSample};

/// As often as streams measure themselves.
const PACE_EVERY: Duration = Duration::from_millis(200);

impl Sender {
    /// Starts the thread that keeps the pace, if there is one to keep.
    pub(super) fn keep_pace(self: &Arc<Self>) -> std::io::Result<()> {
        if !self.live.share().background {
            return Ok(());
        }
        let sender = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name("gw-pace".to_owned())
            .spawn(move || sender.pace())?;
        crate::lock(&self.threads).push(thread);
        Ok(())
    }

    fn pace(&self) {
        let mut paths: BTreeMap<u32, (Background, PathSample)> = BTreeMap::new();
        while self.wait(PACE_EVERY).is_none() && !self.is_over() {
            let now = Instant::now();
            for (channel, sum) in self.counters.table.paths() {
                let (background, before) = paths.entry(channel).or_default();
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
                let rate = background.step(now, &sample);
                self.counters.table.set_pace(channel, rate);
            }
        }
    }
}
