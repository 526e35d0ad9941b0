//! Lines for people and logs.
//! Prints nothing itself.

use super::rate::time_left;
use super::{Itemised, Progress, Sides, Started, Status, Summary, Tuned};
use godwit_api::units::{human_rate, human_size};
use std::fmt::Write;
use std::time::Duration;

/// Makes lines.
pub(super) struct PlainLines;

impl PlainLines {
    pub(super) fn started(&self, started: &Started<'_>) -> String {
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

    /// What is copied where to.
    pub(super) fn what(&self, started: &Started<'_>) -> String {
        let text = |bytes: &[u8]| printable(&String::from_utf8_lossy(bytes));
        format!(
            "{} to {}",
            text(&started.sources.join(&b", "[..])),
            text(started.destination)
        )
    }

    pub(super) fn progress(&self, progress: &Progress<'_>, rate: Option<f64>) -> String {
        format!(
            "{}, {}",
            self.amounts(progress, rate),
            self.circumstances(progress)
        )
    }

    /// How much, how fast, how long.
    pub(super) fn amounts(&self, progress: &Progress<'_>, rate: Option<f64>) -> String {
        let mut line = human_size(progress.bytes);
        // Writing to a String cannot fail.
        if let Some(total) = progress.bytes_total {
            let _ = write!(line, " of {}", human_size(total));
        }
        if let Some(rate) = rate {
            let _ = write!(line, ", {}", human_rate(whole(rate)));
        }
        if let Some(left) = time_left(progress.bytes, progress.bytes_total, rate) {
            let _ = write!(line, ", {} left", clock(left));
        }
        line
    }

    /// By what, and what limits it.
    pub(super) fn circumstances(&self, progress: &Progress<'_>) -> String {
        let mut line = format!(
            "{}, {}",
            count(progress.files, "file"),
            count(progress.streams.into(), "stream")
        );
        if let Some(bottleneck) = progress.bottleneck {
            let _ = write!(line, ", limited by {}", bottleneck.line());
        }
        line
    }

    pub(super) fn failed(&self, path: &[u8], message: &str) -> String {
        let path = String::from_utf8_lossy(path);
        format!("godwit: {}: {}", printable(&path), printable(message))
    }

    pub(super) fn tuning(&self, tuned: &Tuned<'_>) -> String {
        let Tuned {
            what,
            channel,
            from,
            to,
            reason,
        } = tuned;
        let whose = channel.map_or_else(String::new, |number| format!("channel {number}: "));
        format!(
            "godwit: {whose}{what} {from} -> {to}: {}",
            printable(reason)
        )
    }

    pub(super) fn item(&self, item: &Itemised<'_>) -> String {
        let path = String::from_utf8_lossy(item.path);
        let path = if path.is_empty() { ".".into() } else { path };
        let slash = if item.kind == "directory" { "/" } else { "" };
        format!("{:<6}  {}{slash}", item.action, printable(&path))
    }

    pub(super) fn summary(
        &self,
        what: Option<&str>,
        summary: &Summary,
        elapsed: Duration,
    ) -> String {
        let seconds = elapsed.as_secs_f64();
        let rate = whole(summary.bytes as f64 / seconds.max(0.001));
        let status = match summary.status {
            Status::Interrupted => "interrupted; the same command resumes it",
            Status::Partial => "partial; the entries named above failed",
            Status::Complete if summary.dry_run => {
                "complete; a dry run, so nothing was changed: this is what would be done"
            }
            other => other.name(),
        };
        let (copied, delivered) = match summary.status {
            _ if summary.dry_run => ("would copy", "to deliver"),
            Status::Interrupted | Status::Failed => ("copying", "delivered"),
            _ => ("copied", "delivered"),
        };
        let mut text = what.map_or_else(String::new, |what| format!("{copied:<12}{what}\n"));
        let _ = write!(
            text,
            "status      {status}\n\
             {delivered:<12}{}",
            amount(summary),
        );
        for (name, number) in [
            ("skipped", summary.skipped),
            ("excluded", summary.excluded),
            ("adjusted", summary.adjusted),
            ("deleted", summary.deleted),
            ("failed", summary.failed),
        ] {
            if number > 0 {
                let _ = write!(text, ", {number} {name}");
            }
        }
        if summary.resent_bytes > 0 {
            let _ = write!(text, "\nsent again  {}", human_size(summary.resent_bytes));
        }
        let _ = write!(text, "\ntime        {seconds:.2} s, {}", human_rate(rate));
        let _ = write!(
            text,
            "\nprocessor   {}",
            both(&summary.cpu_seconds, |seconds| format!("{seconds:.2} s"))
        );
        let _ = write!(
            text,
            "\nmemory      {}",
            both(&summary.max_rss_bytes, human_size)
        );
        // What took a moment was limited by how it began and ended.
        if let Some(bottleneck) = &summary.bottleneck
            && elapsed >= Duration::from_secs(1)
        {
            let _ = write!(text, "\nlimited by  {}", bottleneck.line());
            if let Some(advice) = &bottleneck.told.advice {
                let _ = write!(text, "\n            {}", printable(advice));
            }
        }
        if let Some(manifest) = &summary.manifest {
            let _ = write!(
                text,
                "\nmanifest    {}, {}, {}",
                printable(&String::from_utf8_lossy(&manifest.path)),
                entries(manifest.entries),
                manifest.digest
            );
        }
        text
    }
}

/// Bytes and files.
fn amount(summary: &Summary) -> String {
    let files = count(summary.files, "file");
    if summary.unknown_bytes {
        format!("{files} of unknown size")
    } else {
        format!("{} in {files}", human_size(summary.bytes))
    }
}

/// A text without what would steer a terminal: control characters are escaped.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        // A newline, too: inside a name it would make one message look like two.
        if character.is_control() {
            let _ = write!(out, "{}", character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
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

fn both<T: Copy>(sides: &Sides<T>, show: impl Fn(T) -> String) -> String {
    let show = |side: Option<T>| side.map_or_else(|| "unknown".to_owned(), &show);
    format!(
        "{} at the source, {} at the destination",
        show(sides.source),
        show(sides.destination)
    )
}

fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn entries(number: u64) -> String {
    format!("{number} entr{}", if number == 1 { "y" } else { "ies" })
}

/// A rate in whole bytes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, and a rate is never negative"
)]
fn whole(rate: f64) -> u64 {
    rate as u64
}

#[cfg(test)]
mod tests {
    use super::super::ManifestDone;
    use super::super::NotKept;
    use super::super::{Limited, LimitedTold, Pace};
    use super::*;

