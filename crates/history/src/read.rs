//! Owns the reading of a job's files beside the state, and their removal.
//! Writes nothing; a job whose files are gone still runs.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use godwit_api::ask::JobPast;
use godwit_api::rest::{LogLine, SampleView, Timestamp};
use thiserror::Error;

/// Lines and bytes of one answer to another site; a document between nodes holds twice as many bytes.
const PAST_LINES_MAX: usize = 2_000;
const PAST_BYTES_MAX: usize = 512 << 10;

/// A position after all possible lines, for callers that want only samples.
pub const NO_LINES: u64 = u64::MAX;
/// After all samples that there may be, where only lines are wanted: 9999-12-31.
pub const NO_SAMPLES: Timestamp = Timestamp(253_402_214_400_000);

pub(crate) const LOG: &str = "log.jsonl";
pub(crate) const SAMPLES: &str = "samples.jsonl";
const MANIFEST: &str = "manifest";

/// A file that is kept of a job cannot be read.
#[derive(Debug, Error)]
#[error("{path}: {source}", path = path.display())]
pub struct Unreadable {
    /// The file.
    pub path: PathBuf,
    /// The answer of the system.
    pub source: io::Error,
}

pub(crate) fn directory(base: &Path, id: &str) -> PathBuf {
    base.join(id)
}

/// Opens a file, if it exists.
fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads whole lines; one that was cut by a power failure is passed over.
pub(crate) fn read_lines<T: serde::de::DeserializeOwned>(path: &Path) -> io::Result<Vec<T>> {
    let mut lines = Vec::new();
    let Some(file) = open(path)? else {
        return Ok(lines);
    };
    for line in BufReader::new(file).split(b'\n') {
        if let Ok(value) = serde_json::from_slice(&line?) {
            lines.push(value);
        }
    }
    Ok(lines)
}

fn unreadable(path: PathBuf) -> impl FnOnce(io::Error) -> Unreadable {
    move |source| Unreadable { path, source }
}

/// Calls `take` for each line of attempt `attempt` or later ones after number `after`, until it returns false. It reads only the numbers of
/// earlier lines, and keeps one line at a time.
pub(crate) fn each_after(
    path: &Path,
    attempt: u32,
    after: u64,
    take: &mut dyn FnMut(LogLine) -> bool,
) -> io::Result<()> {
    let Some(mut file) = open(path)? else {
        return Ok(());
    };
    let begin = begin_after(&mut file, after)?;
    file.seek(SeekFrom::Start(begin))?;
    for text in BufReader::new(file).split(b'\n') {
        let text = text?;
        if number_of(&text).is_some_and(|number| number <= after) {
            continue;
        }
        if let Ok(line) = serde_json::from_slice::<LogLine>(&text)
            && line.seq > after
            && line.attempt >= attempt
            && !take(line)
        {
            break;
        }
    }
    Ok(())
}

/// Less than this is read through.
const NEAR_BYTES: u64 = 64 << 10;

