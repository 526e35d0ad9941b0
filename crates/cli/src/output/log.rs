//! The log file: events as JSON lines, each with its time, appended.
//! Decides nothing about the events. An unwritable log does not stop a transfer; the error is reported once.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use godwit_api::rest::Timestamp;

use super::complain;
use crate::exit::{Failure, FailureCode};

/// Interval between logged progress events.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// An open log.
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    reported: Option<Instant>,
    broken: bool,
}

impl Log {
    /// Opens or makes the log.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::options()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|error| {
                Failure::new(
                    FailureCode::ReportUnusable,
                    format!("--log-file {}: {error}", path.display()),
                )
                .about(path.display())
            })?;
        Ok(Self {
            path: path.to_owned(),
            file,
            reported: None,
            broken: false,
        })
    }

    /// Appends an event in one write, so that events of several processes do not mix.
    pub(super) fn write(&mut self, event: &str) {
        let Some(rest) = event.strip_prefix('{') else {
            return;
        };
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let line = format!("{{\"time\":\"{}\",{rest}\n", time(since));
        if let Err(error) = self.file.write_all(line.as_bytes())
            && !std::mem::replace(&mut self.broken, true)
        {
            complain(&format!(
                "--log-file {}: {error}; the log is incomplete",
                self.path.display()
            ));
        }
    }

    /// Appends progress, unless the last one is too recent.
    pub(super) fn progress(&mut self, now: Instant, event: impl FnOnce() -> String) {
        let due = self
            .reported
            .is_none_or(|reported| now.saturating_duration_since(reported) >= PROGRESS_EVERY);
        if due {
            self.reported = Some(now);
            self.write(&event());
        }
    }
}

/// A time since 1970 as `2026-02-28T23:59:59.123Z`.
fn time(since: Duration) -> String {
    let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    Timestamp(millis).rfc3339()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (951_868_800, "2000-03-01T00:00:00.007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            assert_eq!(time(Duration::new(seconds, 7_000_000)), text);
        }
    }
}
