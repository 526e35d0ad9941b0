//! Tests which transfers may begin a journal: one at a time for each destination, and a refused transfer leaves nothing.
//! Does not read the file.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use godwit_store::journal::{BeginError, JournalHeader, JournalKey, MAPPING_BYTES_MAX};

use crate::{begin, directory, done, header, names, try_begin};

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
fn a_hold_keeps_the_lock_after_the_journal_is_closed() {
    let (_place, directory) = directory();
    let (journal, _) = begin(&directory, 1, "/data/run42");
    let hold = journal.hold();
    drop(journal);
    for (key, destination) in [(1, "/data/run42"), (2, "/data")] {
        let refused = try_begin(&directory, key, destination);
        assert!(matches!(refused, Err(BeginError::Busy { .. })));
    }
    drop(hold);
    let (_journal, recovered) = begin(&directory, 1, "/data/run42");
    assert!(recovered.resumed);
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
