//! How many streams each channel has, and how that changes while the transfer runs.
//! Does not decide how many (`tuner`), and keeps none up (`link`).

use std::sync::Arc;

use super::{Link, LinkState};
use crate::lock;
use crate::session::Engine;

/// What a channel has.
#[derive(Default)]
pub(super) struct Lane {
    /// Streams that it should have.
    pub(super) wanted: u32,
    /// Threads that keep one up, or try to.
    pub(super) threads: u32,
    /// Streams that were told to leave.
    pub(super) leaving: Vec<u64>,
}

impl Lane {
    /// Threads but for those whose stream is about to leave.
    fn staying(&self) -> u32 {
        let leaving = u32::try_from(self.leaving.len()).unwrap_or(u32::MAX);
        self.threads.saturating_sub(leaving)
    }
}

/// A thread of a channel.
pub(super) struct Thread {
    link: Arc<Link>,
    channel: u32,
}

impl Thread {
    pub(super) fn new(link: &Arc<Link>, channel: u32) -> Self {
        Self {
            link: Arc::clone(link),
            channel,
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(lane) = lock(&self.link.state).lane(self.channel) {
            lane.threads = lane.threads.saturating_sub(1);
        }
    }
}

impl LinkState {
    pub(super) fn lane(&mut self, channel: u32) -> Option<&mut Lane> {
        self.lanes.get_mut(channel as usize)
    }
}

impl Link {
    /// Channels that there are.
    pub(in crate::session) fn channels(&self) -> u32 {
        u32::try_from(lock(&self.state).lanes.len()).unwrap_or(u32::MAX)
    }

    /// Streams that the channel should have.
    pub(in crate::session) fn wanted(&self, channel: u32) -> u32 {
        lock(&self.state)
            .lane(channel)
            .map_or(0, |lane| lane.wanted)
    }

    /// Whether the number of streams can be changed: the other end knows how streams leave, and connections are made from here.
    pub(in crate::session) fn may_change(&self, engine: &Engine) -> bool {
        engine.end().is_none() && lock(&self.state).retires && self.connector.makes_more()
    }

    /// Changes how many streams the channel has, from now on: more are begun, some leave when what was sent on them is settled.
    pub(in crate::session) fn set_streams(
        self: &Arc<Self>,
        engine: &Engine,
        channel: u32,
        wanted: u32,
    ) {
        let streams = engine.streams();
        let (missing, leave) = {
            let mut state = lock(&self.state);
            let Some(lane) = state.lane(channel) else {
                return;
            };
            lane.wanted = wanted;
            let is_there = |id: u64| streams.iter().any(|stream| stream.id == id);
            lane.leaving.retain(|id| is_there(*id));
            let staying = lane.staying();
            // The youngest leave: the others have found their windows. Threads that have no stream yet see for themselves.
            let mut leave: Vec<u64> = streams
                .iter()
                .filter(|stream| stream.channel == channel && stream.carries_blocks)
                .map(|stream| stream.id)
                .filter(|id| !lane.leaving.contains(id))
                .collect();
            leave.sort_unstable();
            let leave = leave.split_off(leave.len().min(wanted as usize));
            lane.leaving.extend(&leave);
            (wanted.saturating_sub(staying), leave)
        };
        for id in leave {
            engine.retire(id);
        }
        for _ in 0..missing {
            // Whoever has no thread for one more goes on with those that there are.
            if self.keep(engine, channel, None).is_err() {
                break;
            }
        }
    }

    /// The channel has more threads than it should have streams, and the calling one has none.
    pub(super) fn is_surplus(&self, channel: u32) -> bool {
        lock(&self.state)
            .lane(channel)
            .is_some_and(|lane| lane.staying() > lane.wanted)
    }
}
