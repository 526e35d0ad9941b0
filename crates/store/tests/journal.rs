//! The journal: what was appended is there again, whatever happened to the end of the file or to its process.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]

use std::convert::Infallible;
use std::fs::{self, OpenOptions};
use std::io::Cursor;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;

use godwit_store::digest::{Digest, DigestKind, FileDigest, digest_slice};
use godwit_store::journal::{
    BeginError, DoneRecord, Journal, JournalDirectory, JournalHeader, JournalKey,
    MAPPING_BYTES_MAX, PathKey, RangeRecord, Recovered, replay,
};
use proptest::prelude::*;
use tempfile::TempDir;

fn header(destination: &str) -> JournalHeader {
    JournalHeader {
        mapping: b"mapping".to_vec(),
        digest: DigestKind::Crc64Nvme,
        destinations: vec![destination.into()],
        label: format!("gw1-abc sends run42 to {destination}"),
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
fn what_was_appended_is_recovered() {
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

/// More than fits one record, in one call.
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

/// Records that once stood behind the damage, whole in themselves, must not come back when the place before them is
/// written again.
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

#[test]
fn one_transfer_at_a_time_writes_to_a_destination() {
    let (_place, directory) = directory();
    let (journal, _) = begin(&directory, 1, "/data/run42");
    for (key, destination) in [
        (1, "/x"),
        (2, "/data/run42"),
        (3, "/data"),
        (4, "/data/run42/a"),
    ] {
        match try_begin(&directory, key, destination) {
            Err(BeginError::Busy {
                label, destination, ..
            }) => {
                assert_eq!(label, "gw1-abc sends run42 to /data/run42");
                assert_eq!(destination, Path::new("/data/run42"));
            }
            other => panic!("{destination} was not refused: {other:?}"),
        }
    }
    assert_eq!(
        names(journal.path()).len(),
        2,
        "a refused begin leaves nothing"
    );
    let (_beside, _) = begin(&directory, 5, "/data/run421");
    drop(journal);
    let (_above, _) = begin(&directory, 3, "/data/run42");
    let (_elsewhere, recovered) = begin(&directory, 6, "/elsewhere");
    assert!(!recovered.resumed);
    let unfinished = try_begin(&directory, 1, "/data/run42");
    assert!(
        matches!(unfinished, Err(BeginError::Busy { .. })),
        "its own header counts"
    );
}

#[test]
fn of_many_that_begin_at_once_one_wins() {
    let (_place, directory) = directory();
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let (directory, barrier) = (&directory, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let result = try_begin(directory, number % 4, "/data");
                    barrier.wait();
                    result.is_ok()
                })
            })
            .collect();
        let winners = threads
            .into_iter()
            .map(|thread| usize::from(thread.join().unwrap()));
        assert_eq!(winners.sum::<usize>(), 1);
    });
}

#[test]
fn finish_and_begin_do_not_collide() {
    let (_place, directory) = directory();
    let won = thread::scope(|scope| {
        let threads = [(); 4].map(|()| {
            scope.spawn(|| {
                let attempts = (0..100).filter_map(|_| try_begin(&directory, 1, "/data").ok());
                attempts
                    .map(|(journal, recovered)| {
                        assert!(!recovered.resumed, "a finished journal came back");
                        journal.append_done(&[done(1, 1, 1)]).unwrap();
                        journal.finish().unwrap();
                    })
                    .count()
            })
        });
        threads
            .map(|thread| thread.join().unwrap())
            .iter()
            .sum::<usize>()
    });
    assert!(won > 0);
    let (_journal, recovered) = begin(&directory, 1, "/data");
    assert!(!recovered.resumed);
}

#[test]
fn a_refused_start_leaves_nothing() {
    let (_place, directory) = directory();
    let result = directory.begin(JournalKey([1; 32]), || Err("no such export"));
    assert!(matches!(result, Err(BeginError::Fresh("no such export"))));
    let long = || -> Result<_, Infallible> {
        let mapping = vec![0; MAPPING_BYTES_MAX + 1];
        Ok(JournalHeader {
            mapping,
            ..header("/data")
        })
    };
    let result = directory.begin(JournalKey([1; 32]), long);
    assert!(matches!(result, Err(BeginError::TooLarge)));
    let (journal, recovered) = begin(&directory, 1, "/data");
    assert!(!recovered.resumed);
    assert_eq!(names(journal.path()).len(), 2, "the journal and the lock");
}

#[test]
fn borders_of_key_parts_matter() {
    let keys = [
        JournalKey::of(&[b"ab", b"c"]),
        JournalKey::of(&[b"a", b"bc"]),
        JournalKey::of(&[b"abc"]),
    ];
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
    assert_eq!(JournalKey([0xa5; 32]).to_string(), "a5".repeat(32));
}

#[derive(Clone, Debug)]
enum Append {
    Ranges(Vec<(u8, u64, u64)>),
    Done(Vec<(u8, u64)>),
    Restart(u8),
    Received(u64),
}

fn appends() -> impl Strategy<Value = Vec<Append>> {
    let one = prop_oneof![
        prop::collection::vec((0..4_u8, 0..2_u64, 0..9_u64), 1..5).prop_map(Append::Ranges),
        prop::collection::vec((0..4_u8, 0..2_u64), 1..4).prop_map(Append::Done),
        (0..4_u8).prop_map(Append::Restart),
        any::<u64>().prop_map(Append::Received),
    ];
    prop::collection::vec(one, 0..12)
}

