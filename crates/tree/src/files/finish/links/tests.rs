//! Tests that a sender without read permission at the destination cannot make another name of an existing file. Tests of
//! the binary cover whole transfers with such names.

use std::sync::Arc;

use godwit_engine::entry::digest_to_wire;
use godwit_proto::{Comparison, EntryKind, FaultCode, Judge, RecordFlags, Verdict};
use godwit_store::digest::{DigestKind, digest_slice};
use godwit_testkit::{Faults, HostileStorage, MemoryStorage};

use crate::files::plan::spelling::tests::{Run, at, put};

/// The sender names an existing file of the destination as the first name of a link. Another user may read the place of the
/// link.
fn linked(announced: Option<&str>, comparison: Option<Comparison>) -> (Option<Vec<u8>>, String) {
    let storage = MemoryStorage::new();
    put(&storage, "out/secret", "secret");
    let mut run = Run::blind(Arc::new(storage.clone()), comparison);
    if let Some(content) = announced {
        run.file("secret", content);
    }
    let link = run.record(EntryKind::HARD_LINK, "public", "secret");
    assert_eq!(run.plan(&link), Verdict::Done);
    let reported = run.finish();
    let fault = reported.get("out/public");
    let fault = fault.map_or_else(String::new, |fault| {
        assert_eq!(fault.code, FaultCode::PERMISSION, "{fault:?}");
        fault.message.clone()
    });
    (storage.content(&at("out/public")), fault)
}

#[test]
fn a_file_of_others_gets_no_hard_link_from_a_client_that_may_not_read_it() {
    let (content, fault) = linked(None, None);
    assert_eq!(content, None, "{fault}");
    assert!(fault.contains("the sender may not read it"), "{fault}");
    // The size of a file is easily guessed.
    let by_size = Comparison {
        judge: Judge::SIZE.0,
        ..Comparison::default()
    };
    let (content, fault) = linked(Some("guess!"), Some(by_size));
    assert_eq!(content, None, "{fault}");
}

/// A transfer that compares by size sets times.
#[test]
fn a_guessed_size_does_not_set_the_time_of_a_file() {
    let storage = MemoryStorage::new();
    put(&storage, "out/secret", "secret");
    let at_time = |run: &mut Run, seconds| {
        let mut record = run.record(EntryKind::FILE, "secret", "guess!");
        record.mtime_seconds = seconds;
        run.plan(&record)
    };
    let by_size = Comparison {
        judge: Judge::SIZE.0,
        ..Comparison::default()
    };
    let mut run = Run::blind(Arc::new(storage.clone()), Some(by_size));
    assert_eq!(at_time(&mut run, 5), Verdict::Skip);
    assert!(run.finish().is_empty());
    let mut run = Run::blind(Arc::new(storage.clone()), Some(Comparison::default()));
    assert_eq!(at_time(&mut run, 5), Verdict::Send, "of another time");
}

#[test]
fn a_file_that_was_sent_gets_its_further_names() {
    let (content, fault) = linked(Some("the content of the sender"), None);
    assert_eq!(
        content.as_deref(),
        Some(&b"the content of the sender"[..]),
        "{fault}"
    );
}

/// The time of a file can be found out, so size and time prove nothing.
#[test]
fn a_file_that_is_there_gets_a_further_name_by_its_digest_alone() {
    for (content, is_made) in [("secret", true), ("guess!", false)] {
        let storage = MemoryStorage::new();
        put(&storage, "out/secret", "secret");
        let mut run = Run::blind(Arc::new(storage.clone()), Some(Comparison::default()));
        let mut file = run.record(EntryKind::FILE, "secret", content);
        file.flags = RecordFlags::HAS_NAMES;
        assert_eq!(
            run.plan(&file),
            Verdict::Digest,
            "of the same size and time"
        );
        let bytes = content.as_bytes();
        let digest = digest_slice(DigestKind::Crc64Nvme, 0, file.bytes, bytes);
        file.digest = Some(digest_to_wire(&digest));
        let expected = if is_made {
            Verdict::Skip
        } else {
            Verdict::Send
        };
        assert_eq!(run.plan(&file), expected);
    }
    // A sender of an older version does not announce that the file has more names.
    let (content, fault) = linked(Some("secret"), Some(Comparison::default()));
    assert_eq!(content, None, "{fault}");
    assert!(fault.contains("proven by its digest"), "{fault}");
}

/// All empty files have the same contents, and this one may get other contents later.
#[test]
fn an_empty_file_gets_no_further_name_by_its_digest() {
    let by_digest = Comparison {
        judge: Judge::CHECKSUM.0,
        ..Comparison::default()
    };
    let storage = MemoryStorage::new();
    put(&storage, "out/secret", "");
    let mut run = Run::blind(Arc::new(storage.clone()), Some(by_digest));
    let file = run.record(EntryKind::FILE, "secret", "");
    assert_eq!(run.plan(&file), Verdict::Skip, "it gets no further name");
    let link = run.record(EntryKind::HARD_LINK, "public", "secret");
    assert_eq!(run.plan(&link), Verdict::Done);
    let reported = run.finish();
    assert_eq!(storage.content(&at("out/public")), None, "{reported:?}");
    // The sender claims that the file has contents; the empty file that it sends replaces the existing one.
    let mut run = Run::blind(Arc::new(storage), Some(by_digest));
    let mut file = run.record(EntryKind::FILE, "secret", "");
    file.flags = RecordFlags::HAS_NAMES;
    assert_ne!(run.plan(&file), Verdict::Skip);
}

/// All names of the file must be in one group when failures are grouped by code.
#[test]
fn a_further_name_of_a_file_without_room_has_the_code_of_the_file() {
    let mut faults = Faults::new(1);
    faults.space_bytes = Some(2);
    let storage = HostileStorage::new(Arc::new(MemoryStorage::new()), faults);
    let mut run = Run::blind(Arc::new(storage), None);
    let file = run.record(EntryKind::FILE, "a", "content");
    assert_eq!(run.plan(&file), Verdict::Send);
    let faults = run.write(&file, "content");
    assert!(
        matches!(&faults[..], [fault] if fault.code == FaultCode::NO_SPACE),
        "{faults:?}"
    );
    let link = run.record(EntryKind::HARD_LINK, "b", "a");
    assert_eq!(run.plan(&link), Verdict::Done);
    let reported = run.finish();
    assert_eq!(reported["out/b"].code, FaultCode::NO_SPACE, "{reported:?}");
}
