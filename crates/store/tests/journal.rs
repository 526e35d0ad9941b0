//! Tests that appended records of a journal load again after damage to the end of the file or a kill of the
//! process. Does not test which transfers may begin one (`begin`), nor each possible damage (`model`).

#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]

use std::convert::Infallible;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use godwit_store::digest::{Digest, DigestKind, digest_slice};
use godwit_store::journal::{
    BeginError, DoneRecord, Journal, JournalDirectory, JournalHeader, JournalKey, PathKey,
    RangeRecord, Recovered,
};
use tempfile::TempDir;

mod journal {
    mod begin;
    mod members;
    mod model;
    mod room;
}

fn header(destination: &str) -> JournalHeader {
    JournalHeader {
        mapping: b"mapping".to_vec(),
        digest: DigestKind::Crc64Nvme,
        destinations: vec![destination.into()],
        label: format!("gw1-abc sends run42 to {destination}"),
        claim: None,
        sender: Some(*b"a sender"),
    }
}

fn begin(directory: &JournalDirectory, key: u8, to: &str) -> (Journal, Recovered) {
    try_begin(directory, key, to).unwrap()
}

fn try_begin(
    directory: &JournalDirectory,
    key: u8,
    to: &str,
) -> Result<(Journal, Recovered), BeginError<Infallible>> {
    directory.begin(JournalKey([key; 32]), || Ok(header(to)))
}

fn directory() -> (TempDir, JournalDirectory) {
    let place = tempfile::tempdir().unwrap();
    let directory = JournalDirectory::open(&place.path().join("home/journals")).unwrap();
    (place, directory)
}

