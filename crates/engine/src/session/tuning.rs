//! Passes the streams' measurements to the tuner of each channel, and applies its decisions to the link; only on the
//! client's side. Does not decide (`tuner`), and does not start or end streams (`link`).
//!
//! The tuner runs five times a second, in a push and in a pull. STATUS and SENDING contain the figures of the other
//! end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Engine;
use super::link::Link;
use crate::tuner::{Bounds, ChannelSample, Decision, Holdup, Knob, Path, StreamTuner, start};
use crate::{Bottleneck, EndCounters, Snapshot, StreamFigures};

/// Tunes the streams of one transfer.
pub(super) struct Tuning {
    bounds: Bounds,
    /// Number of streams that the process's share allowed last.
    allowed: u32,
    /// Content bytes a second that the user allows; 0 for no limit.
    limit: u64,
    /// Most bytes that both kernels buffer for one connection; 0 if unknown.
    buffer_bytes: u64,
    began: Instant,
    per_channel: Vec<ChannelTuning>,
    /// Both ends' counters at the start of the current window for determining the bottleneck.
    end_counters: EndCounters,
    named: Instant,
    holdup: Holdup,
    has_stopped_sending: bool,
}

/// One channel.
struct ChannelTuning {
    /// Set once the channel's first stream is known.
    tuner: Option<StreamTuner>,
    sample: ChannelSample,
    seen: HashMap<u64, Seen>,
    /// The last decision.
    decided: Option<(Duration, u32)>,
}

/// A stream's figures that were already counted.
#[derive(Clone, Copy, Default)]
struct Seen {
    bytes: u64,
    segments: u64,
    retransmitted: u64,
    busy_ns: u64,
    window_limited_ns: u64,
    buffer_limited_ns: u64,
}

/// How often the bottleneck is determined; a shorter window gives random results.
const NAME_EVERY: Duration = Duration::from_secs(1);

/// How long a decision is applied repeatedly, in case streams were just starting or leaving.
const OBEYED_FOR: Duration = Duration::from_secs(2);

impl Tuning {
    /// `buffers` has the buffer sizes of this end and of the other end; 0 if unknown.
    pub(super) fn new(bounds: Bounds, limit: u64, buffers: [u64; 2]) -> Self {
        let now = Instant::now();
        let known = buffers.into_iter().filter(|bytes| *bytes > 0);
        Self {
            bounds,
            allowed: u32::MAX,
            limit,
            buffer_bytes: known.min().unwrap_or(0),
            began: now,
            per_channel: Vec::new(),
            end_counters: EndCounters::default(),
            named: now,
            holdup: Holdup::Network,
            has_stopped_sending: false,
        }
    }

    /// Measures, decides, and makes the link apply changes. Call some times a second.
    pub(super) fn look(&mut self, now: Instant, engine: &Engine, link: &Arc<Link>) {
        if !link.may_change(engine) {
            return;
        }
        link.settle(engine);
        let allowed = engine.streams_max();
        let changed = std::mem::replace(&mut self.allowed, allowed) != allowed;
        let all = self.bounds.at_most(allowed);
        if self.bounds.is_fixed() {
            for channel in 0..link.channels() {
                let wanted = all.part(channel, link.channels()).most;
                if changed && link.wanted(channel) != wanted {
                    link.set_streams(engine, channel, wanted);
                }
            }
            return;
        }
        self.name_holdup(now, engine);
        if self.is_ending(engine) {
            // Streams finish one after another here, so the total rate says nothing about their number.
            return;
        }
        let streams = engine.streams();
        let since = now.saturating_duration_since(self.began);
        let channels = link.channels();
        let came = self.per_channel.len() < channels as usize;
        self.per_channel
            .resize_with(channels as usize, ChannelTuning::new);
        for channel in 0..channels {
            let index = channel as usize;
            let bounds = all.part(channel, channels);
            if (came || changed)
                && let Some(tuner) = &mut self.per_channel[index].tuner
            {
                tuner.set_bounds(bounds);
            }
            let wanted = link.wanted(channel);
            let decision = self.per_channel[index].look(
                since,
                streams.iter().filter(|stream| stream.channel == channel),
                wanted,
                &Beginning {
                    bounds,
                    limit: self.limit,
                    buffer_bytes: self.buffer_bytes,
                    engine,
                },
                self.holdup,
            );
            let tuning = &mut self.per_channel[index];
            if let Some(decision) = decision {
                tuning.decided = Some((since, decision.to));
                engine.tuned(&decision, (channels > 1).then_some(channel));
            }
            // Streams that started or left meanwhile may have been counted wrongly.
            if let Some((when, wanted)) = tuning.decided
                && (since.saturating_sub(when) < OBEYED_FOR || tuning.sample.streams > wanted)
            {
                link.set_streams(engine, channel, wanted);
            }
        }
    }

