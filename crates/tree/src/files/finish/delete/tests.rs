//! Tests that nothing is deleted after the transfer has ended, for an empty source, or outside of a region. Tests of the binary cover all
//! other deletions.

mod region;

use std::cell::Cell;
use std::sync::Arc;

use godwit_engine::{Ending, Sink as _};
use godwit_proto::{Comparison, EntryKind, NoticeKind};
use godwit_testkit::MemoryStorage;

use crate::files::plan::spelling::tests::{Run, at, put};

/// A comparison that deletes entries missing at the source.
fn deletes() -> Comparison {
    Comparison {
        delete: true,
        counterpart: true,
        ..Comparison::default()
    }
}

/// Ends the transfer after this many deletions; returns how many of five entries are left, and whether the transfer finished.
fn left_of_five(deleted_most: u32) -> (usize, bool) {
    let storage = MemoryStorage::new();
    let names: Vec<String> = (0..5).map(|n| format!("out/extra{n}")).collect();
    names.iter().for_each(|name| put(&storage, name, "theirs"));
    let mut run = Run::blind(Arc::new(storage.clone()), Some(deletes()));
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

/// Finishes a transfer of the source's directory, and of one file if the source is not empty. Returns whether the transfer succeeded, and
/// whether the extra entry is left.
fn of_bare_source(comparison: Comparison, has_file: bool) -> (bool, bool) {
    let storage = MemoryStorage::new();
    put(&storage, "out/extra", "theirs");
    let mut run = Run::blind(Arc::new(storage.clone()), Some(comparison));
    let root = run.record(EntryKind::DIRECTORY, "", "");
    run.plan(&root);
    if has_file {
        run.file("new", "ours");
    }
    let finished = run.sink.finish(&mut Ending {
        failed: 0,
        scan_faults: 0,
        say: &mut |_| {},
        goes_on: &|| true,
    });
    let is_left = storage.content(&at("out/extra")).is_some();
    (finished.is_ok(), is_left)
}

#[test]
fn an_empty_source_empties_no_destination_unless_a_number_is_allowed() {
    let bounded = |max_delete| Comparison {
        max_delete: Some(max_delete),
        ..deletes()
    };
    let dry = Comparison {
        dry_run: true,
        ..deletes()
    };
    assert_eq!(of_bare_source(deletes(), false), (false, true));
    assert_eq!(of_bare_source(bounded(1), false), (true, false));
    assert!(of_bare_source(bounded(0), false).1);
    assert_eq!(of_bare_source(dry, false), (true, true));
    assert_eq!(of_bare_source(deletes(), true), (true, false));
}
