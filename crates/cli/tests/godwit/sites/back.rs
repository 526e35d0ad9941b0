//! Sites and exports that go away and return: the messages of a waiting job, and its start.
//! Kills nothing that runs a job (`kills`, `ends`).

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::super::process::wait_until;
use super::super::rest::Caller;
use super::super::rig::Rig;
use super::super::totals::json as json_of;
use super::third::{Three, only_job};
use super::{fill, job, moved, submit, two_sites, wait_for};

/// The third attempt is followed by a wait of 20 s, which the site that is back ends.
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
        job["attempts"].as_u64() >= Some(3) && !job["next_attempt"].is_null()
    });
    assert_eq!(waiting["reason"]["code"], "unreachable", "{waiting}");
    there.serve(&[]);
    let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_woken(&here, &waiting);
    here.daemon().wait_for("siteB answers again");
    let sent = admin
        .get("webhooks/sites/deliveries")
        .expect(200)
        .to_string();
    for event in ["site_away", "site_back"] {
        assert!(sent.contains(event), "{sent}");
    }
}

/// The job that waited for the site is gone when the site comes back.
#[test]
fn a_site_that_was_reported_as_away_is_reported_as_back_without_jobs() {
    let (here, mut there) = two_sites();
    fill(&here, 2, 1_000);
    let hook = json!({"url": "https://hook.example.org/", "events": ["site_away", "site_back"]});
    let admin = Caller::admin(&here);
    admin.put("webhooks/sites", &hook).expect(200);
    let wait_for_event = |event: &str| {
        let is_there = || {
            let sent = admin.get("webhooks/sites/deliveries").expect(200);
            sent.to_string().contains(event).then_some(())
        };
        wait_until(is_there).unwrap_or_else(|| panic!("no {event}"));
    };
    there.end_daemon(Signal::TERM);
    let line = ["--setting", "retry-for=0s"];
    let id = submit(&here, "here:/data/run42", "siteB:/data/copy", &line);
    wait_for_event("site_away");
    let cancelled = here.admin(&["job", "cancel", &id]);
    assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
    there.serve(&[]);
    wait_for_event("site_back");
}

/// Waits until the third attempt of the job is over at the site that runs it, which is followed by a wait of 20 s.
#[track_caller]
fn wait_for_failures(runs: &Rig) -> Value {
    // An attempt of a divided job ends two minutes after it has lost the other end.
    let until = Instant::now() + Duration::from_mins(5);
    loop {
        let job = only_job(runs);
        if job["attempts"].as_u64() >= Some(3) && !job["next_attempt"].is_null() {
            return job;
        }
        assert!(Instant::now() < until, "it does not wait: {job}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Asserts that an attempt of this waiting job began before it was due. On a busy machine that attempt may end later.
#[track_caller]
fn assert_woken(runs: &Rig, waiting: &Value) {
    let id = waiting["id"].as_str().expect("an id");
    let report = json_of(runs, &["job", "report", id, "--json"]);
    let next = waiting["attempts"].as_u64().expect("a number") + 1;
    let attempts = report["attempts"].as_array().expect("attempts");
    let began = attempts
        .iter()
        .find(|attempt| attempt["number"].as_u64() == Some(next));
    let began = began.and_then(|attempt| attempt["started"].as_str());
    let due = waiting["next_attempt"].as_str();
    assert!(
        began.is_some() && began < due,
        "it was due at {due:?}: {report:#}"
    );
}

/// The destination of a job between two other sites is back: the asker notices, and the site that runs the job tries it at once.
#[test]
fn a_site_that_is_back_wakes_a_job_that_another_site_runs() {
    let mut three = Three::new();
    fill(&three.source, 20, 100_000);
    let hook = json!({"url": "https://hook.example.org/", "events": ["site_away", "site_back"]});
    let admin = Caller::admin(&three.asked);
    admin.put("webhooks/sites", &hook).expect(200);
    let id = three.submit(&["--setting", "retry-for=0s", "--limit", "300KB/s"]);
    three.wait_for(&id, |job| moved(job) > 0);
    three.destination.kill_daemon();
    let waiting = wait_for_failures(&three.source);
    three.asked.admin(&["job", "limit", &id, "none"]);
    three.destination.serve(&[]);
    three.complete(&id);
    assert_woken(&three.source, &waiting);
    let sent = admin
        .get("webhooks/sites/deliveries")
        .expect(200)
        .to_string();
    for event in ["site_away", "site_back"] {
        assert!(sent.contains(event), "{sent}");
    }
}

/// The site of the sources sends the data of the job. The destination's node, which asked for it, is back, and begins to follow
/// again.
#[test]
fn a_node_that_is_back_wakes_the_job_that_another_site_brings() {
    let (mut here, there) = two_sites();
    fill(&there, 20, 100_000);
    let line = [
        "--setting",
        "retry-for=0s",
        "--limit",
        "300KB/s",
        "--divide",
        "always",
    ];
    let id = submit(&here, "siteB:/data/run42", "here:/data/copy", &line);
    wait_for(&here, &id, |job| moved(job) > 0);
    here.kill_daemon();
    let waiting = wait_for_failures(&there);
    here.serve(&[]);
    here.admin(&["job", "limit", &id, "none"]);
    let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_woken(&there, &waiting);
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
