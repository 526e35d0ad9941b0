//! Tests journals of the members of a claim: which transfers share a destination, which epoch counts, and what the end of a claim
//! removes.

use std::convert::Infallible;

use godwit_store::journal::{
    BeginError, Journal, JournalDirectory, JournalHeader, JournalKey, Recovered,
};

use crate::{begin, directory, header, try_begin};

fn member(
    directory: &JournalDirectory,
    key: u8,
    claim: u8,
    to: &str,
) -> Option<(Journal, Recovered)> {
    let header = || -> Result<_, Infallible> {
        Ok(JournalHeader {
            claim: Some([claim; 16]),
            ..header(to)
        })
    };
    match directory.begin(JournalKey([key; 32]), header) {
        Ok(begun) => Some(begun),
        Err(BeginError::Busy { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn only_members_of_one_claim_share_a_destination() {
    let (_place, directory) = directory();
    let first = member(&directory, 1, 7, "/data").expect("the first");
    let second = member(&directory, 2, 7, "/data/below").expect("of the same claim");
    assert!(member(&directory, 3, 8, "/data").is_none(), "another claim");
    assert!(try_begin(&directory, 4, "/data").is_err(), "no member");
    drop((first, second));
    let plain = begin(&directory, 4, "/data");
    assert!(
        member(&directory, 1, 7, "/data").is_none(),
        "a plain one runs"
    );
    drop(plain);
    assert!(member(&directory, 1, 7, "/data").is_some());
}

#[test]
fn the_highest_epoch_counts_and_the_claim_stays_in_the_header() {
    let (_place, directory) = directory();
    let (journal, recovered) = member(&directory, 1, 7, "/data").expect("begun");
    assert_eq!(recovered.epoch, 0);
    journal.append_epoch(5).unwrap();
    journal.append_epoch(3).unwrap();
    journal.sync().unwrap();
    drop(journal);
    let (_journal, recovered) = member(&directory, 1, 7, "/data").expect("resumed");
    assert!(recovered.resumed);
    assert_eq!(recovered.epoch, 5);
    assert_eq!(recovered.header.claim, Some([7; 16]));
}

#[test]
fn journals_of_a_claim_that_has_ended_go_but_for_those_in_use() {
    let (_place, directory) = directory();
    let idle = member(&directory, 1, 7, "/a").expect("begun").0;
    let used = member(&directory, 2, 7, "/b").expect("begun").0;
    let other = member(&directory, 3, 8, "/c").expect("begun").0;
    let plain = begin(&directory, 4, "/d").0;
    let paths = [&idle, &used, &other, &plain].map(|journal| journal.path().to_owned());
    drop((idle, other, plain));
    directory.forget_claim(&[7; 16]).unwrap();
    let left = paths.map(|path| path.exists());
    assert_eq!(left, [false, true, true, true]);
    drop(used);
}
