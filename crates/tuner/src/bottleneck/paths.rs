//! Which of several channels carries too little, from what each had carried at two moments.
//! Says nothing where all carry alike, and nothing of a single one.

use std::time::Duration;

use crate::ChannelFigures;

/// What a channel carried over some time, and before it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelRate {
    /// Its number, as the client counts them from 0.
    pub number: u32,
    /// For people: the interface and addresses.
    pub name: String,
    /// In the direction in which more passed, with all overhead; streams that are gone included.
    pub bytes_per_second: f64,
    /// Likewise before that time; `None` where it was too short to tell.
    pub before: Option<f64>,
}

/// What passes in less time is chance: streams start, kernels buffer.
const TIME_MIN: Duration = Duration::from_secs(1);

/// A channel below this part of what the others carry on average, or it itself did, is held to be slow.
const SLOW: f64 = 0.5;

/// The others carry as before if they carry this part of it.
const KEPT: f64 = 0.8;

impl ChannelRate {
    /// The rates between two looks at the channels of one end. Of one that `then` lacks, since its first stream; none of one
    /// that is too new to tell.
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

/// The channel that carries well below the others, or below what it did while the others carry what they did; and its share
/// of all that passes.
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
