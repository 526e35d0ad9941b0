//! Tests that a sender which may not read the destination gives no file of others a further name.
//! Whole transfers with such names are in the tests of the binary.

use std::sync::Arc;

use godwit_proto::{Comparison, EntryKind, FaultCode, Judge, Verdict};
use godwit_testkit::MemoryStorage;

use crate::files::spelling::tests::{Run, at, put};

/// The destination has a file that the sender names as the first name of a link, which is to be where somebody may read.
fn linked(announced: Option<&str>, comparison: Option<Comparison>) -> (Option<Vec<u8>>, String) {
    let storage = MemoryStorage::new();
    put(&storage, "out/secret", "secret");
    let mut run = Run::blind(Arc::new(storage.clone()), comparison);
    if let Some(content) = announced {
        run.file("secret", content);
    }
    let link = run.record(EntryKind::HARD_LINK, "public", "secret");
    assert_eq!(run.plan(&link), Verdict::Done);
    let told = run.finish();
    let fault = told.get("out/public");
    let fault = fault.map_or_else(String::new, |fault| {
        assert_eq!(fault.code, FaultCode::PERMISSION, "{fault:?}");
        fault.message.clone()
    });
    (storage.content(&at("out/public")), fault)
}

#[test]
fn a_file_of_others_gets_no_further_name_from_who_may_not_read_it() {
    let (content, fault) = linked(None, None);
    assert_eq!(content, None, "{fault}");
    assert!(fault.contains("its sender may not read it"), "{fault}");
    // Its size is easily guessed.
    let by_size = Comparison {
        judge: Judge::SIZE.0,
        ..Comparison::default()
    };
    let (content, fault) = linked(Some("guess!"), Some(by_size));
    assert_eq!(content, None, "{fault}");
}

#[test]
fn a_file_that_was_sent_or_is_as_announced_gets_its_further_names() {
    let (content, fault) = linked(Some("the content of the sender"), None);
    assert_eq!(
        content.as_deref(),
        Some(&b"the content of the sender"[..]),
        "{fault}"
    );
    // Of the same size and time.
    let (content, fault) = linked(Some("secret"), None);
    assert_eq!(content.as_deref(), Some(&b"secret"[..]), "{fault}");
}