fn names(journal: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(journal.parent().unwrap()).unwrap();
    let mut names: Vec<_> = listed.map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

fn range(name: u8, generation: u64, slice: u64) -> RangeRecord {
    RangeRecord {
        key: PathKey::new(0, &[name]),
        generation,
        offset: slice * 1024,
        bytes: 1024,
        digest: digest_slice(DigestKind::Crc64Nvme, slice * 1024, 1 << 20, &[name; 1024]),
    }
}

fn done(name: u8, generation: u64, bytes: u64) -> DoneRecord {
    DoneRecord {
        key: PathKey::new(0, &[name]),
        generation,
        bytes,
    }
}

#[test]
fn appended_ranges_are_recovered() {
    let (_place, directory) = directory();
    let (journal, recovered) = begin(&directory, 1, "/data/run42");
    assert!(!recovered.resumed);
    let mode = fs::metadata(journal.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    journal
        .append_ranges(&[range(1, 5, 0), range(1, 5, 1), range(2, 6, 3)])
        .unwrap();
    journal
        .append_ranges(&[range(3, 7, 0), range(4, 8, 0), range(4, 9, 1)])
        .unwrap();
    journal
        .append_done(&[done(2, 6, 4096), done(9, 1, 10)])
        .unwrap();
    journal.append_restart(PathKey::new(0, &[3])).unwrap();
    journal.append_received(100_000).unwrap();
    journal.sync().unwrap();
    drop(journal);

    let fresh = || -> Result<_, Infallible> { unreachable!("there is a journal") };
    let (journal, recovered) = directory.begin(JournalKey([1; 32]), fresh).unwrap();
    assert!(recovered.resumed);
    assert_eq!(recovered.damage, None);
    assert_eq!(recovered.header, header("/data/run42"));
    assert_eq!(recovered.partial.len(), 2);
    let first = &recovered.partial[&PathKey::new(0, &[1])];
    assert_eq!(first.generation, 5);
    assert!(first.digest.contains(0, 2048));
    let newer = &recovered.partial[&PathKey::new(0, &[4])];
    assert_eq!((newer.generation, newer.digest.covered()), (9, 1024));
    assert!(recovered.done.contains(&PathKey::new(0, &[2]), 6));
    assert!(!recovered.done.contains(&PathKey::new(0, &[2]), 7));
    assert!(!recovered.done.contains(&PathKey::new(1, &[2]), 6));
    assert_eq!(recovered.received_bytes, 100_000);
    assert_eq!(recovered.vouched_bytes, 4096 + 10 + 3 * 1024);

    let path = journal.path().to_owned();
    journal.finish().unwrap();
    assert!(!path.exists());
    let (_journal, recovered) = begin(&directory, 1, "/data/run42");
    assert!(!recovered.resumed);
}

#[test]
fn blake3_digests_are_kept_whole() {
    let (_place, directory) = directory();
    let kind = DigestKind::Blake3;
    let start = || -> Result<_, Infallible> {
        Ok(JournalHeader {
            digest: kind,
            ..header("/data")
        })
    };
    let (journal, _) = directory.begin(JournalKey([1; 32]), start).unwrap();
    let digest = digest_slice(kind, 0, 5000, &[1; 4096]);
    journal
        .append_ranges(&[RangeRecord {
            digest,
            bytes: 4096,
            ..range(1, 1, 0)
        }])
        .unwrap();
    drop(journal);
    let (_journal, recovered) = directory.begin(JournalKey([1; 32]), start).unwrap();
    let mut partial = recovered.partial[&PathKey::new(0, &[1])].digest.clone();
    partial.add(4096, 904, digest_slice(kind, 4096, 5000, &[1; 904]));
    let whole = Digest(*blake3::hash(&[1; 5000]).as_bytes());
    assert_eq!(partial.finish(5000), whole);
}

/// Too many entries for one record, in one call.
#[test]
fn a_million_done_entries_load() {
    let (_place, directory) = directory();
    let (journal, _) = begin(&directory, 1, "/data");
    let record = |number: u64| DoneRecord {
        key: PathKey((u128::from(number) << 40).to_le_bytes()),
        generation: number,
        bytes: 1,
    };
    let all: Vec<_> = (0..1_000_000).map(record).collect();
    journal.append_done(&all).unwrap();
    drop(journal);
    let (_journal, recovered) = begin(&directory, 1, "/data");
    assert_eq!(recovered.done.len(), 1_000_000);
    assert_eq!(recovered.vouched_bytes, 1_000_000);
    assert!(
        all.iter()
            .all(|done| recovered.done.contains(&done.key, done.generation))
    );
    assert!(!recovered.done.contains(&record(0).key, 1));
}

#[test]
fn a_torn_tail_is_cut_and_said() {
    let (_place, directory) = directory();
    let (journal, _) = begin(&directory, 1, "/data");
    journal.append_done(&[done(1, 1, 10)]).unwrap();
    journal.append_done(&[done(2, 1, 10)]).unwrap();
    let path = journal.path().to_owned();
    drop(journal);
    let whole = fs::metadata(&path).unwrap().len();
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(whole - 1)
        .unwrap();

    let (journal, recovered) = begin(&directory, 1, "/data");
    assert!(recovered.damage.unwrap().contains("incomplete"));
    assert_eq!(recovered.done.len(), 1);
    journal.append_done(&[done(3, 1, 10)]).unwrap();
    drop(journal);
    let (_journal, recovered) = begin(&directory, 1, "/data");
    assert_eq!(recovered.damage, None);
    assert!(recovered.done.contains(&PathKey::new(0, &[3]), 1));
    assert_eq!(fs::metadata(&path).unwrap().len(), whole);
}

/// Intact old records behind the damage must not reappear when the damaged place is overwritten.
#[test]
fn stale_records_are_not_taken_for_new_ones() {
    let (_place, directory) = directory();
    let (journal, _) = begin(&directory, 1, "/data");
    let head = fs::read(journal.path()).unwrap().len();
    for name in 1..=3 {
        journal.append_done(&[done(name, 1, 10)]).unwrap();
    }
    let old = fs::read(journal.path()).unwrap();
    let path = journal.path().to_owned();
    drop(journal);
    let record = (old.len() - head) / 3;
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(head as u64)
        .unwrap();
    let (journal, _) = begin(&directory, 1, "/data");
    journal.append_done(&[done(7, 1, 10)]).unwrap();
    drop(journal);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&old[head + record..], (head + record) as u64)
        .unwrap();

    let (_journal, recovered) = begin(&directory, 1, "/data");
    assert!(recovered.done.contains(&PathKey::new(0, &[7]), 1));
    assert_eq!(recovered.done.len(), 1);
    assert!(recovered.damage.unwrap().contains("damaged"));
}

#[test]
fn a_damaged_header_is_moved_aside() {
    let (_place, directory) = directory();
    let (journal, _) = begin(&directory, 1, "/data");
    let path = journal.path().to_owned();
    drop(journal);
    fs::write(&path, b"this is not a journal").unwrap();
    let (journal, recovered) = begin(&directory, 1, "/data");
    assert!(!recovered.resumed);
    let aside = path.with_extension("journal.damaged");
    assert_eq!(fs::read(&aside).unwrap(), b"this is not a journal");
    assert!(recovered.damage.unwrap().contains(aside.to_str().unwrap()));
    drop(journal);
    fs::write(&path, b"").unwrap();
    let (_journal, recovered) = begin(&directory, 1, "/data");
    assert!(!recovered.resumed);
    assert_eq!(recovered.damage, None, "an empty file never said anything");
}
