//! The end of a transfer or a verification, in words for people.
//! Prints nothing itself.

use std::fmt::Write;
use std::time::Duration;

use godwit_api::event::{Sides, Status, TransferSummary, VerifySummary};
use godwit_api::shown::printable;
use godwit_api::units::{counted, human_rate, human_size};

use super::plain::{PlainLines, limited, whole};

impl PlainLines {
    /// The summary in one line, if all went well in a short time.
    pub(super) fn short_summary(
        &self,
        what: Option<&str>,
        summary: &TransferSummary,
        elapsed: Duration,
    ) -> String {
        let is_plain = summary.status == Status::Complete
            && !summary.dry_run
            && summary.resent_bytes == 0
            && summary.manifest.is_none();
        match what {
            Some(what) if is_plain && elapsed < SHORT => {
                let (seconds, others) = (elapsed.as_secs_f64(), others(summary));
                match headline(summary) {
                    UP_TO_DATE => format!("{UP_TO_DATE}: {what}{others}, {seconds:.2} s"),
                    headline => format!(
                        "{headline} {what}: {}{others}, {seconds:.2} s, {}",
                        amount(summary),
                        human_rate(rate_of(summary.bytes.unwrap_or(0), seconds))
                    ),
                }
            }
            _ => self.summary(what, summary, elapsed),
        }
    }

    /// The summary of one of several destinations, whose name stands before it.
    pub(super) fn one_line(&self, summary: &TransferSummary, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        let status = match summary.status {
            Status::Interrupted => "interrupted; the same command resumes it".to_owned(),
            Status::Partial => partial(summary.failed),
            Status::Complete => headline(summary).to_owned(),
            other => format!("{}; see the messages above", other.name()),
        };
        if !summary.began {
            return status;
        }
        if status == UP_TO_DATE {
            return format!("{status}{}, {seconds:.2} s", others(summary));
        }
        let mut text = format!(
            "{status}: {}{}, {seconds:.2} s, {}",
            amount(summary),
            others(summary),
            human_rate(rate_of(summary.bytes.unwrap_or(0), seconds))
        );
        if let Some(bottleneck) = &summary.bottleneck
            && elapsed >= Duration::from_secs(1)
        {
            let _ = write!(text, ", limited by {}", limited(bottleneck));
        }
        text
    }

