//! Jobs between two other sites whose owner loses the right to run them, by three nodes of the real binary.
//! See `lost_rights` for jobs with an end at the node that is asked.

use serde_json::{Value, json};

use super::super::rest::Caller;
use super::third::{Three, only_job, rules};
use super::{fill, moved, wait_for};

#[test]
fn a_job_that_waits_ends_at_once_when_its_owner_may_not_run_it() {
    let three = Three::new();
    fill(&three.source, 10, 400_000);
    let admin = Caller::admin(&three.asked);
    let alice = Caller::user(&three.asked, "alice", "operator");
    for (site, right) in [("siteS", "read"), ("siteD", "write")] {
        let rule = json!({"subject": "user:alice", "site": site, "export": "*", "rights": [right]});
        admin.put(&format!("access/{site}"), &rule).expect(200);
    }
    let submit = |more: Value| {
        let mut new = json!({"sources": ["siteS:/data/run42"], "destination": "siteD:/data/copy", "limit": 100_000});
        let fields = new.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        let made = alice.post("jobs", &new).expect(201);
        made["id"].as_str().expect("an id").to_owned()
    };
    let paused = submit(json!({}));
    three.wait_for(&paused, |job| moved(job) > 0);
    let path = format!("jobs/{paused}/pause");
    alice.post(&path, &json!({})).expect(200);
    let there = only_job(&three.source)["id"].clone();
    let there = there.as_str().expect("an id");
    wait_for(&three.source, there, |job| job["state"] == "paused");
    let scheduled = submit(json!({"not_before": "2100-01-01T00:00:00Z"}));
    three.wait_for(&scheduled, |job| job["state"] == "scheduled");

    admin.delete("users/alice").expect(204);
    for id in [&paused, &scheduled] {
        let ended = three.wait_for(id, |job| !job["ended"].is_null());
        assert_eq!(ended["state"], "failed", "{ended}");
        assert_eq!(ended["reason"]["code"], "access_denied", "{ended}");
    }
    // The sites learn that alice is removed, and no access remains.
    wait_for(&three.source, there, |job| job["state"] == "cancelled");
    three.wait_for(&paused, |_| rules(&three.destination) == 0);
}
