//! Reports the channels of a transfer with several: shares while it runs, changes immediately, and all at the end. Does not
//! measure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use godwit_api::event::{
    Channel, Channels, ConnectionLost, ConnectionRegained, Event, EventSink, LostChannel,
};
use godwit_engine::ChannelFigures;

use super::connection::tenths;
use super::elapsed_seconds;

/// Interval between reports of shares.
const EVERY: Duration = Duration::from_secs(1);

/// The last reported state.
#[derive(Debug, Default)]
pub(super) struct ChannelReports {
    at: Option<Instant>,
    bytes: BTreeMap<u32, u64>,
    /// Number of streams that each lost channel had lost when its loss was reported.
    dead: BTreeMap<u32, u64>,
    /// Channels without a stream: the time of the loss, and whether it was reported.
    away: BTreeMap<u32, (Instant, bool)>,
}

/// A broken stream of a live channel is replaced immediately. A channel without a stream for this long is lost. Either side may have
/// closed it.
const LOST_AFTER: Duration = Duration::from_secs(2);

/// Reports the bytes of each channel. A transfer with one channel reports nothing.
pub(super) fn report_at_end(
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
        events.emit(Event::Channels(Channels {
            channels,
            seconds: elapsed_seconds(started),
            at_end: true,
        }));
    }
}

/// The channels in the form of events.
pub(super) fn shown(channels: Vec<ChannelFigures>) -> Vec<Channel> {
    channels
        .into_iter()
        .map(|channel| Channel {
            number: channel.number,
            name: channel.name,
            streams: channel.streams,
            bytes: channel.bytes,
            bytes_per_second: None,
            round_trip_seconds: channel.round_trip.as_secs_f64(),
            resent_bytes: channel.resent_bytes,
            cuts: channel.cuts,
        })
        .collect()
}

impl ChannelReports {
    /// Reports the current channels. A transfer with one channel reports nothing. May be called at any rate.
    pub(super) fn report(
        &mut self,
        events: &dyn EventSink,
        figures: Vec<ChannelFigures>,
        started: Instant,
        retry_for: Duration,
    ) {
        let now = Instant::now();
        let mut channels = shown(figures);
        for mut event in self.changes(&channels, now, retry_for) {
            match &mut event {
                Event::ConnectionLost(lost) => lost.seconds = elapsed_seconds(started),
                Event::ConnectionRegained(regained) => regained.seconds = elapsed_seconds(started),
                _ => {}
            }
            events.emit(event);
        }
        let has_new = self.rates(&mut channels, now);
        if channels.len() > 1 && has_new {
            events.emit(Event::Channels(Channels {
                channels,
                seconds: elapsed_seconds(started),
                at_end: false,
            }));
        }
    }

    /// Channels that were lost while others are alive, and those that work again. The events have no seconds yet.
    fn changes(&mut self, channels: &[Channel], now: Instant, retry_for: Duration) -> Vec<Event> {
        let mut events = Vec::new();
        // If no channel is alive, the connection is lost, which is reported separately.
        let any_lives = channels.iter().any(|channel| channel.streams > 0);
        for channel in channels {
            let which = || {
                Some(LostChannel {
                    number: channel.number,
                    name: channel.name.clone(),
                })
            };
            if channel.streams > 0 {
                if let Some((since, true)) = self.away.remove(&channel.number) {
                    events.push(Event::ConnectionRegained(ConnectionRegained {
                        lost_seconds: tenths(now.duration_since(since)),
                        channel: which(),
                        seconds: 0.0,
                    }));
                }
                continue;
            }
            let (since, reported) = self.away.entry(channel.number).or_insert((now, false));
            let cuts = self.dead.insert(channel.number, channel.cuts).unwrap_or(0);
            let lost_for = now.duration_since(*since);
            let cut = channel.cuts > cuts;
            if *reported || !any_lives || !(cut || lost_for >= LOST_AFTER) {
                if !any_lives {
                    // A channel that stays lost is reported when another one works again.
                    self.dead.insert(channel.number, cuts);
                }
                continue;
            }
            *reported = true;
            let why = if cut {
                "the path is silent; its blocks move to the other paths"
            } else {
                "its streams broke and cannot be restored; its blocks move to the other paths"
            };
            events.push(Event::ConnectionLost(ConnectionLost {
                lost_seconds: tenths(lost_for),
                retry_for_seconds: retry_for.as_secs_f64(),
                why: why.to_owned(),
                silent: false,
                channel: which(),
                seconds: 0.0,
            }));
        }
        events
    }

    /// Updates the rates since the last report; returns whether a report is due.
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
            resent_bytes: 0,
            cuts,
        }
    }

    /// Reports about channel 1 of two, with a look each second. Each look has the streams of channel 1, the streams of channel
    /// 2, and the cuts of that second.
    fn statement(looks: &[(u32, u32, u64)]) -> Vec<Vec<String>> {
        let mut statement = ChannelReports::default();
        let began = Instant::now();
        let seen = (0..).zip(looks).map(|(second, (first, streams, cuts))| {
            let channels = [channel(0, *first, 0), channel(1, *streams, *cuts)];
            let now = began + Duration::from_secs(second);
            let events = statement.changes(&channels, now, Duration::from_secs(300));
            let names = events.into_iter().map(|event| match event {
                Event::ConnectionLost(lost) => {
                    format!("{} lost", lost.channel.expect("of a channel").number)
                }
                Event::ConnectionRegained(back) => {
                    format!("{} back", back.channel.expect("of a channel").number)
                }
                other => panic!("{other:?}"),
            });
            names.collect()
        });
        seen.collect()
    }

    #[test]
    fn a_channel_is_said_to_be_lost_once_and_to_be_back_once() {
        let looks = [
            (1, 1, 0),
            (1, 1, 0),
            (1, 0, 1),
            (1, 0, 1),
            (1, 1, 1),
            (1, 1, 1),
            (1, 0, 2),
        ];
        let none: [&str; 0] = [];
        let expected = [
            &none[..],
            &none,
            &["1 lost"],
            &none,
            &["1 back"],
            &none,
            &["1 lost"],
        ];
        assert_eq!(statement(&looks), expected);
    }

    #[test]
    fn a_channel_without_a_stream_is_lost_after_a_while_for_each_end_that_closes() {
        let looks = [(1, 1, 0), (1, 0, 0), (1, 0, 0), (1, 0, 0), (1, 1, 0)];
        let none: [&str; 0] = [];
        let expected = [&none[..], &none, &none, &["1 lost"], &["1 back"]];
        assert_eq!(statement(&looks), expected);
    }

    #[test]
    fn where_no_channel_lives_none_is_said_to_be_lost_until_another_is_back() {
        let looks = [(1, 1, 0), (0, 0, 1), (0, 0, 1), (1, 0, 1), (1, 1, 1)];
        let none: [&str; 0] = [];
        let expected = [&none[..], &none, &none, &["1 lost"], &["1 back"]];
        assert_eq!(statement(&looks), expected);
    }
}
