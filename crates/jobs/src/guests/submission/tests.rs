//! Tests of the bounds that a job for another site comes in.
//! Asks no other node.

use super::*;
use crate::basis::spec;

#[test]
fn a_job_for_another_site_outranks_no_job_of_this_site_and_is_bounded() {
    let job = |priority: i32| NewJob {
        priority,
        ..serde_json::from_str(r#"{"sources":["here:/a/x"],"destination":"b:/a/y"}"#)
            .expect("a job")
    };
    for (asked, given) in [
        (i32::MAX, 0),
        (1, 0),
        (0, 0),
        (-5, -5),
        (i32::MIN, i32::MIN),
    ] {
        let mut new = job(asked);
        bound(&mut new).expect("bounded");
        assert_eq!(new.priority, given);
    }
    let mut new = job(0);
    new.label = "\u{e4}".repeat(1_000);
    bound(&mut new).expect("cut");
    assert_eq!(new.label, "\u{e4}".repeat(127));
    let value = Text(vec![b'x'; SETTINGS_BYTES_MAX]);
    new.settings.insert("include".to_owned(), vec![value]);
    assert_eq!(bound(&mut new).expect_err("too long").code, code::INVALID);
}

#[test]
fn a_job_for_another_site_keeps_nothing_in_the_buffer() {
    let mut new: NewJob = serde_json::from_str(
        r#"{"sources":["here:/a/x"],"destination":"b:/a/y","settings":{"keep-in-buffer":["3650d"],"dry-run":["true"]}}"#,
    )
    .expect("a job");
    spec::check_settings(&new).expect("the setting has this name");
    bound(&mut new).expect("bounded");
    let left: Vec<&str> = new.settings.keys().map(String::as_str).collect();
    assert_eq!(left, ["dry-run"]);
}

#[test]
fn jobs_of_another_site_are_bounded_in_number_and_in_bytes() {
    assert_eq!(check_kept(KEPT_MAX - 1, KEPT_BYTES_MAX - 1), Ok(()));
    for (count, bytes, says) in [
        (KEPT_MAX, 0, "20000 jobs"),
        (1, KEPT_BYTES_MAX, "128 MiB of job descriptions"),
        (u64::MAX, u64::MAX, "20000 jobs"),
    ] {
        let no = check_kept(count, bytes).expect_err("refused");
        assert!(no.retryable && no.message.contains(says), "{no:?}");
    }
}

#[test]
fn jobs_of_another_site_that_have_not_ended_are_bounded() {
    let ended = (JobState::Cancelled, KEPT_MAX);
    let others = |count: u64| [(JobState::Queued, count), (JobState::Paused, 1), ended];
    assert_eq!(check_waiting(&others(WAITING_MAX - 2)), Ok(()));
    let no = check_waiting(&others(WAITING_MAX - 1)).expect_err("refused");
    assert!(no.retryable && no.code == code::BUSY, "{no:?}");
}