    pub(super) fn summary(
        &self,
        what: Option<&str>,
        summary: &TransferSummary,
        elapsed: Duration,
    ) -> String {
        let seconds = elapsed.as_secs_f64();
        let rate = rate_of(summary.bytes.unwrap_or(0), seconds);
        let status = match summary.status {
            Status::Interrupted => "interrupted; the same command resumes it".to_owned(),
            Status::Partial => partial(summary.failed),
            Status::Complete if summary.dry_run => {
                "complete; a dry run, so nothing was changed: this is what would be done".to_owned()
            }
            other => other.name().to_owned(),
        };
        let delivered = match summary.dry_run {
            true => "to deliver",
            false => "delivered",
        };
        let headline = headline(summary);
        let mut text = what.map_or_else(String::new, |what| format!("{headline:<12}{what}\n"));
        let _ = write!(
            text,
            "status      {status}\n\
             {delivered:<12}{}{}",
            amount(summary),
            others(summary),
        );
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
        if let Some(by) = &summary.encryption {
            let _ = write!(text, "\nencrypted   {}", printable(&by.to_string()));
        }
        // The beginning and the end limit a transfer of less than a second.
        if let Some(bottleneck) = &summary.bottleneck
            && elapsed >= Duration::from_secs(1)
        {
            let _ = write!(text, "\nlimited by  {}", limited(bottleneck));
            if let Some(advice) = &bottleneck.evidence.advice {
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

    pub(super) fn verified(&self, summary: &VerifySummary, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        format!(
            "status      {}\nverified    {}, {}\ndifferent   {}\nextra       {}\ntime        {seconds:.2} s, {}",
            summary.status.name(),
            counted(summary.entries, "entry"),
            human_size(summary.bytes),
            summary.different,
            summary.extra,
            human_rate(rate_of(summary.bytes, seconds)),
        )
    }
}

/// The status of a transfer with failures. If many entries fail for one reason, only the first few are named.
fn partial(failed: u64) -> String {
    match failed {
        0 => "partial; see the messages above".to_owned(),
        failed => format!("partial; {} failed, see above", counted(failed, "entry")),
    }
}

/// The result of the transfer in at most eleven letters: its effect, not its purpose.
fn headline(summary: &TransferSummary) -> &'static str {
    let did = summary.files + summary.adjusted + summary.deleted > 0;
    match summary.status {
        _ if summary.dry_run => "would copy",
        Status::Interrupted => "copying",
        Status::Failed => "not copied",
        Status::Partial if !did => "not copied",
        Status::Partial => "copied part",
        Status::Complete if !did && summary.skipped > 0 => UP_TO_DATE,
        Status::Complete => "copied",
    }
}

/// The headline of a transfer that found everything there.
const UP_TO_DATE: &str = "up to date";

/// The summary of a dry run in one line.
pub(super) fn dry_run(summary: &TransferSummary) -> String {
    let (status, amount) = (summary.status.name(), amount(summary));
    format!(
        "{status}; a dry run, so nothing was changed: would copy {amount}{}",
        others(summary)
    )
}

/// The counts of other entries than delivered ones.
fn others(summary: &TransferSummary) -> String {
    let [adjusted, deleted] = match summary.dry_run {
        true => ["to adjust", "to delete"],
        false => ["adjusted", "deleted"],
    };
    let counts = [
        ("skipped", summary.skipped),
        ("excluded", summary.excluded),
        (adjusted, summary.adjusted),
        (deleted, summary.deleted),
        ("failed", summary.failed),
    ];
    let counts = counts.iter().filter(|(_, number)| *number > 0);
    counts
        .map(|(name, number)| format!(", {number} {name}"))
        .collect()
}

/// A transfer of less time has its summary in one line.
const SHORT: Duration = Duration::from_secs(10);

/// The mean rate.
fn rate_of(bytes: u64, seconds: f64) -> u64 {
    whole(bytes as f64 / seconds.max(0.001))
}

/// The bytes and files of a summary.
fn amount(summary: &TransferSummary) -> String {
    let files = counted(summary.files, "file");
    match summary.bytes {
        None => format!("{files} of unknown size"),
        Some(bytes) => format!("{} in {files}", human_size(bytes)),
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

#[cfg(test)]
mod tests {
    use godwit_api::event::{Encryption, Evidence, Limited, ManifestDone, NotKept};
    use godwit_api::rest::Bottleneck;

    use super::*;

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
                stage: Bottleneck::SourceStorage,
                evidence: Evidence {
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
            encryption: Some(Encryption {
                cipher: "aes-128-gcm".to_owned(),
                library: "ring".to_owned(),
                plain_contents: true,
            }),
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
                "encrypted   aes-128-gcm by ring, contents plain",
                "limited by  source storage: 2 MB/s read",
                "            do something",
                "manifest    m, 1 entry, blake3:00",
            ]
        );
    }

    #[test]
    fn each_of_several_destinations_has_a_line() {
        let line = |summary: &TransferSummary| PlainLines.one_line(summary, Duration::from_secs(2));
        let copied = TransferSummary {
            status: Status::Complete,
            bytes: Some(3_000_000),
            files: 4,
            began: true,
            ..TransferSummary::default()
        };
        assert_eq!(
            line(&copied),
            "copied: 3.00 MB in 4 files, 2.00 s, 1.50 MB/s"
        );
        let same = TransferSummary {
            bytes: Some(0),
            files: 0,
            skipped: 4,
            ..copied.clone()
        };
        assert_eq!(line(&same), "up to date, 4 skipped, 2.00 s");
        let refused = TransferSummary::default();
        assert_eq!(line(&refused), "failed; see the messages above");
    }

    #[test]
    fn a_small_copy_is_one_line_that_is_true() {
        let short = |summary: &TransferSummary, seconds| {
            PlainLines.short_summary(Some("a to b"), summary, Duration::from_secs(seconds))
        };
        let copied = TransferSummary {
            status: Status::Complete,
            bytes: Some(3_000_000),
            files: 4,
            excluded: 3,
            ..TransferSummary::default()
        };
        let line = "copied a to b: 3.00 MB in 4 files, 3 excluded, 2.00 s, 1.50 MB/s";
        assert_eq!(short(&copied, 2), line);
        assert!(short(&copied, 20).lines().count() > 3);
        let same = TransferSummary {
            files: 0,
            bytes: Some(0),
            skipped: 4,
            ..copied.clone()
        };
        let line = "up to date: a to b, 4 skipped, 3 excluded, 2.00 s";
        assert_eq!(short(&same, 2), line);
        for (files, headline) in [(0, "not copied  a to b\n"), (4, "copied part a to b\n")] {
            let partial = TransferSummary {
                status: Status::Partial,
                files,
                failed: 1,
                ..copied.clone()
            };
            let text = short(&partial, 2);
            assert!(text.starts_with(headline), "{text}");
            let status = "\nstatus      partial; 1 entry failed, see above\n";
            assert!(text.contains(status), "{text}");
        }
        // Only ten of them were named.
        assert_eq!(partial(3_000), "partial; 3000 entries failed, see above");
        assert_eq!(partial(0), "partial; see the messages above");
    }
}
