//! Owns the files of one attempt of a job: its log and its samples, as JSON lines.
//! Makes no decision by the records; `read` reads them for other modules.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use godwit_api::rest::{LineOrigin, LogLine, SampleView, Timestamp};

use crate::now;
use crate::read::{LOG, SAMPLES, directory, each_after, read_lines, size};

/// Most bytes in the log of a job: some 50,000 failed entries. Later lines are counted, not kept.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// Most samples of a job. At this number every second sample is removed, and later samples are taken half as often.
const SAMPLES_MAX: usize = 2_048;

/// Bytes of a job's samples, after which they are thinned out in the same way: more than twice the samples of a transfer with all figures.
const SAMPLES_BYTES_MAX: usize = 12 << 20;

/// Time between samples at the beginning, in milliseconds.
const SAMPLE_EVERY_MS: i64 = 1_000;

/// Writes log and samples of one attempt.
pub struct Recorder {
    directory: PathBuf,
    attempt: u32,
    log: Option<File>,
    log_bytes: u64,
    seq: u64,
    /// The last line that was copied from another site.
    copied: Option<LineOrigin>,
    samples: Vec<SampleView>,
    samples_bytes: usize,
    file: Option<File>,
    every_ms: i64,
}

/// Makes the directory for the files of a job.
///
/// # Errors
/// The directory cannot be made.
pub fn make_directory(base: &Path, id: &str) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(directory(base, id))
}

impl Recorder {
    /// Continues the files of the job. Data that cannot be written is left out: the job matters more.
    pub fn open(base: &Path, id: &str, attempt: u32) -> Self {
        let directory = directory(base, id);
        let made = make_directory(base, id);
        let append = |name: &str| {
            made.as_ref().ok()?;
            OpenOptions::new()
                .append(true)
                .create(true)
                .mode(0o600)
                .open(directory.join(name))
                .ok()
        };
        let log = append(LOG);
        let log_bytes = log
            .as_ref()
            .and_then(|log| log.metadata().ok())
            .map_or(0, |meta| meta.len());
        let (seq, copied) = last_lines(&directory.join(LOG));
        let samples: Vec<SampleView> = read_lines(&directory.join(SAMPLES)).unwrap_or_default();
        let mut recorder = Self {
            file: append(SAMPLES),
            directory,
            attempt,
            log,
            log_bytes,
            seq,
            copied,
            every_ms: SAMPLE_EVERY_MS,
            samples_bytes: samples.iter().map(bytes_of).sum(),
            samples,
        };
        recorder.every_ms = recorder.usual_distance();
        recorder.thin_out();
        recorder
    }

    /// The usual distance of the existing samples.
    fn usual_distance(&self) -> i64 {
        let distances = self
            .samples
            .windows(2)
            .filter(|pair| pair[0].attempt == pair[1].attempt)
            .map(|pair| pair[1].at.0.saturating_sub(pair[0].at.0));
        let least = distances.min().unwrap_or(SAMPLE_EVERY_MS);
        let mut every = SAMPLE_EVERY_MS;
        while every.saturating_mul(2) <= least {
            every *= 2;
        }
        every
    }

    /// Adds a line to the log.
    pub fn log(&mut self, event: serde_json::Value) {
        self.write(now(), event, None);
    }

    /// Adds a line that another site wrote. One that is here already is passed over.
    pub fn copy_line(&mut self, site: &str, job: &str, line: LogLine) {
        if line.seq <= self.copied_line(site, job) {
            return;
        }
        let origin = LineOrigin {
            site: site.to_owned(),
            job: job.to_owned(),
            seq: line.seq,
        };
        self.copied = Some(origin.clone());
        self.write(line.at, line.event, Some(origin));
    }

    /// Number of the last line that was copied from the log of this job of another site.
    pub fn copied_line(&self, site: &str, job: &str) -> u64 {
        let copied = self.copied.as_ref();
        let copied = copied.filter(|last| last.site == site && last.job == job);
        copied.map_or(0, |last| last.seq)
    }

    /// Adds a sample of another site. One that is here already is passed over.
    pub fn copy_sample(&mut self, site: &str, sample: SampleView) {
        if sample.at > self.copied_sample(site) {
            self.sample(SampleView {
                attempt: self.attempt,
                site: Some(site.to_owned()),
                ..sample
            });
        }
    }

    /// Time of the newest sample that was copied from this site.
    pub fn copied_sample(&self, site: &str) -> Timestamp {
        let of_site = |sample: &&SampleView| sample.site.as_deref() == Some(site);
        let last = self.samples.iter().rev().find(of_site);
        last.map_or(Timestamp(0), |sample| sample.at)
    }

    fn write(&mut self, at: Timestamp, event: serde_json::Value, from: Option<LineOrigin>) {
        self.seq += 1;
        let line = LogLine {
            seq: self.seq,
            at,
            attempt: self.attempt,
            event,
            from,
            node: None,
        };
        if self.log_bytes >= LOG_BYTES_MAX {
            return;
        }
        let Ok(mut text) = serde_json::to_string(&line) else {
            return;
        };
        text.push('\n');
        if let Some(log) = &mut self.log
            && log.write_all(text.as_bytes()).is_ok()
        {
            self.log_bytes += text.len() as u64;
        }
    }

