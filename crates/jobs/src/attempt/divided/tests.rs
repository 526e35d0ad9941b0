//! Tests which settings of a job make a divided job delete.
//! Runs no job.

use serde_json::json;

use super::*;

#[test]
fn a_divided_job_deletes_by_each_word_that_says_so() {
    for (settings, deletes) in [
        (json!({"delete": ["yes"]}), true),
        (json!({"delete": ["true"]}), true),
        (json!({"delete": ["off"]}), false),
        (json!({}), false),
    ] {
        let new = json!({
            "kind": "sync", "sources": ["here:/data/a/"], "destination": "here:/data/b/", "settings": settings,
        });
        let new = serde_json::from_value(new).expect("a job");
        let prepared = spec::prepare(&new, &|_| Ok(None)).expect("prepared");
        assert_eq!(base(&prepared).deletes, deletes, "{settings}");
    }
}
