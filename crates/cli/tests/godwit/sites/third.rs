//! Jobs with both ends away from the asked node, by three nodes of the real binary: the running site, access, and survival.
//! See the module above for jobs with one end here.

use std::time::Duration;

use serde_json::Value;

use super::super::judge::assert_identical_to_rsync;
use super::super::netns::{Netns, RIGHT, WanLink, WanOptions, with_network};
use super::super::rig::Rig;
use super::{allow, fill, job, know, moved, submit, wait_for};

/// The node that is asked, the site of the sources, and that of the destination. The asked node may read at the first site and write
/// at the second. The two sites know no other peer.
pub(crate) struct Three {
    pub(crate) asked: Rig,
    pub(crate) source: Rig,
    pub(crate) destination: Rig,
}

impl Three {
    pub(crate) fn new() -> Self {
        let [mut asked, mut source, mut destination] = [Rig::new(), Rig::new(), Rig::new()];
        for rig in [&mut asked, &mut source, &mut destination] {
            rig.serve(&[]);
        }
        let three = Self {
            asked,
            source,
            destination,
        };
        three.introduce();
        three
    }

    pub(super) fn introduce(&self) {
        know(&self.asked, "siteS", &self.source);
        know(&self.asked, "siteD", &self.destination);
        allow(&self.source, &self.asked.identity, &["--read"]);
        allow(&self.destination, &self.asked.identity, &["--write"]);
    }

    pub(crate) fn submit(&self, more: &[&str]) -> String {
        submit(&self.asked, "siteS:/data/run42", "siteD:/data/copy", more)
    }

    #[track_caller]
    pub(super) fn wait_for(&self, id: &str, is_it: impl FnMut(&Value) -> bool) -> Value {
        wait_for(&self.asked, id, is_it)
    }

    #[track_caller]
    pub(super) fn complete(&self, id: &str) -> Value {
        let ended = self.wait_for(id, |job| !job["ended"].is_null());
        assert_eq!(ended["state"], "complete", "{ended}");
        self.assert_identical();
        ended
    }

    fn assert_identical(&self) {
        assert_identical_to_rsync(
            "-aHO",
            &self.source.export.join("run42"),
            &self.destination.export.join("copy"),
        );
    }

    /// The log of a job at the node that is asked.
    pub(super) fn log(&self, id: &str) -> String {
        self.asked.admin(&["job", "log", id]).out
    }
}

/// The only job of a node, as its operator sees it.
#[track_caller]
pub(crate) fn only_job(rig: &Rig) -> Value {
    let list = rig.admin(&["job", "list", "--all", "--json"]);
    let mut jobs = list.out.lines();
    let job = jobs.next().unwrap_or_else(|| panic!("no job: {list:?}"));
    assert_eq!(jobs.next(), None, "{list:?}");
    serde_json::from_str(job).expect("a document")
}

/// All that a node allows.
fn access(rig: &Rig) -> Vec<Value> {
    let list = rig.admin(&["access", "list", "--json"]).out;
    let rules = list.lines().map(serde_json::from_str);
    rules.collect::<Result<_, _>>().expect("documents")
}

/// Number of grants that a node has for jobs of others.
pub(crate) fn rules(rig: &Rig) -> usize {
    let all = access(rig);
    all.iter().filter(|rule| rule["job"].is_string()).count()
}

#[test]
fn one_site_sends_to_another_for_a_third_and_nothing_stays_open() {
    let three = Three::new();
    fill(&three.source, 9, 300_000);
    let id = three.submit(&["--label", "night-42", "--limit", "1MB/s"]);
    three.wait_for(&id, |job| moved(job) > 0);
    let there = only_job(&three.source);
    assert_eq!(there["owner"], format!("site:{}", three.asked.identity));
    assert_eq!(there["label"], "night-42");
    assert_eq!(rules(&three.destination), 1);
    let running = job(&three.asked, &id).expect("it is there");
    let why = running["reason"]["text"].as_str().unwrap_or_default();
    assert!(why.contains("siteS sends to siteD"), "{running}");
    // The grants for the job open no other place, and no reading.
    three.source.admin(&[
        "trust",
        three.destination.address(),
        &three.destination.identity,
    ]);
    for (from, to) in [
        ("export/run42", three.destination.url("elsewhere")),
        ("export/run42", three.destination.url("copy2")),
    ] {
        let outcome = three.source.admin(&["cp", from, &to]);
        assert_eq!(outcome.code, Some(4), "{outcome:?}");
    }
    let outcome = three
        .source
        .admin(&["cp", &three.destination.url("copy"), "back"]);
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    three.asked.admin(&["job", "limit", &id, "none"]);
    let ended = three.complete(&id);
    assert_eq!(ended["summary"]["files"], 9, "{ended}");
    assert_eq!(rules(&three.destination), 0);
    let outcome = three
        .source
        .admin(&["cp", "export/run42", &three.destination.url("copy")]);
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    assert!(three.log(&id).contains("siteS sends to siteD"));
    assert_eq!(rules(&three.source), 0);
}

