//! Lines for people and logs.
//! Prints nothing itself.

use godwit_api::event::{Different, Item, ItemKind, Limited, Progress, Started, Tuning};
use godwit_api::shown::printable;
use godwit_api::units::{counted, human_count, human_rate, human_size};
use std::fmt::Write;
use std::time::Duration;

/// Makes lines.
pub(super) struct PlainLines;

impl PlainLines {
    pub(super) fn started(&self, started: &Started) -> String {
        format!(
            "{} {}",
            if started.resumed {
                "resuming"
            } else {
                "copying"
            },
            self.what(started)
        )
    }

    /// The sources and the destination.
    pub(super) fn what(&self, started: &Started) -> String {
        let text = |bytes: &[u8]| printable(&String::from_utf8_lossy(bytes));
        format!(
            "{} to {}",
            text(&started.sources.join(&b", "[..])),
            text(&started.destination)
        )
    }

    pub(super) fn progress(&self, progress: &Progress) -> String {
        format!(
            "{}, {}",
            self.amounts(progress),
            self.circumstances(progress)
        )
    }

    /// Amount, rate and time.
    pub(super) fn amounts(&self, progress: &Progress) -> String {
        let mut line = human_size(progress.bytes);
        // Writing to a String cannot fail.
        if let Some(total) = progress.bytes_total {
            let _ = write!(line, " of {}", human_size(total));
        }
        let rate = progress.bytes_per_second;
        if let Some(rate) = rate {
            let _ = write!(line, ", {}", human_rate(whole(rate)));
        }
        let foretold = progress.seconds_left.and_then(time_of);
        let by_rate = || time_left(progress.bytes, progress.bytes_total, rate);
        if let Some(left) = foretold.or_else(by_rate) {
            let _ = write!(line, ", {} left", clock(left));
        }
        line
    }

    /// Streams and bottleneck.
    pub(super) fn circumstances(&self, progress: &Progress) -> String {
        let mut line = String::new();
        // Writing to a String cannot fail.
        if progress.scanning {
            let found = about(progress.files_total, "file");
            let _ = write!(line, "scanning, {found} so far, ");
        }
        match progress.files_total {
            total if total > progress.files && !progress.scanning => {
                let _ = write!(line, "{} of ", human_count(progress.files));
                line.push_str(&about(total, "file"));
            }
            _ => line.push_str(&about(progress.files, "file")),
        }
        let pace = progress.files_per_second.map_or(0, whole);
        if pace >= FILES_PACE_MIN {
            let _ = write!(line, ", {} files/s", human_count(pace));
        }
        let _ = write!(line, ", {}", counted(progress.streams.into(), "stream"));
        if let Some(bottleneck) = &progress.bottleneck {
            let _ = write!(line, ", limited by {}", limited(bottleneck));
        }
        line
    }

    pub(super) fn failed(&self, path: &[u8], message: &str) -> String {
        let path = String::from_utf8_lossy(path);
        format!("godwit: {}: {}", printable(&path), printable(message))
    }

    pub(super) fn tuning(&self, tuning: &Tuning) -> String {
        let Tuning {
            what,
            channel,
            from,
            to,
            reason,
            ..
        } = tuning;
        let what = printable(what);
        let whose = channel.map_or_else(String::new, |number| format!("channel {number}: "));
        format!(
            "godwit: {whose}{what} {from} -> {to}: {}",
            printable(reason)
        )
    }

    pub(super) fn item(&self, item: &Item) -> String {
        let path = String::from_utf8_lossy(&item.path);
        let path = if path.is_empty() { ".".into() } else { path };
        let slash = if item.kind == ItemKind::Directory {
            "/"
        } else {
            ""
        };
        format!("{:<6}  {}{slash}", item.action.name(), printable(&path))
    }

    pub(super) fn different(&self, different: &Different) -> String {
        format!(
            "{:<9} {}: {}",
            different.kind,
            printable(&String::from_utf8_lossy(&different.path)),
            printable(&different.message)
        )
    }

    pub(super) fn extra(&self, path: &[u8]) -> String {
        format!(
            "extra     {}: not in the manifest",
            printable(&String::from_utf8_lossy(path))
        )
    }
}

