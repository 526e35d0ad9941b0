//! Controls how many streams each channel has while the transfer runs. Does not choose the number (`tuner`) or keep streams
//! running (`link`).
//!
//! The channels share the number of streams (`--streams`, or the maximum) evenly, with at least one stream each. When another
//! channel is added later, the earlier channels retire their surplus.

use std::sync::Arc;

use super::{Link, LinkState};
use crate::lock;
use crate::session::Engine;

/// Streams and threads of a channel.
#[derive(Default)]
pub(super) struct ChannelStreams {
    /// Wanted number of streams.
    pub(super) wanted: u32,
    /// Threads that keep a stream running, or try to.
    pub(super) threads: u32,
    /// Streams that were asked to leave.
    pub(super) leaving: Vec<u64>,
}

impl ChannelStreams {
    /// Threads, except those whose stream is about to leave.
    pub(super) fn staying(&self) -> u32 {
        let leaving = u32::try_from(self.leaving.len()).unwrap_or(u32::MAX);
        self.threads.saturating_sub(leaving)
    }

    /// Releases one thread if there are more threads than wanted streams. The thread stops counting at once, so that of
    /// several simultaneous callers only the surplus is released.
    fn let_go(&mut self) -> bool {
        let surplus = self.staying() > self.wanted;
        if surplus {
            self.threads -= 1;
        }
        surplus
    }
}

/// A thread of a channel.
pub(super) struct Thread {
    link: Arc<Link>,
    channel: u32,
    /// Whether the thread counts for its channel.
    counts: bool,
}

impl Thread {
    pub(super) fn new(link: &Arc<Link>, channel: u32) -> Self {
        Self {
            link: Arc::clone(link),
            channel,
            counts: true,
        }
    }

    /// Whether this thread, which has no stream, must end because the channel has surplus threads.
    pub(super) fn leaves_surplus(&mut self) -> bool {
        let leaves = lock(&self.link.state)
            .streams_of(self.channel)
            .is_some_and(ChannelStreams::let_go);
        self.counts &= !leaves;
        leaves
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.counts
            && let Some(channel_streams) = lock(&self.link.state).streams_of(self.channel)
        {
            channel_streams.threads = channel_streams.threads.saturating_sub(1);
        }
    }
}

impl LinkState {
    pub(super) fn streams_of(&mut self, channel: u32) -> Option<&mut ChannelStreams> {
        self.per_channel.get_mut(channel as usize)
    }
}

impl Link {
    /// Number of channels.
    pub(in crate::session) fn channels(&self) -> u32 {
        u32::try_from(lock(&self.state).per_channel.len()).unwrap_or(u32::MAX)
    }

    /// Wanted number of streams of the channel.
    pub(in crate::session) fn wanted(&self, channel: u32) -> u32 {
        lock(&self.state)
            .streams_of(channel)
            .map_or(0, |channel_streams| channel_streams.wanted)
    }

    /// Whether the number of streams can change: the other end lets streams leave, and this end makes connections.
    pub(in crate::session) fn may_change(&self, engine: &Engine) -> bool {
        engine.end().is_none() && lock(&self.state).retires && self.connector.makes_more()
    }

    /// Corrects each channel's number of streams, if there are several channels. Streams may have been starting when
    /// the number was set, or found no room.
    pub(in crate::session) fn settle(self: &Arc<Self>, engine: &Engine) {
        let channels = self.channels();
        if channels < 2 {
            return;
        }
        let streams = engine.streams();
        for channel in 0..channels {
            let there = streams
                .iter()
                .filter(|stream| stream.channel == channel && stream.carries_blocks)
                .count();
            let (wanted, staying) = lock(&self.state)
                .streams_of(channel)
                .map_or((0, 0), |channel_streams| {
                    (channel_streams.wanted, channel_streams.staying())
                });
            // A refused thread of the first channel ends and is not replaced, because another thread would be refused too.
            if there > wanted as usize || (channel > 0 && staying < wanted) {
                self.set_streams(engine, channel, wanted);
            }
        }
    }

    /// Changes the number of streams of the channel: more are started, or some leave once everything sent on them is
    /// settled.
    pub(in crate::session) fn set_streams(
        self: &Arc<Self>,
        engine: &Engine,
        channel: u32,
        wanted: u32,
    ) {
        let streams = engine.streams();
        let (missing, leave) = {
            let mut state = lock(&self.state);
            let Some(channel_streams) = state.streams_of(channel) else {
                return;
            };
            channel_streams.wanted = wanted;
            let is_there = |id: u64| streams.iter().any(|stream| stream.id == id);
            channel_streams.leaving.retain(|id| is_there(*id));
            let staying = channel_streams.staying();
            // The newest streams leave, because the older ones have adjusted their windows. Threads without a stream check
            // this themselves and end.
            let mut leave: Vec<u64> = streams
                .iter()
                .filter(|stream| stream.channel == channel && stream.carries_blocks)
                .map(|stream| stream.id)
                .filter(|id| !channel_streams.leaving.contains(id))
                .collect();
            leave.sort_unstable();
            let leave = leave.split_off(leave.len().min(wanted as usize));
            channel_streams.leaving.extend(&leave);
            (wanted.saturating_sub(staying), leave)
        };
        for id in leave {
            engine.retire(id);
        }
        for _ in 0..missing {
            // If no more threads can be started, the existing ones continue.
            if self.keep(engine, channel, None).is_err() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ChannelStreams;

    #[test]
    fn only_those_that_are_too_many_go_however_many_ask_at_once() {
        let mut channel_streams = ChannelStreams {
            wanted: 2,
            threads: 6,
            leaving: vec![7],
        };
        let gone = (0..6).filter(|_| channel_streams.let_go()).count();
        assert_eq!((gone, channel_streams.threads), (3, 3));
        channel_streams.leaving.clear();
        channel_streams.wanted = 0;
        assert_eq!((0..6).filter(|_| channel_streams.let_go()).count(), 3);
    }
}
