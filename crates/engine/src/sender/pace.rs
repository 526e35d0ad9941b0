//! Controls the pace of a transfer in the background: asks the controller of each channel, and sets the pace of its
//! streams. Does not compute the pace; `background` of the tuner does.
//!
//! The pace limits each socket (`SO_MAX_PACING_RATE`), so the kernel spaces the packets under any congestion control. A
//! new stream has its share of the pace from its first byte. Threads of a transfer in the background lower their
//! priorities, and its packets carry the code point LE (RFC 8622).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::shared::Shared;
use crate::{Background, PathSample};

/// Equals the interval at which streams measure themselves.
const PACE_EVERY: Duration = Duration::from_millis(200);

/// Name of the thread that keeps the pace.
const THREAD: &str = "gw-pace";

/// Starts a thread that controls the pace while the transfer is in the background.
///
/// # Errors
/// The thread cannot be started.
pub(super) fn follow(
    shared: &Arc<Shared>,
    threads: &mut Vec<JoinHandle<()>>,
) -> std::io::Result<()> {
    if !shared.live.background() || shared.is_over() {
        return Ok(());
    }
    threads.retain(|thread| !thread.is_finished());
    if threads
        .iter()
        .any(|thread| thread.thread().name() == Some(THREAD))
    {
        return Ok(());
    }
    let table = &shared.counters.table;
    table.set_pace_first(Background::first());
    for channel in table.paths().into_keys() {
        table.set_pace(channel, Background::first());
    }
    let shared = Arc::clone(shared);
    let thread = std::thread::Builder::new()
        .name(THREAD.to_owned())
        .spawn(move || keep(&shared))?;
    threads.push(thread);
    Ok(())
}

fn keep(shared: &Shared) {
    let mut paths: BTreeMap<u32, (Background, PathSample, u64)> = BTreeMap::new();
    let mut looked = Instant::now();
    while shared.wait(PACE_EVERY).is_none() && !shared.is_over() && shared.live.background() {
        let now = Instant::now();
        let passed = now.duration_since(looked).as_millis();
        looked = now;
        for (channel, sum) in shared.counters.table.paths() {
            let (background, before, pace) = paths.entry(channel).or_default();
            // The sums may have shrunk if streams were added or removed.
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
            shared.counters.paced_bytes.add(allowed);
            *pace = background.step(now, &sample);
            shared.counters.table.set_pace(channel, *pace);
        }
    }
    // The transfer ended or left the background, so its sending is no longer limited.
    shared.counters.table.set_pace_first(0);
    for channel in paths.into_keys() {
        shared.counters.table.set_pace(channel, 0);
    }
}