/// The bottleneck of a transfer, in words.
pub(super) fn limited(limited: &Limited) -> String {
    let stage = limited.stage.words();
    let text = if limited.evidence.figure.is_empty() {
        stage.to_owned()
    } else {
        format!("{stage}: {}", limited.evidence.figure)
    };
    printable(&text)
}

/// The remaining time, if it can be estimated: at most a hundred days, and only while data moves.
fn time_left(bytes: u64, total: Option<u64>, rate: Option<f64>) -> Option<Duration> {
    let left = total?.checked_sub(bytes)?;
    time_of(left as f64 / rate.filter(|rate| *rate >= 1.0)?)
}

fn time_of(seconds: f64) -> Option<Duration> {
    let shown = (0.0..100.0 * 86_400.0).contains(&seconds);
    shown.then(|| Duration::from_secs_f64(seconds.ceil()))
}

/// A time span as `1:02:03` or `2:03`.
pub(super) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// A number that changes while it is shown, rounded to three digits.
fn about(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", human_count(number))
}

/// Lowest shown rate of files a second. For large files, bytes say more.
const FILES_PACE_MIN: u64 = 10;

/// A rate in whole bytes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, and a rate is never negative"
)]
pub(super) fn whole(rate: f64) -> u64 {
    rate as u64
}

#[cfg(test)]
mod tests {
    use godwit_api::event::Evidence;
    use godwit_api::rest::Bottleneck;

    use super::*;

    #[test]
    fn time_left_needs_a_total_and_a_rate() {
        let left = |bytes, total, rate| time_left(bytes, total, rate).map(|left| left.as_secs());
        assert_eq!(left(10, Some(110), Some(10.0)), Some(10));
        assert_eq!(left(10, None, Some(10.0)), None);
        assert_eq!(left(10, Some(110), None), None);
        assert_eq!(left(10, Some(110), Some(0.0)), None);
        assert_eq!(left(110, Some(10), Some(10.0)), None);
        assert_eq!(left(0, Some(u64::MAX), Some(1.0)), None);
    }

    #[test]
    fn progress_in_one_line() {
        let network = Limited {
            stage: Bottleneck::Network,
            evidence: Evidence {
                figure: "2.5 MB/s, round trip 12 ms".to_owned(),
                advice: None,
            },
        };
        let mut progress = Progress {
            bytes: 1_500_000,
            bytes_total: Some(301_500_000),
            bytes_per_second: Some(2_500_000.0),
            files: 1,
            streams: 2,
            bottleneck: Some(network),
            ..Progress::default()
        };
        assert_eq!(
            PlainLines.progress(&progress),
            "1.50 MB of 302 MB, 2.50 MB/s, 2:00 left, 1 file, 2 streams, limited by network: 2.5 MB/s, round trip 12 ms"
        );
        progress.seconds_left = Some(59.2);
        let line = PlainLines.amounts(&progress);
        assert!(line.ends_with(", 1:00 left"), "{line}");
        progress.bottleneck = None;
        progress.files_total = 2_345;
        assert_eq!(
            PlainLines.circumstances(&progress),
            "1 of 2345 files, 2 streams"
        );
        progress.files_total = 0;
        progress.bytes_total = None;
        progress.seconds_left = None;
        progress.bytes_per_second = None;
        assert_eq!(PlainLines.progress(&progress), "1.50 MB, 1 file, 2 streams");
        progress.scanning = true;
        progress.files = 12_345;
        progress.files_total = 1_234_567;
        progress.files_per_second = Some(5_234.4);
        assert_eq!(
            PlainLines.circumstances(&progress),
            "scanning, 1.2 M files so far, 12345 files, 5234 files/s, 2 streams"
        );
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(
            PlainLines.failed(b"a\x1b[2J\nb\xff", "gone"),
            "godwit: a\\u{1b}[2J\\nb\u{fffd}: gone"
        );
    }

    #[test]
    fn clocks() {
        assert_eq!(clock(Duration::from_secs(5)), "0:05");
        assert_eq!(clock(Duration::from_secs(3_723)), "1:02:03");
    }
}