/// Writes the appends and gives, for the header and after each append, the length of the file and what it says.
fn written(appends: &[Append]) -> (Vec<u8>, Vec<(usize, Said)>) {
    let (_place, directory) = directory();
    let (journal, _) = begin(&directory, 1, "/data");
    let read = || fs::read(journal.path()).unwrap();
    let mut states = vec![(read().len(), Said::default())];
    let mut model = Model::default();
    for append in appends {
        match append {
            Append::Ranges(ranges) => {
                let ranges: Vec<_> = ranges
                    .iter()
                    .map(|(name, generation, slice)| range(*name, *generation, *slice))
                    .collect();
                journal.append_ranges(&ranges).unwrap();
                ranges.iter().for_each(|range| model.add(range));
            }
            Append::Done(entries) => {
                let entries: Vec<_> = entries
                    .iter()
                    .map(|(name, generation)| done(*name, *generation, 5))
                    .collect();
                journal.append_done(&entries).unwrap();
                for entry in &entries {
                    model.partial.retain(|partial| partial.0 != entry.key);
                    model.said.done.push((entry.key, entry.generation));
                }
            }
            Append::Restart(name) => {
                let key = PathKey::new(0, &[*name]);
                journal.append_restart(key).unwrap();
                model.partial.retain(|partial| partial.0 != key);
            }
            Append::Received(bytes) => {
                journal.append_received(*bytes).unwrap();
                model.said.received = *bytes;
            }
        }
        states.push((read().len(), model.say()));
    }
    (read(), states)
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Said {
    partial: Vec<(PathKey, u64, FileDigestOf)>,
    done: Vec<(PathKey, u64)>,
    received: u64,
}

type FileDigestOf = Vec<(u64, u64, Digest)>;

#[derive(Default)]
struct Model {
    partial: Vec<(PathKey, u64, FileDigest)>,
    said: Said,
}

impl Model {
    fn add(&mut self, range: &RangeRecord) {
        self.partial
            .retain(|partial| partial.0 != range.key || partial.1 == range.generation);
        if !self.partial.iter().any(|partial| partial.0 == range.key) {
            self.partial.push((
                range.key,
                range.generation,
                FileDigest::new(DigestKind::Crc64Nvme),
            ));
        }
        let partial = self
            .partial
            .iter_mut()
            .find(|partial| partial.0 == range.key)
            .unwrap();
        partial.2.add(range.offset, range.bytes, range.digest);
    }

    fn say(&mut self) -> Said {
        self.said.partial = self
            .partial
            .iter()
            .map(|(key, generation, digest)| (*key, *generation, digest.ranges()))
            .collect();
        self.said.partial.sort_by_key(|partial| partial.0);
        self.said.done.sort_unstable();
        self.said.done.dedup();
        self.said.clone()
    }
}

fn said(recovered: &Recovered) -> Said {
    let mut partial: Vec<_> = recovered
        .partial
        .iter()
        .map(|(key, partial)| (*key, partial.generation, partial.digest.ranges()))
        .collect();
    partial.sort_by_key(|partial| partial.0);
    let mut done = Vec::new();
    for (name, generation) in (0..4).flat_map(|name| [(name, 0), (name, 1)]) {
        let key = PathKey::new(0, &[name]);
        if recovered.done.contains(&key, generation) {
            done.push((key, generation));
        }
    }
    done.sort_unstable();
    assert_eq!(done.len(), recovered.done.len());
    Said {
        partial,
        done,
        received: recovered.received_bytes,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_prefix_loads_to_a_prefix(appends in appends(), flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 8)) {
        let (bytes, states) = written(&appends);
        for length in 0..=bytes.len() {
            let expected = states.iter().rev().find(|state| state.0 <= length);
            match (replay(Cursor::new(&bytes[..length])), expected) {
                (Ok(recovered), Some((whole, state))) => {
                    prop_assert_eq!(&said(&recovered), state);
                    prop_assert_eq!(recovered.damage.is_none(), *whole == length);
                }
                (Err(_), None) => {}
                (result, _) => prop_assert!(false, "prefix of {} bytes: {:?}", length, result),
            }
        }
        for (at, bit) in flips {
            let mut damaged = bytes.clone();
            let at = at.index(damaged.len());
            damaged[at] ^= 1 << bit;
            let expected = states.iter().rev().find(|state| state.0 <= at);
            match (replay(Cursor::new(&damaged)), expected) {
                (Ok(recovered), Some((_, state))) => {
                    prop_assert_eq!(&said(&recovered), state);
                    prop_assert!(recovered.damage.is_some());
                }
                (Err(_), None) => {}
                (result, _) => prop_assert!(false, "bit {} of byte {}: {:?}", bit, at, result),
            }
        }
    }

    #[test]
    fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut journal = b"GODWITJ\x01".to_vec();
        journal.extend_from_slice(&bytes);
        prop_assert!(replay(Cursor::new(&journal)).is_err());
        prop_assert!(replay(Cursor::new(&bytes)).is_err());
    }
}
