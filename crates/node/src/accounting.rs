//! Owns the accounting of a node: one line of JSON for each transfer that ended, in a file a day.
//! Decides nothing about transfers, and loses a line rather than hold one up.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use godwit_api::civil_date;
use godwit_api::record::{TransferRecord, TransferStart};
use godwit_api::rest::Timestamp;

const DAY_MILLIS: i64 = 86_400_000;

/// Bytes of the records of one day: some hundred thousand transfers. A peer may begin and end transfers without end.
const DAY_BYTES_MAX: u64 = 64 << 20;

/// Bytes of one identity or one user in a day. The rest is for the records of others.
const DAY_BYTES_OF_ONE_MAX: u64 = DAY_BYTES_MAX / 8;

/// Most bytes of all records; the oldest days are removed first.
const ALL_BYTES_MAX: u64 = 2 << 30;

/// The directory of the records in a home.
pub fn directory(home: &Path) -> PathBuf {
    home.join("accounting")
}

/// Writes records.
pub struct Accounting {
    directory: PathBuf,
    keep: Duration,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// Day of the file, counted from 1970.
    day: i64,
    file: Option<File>,
    /// Length of the file.
    bytes: u64,
    /// The last record could not be written, and that was reported.
    complained: bool,
    /// The records of each identity or user since this process began the day.
    shares: HashMap<String, Usage>,
}

#[derive(Default)]
struct Usage {
    bytes: u64,
    /// It took all of its room, and that was reported.
    complained: bool,
}

impl Accounting {
    /// Records below `home`, each kept for `keep`; nothing is written yet.
    pub fn new(home: &Path, keep: Duration) -> Self {
        Self {
            directory: directory(home),
            keep,
            open: Mutex::default(),
        }
    }

    /// Writes a record down. Returns a message for the operator, once for each trouble.
    pub fn add(&self, record: &TransferRecord) -> Option<String> {
        let mut line = serde_json::to_string(record).ok()?;
        line.push('\n');
        let day = record.ended.0.div_euclid(DAY_MILLIS);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.day != day {
            open.shares.clear();
        }
        let all = takers(&record.start);
        let bytes = line.len() as u64;
        let has_room = |who: &&String| {
            let taken = open.shares.get(*who).map_or(0, |share| share.bytes);
            taken + bytes <= DAY_BYTES_OF_ONE_MAX
        };
        let free = all.iter().find(has_room);
        let who = free.or_else(|| all.first()).cloned().unwrap_or_default();
        let is_full = free.is_none();
        let share = open.shares.entry(who.clone()).or_default();
        share.bytes += bytes;
        if is_full {
            let is_new = !std::mem::replace(&mut share.complained, true);
            return is_new.then(|| {
                format!(
                    "{}: the records of {} take all of their room of this day; its later transfers of the day have no record",
                    self.directory.display(),
                    if who.is_empty() { "this node" } else { &who }
                )
            });
        }
        let Err(error) = self.write(&mut open, day, &line) else {
            open.complained = false;
            return None;
        };
        if error.kind() != io::ErrorKind::QuotaExceeded {
            open.file = None;
        }
        if std::mem::replace(&mut open.complained, true) {
            return None;
        }
        Some(format!(
            "{}: {error}; records of transfers are lost until this file can be written",
            self.directory.display()
        ))
    }

    fn write(&self, open: &mut Open, day: i64, line: &str) -> io::Result<()> {
        let bytes = line.len() as u64;
        self.file_of(open, day)?;
        if open.bytes + bytes > DAY_BYTES_MAX {
            let what = "the records of this day have reached their size limit";
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, what));
        }
        let mut file = self.file_of(open, day)?;
        file.write_all(line.as_bytes())?;
        open.bytes += bytes;
        Ok(())
    }

    fn file_of<'a>(&self, open: &'a mut Open, day: i64) -> io::Result<&'a File> {
        if open.day != day {
            open.file = None;
        }
        if open.file.is_none() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.directory)?;
            self.delete_old(day);
            let file = opened(&self.directory.join(name_of(day)))?;
            open.bytes = file.metadata()?.len();
            open.file = Some(file);
            open.day = day;
        }
        open.file
            .as_ref()
            .ok_or_else(|| io::Error::other("the file was opened above"))
    }

    /// Deletes the files of days that are kept no longer, and of the oldest days for which there is no room beside today.
    fn delete_old(&self, today: i64) {
        let days = i64::try_from(self.keep.as_secs() / 86_400).unwrap_or(i64::MAX);
        let first = name_of(today.saturating_sub(days));
        let mut bytes = DAY_BYTES_MAX;
        for file in files(&self.directory).unwrap_or_default().iter().rev() {
            let name = file.file_name().unwrap_or_default().as_encoded_bytes();
            if name != name_of(today).as_bytes() {
                bytes += fs::metadata(file).map_or(0, |meta| meta.len());
            }
            if name < first.as_bytes() || bytes > ALL_BYTES_MAX {
                // A file that cannot be deleted is tried again tomorrow.
                let _ = fs::remove_file(file);
            }
        }
    }
}

