//! Owns the file in which the rates of the last day outlive the node: one line for each step.
//! Knows nothing of jobs. Values that cannot be written are missing in the charts after the next start, and nowhere else.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use godwit_api::rest::Timestamp;
use serde::{Deserialize, Serialize};

use crate::rates::{Key, STEPS_MAX, Step};

/// Its name in the home of the node.
const NAME: &str = "rates.jsonl";

/// A day in milliseconds.
const DAY_MS: i64 = 86_400_000;

/// One line.
#[derive(Deserialize, Serialize)]
struct Line {
    at: Timestamp,
    rates: Vec<(Key, f64)>,
}

/// The file.
pub(crate) struct RatesFile {
    path: PathBuf,
    /// The file with the number of its lines; None while it cannot be written.
    file: Mutex<Option<(File, usize)>>,
}

impl RatesFile {
    /// The file beside the directory of the jobs.
    pub(crate) fn beside(jobs: &Path) -> Self {
        let home = jobs.parent().unwrap_or(jobs);
        Self {
            path: home.join(NAME),
            file: Mutex::default(),
        }
    }

    /// Reads the steps of the last day, the oldest first, and removes older ones from the file.
    pub(crate) fn open(self, now: Timestamp) -> (Self, Vec<(Timestamp, Step)>) {
        let oldest = now.0.saturating_sub(DAY_MS);
        let mut lines = self.read();
        lines.retain(|line| (oldest..=now.0).contains(&line.at.0));
        let surplus = lines.len().saturating_sub(STEPS_MAX);
        lines.drain(..surplus);
        lines.sort_by_key(|line| line.at);
        self.write(&lines);
        let steps = lines.into_iter();
        let steps = steps.map(|line| (line.at, line.rates.into_iter().collect()));
        let steps = steps.collect();
        (self, steps)
    }

    /// Adds a step that ended.
    pub(crate) fn add(&self, at: Timestamp, step: &Step) {
        let rates = step.iter().map(|(key, rate)| (key.clone(), *rate));
        let rates = rates.collect();
        let Some(text) = text(&Line { at, rates }) else {
            return;
        };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((open, count)) = file.as_mut() else {
            return;
        };
        let _ = open.write_all(text.as_bytes());
        *count += 1;
        let is_long = *count > 2 * STEPS_MAX;
        drop(file);
        if is_long {
            let lines = self.read();
            let surplus = lines.len().saturating_sub(STEPS_MAX);
            self.write(lines.get(surplus..).unwrap_or_default());
        }
    }

    /// The lines of the file. A line that was cut by a crash is skipped.
    fn read(&self) -> Vec<Line> {
        let Ok(file) = File::open(&self.path) else {
            return Vec::new();
        };
        let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
        lines
            .filter_map(|line| serde_json::from_slice(&line).ok())
            .collect()
    }

    /// Writes the file again, under another name first.
    fn write(&self, lines: &[Line]) {
        let text: String = lines.iter().filter_map(text).collect();
        let temporary = self.path.with_extension("new");
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&temporary, &self.path))
            .and_then(|()| OpenOptions::new().append(true).open(&self.path));
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        *file = written.ok().map(|file| (file, lines.len()));
    }
}

fn text(line: &Line) -> Option<String> {
    let text = serde_json::to_string(line).ok()?;
    Some(text + "\n")
}
