//! Owns the time line of a report: the first and the last events of a log, however long the log is.
//! Reads no file.

use std::collections::VecDeque;

use godwit_api::rest::LogLine;

use crate::read::size;

/// Events of the log that belong on the time line.
const ON_TIME_LINE: [&str; 9] = [
    "started",
    "tuning",
    "connection_lost",
    "connection_regained",
    "paused",
    "note",
    "error",
    "summary",
    "channels",
];

/// First lines of a long job, and as many last ones.
const HALF_LINES_MAX: usize = 500;

/// Bytes of each half. A line takes four times its bytes in memory, so that a time line takes 16 MiB at most.
const HALF_BYTES_MAX: usize = 2 << 20;

/// Collects the lines of a time line from those of a log.
#[derive(Debug, Default)]
pub struct TimeLine {
    first: Vec<LogLine>,
    first_bytes: usize,
    is_long: bool,
    /// Each with its bytes.
    last: VecDeque<(LogLine, usize)>,
    last_bytes: usize,
}

impl TimeLine {
    /// Takes the next line of a log; other events do not belong here.
    pub fn add(&mut self, line: LogLine) {
        let event = line.event["event"].as_str().unwrap_or_default();
        if !ON_TIME_LINE.contains(&event) {
            return;
        }
        let bytes = size(&line);
        let fits = self.first.len() < HALF_LINES_MAX && self.first_bytes + bytes <= HALF_BYTES_MAX;
        self.is_long |= !fits;
        if !self.is_long {
            self.first.push(line);
            self.first_bytes += bytes;
            return;
        }
        self.last.push_back((line, bytes));
        self.last_bytes += bytes;
        while self.last.len() > HALF_LINES_MAX || self.last_bytes > HALF_BYTES_MAX {
            let Some((_, bytes)) = self.last.pop_front() else {
                break;
            };
            self.last_bytes -= bytes;
        }
    }

    /// The lines, the oldest first.
    pub(super) fn into_lines(self) -> Vec<LogLine> {
        let last = self.last.into_iter().map(|(line, _)| line);
        self.first.into_iter().chain(last).collect()
    }
}

#[cfg(test)]
mod tests {
    use godwit_api::rest::Timestamp;

    use super::*;

    fn line(seq: u64, event: &str, message: &str) -> LogLine {
        LogLine {
            seq,
            at: Timestamp(0),
            attempt: 1,
            event: serde_json::json!({"event": event, "message": message}),
            from: None,
            node: None,
        }
    }

    fn kept(count: u64, message: &str) -> Vec<u64> {
        let mut time_line = TimeLine::default();
        for number in 1..=count {
            time_line.add(line(number * 2, "note", message));
            time_line.add(line(number * 2 + 1, "failed", message));
        }
        let lines = time_line.into_lines().into_iter();
        lines.map(|line| line.seq / 2).collect()
    }

    #[test]
    fn a_long_log_is_left_with_its_beginning_and_its_end() {
        assert!(kept(1_000, "x").into_iter().eq(1..=1_000));
        let ends = (1..=500).chain(4_501..=5_000);
        assert!(kept(5_000, "x").into_iter().eq(ends));
    }

    #[test]
    fn long_lines_are_fewer() {
        let long = "x".repeat(60 << 10);
        let kept = kept(400, &long);
        assert_eq!((kept[0], kept[kept.len() - 1]), (1, 400));
        assert!((60..70).contains(&kept.len()), "{}", kept.len());
    }
}