/// Those who may take room for a record: the identities under which its peer is counted, or its owner. A peer that several
/// askers name may use the room of any of them.
fn takers(start: &TransferStart) -> Vec<String> {
    if !start.counted_as.is_empty() {
        return start.counted_as.clone();
    }
    let who = start.identity.as_ref().or(start.owner.as_ref());
    vec![who.cloned().unwrap_or_default()]
}

/// Opens a day's file for more. A line that a crash cut off is ended, so that the next one stands alone.
fn opened(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    if last != [b'\n'] {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

/// The files of records in a directory, the oldest first; others are left out.
pub fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_day = name.strip_suffix(SUFFIX).is_some_and(|day| {
            day.len() == 10
                && day
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || byte == b'-')
        });
        if is_day {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The name of the file of the day, as in `2026-11-24.jsonl`.
pub fn name_at(time: Timestamp) -> String {
    name_of(time.0.div_euclid(DAY_MILLIS))
}

fn name_of(day: i64) -> String {
    let (year, month, day) = civil_date(day);
    format!("{year:04}-{month:02}-{day:02}{SUFFIX}")
}

const SUFFIX: &str = ".jsonl";

#[cfg(test)]
mod tests {
    use super::*;
    use godwit_api::failure::FailureCode;
    use godwit_api::record::TransferDirection;

    fn record(ended: i64) -> TransferRecord {
        TransferRecord {
            start: TransferStart {
                id: "t".to_owned(),
                job: None,
                identity: Some("gw1-x".to_owned()),
                peer: None,
                owner: None,
                direction: TransferDirection::Send,
                places: vec!["data/a\nb".to_owned()],
                label: None,
                request: None,
                encryption: None,
                counted_as: Vec::new(),
            },
            started: Timestamp(ended - 500),
            ended: Timestamp(ended),
            bytes: 1_000,
            files: 1,
            failed: 0,
            bytes_per_second: 0.0,
            streams: 2,
            bottleneck: None,
            code: FailureCode::Complete.into(),
            message: None,
        }
        .with_rate()
    }

    #[test]
    fn each_day_has_a_file_and_old_ones_go() {
        let home = tempfile::tempdir().expect("a directory");
        let accounting = Accounting::new(home.path(), Duration::from_secs(2 * 86_400));
        for day in 0..5 {
            for _ in 0..2 {
                assert_eq!(accounting.add(&record(day * DAY_MILLIS)), None);
            }
        }
        let directory = directory(home.path());
        fs::write(directory.join("notes.txt"), "mine").expect("written");
        let left = files(&directory).expect("read");
        let names: Vec<_> = left
            .iter()
            .map(|path| path.file_name().expect("named"))
            .collect();
        assert_eq!(
            names,
            ["1970-01-03.jsonl", "1970-01-04.jsonl", "1970-01-05.jsonl"]
        );
        let text = fs::read_to_string(&left[2]).expect("read");
        let records: Vec<TransferRecord> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("a record"))
            .collect();
        assert_eq!(records, vec![record(4 * DAY_MILLIS); 2]);
        assert!((records[0].bytes_per_second - 2_000.0).abs() < 0.1);
    }

    #[test]
    fn a_day_and_all_days_have_a_bounded_number_of_bytes() {
        let home = tempfile::tempdir().expect("a directory");
        let accounting = || Accounting::new(home.path(), Duration::from_secs(365 * 86_400));
        let length = |day: i64, bytes: u64| {
            let path = directory(home.path()).join(name_of(day));
            let file = OpenOptions::new().append(true).create(true).open(path);
            file.expect("opened").set_len(bytes).expect("a length");
        };
        accounting().add(&record(0));
        length(0, ALL_BYTES_MAX / 2);
        length(1, ALL_BYTES_MAX / 2);
        let later = accounting();
        assert_eq!(later.add(&record(2 * DAY_MILLIS)), None);
        let left = files(&directory(home.path())).expect("read");
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(left[0].ends_with(name_of(1)));
        length(2, DAY_BYTES_MAX);
        let full = accounting();
        let said = full.add(&record(2 * DAY_MILLIS)).expect("said");
        assert!(said.contains("have reached their size limit"), "{said}");
        assert_eq!(full.add(&record(2 * DAY_MILLIS)), None);
        let today = fs::metadata(&left[1]).expect("there").len();
        assert!(today <= DAY_BYTES_MAX + 1, "{today}");
        assert_eq!(full.add(&record(3 * DAY_MILLIS)), None);
    }

    #[test]
    fn one_identity_leaves_room_for_the_records_of_others() {
        let home = tempfile::tempdir().expect("a directory");
        let accounting = Accounting::new(home.path(), Duration::from_secs(86_400));
        let of = |who: &str, day: i64| {
            let mut record = record(day * DAY_MILLIS);
            record.start.identity = Some(who.to_owned());
            record.message = Some("x".repeat(1 << 20));
            record
        };
        let said: Vec<String> = (0..20)
            .filter_map(|_| accounting.add(&of("gw1-x", 0)))
            .collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("the records of gw1-x take"), "{said:?}");
        assert_eq!(accounting.add(&of("gw1-y", 0)), None);
        let path = directory(home.path()).join(name_of(0));
        let bytes = fs::metadata(&path).expect("there").len();
        assert!(bytes < DAY_BYTES_OF_ONE_MAX + (2 << 20), "{bytes}");
        // Each day has its room.
        assert_eq!(accounting.add(&of("gw1-x", 1)), None);
    }

    #[test]
    fn an_asker_has_the_room_of_one_for_all_identities_that_it_lets_in() {
        let home = tempfile::tempdir().expect("a directory");
        let accounting = Accounting::new(home.path(), Duration::from_secs(86_400));
        let add = |identity: &str, counted_as: &[&str]| {
            let mut record = record(0);
            record.start.identity = Some(identity.to_owned());
            record.start.counted_as = counted_as.iter().map(|who| (*who).to_owned()).collect();
            record.message = Some("x".repeat(1 << 20));
            accounting.add(&record)
        };
        let said: Vec<String> = (0..20)
            .filter_map(|number| add(&format!("gw1-{number}"), &["gw1-asker"]))
            .collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("the records of gw1-asker take"),
            "{said:?}"
        );
        let path = directory(home.path()).join(name_of(0));
        let bytes = || fs::metadata(&path).expect("there").len();
        let before = bytes();
        assert!(before < DAY_BYTES_OF_ONE_MAX + (2 << 20), "{before}");
        // A second asker names the same peer.
        assert_eq!(add("gw1-1", &["gw1-asker", "gw1-other"]), None);
        assert!(bytes() > before);
    }

    #[test]
    fn a_line_that_was_cut_off_spoils_no_other() {
        let home = tempfile::tempdir().expect("a directory");
        let directory = directory(home.path());
        fs::create_dir(&directory).expect("made");
        let file = directory.join(name_at(Timestamp(0)));
        fs::write(&file, "{\"id\":\"cu").expect("written");
        Accounting::new(home.path(), Duration::from_secs(86_400)).add(&record(0));
        let text = fs::read_to_string(&file).expect("read");
        let last = text.lines().nth(1).expect("a second line");
        assert_eq!(
            serde_json::from_str::<TransferRecord>(last).expect("whole"),
            record(0)
        );
    }

    #[test]
    fn trouble_is_said_once_and_holds_nothing_up() {
        let home = tempfile::tempdir().expect("a directory");
        fs::write(directory(home.path()), "no directory").expect("written");
        let accounting = Accounting::new(home.path(), Duration::from_secs(86_400));
        assert!(
            accounting
                .add(&record(0))
                .is_some_and(|said| said.contains("accounting"))
        );
        assert_eq!(accounting.add(&record(0)), None);
        fs::remove_file(directory(home.path())).expect("removed");
        assert_eq!(accounting.add(&record(0)), None);
        assert_eq!(files(&directory(home.path())).expect("read").len(), 1);
    }
}
