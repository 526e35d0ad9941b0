//! Owns what tests of jobs with several children share: a node with named sites, and the jobs below a parent.
//! Tests nothing. See `destinations` and `gather`.

use serde_json::Value;

use super::rig::Rig;
use super::sites::{allow, know, wait_for};

/// A node, and a site for each of these names that gives it these rights.
pub(crate) fn with_sites<const N: usize>(names: [&str; N], rights: &[&str]) -> (Rig, [Rig; N]) {
    let mut here = Rig::new();
    here.serve(&[]);
    let sites = names.map(|name| {
        let mut site = Rig::new();
        site.serve(&[]);
        allow(&site, &here.identity, rights);
        know(&here, name, &site);
        site
    });
    (here, sites)
}

/// Submits a job by the words behind `godwit job submit`; its id.
#[track_caller]
pub(crate) fn submit(here: &Rig, words: &[&str]) -> String {
    let outcome = here.admin(&[&["job", "submit"], words].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome.out.trim().to_owned()
}

/// The job of each destination or source, in their order.
pub(crate) fn children(here: &Rig, id: &str) -> Vec<Value> {
    let outcome = here.admin(&["job", "show", id, "--json"]);
    let shown: Value = serde_json::from_str(&outcome.out).expect("a job");
    shown["jobs"].as_array().expect("jobs").clone()
}

/// The state of each of these jobs.
pub(crate) fn states(here: &Rig, id: &str) -> Vec<String> {
    let state = |job: &Value| job["state"].as_str().expect("a state").to_owned();
    children(here, id).iter().map(state).collect()
}

/// The parent, once it has ended.
#[track_caller]
pub(crate) fn ends(here: &Rig, id: &str) -> Value {
    wait_for(here, id, |job| !job["ended"].is_null())
}
