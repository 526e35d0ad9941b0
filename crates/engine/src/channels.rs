//! Owns the state of the channels at one end of a transfer: measurements of each, and a watch that cuts off dead streams. Does not
//! connect; `session::link` replaces a stream that was cut off.
//!
//! The watch starts, at either end, once streams of two channels are attached. One thread checks every stream five times a second
//! through a `Pulse`, a second handle of the socket. A cut is a `shutdown`: the wait of the stream's thread ends, other streams carry
//! the stream's blocks, and `session::link` retries over the same channel until it works again. The sending end cuts without being
//! asked, so a pull does not wait for the client to notice.
//!
//! In the background, the watch starts before the first thread of a second channel lowers its priority, so the watch keeps normal
//! priority.

mod timers;
mod verdict;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use godwit_net::{Pulse, Stream, Vital, channel_of};
pub use godwit_tuner::ChannelFigures;

use self::timers::Timers;
use self::verdict::{ASK_AFTER, Sign, dead};
use crate::{StreamLoss, lock};

/// How often the watch checks; a dead channel is noticed at most this much later.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The channels of one end of a transfer. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChannelTable {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    members: BTreeMap<u64, Member>,
    channels: BTreeMap<u32, Totals>,
    /// When the first stream was attached.
    began: Option<Instant>,
    /// Whether the watch thread runs.
    watched: bool,
}

#[derive(Debug)]
struct Member {
    channel: u32,
    pulse: Pulse,
    counted_bytes: u64,
    counted_resent: u64,
    timers: Timers,
    /// Time of the watch's last check, and the bytes counted by then.
    watched: Option<(Instant, u64)>,
    /// Length of the silence after which the stream was cut off.
    cut: Option<Duration>,
}

#[derive(Debug)]
struct Totals {
    name: String,
    began: Instant,
    bytes: u64,
    resent_bytes: u64,
    round_trip: Duration,
    cuts: u64,
}

impl Totals {
    fn new(name: String) -> Self {
        Self {
            name,
            began: Instant::now(),
            bytes: 0,
            resent_bytes: 0,
            round_trip: Duration::ZERO,
            cuts: 0,
        }
    }
}

impl ChannelTable {
    /// Registers an attached stream and returns its number in this table, or `None` if it uses no channel.
    pub(crate) fn attach(&self, stream: &dyn Stream) -> Option<u64> {
        let pulse = stream.pulse()?;
        let channel = stream.channel();
        let mut inner = lock(&self.shared.inner);
        inner.began.get_or_insert_with(Instant::now);
        inner
            .channels
            .entry(channel)
            .or_insert_with(|| Totals::new(channel_of(pulse.local(), pulse.remote()).to_string()));
        inner.next += 1;
        let id = inner.next;
        inner.members.insert(
            id,
            Member {
                channel,
                pulse,
                counted_bytes: 0,
                counted_resent: 0,
                timers: Timers::default(),
                watched: None,
                cut: None,
            },
        );
        if inner.watched {
            inner.members[&id].pulse.share();
        } else if inner.are_several() {
            self.watch(&mut inner);
        }
        Some(id)
    }

    /// Removes a stream that ended with this result; if it was cut off because its channel is dead, the returned loss has this reason.
    pub(crate) fn detach(
        &self,
        id: Option<u64>,
        result: Result<(), StreamLoss>,
    ) -> Result<(), StreamLoss> {
        let Some(id) = id else { return result };
        let mut inner = lock(&self.shared.inner);
        inner.count();
        let member = inner.members.remove(&id);
        self.shared.changed.notify_all();
        match (result, member) {
            (
                Err(_),
                Some(Member {
                    channel,
                    cut: Some(quiet),
                    ..
                }),
            ) => Err(StreamLoss::Cut {
                channel: inner.name(channel),
                quiet,
            }),
            (result, _) => result,
        }
    }

    /// All channels that ever had a stream.
    pub(crate) fn figures(&self) -> Vec<ChannelFigures> {
        let mut inner = lock(&self.shared.inner);
        inner.count();
        let now = Instant::now();
        let Inner {
            members, channels, ..
        } = &*inner;
        channels
            .iter()
            .map(|(number, totals)| {
                let of_it = |member: &&Member| member.channel == *number && member.cut.is_none();
                ChannelFigures {
                    number: *number,
                    name: totals.name.clone(),
                    streams: u32::try_from(members.values().filter(of_it).count())
                        .unwrap_or(u32::MAX),
                    bytes: totals.bytes,
                    resent_bytes: totals.resent_bytes,
                    round_trip: totals.round_trip,
                    cuts: totals.cuts,
                    age: now.saturating_duration_since(totals.began),
                }
            })
            .collect()
    }

