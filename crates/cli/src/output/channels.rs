//! What a transfer tells of its channels, where it has several: shares while it runs, changes at once, and all at the end.
//! Measures nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use godwit_api::units::{human_rate, human_size};
use serde::{Deserialize, Serialize};

use super::plain::printable;
use super::{Form, Output};

/// How often shares are told while the transfer runs.
const EVERY: Duration = Duration::from_secs(1);

/// One channel, as it is told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChannelShown {
    /// Counted from 0.
    pub(crate) number: u32,
    /// Its interface and addresses.
    pub(crate) name: String,
    /// Alive now.
    pub(crate) streams: u32,
    /// That passed over it, with all overhead.
    pub(crate) bytes: u64,
    /// Since it was last told, or over all at the end.
    pub(crate) bytes_per_second: Option<f64>,
    /// Smoothed.
    pub(crate) round_trip_seconds: f64,
    /// Streams that were cut off because it was dead.
    pub(crate) cuts: u64,
}

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

#[derive(Serialize)]
#[serde(tag = "event", rename = "channels")]
struct Event<'a> {
    channels: &'a [ChannelShown],
    seconds: f64,
}

impl Output {
    /// The channels as they are now; a transfer with one has nothing to tell. May be called as often as is handy.
    pub(crate) fn channels(&self, mut channels: Vec<ChannelShown>) {
        let now = Instant::now();
        for note in self.with_channels(|told| told.changes(&channels)) {
            self.note(&note);
        }
        let told = self.with_channels(|told| told.rates(&mut channels, now));
        if channels.len() > 1 && told {
            self.tell_channels(&channels, false);
        }
    }

    /// The channels, with what they carried altogether.
    pub(crate) fn channels_at_end(&self, mut channels: Vec<ChannelShown>, took: Duration) {
        for channel in &mut channels {
            let rate = channel.bytes as f64 / took.as_secs_f64().max(0.001);
            channel.bytes_per_second = Some(rate.round());
        }
        if channels.len() > 1 {
            self.tell_channels(&channels, true);
        }
    }

    fn tell_channels(&self, channels: &[ChannelShown], end: bool) {
        let seconds = (self.started.elapsed().as_secs_f64() * 1_000.0).round() / 1_000.0;
        let line = || serde_json::to_string(&Event { channels, seconds }).unwrap_or_default();
        self.with(|state| {
            state.log(line);
            match &state.form {
                Form::Json => state.print(&line()),
                Form::Plain if end => state.print(&table(channels)),
                Form::Bar(bar) if end => {
                    bar.clear();
                    state.print(&table(channels));
                }
                Form::Plain | Form::Bar(_) => {}
            }
        });
    }

    fn with_channels<T: Default>(&self, ask: impl FnOnce(&mut ChannelsTold) -> T) -> T {
        let mut answer = T::default();
        self.with(|state| answer = ask(&mut state.channels));
        answer
    }
}

impl ChannelsTold {
    /// What people are told at once.
    fn changes(&mut self, channels: &[ChannelShown]) -> Vec<String> {
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
    fn rates(&mut self, channels: &mut [ChannelShown], now: Instant) -> bool {
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

/// For people, a line each.
fn table(channels: &[ChannelShown]) -> String {
    let lines: Vec<String> = channels.iter().map(line).collect();
    lines.join("\n")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, and a rate is never negative"
)]
fn line(channel: &ChannelShown) -> String {
    let rate = channel.bytes_per_second.unwrap_or_default() as u64;
    let mut line = format!(
        "channel {:<4}{}: {}, {}, round trip {:.1} ms",
        channel.number,
        printable(&channel.name),
        human_size(channel.bytes),
        human_rate(rate),
        channel.round_trip_seconds * 1_000.0
    );
    if channel.cuts > 0 {
        line.push_str(&format!(", {} streams cut off", channel.cuts));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(number: u32, streams: u32, cuts: u64) -> ChannelShown {
        ChannelShown {
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

    #[test]
    fn the_event_has_the_fields_of_the_manual() {
        let channels = [channel(1, 2, 0)];
        let event = Event {
            channels: &channels,
            seconds: 2.0,
        };
        assert_eq!(
            serde_json::to_string(&event).expect("JSON"),
            r#"{"event":"channels","channels":[{"number":1,"name":"eth1 (10.0.1.1) to 10.0.1.2","streams":2,"bytes":3000000,"bytes_per_second":1500000.0,"round_trip_seconds":0.0123,"cuts":0}],"seconds":2.0}"#
        );
        assert_eq!(
            line(&channel(1, 2, 3)),
            "channel 1   eth1 (10.0.1.1) to 10.0.1.2: 3.00 MB, 1.50 MB/s, round trip 12.3 ms, 3 streams cut off"
        );
    }
}
