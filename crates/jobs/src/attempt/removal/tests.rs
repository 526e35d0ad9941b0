//! Tests of the words and the end of a job that removes files of its source.
//! Removes nothing.

use godwit_run::removal::Named;

use super::copies::digest_in;
use super::*;

fn finish(outcome: Outcome) -> Finish {
    let reason = (outcome != Outcome::Complete)
        .then(|| Reason::new(FailureCode::EntriesFailed, "1 entry failed."));
    Finish {
        epoch: 1,
        outcome,
        reason,
        summary: "{}".to_owned(),
        bytes: 0,
        files: 0,
        failures: Vec::new(),
    }
}

#[test]
fn the_words_name_the_files_that_stay() {
    let mut removed = Removed {
        files: 310,
        bytes: 5_000,
        ..Removed::default()
    };
    assert!(words(&removed, 2).starts_with("Removed 310 of 310 files at the source"));
    removed.changed = Named {
        count: 2,
        names: vec!["a".to_owned(), "b/c".to_owned()],
    };
    let text = words(&removed, 2);
    assert!(text.starts_with("Removed 310 of 312 files"), "{text}");
    assert!(
        text.contains("2 files stay because each changed since it was copied: a, b/c."),
        "{text}"
    );
}

#[test]
fn a_complete_job_whose_files_stay_is_partial_and_a_worse_end_stays() {
    let mut complete = finish(Outcome::Complete);
    leave(&mut complete, "2 files stay.", 2, vec!["a".to_owned()]);
    assert_eq!(complete.outcome, Outcome::Partial);
    assert_eq!(
        complete.reason,
        Some(Reason::new(FailureCode::NotDeleted, "2 files stay."))
    );
    assert_eq!(complete.failures.len(), 1);
    let mut partial = finish(Outcome::Partial);
    leave(&mut partial, "2 files stay.", 2, Vec::new());
    let reason = partial.reason.expect("one");
    assert_eq!(
        reason,
        Reason::new(FailureCode::EntriesFailed, "1 entry failed. 2 files stay.")
    );
    let mut failed = finish(Outcome::Failed);
    leave(&mut failed, "2 files stay.", 0, Vec::new());
    assert_eq!(
        failed.reason,
        Some(Reason::new(FailureCode::EntriesFailed, "1 entry failed."))
    );
}

#[test]
fn a_mark_is_looked_for_beside_the_files_of_the_copy() {
    let of = |copy: &str, within: Option<&str>| {
        let copy: Place = copy.parse().expect("a place");
        beside(&copy, within.map(str::as_bytes), "m").to_string()
    };
    assert_eq!(of("b:/in/run", Some("d/e")), "b:/in/run/d/e/m");
    assert_eq!(of("b:/in/run", Some("")), "b:/in/run/m");
    assert_eq!(of("b:/in", Some("d")), "b:/in/d/m");
    assert_eq!(of("b:/in/deep/file", None), "b:/in/deep/m");
    assert_eq!(of("b:/in/file", None), "b:/in/m");
}

#[test]
fn only_the_summary_of_a_transfer_names_a_manifest() {
    for none in ["{}", "", "null"] {
        assert_eq!(digest_in(none), None, "{none}");
    }
}

#[test]
fn the_audit_line_names_the_owner() {
    let source: Place = "here:/data/run42".parse().expect("a place");
    assert_eq!(
        audited("2zq", "ada", &source),
        "2zq of ada: here:/data/run42"
    );
}
