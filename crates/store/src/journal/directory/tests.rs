//! Tests which destinations overlap, and how long the lock of the directory is held. The tests of the crate check which
//! transfers may begin.

use std::convert::Infallible;

use super::*;
use crate::digest::DigestKind;

#[test]
fn only_ancestors_and_equals_overlap() {
    for (one, other, expected) in [
        ("/a/b", "/a/b", true),
        ("/a/b", "/a/b/", true),
        ("/a/b", "/a/b/c/d", true),
        ("/a//b", "/a/b/c", true),
        ("/", "/a", true),
        ("/a/b", "/a/bc", false),
        ("/a/b", "/a/c", false),
        ("/a/b/c", "/a/c/b", false),
    ] {
        let beside = |path: &str| [b"/z".to_vec(), path.into(), b"/a/bb".to_vec()];
        for (one, other) in [(one, other), (other, one)] {
            let overlap =
                |ours: &[Vec<u8>], theirs: &[Vec<u8>]| overlapping(ours, theirs).is_some();
            let alone = overlap(&[one.into()], &[other.into()]);
            assert_eq!(alone, expected, "{one} {other}");
            if one != "/" && other != "/" {
                let among = overlap(&beside(one)[..2], &beside(other)[1..]);
                assert_eq!(among, expected, "{one} {other}");
            }
        }
    }
}

fn header(destination: &str) -> Result<JournalHeader, Infallible> {
    Ok(JournalHeader {
        mapping: Vec::new(),
        digest: DigestKind::Crc64Nvme,
        destinations: vec![destination.into()],
        label: String::new(),
        claim: None,
        sender: None,
    })
}

/// A peer can leave a journal of a gigabyte, and resume it.
#[test]
fn other_transfers_begin_while_the_records_of_a_journal_are_read() {
    let place = tempfile::tempdir().unwrap();
    let directory = JournalDirectory::open(place.path()).unwrap();
    let [first, second, third] = [1, 2, 3].map(|byte| JournalKey([byte; 32]));
    drop(directory.begin(first, || header("/a")).unwrap());
    let load = |file: &File| {
        let lock = File::open(place.path().join("lock")).unwrap();
        lock.try_lock()
            .expect("the lock of the directory is not held");
        drop(Locked(lock));
        directory.begin(second, || header("/b")).unwrap();
        let below = directory.begin(third, || header("/a/below"));
        assert!(matches!(below, Err(BeginError::Busy { same: false, .. })));
        let again = directory.begin(first, || header("/a"));
        assert!(matches!(again, Err(BeginError::Busy { same: true, .. })));
        load::load(file)
    };
    let fresh = || header("/elsewhere");
    let (_journal, recovered) = directory.begin_loading(first, fresh, load).unwrap();
    assert!(recovered.resumed);
    assert_eq!(recovered.header, header("/a").unwrap());
}