    /// Whether the sending end has nothing left to hand to streams. For a remote sender only the counters are known.
    fn is_ending(&self, engine: &Engine) -> bool {
        match engine {
            Engine::Sender(sender) => sender.is_ending(),
            Engine::Receiver(_) => self.has_stopped_sending,
        }
    }

    fn name_holdup(&mut self, now: Instant, engine: &Engine) {
        if now.saturating_duration_since(self.named) < NAME_EVERY {
            return;
        }
        self.named = now;
        let end_counters = engine.end_counters();
        let since = end_counters.since(&self.end_counters);
        self.holdup = holdup(&since);
        self.has_stopped_sending = has_stopped_sending(&since);
        self.end_counters = end_counters;
    }
}

/// The limiting factor of the transfer's streams, from both ends' counters over a window.
fn holdup(since: &EndCounters) -> Holdup {
    match since.bottleneck() {
        // The pace is the limit, so the total rate says nothing about streams; and each additional stream must yield
        // too.
        Some(Bottleneck::Network) | None if since.is_at_pace() => {
            Holdup::Elsewhere("the pace of background transfers")
        }
        Some(Bottleneck::Network) => Holdup::Network,
        Some(Bottleneck::SourceCpu) if has_idle(since.source) => Holdup::Threads,
        Some(Bottleneck::DestinationCpu) if has_idle(since.destination) => Holdup::Threads,
        Some(Bottleneck::Limit) => Holdup::Elsewhere("the limit that was set"),
        Some(stage) => Holdup::Elsewhere(stage.as_str()),
        None if since.wants_data() => Holdup::Elsewhere("want of data"),
        None => Holdup::Network,
    }
}

/// Whether the source gave its streams no data, although data was available.
fn has_stopped_sending(since: &EndCounters) -> bool {
    since.source.is_some_and(|source| {
        source.bytes_sent == 0 && source.elapsed_ns > 0 && source.sending_ns == 0
    })
}

/// Whether an end has processors that this transfer's threads neither use nor wait for; the use by other programs is
/// unknown.
fn has_idle(end: Option<Snapshot>) -> bool {
    end.is_some_and(|end| {
        let wanted = end.cpu_ns.saturating_add(end.cpu_waiting_ns);
        let all = end.elapsed_ns.saturating_mul(end.cores);
        all > 0 && wanted as f64 <= IDLE * all as f64
    })
}

/// An end is idle if less than this share of its processors is in use or wanted.
const IDLE: f64 = 0.6;

/// Inputs for a channel whose first stream is attached.
struct Beginning<'a> {
    bounds: Bounds,
    limit: u64,
    buffer_bytes: u64,
    engine: &'a Engine,
}

/// A transfer that runs for this long is not a small file, even if its size is unknown.
const SMALL_FOR: Duration = Duration::from_secs(2);

/// A number of entries that takes more than a moment, however small they are.
const ENTRIES_MANY: u64 = 1000;

impl Beginning<'_> {
    /// Whether more data is known to be left than the `wanted` streams send at once. Each additional stream costs a
    /// handshake at both ends, and for a small file it is ready too late.
    fn is_worth_streams(&self, now: Duration, wanted: u32) -> bool {
        let known = self.engine.counters().snapshot();
        let moved = known.bytes_sent.max(known.bytes_received);
        let left = known.bytes_scanned.saturating_sub(moved);
        now >= SMALL_FOR
            || known.entries_scanned >= ENTRIES_MANY
            || left > u64::from(wanted).saturating_mul(self.buffer_bytes)
    }
}