    /// Whether it is time for another sample.
    pub fn is_due(&self) -> bool {
        let Some(last) = self.samples.last() else {
            return true;
        };
        // A clock that was set back does not end the samples.
        let since = now().0.saturating_sub(last.at.0);
        last.attempt != self.attempt || since >= self.every_ms || since < 0
    }

    /// The last sample of this attempt.
    pub fn last(&self) -> Option<&SampleView> {
        self.samples
            .last()
            .filter(|sample| sample.attempt == self.attempt)
    }

    /// The last sample that this node took of the attempt before.
    pub fn before(&self) -> Option<&SampleView> {
        let is_before =
            |sample: &&SampleView| sample.site.is_none() && sample.attempt + 1 == self.attempt;
        self.samples.iter().rev().find(is_before)
    }

    /// Adds a sample.
    pub fn sample(&mut self, sample: SampleView) {
        if let (Some(file), Ok(mut text)) = (&mut self.file, serde_json::to_string(&sample)) {
            text.push('\n');
            // A line that cannot be written is missing in the report, and nowhere else.
            let _ = file.write_all(text.as_bytes());
        }
        self.samples_bytes += bytes_of(&sample);
        self.samples.push(sample);
        self.thin_out();
    }

    /// Removes every second sample until there are no more than may be.
    fn thin_out(&mut self) {
        let mut is_thinned = false;
        while self.samples.len() >= SAMPLES_MAX || self.samples_bytes > SAMPLES_BYTES_MAX {
            let mut number = 0_usize;
            self.samples.retain(|_| {
                number += 1;
                number.is_multiple_of(2)
            });
            self.samples_bytes = self.samples.iter().map(bytes_of).sum();
            self.every_ms = self.every_ms.saturating_mul(2);
            is_thinned = true;
        }
        if is_thinned {
            self.rewrite();
        }
    }

    fn rewrite(&mut self) {
        let path = self.directory.join(SAMPLES);
        let temporary = self.directory.join(".samples");
        let mut text = String::new();
        for sample in &self.samples {
            text.push_str(&serde_json::to_string(sample).unwrap_or_default());
            text.push('\n');
        }
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&temporary, &path))
            .and_then(|()| OpenOptions::new().append(true).open(&path));
        // Without it the file grows on, and nothing else is wrong.
        if let Ok(file) = written {
            self.file = Some(file);
        }
    }
}

/// Bytes of the line of a sample.
fn bytes_of(sample: &SampleView) -> usize {
    size(sample) + 1
}

/// The number of the last whole line of a log, and the origin of the last line that another site wrote.
fn last_lines(path: &Path) -> (u64, Option<LineOrigin>) {
    let (mut seq, mut from) = (0, None);
    // A log that cannot be read begins again.
    let _unreadable = each_after(path, 0, 0, &mut |line| {
        seq = line.seq;
        from = line.from.or_else(|| from.take());
        true
    });
    (seq, from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{each_line, read_samples, remove};

    #[test]
    fn the_log_continues_with_the_next_attempt_and_passes_over_a_cut_line() {
        let base = tempfile::tempdir().expect("a directory");
        let mut first = Recorder::open(base.path(), "j", 1);
        first.log(serde_json::json!({"event": "started"}));
        first.log(serde_json::json!({"event": "error"}));
        drop(first);
        let path = base.path().join("j").join(LOG);
        let mut file = OpenOptions::new().append(true).open(&path).expect("open");
        file.write_all(b"{\"seq\":3,\"at\n").expect("written");
        let mut second = Recorder::open(base.path(), "j", 2);
        second.log(serde_json::json!({"event": "summary"}));
        let seen = || {
            let mut seen: Vec<(u64, u32)> = Vec::new();
            each_line(base.path(), "j", 1, &mut |line| {
                seen.push((line.seq, line.attempt));
                true
            })
            .expect("the log");
            seen
        };
        assert_eq!(seen(), [(2, 1), (3, 2)]);
        remove(base.path(), "j").expect("removed");
        assert!(seen().is_empty());
    }

    #[test]
    fn samples_are_thinned_out_and_stay_in_order() {
        let base = tempfile::tempdir().expect("a directory");
        let mut recorder = Recorder::open(base.path(), "j", 1);
        for second in 0..10_000_i64 {
            if second * 1_000 % recorder.every_ms > 0 {
                continue;
            }
            recorder.sample(SampleView {
                at: Timestamp(second * 1_000),
                attempt: 1,
                ..SampleView::default()
            });
        }
        let samples = read_samples(base.path(), "j").expect("samples");
        assert!((SAMPLES_MAX / 2..SAMPLES_MAX).contains(&samples.len()));
        assert!(samples.is_sorted_by_key(|sample| sample.at));
        assert!(Recorder::open(base.path(), "j", 1).every_ms > SAMPLE_EVERY_MS);
    }
}
