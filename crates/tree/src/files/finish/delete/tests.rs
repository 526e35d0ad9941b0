//! Tests that nothing is deleted once the transfer has ended.
//! Tests of the binary cover all other deletions.

use std::cell::Cell;
use std::sync::Arc;

use godwit_engine::{Ending, Sink as _};
use godwit_proto::{Comparison, NoticeKind};
use godwit_testkit::MemoryStorage;

use crate::files::plan::spelling::tests::{Run, at, put};

/// Deletes until this many entries are gone; returns how many of the five are left, and whether the transfer was finished.
fn left_of_five(deleted_most: u32) -> (usize, bool) {
    let storage = MemoryStorage::new();
    let names: Vec<String> = (0..5).map(|n| format!("out/extra{n}")).collect();
    names.iter().for_each(|name| put(&storage, name, "theirs"));
    let comparison = Comparison {
        delete: true,
        counterpart: true,
        ..Comparison::default()
    };
    let mut run = Run::blind(Arc::new(storage.clone()), Some(comparison));
    run.file("new", "ours");
    let deleted = Cell::new(0);
    let finished = run.sink.finish(&mut Ending {
        failed: 0,
        scan_faults: 0,
        say: &mut |notice| {
            let is_deletion = notice.is_some_and(|notice| notice.kind == NoticeKind::DELETED);
            deleted.set(deleted.get() + u32::from(is_deletion));
        },
        goes_on: &|| deleted.get() < deleted_most,
    });
    let left = names
        .iter()
        .filter(|name| storage.content(&at(name)).is_some());
    (left.count(), finished.is_ok())
}

#[test]
fn a_transfer_that_has_ended_deletes_nothing_more() {
    assert_eq!(left_of_five(0), (5, false));
    assert_eq!(left_of_five(2), (3, false));
    assert_eq!(left_of_five(u32::MAX), (0, true));
}
