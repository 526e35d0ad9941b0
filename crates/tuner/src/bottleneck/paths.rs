//! Finds a channel that is slower than it should be, from the byte counts of all channels at two moments. Reports nothing if all
//! channels are similar, and nothing about a single channel.

use std::time::Duration;

use crate::ChannelFigures;

/// Rates of one channel: over an interval, and before it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelRate {
    /// Number of the channel, assigned by the client from 0.
    pub number: u32,
    /// Name for messages: the interface and addresses.
    pub name: String,
    /// Rate in the direction that carried more, with all overhead and including ended streams.
    pub bytes_per_second: f64,
    /// Rate of the channel before that interval; `None` if the earlier time was too short to measure.
    pub before: Option<f64>,
}

/// Rates over less time are noise, because streams start and kernels buffer.
const TIME_MIN: Duration = Duration::from_secs(1);

/// A channel below this share of the others' mean rate, or of its earlier rate, counts as slow.
const SLOW: f64 = 0.5;

/// The other channels count as unchanged if they keep this share of their rate.
const KEPT: f64 = 0.8;

impl ChannelRate {
    /// The rates between two measurements of one end's channels. A channel that is missing in `then` is measured since its first
    /// stream. A channel that is too new to measure is left out.
    pub fn between(then: &[ChannelFigures], now: &[ChannelFigures]) -> Vec<Self> {
        let rate = |bytes: u64, time: Duration| {
            (time >= TIME_MIN).then(|| bytes as f64 / time.as_secs_f64())
        };
        now.iter()
            .filter_map(|now| {
                let then = then.iter().find(|then| then.number == now.number);
                let (bytes, age) = then.map_or((0, Duration::ZERO), |then| (then.bytes, then.age));
                let passed = now.bytes.saturating_sub(bytes);
                Some(Self {
                    number: now.number,
                    name: now.name.clone(),
                    bytes_per_second: rate(passed, now.age.saturating_sub(age))?,
                    before: rate(bytes, age),
                })
            })
            .collect()
    }
}

/// The slow channel and its share of all bytes. A channel is slow if it is well below the others, or well below its own earlier
/// rate while the others keep theirs.
pub(super) fn slowest(channels: &[ChannelRate]) -> Option<(&ChannelRate, f64)> {
    let all: f64 = channels.iter().map(|one| one.bytes_per_second).sum();
    let before: Option<f64> = channels.iter().map(|one| one.before).sum();
    if channels.len() < 2 || all <= 0.0 {
        return None;
    }
    let others = (channels.len() - 1) as f64;
    let is_slow = |one: &&ChannelRate| {
        let rest = all - one.bytes_per_second;
        let below_others = one.bytes_per_second < SLOW * rest / others;
        let fallen = one.before.zip(before).is_some_and(|(own, all)| {
            one.bytes_per_second < SLOW * own && rest >= KEPT * (all - own)
        });
        below_others || fallen
    };
    channels
        .iter()
        .filter(is_slow)
        .min_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
        .map(|one| (one, one.bytes_per_second / all))
}