impl ChannelTuning {
    fn new() -> Self {
        Self {
            tuner: None,
            sample: ChannelSample::default(),
            seen: HashMap::new(),
            decided: None,
        }
    }

    fn look<'a>(
        &mut self,
        now: Duration,
        streams: impl Iterator<Item = &'a StreamFigures>,
        wanted: u32,
        beginning: &Beginning<'_>,
        holdup: Holdup,
    ) -> Option<Decision> {
        self.count(streams, matches!(beginning.engine, Engine::Sender(_)));
        let Some(tuner) = &mut self.tuner else {
            if self.sample.round_trip.is_zero() || !beginning.is_worth_streams(now, wanted) {
                return None;
            }
            let path = Path {
                round_trip: self.sample.round_trip_min.min(self.sample.round_trip),
                buffer_bytes: beginning.buffer_bytes,
                limit: beginning.limit,
            };
            let begin = start(&path, beginning.bounds);
            let least = beginning.bounds.least;
            let reason = begin
                .reason
                .or_else(|| (wanted < least).then(|| format!("at least {least} were requested")));
            // Without a reason, a channel starts with its share of the streams.
            let streams = match reason {
                Some(_) => begin.streams.max(wanted),
                None => wanted,
            };
            self.tuner = Some(StreamTuner::new(beginning.bounds, streams));
            return reason.filter(|_| streams > wanted).map(|reason| Decision {
                knob: Knob::Streams,
                from: wanted,
                to: streams,
                reason,
            });
        };
        tuner.step(now, &self.sample, holdup)
    }

    /// Adds each stream's new figures.
    fn count<'a>(&mut self, streams: impl Iterator<Item = &'a StreamFigures>, sends: bool) {
        let sample = &mut self.sample;
        let mut alive = HashMap::with_capacity(self.seen.len());
        let (mut carriers, mut reported) = (0, 0);
        let (mut round_trips, mut least) = (0_u64, u64::MAX);
        for stream in streams.filter(|stream| stream.carries_blocks) {
            carriers += 1;
            let seen = self.seen.get(&stream.id).copied().unwrap_or_default();
            let sending = stream.sending.unwrap_or_default();
            let now = Seen {
                bytes: match &stream.sending {
                    Some(sending) if sends => sending.bytes_acknowledged,
                    _ => stream.bytes(),
                },
                segments: sending.segments_sent,
                retransmitted: sending.segments_resent,
                busy_ns: sending.busy_ns,
                window_limited_ns: sending.window_limited_ns,
                buffer_limited_ns: sending.buffer_limited_ns,
            };
            let more = |now: u64, seen: u64| now.saturating_sub(seen);
            let time = |now: u64, seen: u64| Duration::from_nanos(more(now, seen));
            sample.bytes = sample.bytes.saturating_add(more(now.bytes, seen.bytes));
            sample.segments = sample
                .segments
                .saturating_add(more(now.segments, seen.segments));
            sample.retransmitted = sample
                .retransmitted
                .saturating_add(more(now.retransmitted, seen.retransmitted));
            sample.busy += time(now.busy_ns, seen.busy_ns);
            sample.window_limited += time(now.window_limited_ns, seen.window_limited_ns);
            sample.buffer_limited += time(now.buffer_limited_ns, seen.buffer_limited_ns);
            if let Some(segment) = sending.bytes_sent.checked_div(sending.segments_sent) {
                sample.segment_bytes = u32::try_from(segment).unwrap_or(u32::MAX);
            }
            if sending.round_trip_ns > 0 {
                reported += 1;
                round_trips = round_trips.saturating_add(sending.round_trip_ns);
                least = least.min(sending.round_trip_min_ns.max(1));
            }
            alive.insert(stream.id, now);
        }
        self.seen = alive;
        sample.streams = carriers;
        if let Some(mean) = round_trips.checked_div(reported) {
            sample.round_trip = Duration::from_nanos(mean);
            sample.round_trip_min = Duration::from_nanos(least);
        }
    }
}

#[cfg(test)]
mod tests;
