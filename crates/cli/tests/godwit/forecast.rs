//! The foretold end of a running job: in the API, in `job show`, and in the report, for a job of one node and for a divided one.
//! See the crate `godwit-forecast` for how good it is over many jobs.

use godwit_api::rest::Timestamp;
use serde_json::Value;

use super::data::{Seeded, first_seed, write_file};
use super::rig::Rig;
use super::sites::{submit, two_sites, wait_for};
use super::totals::json;

const MIB: u64 = 1 << 20;

/// Milliseconds since 1970 of a time in a document.
fn moment(time: &Value) -> i64 {
    let text = time.as_str().expect("a time");
    text.parse::<Timestamp>().expect("a time").0
}

fn milliseconds_left(job: &Value) -> i64 {
    let progress = &job["progress"];
    moment(&progress["forecast"]["likely"]) - moment(&progress["at"])
}

/// Makes the data set: a large file and small ones.
fn make_set(here: &Rig) {
    let mut seeded = Seeded(first_seed(36_001));
    let source = here.export.join("set");
    std::fs::create_dir_all(&source).expect("made");
    write_file(&source.join("large"), 48 * MIB, &mut seeded);
    for number in 0..48 {
        write_file(&source.join(format!("f{number}")), MIB, &mut seeded);
    }
}

fn foretold(divide: &str) {
    let (here, _there) = two_sites();
    make_set(&here);
    let line = ["--limit", "8MB", "--divide", divide];
    let id = submit(&here, "here:/data/set", "siteB:/data/copy", &line);
    let bytes = |job: &Value| job["progress"]["bytes"].as_u64().unwrap_or(0);
    let has = |job: &Value| job["progress"]["forecast"].is_object();
    let job = wait_for(&here, &id, |job| bytes(job) > 24 * MIB && has(job));
    // About 76 MB are left at 8 MB/s.
    let left = milliseconds_left(&job);
    assert!((5_000..30_000).contains(&left), "{job}");
    let forecast = &job["progress"]["forecast"];
    assert!(
        moment(&forecast["earliest"]) <= moment(&forecast["likely"]),
        "{job}"
    );
    assert!(
        moment(&forecast["likely"]) <= moment(&forecast["latest"]),
        "{job}"
    );
    let shown = here.admin(&["job", "show", &id]).out;
    assert!(shown.contains("ends"), "{shown}");
    assert!(shown.contains("8 of 10 end between"), "{shown}");
    // The forecast follows the limit at once.
    assert_eq!(here.admin(&["job", "limit", &id, "1MB"]).code, Some(0));
    let slow = wait_for(&here, &id, |job| {
        has(job) && milliseconds_left(job) > 30_000
    });
    assert!(milliseconds_left(&slow) < 120_000, "{slow}");
    assert_eq!(here.admin(&["job", "limit", &id, "8MB"]).code, Some(0));
    let done = wait_for(&here, &id, |job| !job["ended"].is_null());
    assert_eq!(done["state"], "complete", "{done}");
    let report = json(&here, &["job", "report", &id, "--json"]);
    let review = &report["forecast"];
    assert!(review["error"].is_number(), "{review}");
    assert!(review["held"].is_boolean(), "{review}");
    let page = here.admin(&["job", "report", &id, "--html", "-"]).out;
    assert!(page.contains("after a tenth of the bytes"), "{page}");
}

#[test]
fn the_end_of_a_job_is_foretold_and_follows_its_limit() {
    foretold("never");
}

#[test]
fn the_end_of_a_divided_job_is_foretold_and_follows_its_limit() {
    foretold("always");
}
