//! Decides whether another site may have run a job, and whether it may have worded the reason.
//! See `seen` for what an outline shows then.

use godwit_api::rest::{JobState, JobView, Place};

/// Whether another site may have written the reason of this job. A runner elsewhere gives reasons for these ends, and for the
/// wait after a failure. A parent
/// repeats the reason of a child, and waits for no attempt itself.
pub(super) const fn may_be_foreign(job: &JobView) -> bool {
    let is_end = matches!(job.state, JobState::Partial | JobState::Failed);
    is_end || job.next_attempt.is_some() || job.destinations.is_some()
}

/// Whether another site may have run the job. A job that gathers has sources at several sites.
pub(super) fn is_elsewhere(sources: &[String]) -> bool {
    let is_here = |source: &String| {
        let place: Result<Place, _> = source.parse();
        place.is_ok_and(|place| place.is_here())
    };
    !sources.iter().all(is_here)
}

#[cfg(test)]
mod tests {
    use godwit_api::rest::{DestinationCount, Timestamp};
    use serde_json::json;

    use super::*;

    fn job(state: &str) -> JobView {
        serde_json::from_value(json!({
            "id": "1", "label": "", "owner": "otto", "kind": "copy", "sources": ["b:/data/x"], "destination": "here:/data/x",
            "state": state, "reason": {"code": "chosen-there", "text": "chosen there"}, "since": Timestamp(0), "priority": 0,
            "attempts": 1, "created": Timestamp(0),
        }))
        .expect("a job")
    }

    #[test]
    fn a_parent_repeats_a_reason_that_another_site_may_have_given() {
        let queued = job("queued");
        assert!(!may_be_foreign(&queued));
        let child = JobView {
            next_attempt: Some(Timestamp(1)),
            ..queued.clone()
        };
        assert!(may_be_foreign(&child));
        let destinations = Some(DestinationCount {
            total: 2,
            complete: 0,
            gather: false,
        });
        let parent = JobView {
            destinations,
            ..queued
        };
        assert!(may_be_foreign(&parent));
        for ended in ["partial", "failed"] {
            assert!(may_be_foreign(&job(ended)), "{ended}");
        }
    }

    #[test]
    fn a_job_with_any_source_at_another_site_may_have_words_of_that_site() {
        let is = |sources: &[&str]| {
            let sources: Vec<String> = sources.iter().map(ToString::to_string).collect();
            is_elsewhere(&sources)
        };
        assert!(!is(&["here:/data/x", "here:/data/y"]));
        assert!(is(&["b:/data/x"]) && is(&["\u{2026}"]));
        // A gather: the parent repeats the reason of a child, with its code.
        assert!(is(&["here:/data/x", "b:/data/x"]));
    }
}