    #[test]
    fn progress_in_one_line() {
        let network = Limited {
            stage: "network".to_owned(),
            told: LimitedTold {
                figure: "20 Mbit/s on 2 streams".to_owned(),
                advice: None,
            },
        };
        let mut progress = Progress {
            bytes: 1_500_000,
            bytes_total: Some(301_500_000),
            pace: Pace::Moved(0),
            files: 1,
            streams: 2,
            bottleneck: Some(&network),
        };
        assert_eq!(
            PlainLines.progress(&progress, Some(2_500_000.0)),
            "1.50 MB of 302 MB, 2.50 MB/s, 2:00 left, 1 file, 2 streams, limited by network: 20 Mbit/s on 2 streams"
        );
        progress.bytes_total = None;
        progress.bottleneck = None;
        assert_eq!(
            PlainLines.progress(&progress, None),
            "1.50 MB, 1 file, 2 streams"
        );
    }

    #[test]
    fn the_summary_is_a_few_lines() {
        let summary = Summary {
            status: Status::Interrupted,
            bytes: 3_000_000,
            unknown_bytes: false,
            files: 4,
            skipped: 0,
            excluded: 3,
            adjusted: 0,
            deleted: 3,
            dry_run: false,
            failed: 2,
            resent_bytes: 1_000,
            cpu_seconds: Sides {
                source: Some(1.25),
                destination: None,
            },
            max_rss_bytes: Sides {
                source: Some(64_000_000),
                destination: None,
            },
            bottleneck: Some(Limited {
                stage: "source storage".to_owned(),
                told: LimitedTold {
                    figure: "2 MB/s read".to_owned(),
                    advice: Some("do something".to_owned()),
                },
            }),
            manifest: Some(ManifestDone {
                path: b"m".to_vec(),
                entries: 1,
                digest: "blake3:00".to_owned(),
            }),
            not_kept: NotKept::default(),
        };
        let text = PlainLines.summary(Some("a to b"), &summary, Duration::from_millis(1_500));
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "copying     a to b",
                "status      interrupted; the same command resumes it",
                "delivered   3.00 MB in 4 files, 3 excluded, 3 deleted, 2 failed",
                "sent again  1.00 kB",
                "time        1.50 s, 2.00 MB/s",
                "processor   1.25 s at the source, unknown at the destination",
                "memory      64.0 MB at the source, unknown at the destination",
                "limited by  source storage: 2 MB/s read",
                "            do something",
                "manifest    m, 1 entry, blake3:00",
            ]
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
