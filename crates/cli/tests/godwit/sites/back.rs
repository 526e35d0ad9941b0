//! Sites and exports that go away and return: the messages of a waiting job, and its start.
//! Kills nothing that runs a job (`kills`, `ends`).

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::super::process::wait_until;
use super::super::rest::Caller;
use super::super::rig::Rig;
use super::{fill, job, moved, submit, two_sites, wait_for};

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

/// Something else takes connections at the address of the site, and proves no identity. The number of them.
fn count_connections(address: &str) -> Arc<AtomicU64> {
    let listener = TcpListener::bind(address).expect("the port of the site is free");
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            drop(stream);
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    count
}

/// The looks at a site that is away do not grow with the number of jobs that wait for the site.
#[test]
fn several_waiting_jobs_cost_one_connection_for_their_site() {
    const JOBS: usize = 12;
    let (here, mut there) = two_sites();
    fill(&here, 1, 1_000);
    let address = there.address().to_owned();
    there.end_daemon(Signal::TERM);
    let line = ["--setting", "retry-for=0s"];
    let ids: Vec<String> = (0..JOBS)
        .map(|number| {
            let to = format!("siteB:/data/copy{number}");
            submit(&here, "here:/data/run42", &to, &line)
        })
        .collect();
    // Each of them has 20 s and more until its next attempt.
    for id in &ids {
        wait_for(&here, id, |job| {
            job["attempts"].as_u64() >= Some(3) && !job["next_attempt"].is_null()
        });
    }
    let attempts = || -> u64 {
        let jobs = ids.iter().filter_map(|id| job(&here, id));
        jobs.filter_map(|job| job["attempts"].as_u64()).sum()
    };
    let count = count_connections(&address);
    let seen = || count.load(Ordering::SeqCst);
    // Looks between which no job began an attempt.
    let looks = wait_until(|| {
        let (before, from) = (attempts(), seen());
        let next = wait_until(|| (seen() >= from + 2).then_some(()));
        next.expect("the site is looked for again");
        // One look dials all sites at once.
        std::thread::sleep(Duration::from_secs(1));
        let looks = seen() - from;
        (attempts() == before).then_some(looks)
    });
    let looks = looks.expect("no job begins an attempt for a while");
    assert!(looks < JOBS as u64, "{looks} connections in two looks");
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
