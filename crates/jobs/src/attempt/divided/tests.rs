//! Tests which settings of a job make a divided job delete, and which need a cluster of this version.
//! Runs no job.

use godwit_api::rest::NewJob;
use godwit_state::LEVEL_CLOSES;
use serde_json::{Value, json};

use super::summary::undeleted;
use super::wish::hindrance;
use super::*;

fn job(settings: &Value) -> (NewJob, Prepared) {
    let new = json!({
        "kind": "sync", "sources": ["here:/data/a/"], "destination": "here:/data/b/", "settings": settings,
    });
    let new = serde_json::from_value(new).expect("a job");
    let prepared = spec::prepare(&new, &|_| Ok(None)).expect("prepared");
    (new, prepared)
}

#[test]
fn a_divided_job_deletes_by_each_word_that_says_so() {
    for (settings, deletes) in [
        (json!({"delete": ["yes"]}), true),
        (json!({"delete": ["true"]}), true),
        (json!({"delete": ["off"]}), false),
        (json!({}), false),
    ] {
        let (_, prepared) = job(&settings);
        let base = base(&prepared);
        assert_eq!(base.deletes, deletes, "{settings}");
        // A job that deletes nothing lacks nothing if a directory could not be read.
        assert_eq!(undeleted(1, &base).is_some(), deletes, "{settings}");
        assert!(undeleted(0, &base).is_none(), "{settings}");
    }
}

#[test]
fn a_job_of_one_node_at_each_site_is_a_lone_pair() {
    for (settings, is_lone) in [
        (json!({"nodes": ["1"]}), true),
        (json!({"nodes": ["2"]}), false),
        (json!({}), false),
    ] {
        let (_, prepared) = job(&settings);
        assert_eq!(is_lone_pair(&prepared), is_lone, "{settings}");
    }
}

#[test]
fn a_verification_has_no_bound_of_nodes() {
    let new = json!({
        "kind": "verify", "sources": ["here:/data/set.manifest"], "destination": "here:/data/set",
    });
    let new: NewJob = serde_json::from_value(new).expect("a job");
    let prepared = spec::prepare(&new, &|_| Ok(None)).expect("prepared");
    assert!(prepared.spec.copy_settings().is_err());
    assert!(!is_lone_pair(&prepared));
}

#[test]
fn nodes_of_an_older_program_get_no_part_of_a_job_that_they_would_do_otherwise() {
    let old = LEVEL_CLOSES - 1;
    let (plain, prepared) = job(&json!({}));
    assert_eq!(hindrance(old, &plain, &prepared), None);
    let listed = NewJob {
        manifest: true,
        ..plain
    };
    assert!(hindrance(old, &listed, &prepared).is_some());
    assert_eq!(hindrance(LEVEL_CLOSES, &listed, &prepared), None);
    for settings in [json!({"checksum": ["yes"]}), json!({"size-only": ["yes"]})] {
        let (new, prepared) = job(&settings);
        assert!(hindrance(old, &new, &prepared).is_some(), "{settings}");
        assert_eq!(hindrance(LEVEL_CLOSES, &new, &prepared), None);
    }
}
