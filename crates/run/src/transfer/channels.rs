//! What a transfer tells of its channels, where it has several: shares while it runs, changes at once, and all at the end.
//! Measures nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use godwit_api::event::{Channel, Channels, Event, EventSink};
use godwit_engine::ChannelFigures;

use super::elapsed_seconds;

/// How often shares are told while the transfer runs.
const EVERY: Duration = Duration::from_secs(1);

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct ChannelsTold {
    at: Option<Instant>,
    bytes: BTreeMap<u32, u64>,
    /// How many streams each had lost when it was told to be dead.
    dead: BTreeMap<u32, u64>,
    /// Those that are not yet told to be back.
    away: BTreeSet<u32>,
}

/// Tells what each channel carried altogether; a transfer with one has nothing to tell.
pub(super) fn tell_at_end(
    events: &dyn EventSink,
    figures: Vec<ChannelFigures>,
    took: Duration,
    started: Instant,
) {
    let mut channels = shown(figures);
    for channel in &mut channels {
        let rate = channel.bytes as f64 / took.as_secs_f64().max(0.001);
        channel.bytes_per_second = Some(rate.round());
    }
    if channels.len() > 1 {
        events.tell(Event::Channels(Channels {
            channels,
            seconds: elapsed_seconds(started),
            at_end: true,
        }));
    }
}

/// The channels as they are told.
fn shown(channels: Vec<ChannelFigures>) -> Vec<Channel> {
    channels
        .into_iter()
        .map(|channel| Channel {
            number: channel.number,
            name: channel.name,
            streams: channel.streams,
            bytes: channel.bytes,
            bytes_per_second: None,
            round_trip_seconds: channel.round_trip.as_secs_f64(),
            cuts: channel.cuts,
        })
        .collect()
}

impl ChannelsTold {
    /// The channels as they are now; a transfer with one has nothing to tell. May be called as often as is handy.
    pub(super) fn tell(
        &mut self,
        events: &dyn EventSink,
        figures: Vec<ChannelFigures>,
        started: Instant,
    ) {
        let mut channels = shown(figures);
        for note in self.changes(&channels) {
            events.note(&note);
        }
        let told = self.rates(&mut channels, Instant::now());
        if channels.len() > 1 && told {
            events.tell(Event::Channels(Channels {
                channels,
                seconds: elapsed_seconds(started),
                at_end: false,
            }));
        }
    }

    /// What people are told at once.
    fn changes(&mut self, channels: &[Channel]) -> Vec<String> {
        let mut notes = Vec::new();
        for channel in channels {
            let told = self.dead.get(&channel.number).copied();
            if channel.streams == 0 && channel.cuts > told.unwrap_or(0) {
                self.dead.insert(channel.number, channel.cuts);
                notes.push(format!(
                    "channel {} gives no sign of life; its blocks go over the others",
                    channel.name
                ));
                self.away.insert(channel.number);
            } else if channel.streams > 0 && self.away.remove(&channel.number) {
                notes.push(format!("channel {} is back", channel.name));
            }
        }
        notes
    }

    /// Rates since the last time, if that is long enough ago to tell of.
    fn rates(&mut self, channels: &mut [Channel], now: Instant) -> bool {
        let since = self.at.map(|at| now.duration_since(at));
        if since.is_some_and(|since| since < EVERY) {
            return false;
        }
        self.at = Some(now);
        for channel in channels {
            let before = self.bytes.insert(channel.number, channel.bytes);
            channel.bytes_per_second = before.zip(since).map(|(before, since)| {
                let bytes = channel.bytes.saturating_sub(before);
                (bytes as f64 / since.as_secs_f64()).round()
            });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(number: u32, streams: u32, cuts: u64) -> Channel {
        Channel {
            number,
            name: format!("eth{number} (10.0.{number}.1) to 10.0.{number}.2"),
            streams,
            bytes: 3_000_000,
            bytes_per_second: Some(1_500_000.0),
            round_trip_seconds: 0.0123,
            cuts,
        }
    }

    #[test]
    fn a_channel_is_said_to_be_dead_once_and_to_be_back_once() {
        let mut told = ChannelsTold::default();
        let mut say = |streams, cuts| told.changes(&[channel(0, 1, 0), channel(1, streams, cuts)]);
        assert!(say(1, 0).is_empty());
        assert!(say(1, 0).is_empty());
        assert!(say(0, 1)[0].contains("eth1"));
        assert!(say(0, 1).is_empty());
        assert!(say(1, 1)[0].contains("is back"));
        assert!(say(1, 1).is_empty());
        assert_eq!(say(0, 2).len(), 1);
    }
}