#[test]
fn several_sources_go_into_one_destination_and_within_one_site() {
    let three = Three::new();
    fill(&three.source, 4, 1_000);
    let line = [
        "job",
        "submit",
        "siteS:/data/run42/d0",
        "siteS:/data/run42/d1",
        "siteD:/data/copy/",
    ];
    let outcome = three.asked.admin(&line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let ended = three.wait_for(outcome.out.trim(), |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    for name in ["d0", "d1"] {
        let from = three.source.export.join("run42").join(name);
        assert_identical_to_rsync(
            "-aHO",
            &from,
            &three.destination.export.join("copy").join(name),
        );
    }
    allow(&three.source, &three.asked.identity, &["--write"]);
    let id = submit(&three.asked, "siteS:/data/run42", "siteS:/data/twin", &[]);
    let ended = three.wait_for(&id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let export = &three.source.export;
    assert_identical_to_rsync("-aHO", &export.join("run42"), &export.join("twin"));
}

#[test]
fn too_small_rights_at_either_site_end_the_job_and_name_the_site() {
    for (no_read, site) in [(true, "siteS"), (false, "siteD")] {
        let three = Three::new();
        fill(&three.source, 1, 1_000);
        let (rig, instead) = match no_read {
            true => (&three.source, "--write"),
            false => (&three.destination, "--read"),
        };
        super::deny(rig, &three.asked.identity);
        allow(rig, &three.asked.identity, &[instead]);
        let id = three.submit(&[]);
        let ended = three.wait_for(&id, |job| !job["ended"].is_null());
        assert_eq!(ended["state"], "failed", "{ended}");
        assert_eq!(ended["reason"]["code"], "access_denied", "{ended}");
        let text = ended["reason"]["text"].as_str().unwrap_or_default();
        assert!(text.starts_with(&format!("{site}: ")), "{ended}");
        assert_eq!(rules(&three.destination), 0);
    }
}

#[test]
fn unknown_sites_and_paths_outside_the_exports_are_refused() {
    let three = Three::new();
    fill(&three.source, 1, 1_000);
    let outcome = three
        .asked
        .admin(&["job", "submit", "siteX:/data/a", "siteD:/data/b"]);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.complaint.contains("no site \"siteX\""),
        "{outcome:?}"
    );
    for (from, code) in [
        ("siteS:/other/run42", "no_such_export"),
        ("siteS:/data/none", "no_source"),
    ] {
        let id = submit(&three.asked, from, "siteD:/data/copy", &[]);
        let ended = three.wait_for(&id, |job| !job["ended"].is_null());
        assert_eq!(ended["state"], "failed", "{ended}");
        assert_eq!(ended["reason"]["code"], code, "{ended}");
    }
}

#[test]
fn pause_limit_and_cancel_act_where_the_job_runs() {
    let three = Three::new();
    fill(&three.source, 10, 400_000);
    let id = three.submit(&["--limit", "500KB/s", "--priority=-5"]);
    three.wait_for(&id, |job| moved(job) > 0);
    let there = only_job(&three.source);
    assert_eq!(there["limit"], 500_000, "{there}");
    assert_eq!(there["priority"], -5, "{there}");
    let change = |line: &[&str]| {
        let outcome = three.asked.admin(line);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    };
    let there = |is_it: &dyn Fn(&Value) -> bool| {
        let id = only_job(&three.source)["id"]
            .as_str()
            .expect("an id")
            .to_owned();
        wait_for(&three.source, &id, is_it)
    };
    change(&["job", "limit", &id, "600KB/s"]);
    there(&|job| job["limit"] == 600_000);
    // The job does not outrank the jobs of the site.
    change(&["job", "priority", &id, "7"]);
    there(&|job| job["priority"] == 0);
    change(&["job", "pause", &id]);
    there(&|job| job["state"] == "paused");
    // A job that does not run has no access.
    let until = std::time::Instant::now() + super::DEADLINE;
    while rules(&three.destination) > 0 {
        assert!(std::time::Instant::now() < until, "a paused job has access");
        std::thread::sleep(Duration::from_millis(100));
    }
    change(&["job", "resume", &id]);
    there(&|job| job["state"] == "running");
    change(&["job", "cancel", &id]);
    there(&|job| job["state"] == "cancelled");
    // The access goes with the job.
    let until = std::time::Instant::now() + super::DEADLINE;
    while rules(&three.destination) > 0 {
        assert!(std::time::Instant::now() < until, "the access stays");
        std::thread::sleep(Duration::from_millis(100));
    }
    change(&["job", "retry", &id]);
    change(&["job", "limit", &id, "none"]);
    three.complete(&id);
    only_job(&three.source);
}

#[test]
fn a_job_continues_when_any_of_the_three_nodes_is_killed() {
    let mut three = Three::new();
    fill(&three.source, 20, 400_000);
    let id = three.submit(&["--limit", "800KB/s"]);
    let mut before = 0;
    for which in 0..3 {
        let seen = three.wait_for(&id, |job| moved(job) > before);
        before = moved(&seen);
        let rig = match which {
            0 => &mut three.asked,
            1 => &mut three.source,
            _ => &mut three.destination,
        };
        rig.kill_daemon();
        rig.serve(&[]);
    }
    three.wait_for(&id, |job| moved(job) > before);
    let outcome = three.asked.admin(&["job", "limit", &id, "none"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    three.complete(&id);
    // One job at each of two nodes, and none at the third.
    only_job(&three.asked);
    only_job(&three.source);
    let list = three.destination.admin(&["job", "list", "--all", "--json"]);
    assert_eq!(list.out, "", "{list:?}");
    assert_eq!(rules(&three.destination), 0);
}

#[test]
fn the_result_is_taken_over_by_a_node_that_was_away_at_the_end() {
    let mut three = Three::new();
    fill(&three.source, 5, 400_000);
    let id = three.submit(&["--limit", "500KB/s"]);
    three.wait_for(&id, |job| moved(job) > 0);
    three.asked.kill_daemon();
    let there = only_job(&three.source)["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    three.source.admin(&["job", "limit", &there, "none"]);
    let ended = wait_for(&three.source, &there, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let attempts = ended["attempts"].clone();
    three.asked.serve(&[]);
    three.complete(&id);
    assert_eq!(only_job(&three.source)["attempts"], attempts);
}

#[test]
fn access_that_is_taken_back_ends_the_job_also_while_no_node_follows_it() {
    let mut three = Three::new();
    fill(&three.source, 10, 400_000);
    let id = three.submit(&["--limit", "300KB/s"]);
    three.wait_for(&id, |job| moved(job) > 0);
    three.asked.kill_daemon();
    super::deny(&three.source, &three.asked.identity);
    let there = only_job(&three.source)["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let there = wait_for(&three.source, &there, |job| !job["ended"].is_null());
    assert_eq!(there["state"], "failed", "{there}");
    assert_eq!(there["reason"]["code"], "access_denied", "{there}");
    let why = there["reason"]["text"].as_str().unwrap_or_default();
    assert!(why.contains("access of the site"), "{there}");
    three.asked.serve(&[]);
    let ended = three.wait_for(&id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "failed", "{ended}");
    assert_eq!(ended["reason"]["code"], "unauthorized", "{ended}");
}

#[test]
fn the_destination_fetches_where_the_source_cannot_connect() {
    with_network(
        "godwit::sites::third::the_destination_fetches_where_the_source_cannot_connect",
        || {
            let (left, right) = (Netns::new(), Netns::new());
            let _line = WanLink::between(&left, &right, &WanOptions::default());
            let [mut asked, mut source, mut destination] = [Rig::new(), Rig::new(), Rig::new()];
            // The loopback device of the left is out of reach for the right.
            asked.wrap_daemon(left.wrapper());
            destination.wrap_daemon(left.wrapper());
            source.wrap_daemon(right.wrapper());
            source.listen(&format!("{RIGHT}:0"));
            for rig in [&mut asked, &mut source, &mut destination] {
                rig.serve(&[]);
            }
            let three = Three {
                asked,
                source,
                destination,
            };
            three.introduce();
            fill(&three.source, 5, 10_000);
            let id = three.submit(&[]);
            three.complete(&id);
            let log = three.log(&id);
            assert!(log.contains("siteD fetches from siteS"), "{log}");
            only_job(&three.destination);
            assert_eq!(rules(&three.source), 0);
        },
    );
}

#[test]
fn access_for_a_job_ends_no_later_than_that_of_the_node_that_asked() {
    let three = Three::new();
    fill(&three.source, 5, 400_000);
    super::deny(&three.destination, &three.asked.identity);
    allow(
        &three.destination,
        &three.asked.identity,
        &["--write", "--expires", "20s"],
    );
    let soon = three.submit(&[]);
    let ended = three.wait_for(&soon, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "failed", "{ended}");
    let why = ended["reason"]["text"].as_str().unwrap_or_default();
    assert!(why.contains("ends too soon to pass it on"), "{ended}");
    super::deny(&three.destination, &three.asked.identity);
    allow(
        &three.destination,
        &three.asked.identity,
        &["--write", "--expires", "1h"],
    );
    let id = three.submit(&["--limit", "500KB/s"]);
    three.wait_for(&id, |job| moved(job) > 0);
    let all = access(&three.destination);
    let ends = |of_a_job: bool| {
        let rule = all.iter().find(|rule| rule["job"].is_string() == of_a_job);
        rule.expect("a rule")["expires"]
            .as_str()
            .expect("a time")
            .to_owned()
    };
    assert!(ends(true) <= ends(false), "{all:?}");
    let outcome = three.asked.admin(&["job", "limit", &id, "none"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    three.complete(&id);
}

#[test]
fn a_site_that_was_away_hears_of_the_end_from_a_node_that_was_killed() {
    let mut three = Three::new();
    fill(&three.source, 10, 400_000);
    let id = three.submit(&["--limit", "300KB/s"]);
    three.wait_for(&id, |job| moved(job) > 0);
    let there = only_job(&three.source)["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    three.source.kill_daemon();
    let outcome = three.asked.admin(&["job", "cancel", &id]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    three.asked.kill_daemon();
    three.asked.serve(&[]);
    three.source.serve(&[]);
    let ended = wait_for(&three.source, &there, |job| !job["ended"].is_null());
    // Either message may come first: the job was stopped, or its access has ended.
    let state = ended["state"].as_str().unwrap_or_default();
    assert!(["cancelled", "failed"].contains(&state), "{ended}");
    let until = std::time::Instant::now() + super::DEADLINE;
    while rules(&three.destination) > 0 {
        assert!(std::time::Instant::now() < until, "the access stays");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Kills one of the three nodes at seeded moments, again and again, until the job is through: `GODWIT_KILLS` sets how often.
#[test]
fn kills_at_any_moment_lose_nothing_and_double_nothing() {
    let kills: u32 = std::env::var("GODWIT_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(5);
    let mut seed = u64::from(std::process::id());
    println!("seed {seed}, {kills} kills");
    let mut draw = |below: u64| {
        // The numbers of Knuth's MMIX.
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut three = Three::new();
    fill(&three.source, 30, 100_000);
    // Slow enough to last for all kills.
    let limit = format!("{}KB/s", 3_000 / (2 * kills + 1) + 1);
    let id = three.submit(&["--limit", &limit]);
    for kill in 0..kills {
        // From the first question on: the job may not run yet.
        std::thread::sleep(Duration::from_millis(draw(700)));
        let which = draw(3);
        println!("kill {kill}: {which}");
        let rig = match which {
            0 => &mut three.asked,
            1 => &mut three.source,
            _ => &mut three.destination,
        };
        rig.kill_daemon();
        std::thread::sleep(Duration::from_millis(draw(300)));
        rig.serve(&[]);
    }
    // A job that is through takes no other limit.
    three.asked.admin(&["job", "limit", &id, "none"]);
    three.complete(&id);
    only_job(&three.asked);
    let at = |rig: &Rig| {
        let list = rig.admin(&["job", "list", "--all", "--json"]);
        assert_eq!(list.code, Some(0), "{list:?}");
        list.out.lines().count()
    };
    assert_eq!(at(&three.source) + at(&three.destination), 1);
    for rig in [&three.source, &three.destination] {
        assert_eq!(rules(rig), 0);
    }
}
