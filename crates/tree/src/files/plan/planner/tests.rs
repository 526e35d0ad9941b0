//! Tests entries that replace nothing, one by one. Tests of the binary cover whole transfers with `--no-replace`.

use godwit_proto::Comparison;
use godwit_testkit::MemoryStorage;

use super::*;
use crate::files::plan::spelling::tests::{Run, at, put};

fn run(storage: &MemoryStorage, comparison: Comparison) -> Run {
    Run::to(Arc::new(storage.clone()), "out", &[""], Some(comparison))
}

fn no_replace() -> Comparison {
    Comparison {
        no_replace: true,
        ..Comparison::default()
    }
}

fn is_collision(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Failed(fault) if fault.code == FaultCode::COLLISION)
}

#[test]
fn a_further_name_that_is_a_separate_file_is_judged_as_a_file() {
    let storage = MemoryStorage::new();
    for (name, content) in [("a", "content"), ("b", "content"), ("c", "other")] {
        put(&storage, &format!("out/{name}"), content);
    }
    let mut run = run(&storage, no_replace());
    assert_eq!(run.file("a", "content"), Verdict::Skip);
    for name in ["b", "c"] {
        let link = run.record(EntryKind::HARD_LINK, name, "a");
        assert_eq!(run.plan(&link), Verdict::Digest, "{name}");
    }
    // The sender announces both as files.
    assert_eq!(run.file("b", "content"), Verdict::Skip);
    assert!(is_collision(&run.file("c", "content")));
    let link = run.record(EntryKind::HARD_LINK, "d", "a");
    assert_eq!(run.plan(&link), Verdict::Done);
    assert!(run.finish().is_empty());
    for (name, content) in [("b", "content"), ("c", "other"), ("d", "content")] {
        let there = storage.content(&at(&format!("out/{name}")));
        assert_eq!(there.as_deref(), Some(content.as_bytes()), "{name}");
    }
}

/// The second entry has the size and time of the first one, and is the same file.
#[test]
fn names_of_one_file_are_not_separated_if_nothing_may_be_replaced() {
    for (comparison, expected) in [
        (no_replace(), Verdict::Skip),
        (Comparison::default(), Verdict::Send),
    ] {
        let storage = MemoryStorage::new();
        put(&storage, "out/a", "content");
        let mut before = run(&storage, Comparison::default());
        assert_eq!(before.file("a", "content"), Verdict::Skip);
        let link = before.record(EntryKind::HARD_LINK, "b", "a");
        assert_eq!(before.plan(&link), Verdict::Done);
        assert!(before.finish().is_empty());
        let mut run = run(&storage, comparison);
        assert_eq!(run.file("a", "content"), Verdict::Skip);
        assert_eq!(run.file("b", "another"), expected, "{comparison:?}");
    }
}

#[test]
fn a_newer_file_is_not_replaced_by_an_older_symbolic_link() {
    let update = Comparison {
        update: true,
        ..Comparison::default()
    };
    for (comparison, stays) in [(update, true), (Comparison::default(), false)] {
        let storage = MemoryStorage::new();
        put(&storage, "out/a", "newer");
        let mut run = run(&storage, comparison);
        let mut link = run.record(EntryKind::SYMLINK, "a", "target");
        link.mtime_seconds -= 10;
        let expected = if stays { Verdict::Skip } else { Verdict::Done };
        assert_eq!(run.plan(&link), expected);
        assert!(run.finish().is_empty());
        let there = storage.content(&at("out/a"));
        assert_eq!(there.as_deref() == Some(&b"newer"[..]), stays);
    }
}

#[test]
fn a_further_name_of_a_file_that_replaces_nothing_comes_as_a_file() {
    let storage = MemoryStorage::new();
    put(&storage, "out/a", "of others");
    let mut run = run(&storage, no_replace());
    assert!(is_collision(&run.file("a", "content")));
    let link = run.record(EntryKind::HARD_LINK, "b", "a");
    assert_eq!(run.plan(&link), Verdict::Digest);
    assert_eq!(run.file("b", "content"), Verdict::Send);
    assert!(run.finish().is_empty());
    for (name, content) in [("a", "of others"), ("b", "content")] {
        let there = storage.content(&at(&format!("out/{name}")));
        assert_eq!(there.as_deref(), Some(content.as_bytes()), "{name}");
    }
}
