//! Sites and exports that go away and return: the messages of a waiting job, and its start.
//! Kills nothing that runs a job (`kills`, `ends`).

use rustix::process::Signal;
use serde_json::json;

use super::super::rest::Caller;
use super::super::rig::Rig;
use super::{fill, moved, submit, two_sites, wait_for};

/// The fourth attempt is followed by a wait of 40 s, which the site that is back ends.
#[test]
fn a_site_that_is_back_wakes_its_jobs() {
    let (here, mut there) = two_sites();
    fill(&here, 2, 1_000);
    // The webhook needs no receiver: unsent messages are kept.
    let hook = json!({"url": "https://hook.example.org/", "events": ["site_away", "site_back"]});
    let admin = Caller::admin(&here);
    admin.put("webhooks/sites", &hook).expect(200);
    there.end_daemon(Signal::TERM);
    let line = ["--setting", "retry-for=0s"];
    let id = submit(&here, "here:/data/run42", "siteB:/data/copy", &line);
    let waiting = wait_for(&here, &id, |job| {
        job["attempts"].as_u64() >= Some(4) && !job["next_attempt"].is_null()
    });
    assert_eq!(waiting["reason"]["code"], "unreachable", "{waiting}");
    there.serve(&[]);
    let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let (ended, next) = (ended["ended"].as_str(), waiting["next_attempt"].as_str());
    assert!(ended < next, "it ended at {ended:?}, before {next:?}");
    here.daemon().wait_for("siteB answers again");
    let sent = admin
        .get("webhooks/sites/deliveries")
        .expect(200)
        .to_string();
    for event in ["site_away", "site_back"] {
        assert!(sent.contains(event), "{sent}");
    }
}

#[test]
fn a_job_whose_export_is_gone_says_so_until_it_is_back() {
    let mut rig = Rig::new();
    std::fs::create_dir(rig.path("extra")).expect("made");
    rig.write("extra/set/f", vec![7; 3_000_000]);
    let extra = format!("extra={}", rig.path("extra").display());
    let with = ["--export", extra.as_str()];
    rig.serve(&with);
    let line = ["--limit", "500KB/s"];
    let runs = submit(&rig, "here:/extra/set", "here:/data/copy", &line);
    let line = ["--after", "2s"];
    let later = submit(&rig, "here:/extra/set", "here:/data/later", &line);
    wait_for(&rig, &runs, |job| moved(job) > 0);
    rig.kill_daemon();
    rig.serve(&[]);
    for id in [&runs, &later] {
        let waiting = wait_for(&rig, id, |job| job["reason"]["code"] == "no_node");
        let why = waiting["reason"]["text"].as_str().unwrap_or_default();
        assert!(why.contains("no export extra"), "{waiting}");
    }
    rig.kill_daemon();
    rig.serve(&with);
    rig.admin(&["job", "limit", &runs, "none"]);
    for id in [&runs, &later] {
        let ended = wait_for(&rig, id, |job| !job["ended"].is_null());
        assert_eq!(ended["state"], "complete", "{ended}");
    }
}