/// The offset from which to read the lines after number `after`. Numbers rise within a log, so each step skips half of the rest: a query for the end
/// of a long log costs no more than one for its beginning.
fn begin_after(file: &mut File, after: u64) -> io::Result<u64> {
    let (mut low, mut high) = (0, file.metadata()?.len());
    while after > 0 && high - low > NEAR_BYTES {
        let middle = low + (high - low) / 2;
        match first_after(file, middle, high)? {
            Some((begin, number)) if number <= after => low = begin,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The first line with a number that begins behind `from`, and before `until`: its place and its number.
fn first_after(file: &mut File, from: u64, until: u64) -> io::Result<Option<(u64, u64)>> {
    file.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::new(file);
    let mut text = Vec::new();
    // The rest of the current line.
    let mut at = from + reader.read_until(b'\n', &mut text)? as u64;
    while at < until {
        text.clear();
        let bytes = reader.read_until(b'\n', &mut text)?;
        match number_of(&text) {
            _ if bytes == 0 => return Ok(None),
            Some(number) => return Ok(Some((at, number))),
            None => at += bytes as u64,
        }
    }
    Ok(None)
}

/// The number of a line as the recorder writes it: before all other fields.
fn number_of(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"{\"seq\":")?;
    let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}

/// Calls `take` for each line after number `after`, until it returns false.
pub fn each_line(
    base: &Path,
    id: &str,
    after: u64,
    take: &mut dyn FnMut(LogLine) -> bool,
) -> Result<(), Unreadable> {
    let path = directory(base, id).join(LOG);
    each_after(&path, 0, after, take).map_err(unreadable(path))
}

/// The lines after `line`, of attempt `attempt` or later, and the samples after `sample`, as many as one answer to another node holds.
pub fn read_past(
    base: &Path,
    id: &str,
    attempt: u32,
    line: u64,
    sample: Timestamp,
) -> Result<JobPast, Unreadable> {
    let path = directory(base, id).join(LOG);
    let (mut past, mut bytes) = (JobPast::default(), 0);
    if line != NO_LINES {
        let mut take = |line: LogLine| {
            bytes += size(&line);
            let is_full = past.lines.len() == PAST_LINES_MAX || bytes > PAST_BYTES_MAX;
            past.more = is_full && !past.lines.is_empty();
            if !past.more {
                past.lines.push(line);
            }
            !past.more
        };
        each_after(&path, attempt, line, &mut take).map_err(unreadable(path))?;
    }
    if past.more && bytes > PAST_BYTES_MAX {
        return Ok(past);
    }
    let samples = match sample {
        NO_SAMPLES => Vec::new(),
        _ => read_samples(base, id)?,
    };
    for sample in samples.into_iter().filter(|each| each.at > sample) {
        bytes += size(&sample);
        if bytes > PAST_BYTES_MAX {
            past.more = true;
            break;
        }
        past.samples.push(sample);
    }
    Ok(past)
}

/// Bytes of a document as JSON.
pub fn size(document: &impl serde::Serialize) -> usize {
    serde_json::to_vec(document).map_or(0, |text| text.len())
}

/// All samples of a job.
pub fn read_samples(base: &Path, id: &str) -> Result<Vec<SampleView>, Unreadable> {
    let path = directory(base, id).join(SAMPLES);
    read_lines(&path).map_err(unreadable(path))
}

/// The file for the manifest of a job.
pub fn manifest_path(base: &Path, id: &str) -> PathBuf {
    directory(base, id).join(MANIFEST)
}

/// Opens the manifest of a job, if there is one.
pub fn open_manifest(base: &Path, id: &str) -> Result<Option<File>, Unreadable> {
    let path = manifest_path(base, id);
    open(&path).map_err(unreadable(path))
}

/// Ids of the jobs that have files.
pub fn job_ids(base: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(base) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Bytes of a job's files beside the state; a file that is gone meanwhile counts 0.
pub fn bytes(base: &Path, id: &str) -> u64 {
    let files = fs::read_dir(directory(base, id)).into_iter().flatten();
    let sizes = files.flatten().filter_map(|file| file.metadata().ok());
    sizes.map(|meta| meta.len()).sum()
}

/// Removes a job's files beside the state.
pub fn remove(base: &Path, id: &str) -> io::Result<()> {
    match fs::remove_dir_all(directory(base, id)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_after(
        path: &Path,
        attempt: u32,
        after: u64,
        limit: usize,
    ) -> io::Result<Vec<LogLine>> {
        let mut lines = Vec::new();
        each_after(path, attempt, after, &mut |line| {
            lines.push(line);
            lines.len() < limit
        })?;
        Ok(lines)
    }

    #[test]
    fn an_answer_to_another_node_ends_with_its_bytes_and_the_next_one_continues() {
        let base = tempfile::tempdir().expect("a directory");
        fs::create_dir(base.path().join("j")).expect("made");
        let text: String = (1..=40)
            .map(|number| {
                let line = LogLine {
                    seq: number,
                    at: Timestamp(0),
                    attempt: 1,
                    event: serde_json::json!({"event": "e".repeat(60 << 10)}),
                    from: None,
                    node: None,
                };
                serde_json::to_string(&line).expect("text") + "\n"
            })
            .collect();
        fs::write(base.path().join("j").join(LOG), text).expect("written");
        let (mut seen, mut answers) = (Vec::new(), 0);
        loop {
            let after = seen.last().copied().unwrap_or(0);
            let past = read_past(base.path(), "j", 1, after, NO_SAMPLES).expect("read");
            let bytes: usize = past.lines.iter().map(size).sum();
            assert!(bytes <= PAST_BYTES_MAX, "{bytes}");
            seen.extend(past.lines.iter().map(|line| line.seq));
            answers += 1;
            if !past.more {
                break;
            }
        }
        assert!(seen.into_iter().eq(1..=40));
        assert_eq!(answers, 5);
    }

    #[test]
    fn the_end_of_a_long_log_is_found_without_what_is_before_it() {
        let base = tempfile::tempdir().expect("a directory");
        fs::create_dir(base.path().join("j")).expect("made");
        let path = base.path().join("j").join(LOG);
        // Numbers have gaps, and a line was cut.
        let line = |number: u64| {
            let event = "e".repeat(usize::try_from(number % 97).expect("few"));
            let line = LogLine {
                seq: number * 3,
                at: Timestamp(0),
                attempt: 1,
                event: serde_json::json!({"event": event}),
                from: None,
                node: None,
            };
            serde_json::to_string(&line).expect("text")
        };
        let mut text: Vec<String> = (1..=20_000).map(line).collect();
        text[10_000].truncate(4);
        fs::write(&path, text.join("\n") + "\n").expect("written");
        let length = fs::metadata(&path).expect("there").len();
        assert!(length > 20 * NEAR_BYTES);
        for after in [
            0, 1, 3, 29_999, 30_000, 30_003, 30_004, 59_990, 60_000, 70_000,
        ] {
            let read = lines_after(&path, 0, after, 3).expect("read");
            let read: Vec<u64> = read.into_iter().map(|line| line.seq).collect();
            let expected = (1..=20_000).map(|number| number * 3);
            let expected = expected.filter(|number| *number > after && *number != 30_003);
            let expected: Vec<u64> = expected.take(3).collect();
            assert_eq!(read, expected, "after {after}");
            let mut file = File::open(&path).expect("there");
            let begin = begin_after(&mut file, after).expect("read");
            let passed = u64::min(after / 3, 20_000) * length / 20_000;
            assert!(begin + 3 * NEAR_BYTES >= passed, "after {after}: {begin}");
        }
        assert!(lines_after(&path, 2, 30_000, 3).expect("read").is_empty());
    }
}
