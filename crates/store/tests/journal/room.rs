//! Tests the limit of journal space: which sender's journals make way, and what is left of them.
//! Does not test the limit that the disk sets.

use std::fs;
use std::path::PathBuf;

use godwit_store::journal::{Journal, JournalDirectory, JournalHeader, JournalKey, sender_tag};

use crate::{directory, done, header};

/// Begins a journal of the sender, with this many records.
fn begun(directory: &JournalDirectory, key: u8, sender: &[u8], records: u8) -> Journal {
    let fresh = || -> Result<_, std::convert::Infallible> {
        Ok(JournalHeader {
            sender: Some(sender_tag(sender)),
            ..header(&format!("/data/{key}"))
        })
    };
    let (journal, _) = directory.begin(JournalKey([key; 32]), fresh).unwrap();
    for name in 0..records {
        journal.append_done(&[done(name, 1, 10)]).unwrap();
    }
    journal.sync().unwrap();
    journal
}

fn bytes(path: &PathBuf) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

fn records(directory: &JournalDirectory, key: u8) -> Option<u64> {
    let again = || Err(());
    let (_journal, recovered) = directory.begin(JournalKey([key; 32]), again).ok()?;
    assert_eq!(recovered.header.mapping, b"mapping");
    Some(recovered.vouched_files)
}

#[test]
fn the_sender_of_most_bytes_makes_way_and_its_transfers_keep_their_names() {
    let (_place, directory) = directory();
    // Each of many journals is smaller than the journal of another sender.
    let many: Vec<PathBuf> = (1..=40)
        .map(|key| begun(&directory, key, b"many", 20).path().to_owned())
        .collect();
    let one = begun(&directory, 100, b"one", 60).path().to_owned();
    let all: u64 = many.iter().chain([&one]).map(bytes).sum();
    assert!(bytes(&one) > bytes(&many[0]));
    // The limit is half of the space in use.
    directory.make_way(all).unwrap();
    let left: u64 = many.iter().chain([&one]).map(bytes).sum();
    assert!(left <= all / 2, "{left} of {all}");
    assert_eq!(records(&directory, 100), Some(60), "another sender");
    let of_many: Vec<Option<u64>> = (1..=40).map(|key| records(&directory, key)).collect();
    assert!(of_many.contains(&Some(0)), "{of_many:?}");
    assert!(!of_many.contains(&None), "none was removed: {of_many:?}");

    // Headers alone may exceed the limit.
    directory.make_way(0).unwrap();
    let there = many.iter().filter(|path| path.exists()).count();
    assert!(there < 40, "{there}");
    assert_eq!(records(&directory, 100).is_some(), one.exists());
}

#[test]
fn live_journals_of_one_sender_take_nothing_from_the_share_of_another() {
    let (_place, directory) = directory();
    let live: Vec<Journal> = (1..=8)
        .map(|key| begun(&directory, key, b"live", 200))
        .collect();
    let idle = begun(&directory, 100, b"idle", 20).path().to_owned();
    let before = bytes(&idle);
    let held = before
        + live
            .iter()
            .map(|one| bytes(&one.path().to_owned()))
            .sum::<u64>();
    // The limit is a third of the space in use: twelve times the idle journal.
    directory.make_way(held / 3).unwrap();
    assert_eq!(bytes(&idle), before);
    for journal in &live {
        assert!(journal.path().exists());
    }
    drop(live);
    directory.make_way(held / 3).unwrap();
    assert_eq!(bytes(&idle), before);
    let cut = (1..=8).any(|key| records(&directory, key) == Some(0));
    assert!(cut, "idle now, they make way");
}