    /// Time since the first stream was attached.
    pub(crate) fn age(&self) -> Duration {
        let began = lock(&self.shared.inner).began;
        began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// Starts the watch, which runs until no stream is left. A single channel needs no watch.
    fn watch(&self, inner: &mut Inner) {
        let shared = Arc::clone(&self.shared);
        inner.watched = std::thread::Builder::new()
            .name("gw-channels".to_owned())
            .spawn(move || shared.run())
            .is_ok();
        for member in inner.members.values() {
            member.pulse.share();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut inner = lock(&self.inner);
        while !inner.members.is_empty() {
            let signs = inner.look();
            inner.hold(Instant::now());
            inner.ask(&signs);
            let verdict: Vec<Sign> = signs.iter().map(|(_, sign)| *sign).collect();
            for at in dead(&verdict) {
                let (id, sign) = signs[at];
                inner.cut(id, sign.quiet);
            }
            inner = self
                .changed
                .wait_timeout(inner, LOOK_EVERY)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        inner.watched = false;
    }
}

impl Inner {
    fn are_several(&self) -> bool {
        let mut channels = self.members.values().map(|member| member.channel);
        let first = channels.next();
        channels.any(|channel| Some(channel) != first)
    }

    fn name(&self, channel: u32) -> String {
        let totals = self.channels.get(&channel);
        totals.map_or_else(String::new, |totals| totals.name.clone())
    }

    /// Adds the bytes of all streams to the figures. Returns the signs of life of all streams that are not cut off, each with its time.
    fn count(&mut self) -> Vec<(u64, Vital, Instant)> {
        let Self {
            members, channels, ..
        } = self;
        let mut seen = Vec::with_capacity(members.len());
        for (id, member) in members {
            let Ok(vital) = member.pulse.vital() else {
                continue;
            };
            // The clock is read here and not earlier, because a thread that waits between the two would count its own wait as silence.
            let now = Instant::now();
            let Some(totals) = channels.get_mut(&member.channel) else {
                continue;
            };
            let bytes = vital.acknowledged_bytes.max(vital.received_bytes);
            totals.bytes += bytes.saturating_sub(member.counted_bytes);
            totals.round_trip = vital.round_trip;
            totals.resent_bytes += vital.resent_bytes.saturating_sub(member.counted_resent);
            member.counted_resent = vital.resent_bytes.max(member.counted_resent);
            member.counted_bytes = bytes.max(member.counted_bytes);
            if member.cut.is_none() {
                seen.push((*id, vital, now));
            }
        }
        seen
    }

    /// Checks all streams that are not cut off.
    fn look(&mut self) -> Vec<(u64, Sign)> {
        let seen = self.count();
        let mut signs = Vec::with_capacity(seen.len());
        for (id, vital, now) in seen {
            if let Some(member) = self.members.get_mut(&id) {
                signs.push((id, member.timers.look(member.channel, &vital, now)));
            }
        }
        signs
    }

    /// Sets each socket's buffer to the amount that its channel sends in a moment.
    fn hold(&mut self, now: Instant) {
        for member in self.members.values_mut() {
            let bytes = member.counted_bytes;
            if let Some((then, before)) = member.watched.replace((now, bytes)) {
                let milliseconds = now.duration_since(then).as_millis().max(1);
                let passed = u128::from(bytes - before) * 1_000 / milliseconds;
                member.pulse.hold(u64::try_from(passed).unwrap_or(u64::MAX));
            }
        }
    }

    /// Probes the streams that were recently silent.
    fn ask(&self, signs: &[(u64, Sign)]) {
        for (id, sign) in signs {
            if sign.quiet >= ASK_AFTER
                && let Some(member) = self.members.get(id)
            {
                member.pulse.ask();
            }
        }
    }

    fn cut(&mut self, id: u64, quiet: Duration) {
        let Some(member) = self.members.get_mut(&id) else {
            return;
        };
        if let Some(totals) = self.channels.get_mut(&member.channel) {
            totals.cuts += 1;
        }
        member.cut = Some(quiet);
        member.pulse.cut();
    }
}
