//! A lost connection in words: one line when it is lost, one when it is back, and a phrase with running seconds between.
//! Decides nothing about connections.

use std::fmt::Write;
use std::time::{Duration, Instant};

use godwit_api::event::{ConnectionLost, ConnectionRegained, LostChannel};

use godwit_api::shown::printable;

/// The longest loss: no client retries for longer than 30 days.
const LOST_MAX: Duration = Duration::from_secs(30 * 86_400);

/// A lasting loss.
#[derive(Clone, Debug)]
pub(super) struct Lost {
    since: Instant,
    retry_for: Duration,
    silent: bool,
}

impl Lost {
    /// The loss of a new event.
    pub(super) fn of(event: &ConnectionLost, now: Instant) -> Self {
        Self {
            since: now.checked_sub(time(event.lost_seconds)).unwrap_or(now),
            retry_for: time(event.retry_for_seconds),
            silent: event.silent,
        }
    }

    /// The phrase for a line of progress.
    pub(super) fn phrase(&self, now: Instant) -> String {
        let lasts = span(now.saturating_duration_since(self.since));
        if self.silent {
            format!("no answer for {lasts}")
        } else {
            format!(
                "connection lost, retrying ({lasts} of {})",
                span(self.retry_for)
            )
        }
    }

    /// Whether the last reported loss was of the other kind.
    pub(super) fn differs(&self, event: &ConnectionLost) -> bool {
        self.silent != event.silent
    }
}

/// The line for people on a loss.
pub(super) fn lost(event: &ConnectionLost) -> String {
    let why = printable(&event.why);
    let retry_for = span(time(event.retry_for_seconds));
    match &event.channel {
        Some(channel) => format!("godwit: connection lost on {}: {why}", named(channel)),
        None if event.silent => format!(
            "godwit: no answer for {}: {why}",
            span(time(event.lost_seconds))
        ),
        None if why.is_empty() => {
            format!("godwit: connection lost; retrying for {retry_for}")
        }
        None => format!("godwit: connection lost: {why}; retrying for {retry_for}"),
    }
}

/// The line for people on a regained connection.
pub(super) fn regained(event: &ConnectionRegained) -> String {
    let after = span(time(event.lost_seconds));
    match &event.channel {
        Some(channel) => format!(
            "godwit: connection restored on {} after {after}",
            named(channel)
        ),
        None => format!("godwit: connection restored after {after}"),
    }
}

fn named(channel: &LostChannel) -> String {
    format!("channel {} ({})", channel.number, printable(&channel.name))
}

/// A time of an event, which may come from another machine.
pub(crate) fn time(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds)
        .unwrap_or_default()
        .min(LOST_MAX)
}

/// A time in its two largest units: `12 s`, `5 min`, `1 h 30 min`.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let mut parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ]
    .into_iter()
    .skip_while(|(count, _)| *count == 0)
    .take(2)
    .filter(|(count, _)| *count > 0);
    let mut text = match parts.next() {
        Some((count, unit)) => format!("{count} {unit}"),
        None => "0 s".to_owned(),
    };
    for (count, unit) in parts {
        // Writing to a String cannot fail.
        let _ = write!(text, " {count} {unit}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_units_at_most() {
        for (seconds, text) in [
            (0, "0 s"),
            (12, "12 s"),
            (60, "1 min"),
            (125, "2 min 5 s"),
            (3_600, "1 h"),
            (3_605, "1 h"),
            (5_400, "1 h 30 min"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
        assert_eq!(time(f64::NAN), Duration::ZERO);
        assert_eq!(time(-1.0), Duration::ZERO);
        assert_eq!(time(f64::INFINITY), Duration::ZERO);
        assert_eq!(time(1e15), LOST_MAX);
    }

    #[test]
    fn seconds_run_while_a_loss_lasts() {
        let now = Instant::now();
        let event = ConnectionLost {
            lost_seconds: 2.0,
            retry_for_seconds: 300.0,
            ..ConnectionLost::default()
        };
        let later = now + Duration::from_secs(10);
        assert_eq!(
            Lost::of(&event, now).phrase(later),
            "connection lost, retrying (12 s of 5 min)"
        );
        let silent = ConnectionLost {
            silent: true,
            ..event
        };
        let later = now + Duration::from_secs(5);
        assert_eq!(Lost::of(&silent, now).phrase(later), "no answer for 7 s");
    }

    #[test]
    fn a_channel_is_named_and_its_name_cannot_steer_the_terminal() {
        let channel = Some(LostChannel {
            number: 1,
            name: "eth1\x1b".to_owned(),
        });
        let event = ConnectionLost {
            why: "it is cut".to_owned(),
            channel: channel.clone(),
            ..ConnectionLost::default()
        };
        assert_eq!(
            lost(&event),
            "godwit: connection lost on channel 1 (eth1\\u{1b}): it is cut"
        );
        let event = ConnectionRegained {
            lost_seconds: 3.2,
            channel,
            seconds: 9.0,
        };
        assert_eq!(
            regained(&event),
            "godwit: connection restored on channel 1 (eth1\\u{1b}) after 3 s"
        );
    }
}
