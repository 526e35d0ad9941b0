//! Lines for people and logs.
//! Prints nothing itself.

use godwit_api::event::{
    Different, Item, ItemKind, Limited, Progress, Sides, Started, Status, TransferSummary, Tuning,
    VerifySummary,
};
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
        if let Some(left) = time_left(progress.bytes, progress.bytes_total, rate) {
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

    pub(super) fn summary(
        &self,
        what: Option<&str>,
        summary: &TransferSummary,
        elapsed: Duration,
    ) -> String {
        let seconds = elapsed.as_secs_f64();
        let rate = whole(summary.bytes.unwrap_or(0) as f64 / seconds.max(0.001));
        let status = match summary.status {
            Status::Interrupted => "interrupted; the same command resumes it",
            Status::Partial => "partial; the entries named above failed",
            Status::Complete if summary.dry_run => {
                "complete; a dry run: nothing was changed, and the lines above show the planned actions"
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
        // The beginning and the end limit a transfer of less than a second.
        if let Some(bottleneck) = &summary.bottleneck
            && elapsed >= Duration::from_secs(1)
        {
            let _ = write!(text, "\nlimited by  {}", limited(bottleneck));
            if let Some(advice) = &bottleneck.told.advice {
                let _ = write!(text, "\n            {}", printable(advice));
            }
        }
        if let Some(manifest) = &summary.manifest {
            let _ = write!(
                text,
                "\nmanifest    {}, {}, {}",
                printable(&String::from_utf8_lossy(&manifest.path)),
                counted(manifest.entries, "entry"),
                printable(&manifest.digest)
            );
        }
        text
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

    pub(super) fn verified(&self, summary: &VerifySummary, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        format!(
            "status      {}\nverified    {}, {}\ndifferent   {}\nextra       {}\ntime        {seconds:.2} s, {}",
            summary.status.name(),
            counted(summary.entries, "entry"),
            human_size(summary.bytes),
            summary.different,
            summary.extra,
            human_rate(whole(summary.bytes as f64 / seconds.max(0.001))),
        )
    }
}

/// The bottleneck of a transfer, in words. A limit on the rate is the user's.
fn limited(limited: &Limited) -> String {
    let stage = match limited.stage.as_str() {
        "limit" => "--limit",
        other => other,
    };
    let text = if limited.told.figure.is_empty() {
        stage.to_owned()
    } else {
        format!("{stage}: {}", limited.told.figure)
    };
    printable(&text)
}

/// The remaining time, if it can be estimated: at most a hundred days, and only while data moves.
fn time_left(bytes: u64, total: Option<u64>, rate: Option<f64>) -> Option<Duration> {
    let left = total?.checked_sub(bytes)?;
    let seconds = left as f64 / rate.filter(|rate| *rate >= 1.0)?;
    (seconds < 100.0 * 86_400.0).then(|| Duration::from_secs_f64(seconds.ceil()))
}

/// The bytes and files of a summary.
fn amount(summary: &TransferSummary) -> String {
    let files = counted(summary.files, "file");
    match summary.bytes {
        None => format!("{files} of unknown size"),
        Some(bytes) => format!("{} in {files}", human_size(bytes)),
    }
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
fn whole(rate: f64) -> u64 {
    rate as u64
}

#[cfg(test)]
mod tests {
    use godwit_api::event::{LimitedTold, ManifestDone, NotKept};

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
            stage: "network".to_owned(),
            told: LimitedTold {
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
        progress.bottleneck = None;
        progress.files_total = 2_345;
        assert_eq!(
            PlainLines.circumstances(&progress),
            "1 of 2345 files, 2 streams"
        );
        progress.files_total = 0;
        progress.bytes_total = None;
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
    fn the_summary_is_a_few_lines() {
        let summary = TransferSummary {
            status: Status::Interrupted,
            bytes: Some(3_000_000),
            files: 4,
            skipped: 0,
            excluded: 3,
            adjusted: 0,
            deleted: 3,
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
                bytes: 99,
            }),
            not_kept: NotKept::default(),
            ..TransferSummary::default()
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
