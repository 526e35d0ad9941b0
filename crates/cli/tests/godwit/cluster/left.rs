//! Jobs at another site while the asking cluster loses and gains nodes: they run once, and removed nodes have no access.
//! See `taken_over` for killed nodes without other changes.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use godwit_api::ask::{GrantJob, Question, code};
use godwit_api::job::Text;
use godwit_api::rest::Timestamp;
use serde_json::Value;

use super::super::judge::{assert_identical_to_rsync, assert_no_temporaries, names};
use super::super::rig::Rig;
use super::super::sites::third::only_job;
use super::super::sites::{allow, know, submit, wait_for};
use super::super::trust;
use super::guests::rules;
use super::taken_over::{between, fill, subjects, wait_for_temporary};
use super::{DEADLINE, Site, archive, nodes, runner, view};

/// Waits until a condition holds at sites.
#[track_caller]
pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Removes a node by force. A busy machine may not answer in time, so the list of nodes decides.
#[track_caller]
pub(super) fn remove(by: &Rig, name: &str) {
    let is_gone = || {
        let view = view(by);
        view.is_some_and(|view| nodes(&view).iter().all(|node| node["name"] != name))
    };
    wait_until("the node is removed", || {
        let removed = by.admin(&["cluster", "remove", name, "--force"]);
        let is_unknown = removed
            .complaint
            .contains("the change may or may not have been made");
        let is_removed = removed.code == Some(0) || is_gone();
        assert!(is_removed || is_unknown, "{removed:?}");
        is_removed
    });
}

/// Submits a job, and waits until it has begun to write; its id, and which node follows it.
#[track_caller]
fn begin(site: &Site, line: [&str; 2], more: &[&str], into: &Path) -> (String, usize) {
    fs::create_dir(into).expect("made");
    let more = [&["--limit", "800KB/s"], more].concat();
    let id = submit(&site.nodes[0], line[0], line[1], &more);
    let job = wait_for(&site.nodes[0], &id, |job| {
        job["state"] == "running" && !job["node"].is_null()
    });
    wait_for_temporary(into);
    (id, site.place_of(runner(&job).expect("a runner")))
}

#[track_caller]
fn assert_complete_once(node: &Rig, id: &str, runs: &Rig, into: &Path) -> Value {
    let ended = wait_for(node, id, |job| !job["ended"].is_null());
    let log = node.admin(&["job", "log", id]).out;
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
    only_job(runs);
    assert_eq!(names(into), ["set"], "it arrived once");
    assert_no_temporaries(into);
    ended
}

/// A removed node gives and takes no access for a job of the cluster. The sites still know the job by the node, and the node has
/// rights as a peer.
#[track_caller]
fn assert_gives_nothing(removed: &Rig, member: &Rig, id: &str) {
    let write = ["--write"];
    trust::allow(member, &removed.identity, "data", &write);
    let give = Question::Grant(GrantJob {
        job: id.to_owned(),
        identity: removed.identity.clone(),
        paths: vec![Text::from("data/into")],
        write: true,
        until: Timestamp(0),
        lasts_ms: Some(3_600_000),
    });
    let take = Question::Revoke {
        job: id.to_owned(),
        keep: Vec::new(),
    };
    for question in [&give, &take] {
        let no = trust::ask(removed, member, None, question).expect_err("no member");
        assert_eq!(no.code, code::NOT_LET_IN, "{no:?}");
    }
}

/// The removed node keeps running, and does not learn of the removal.
#[test]
fn a_job_of_a_removed_node_continues_under_another_one() {
    let (site, source, there) = between();
    let into = there.export.join("into");
    let places = ["siteB:/data/set", "siteC:/data/into"];
    let (id, first) = begin(&site, places, &[], &into);
    let other = &site.nodes[(first + 1) % 3];
    let name = runner(&wait_for(other, &id, |_| true)).map(str::to_owned);
    let name = name.expect("a runner");
    remove(other, &name);
    let ended = assert_complete_once(other, &id, &source, &into);
    assert_ne!(runner(&ended), Some(name.as_str()), "{ended}");
    assert_identical_to_rsync("-aHO", &source.export.join("set"), &into.join("set"));
    wait_until("no right stays", || rules(&source) + rules(&there) == 0);
}

#[test]
fn a_job_that_is_brought_for_a_removed_node_continues_under_another_one() {
    let site = Site::of(3);
    let there = archive(&site);
    fill(&there.export.join("set"));
    let into = site.nodes[0].export.join("into");
    let places = ["siteB:/data/set", "here:/data/into"];
    let (id, first) = begin(&site, places, &["--divide", "always"], &into);
    let other = &site.nodes[(first + 1) % 3];
    let name = runner(&wait_for(other, &id, |_| true)).map(str::to_owned);
    let name = name.expect("a runner");
    remove(other, &name);
    assert_gives_nothing(&site.nodes[first], other, &id);
    assert_complete_once(other, &id, &there, &into);
    assert_identical_to_rsync("-aHO", &there.export.join("set"), &into.join("set"));
    wait_until("no right stays", || rules(&there) + rules(other) == 0);
}

/// A paused job has no attempt that could look after its access.
#[test]
fn access_for_a_paused_job_follows_the_nodes_of_the_cluster() {
    let (mut site, source, there) = between();
    let into = there.export.join("into");
    let places = ["siteB:/data/set", "siteC:/data/into"];
    let (id, first) = begin(&site, places, &[], &into);
    let paused = site.nodes[first].admin(&["job", "pause", &id]);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    let gone = (1..3).find(|at| *at != first).expect("another");
    let identity = site.nodes[gone].identity.clone();
    let has = |rig: &Rig, identity: &str| {
        let all = subjects(rig);
        all.iter().any(|subject| subject.contains(identity))
    };
    wait_until("the site knows", || only_job(&source)["state"] == "paused");
    wait_until("no access at the third site", || rules(&there) == 0);
    assert!(has(&source, &identity), "it still finds the job");
    let name = format!("dtn{}", gone + 1);
    remove(&site.nodes[first], &name);
    wait_until("it has left", || !has(&source, &identity));
    assert_eq!(only_job(&source)["state"], "paused");
    let mut new = site.rig();
    let by = &site.nodes[first];
    super::join_by(&mut new, by, &super::invite(by), "dtn4", &[]);
    for at in [&source, &there] {
        allow(at, &new.identity, &["--read", "--write"]);
    }
    let resumed = site.nodes[first].admin(&["job", "resume", &id]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let joined = new.identity.clone();
    site.nodes.push(new);
    wait_until("each node finds the job", || {
        let job = wait_for(&site.nodes[first], &id, |_| true);
        let follows = runner(&job) == Some("dtn4");
        follows || has(&source, &joined) || !job["ended"].is_null()
    });
    let ended = wait_for(&site.nodes[first], &id, |_| true);
    assert!(ended["ended"].is_null(), "it had time: {ended}");
    site.nodes[first].admin(&["job", "limit", &id, "none"]);
    assert_complete_once(&site.nodes[first], &id, &source, &into);
    wait_until("no right stays", || rules(&source) + rules(&there) == 0);
}

/// The node that asked the site to run the job is dead and does not return.
#[test]
fn a_job_of_a_dead_node_that_is_given_up_stops_where_it_runs() {
    let (mut site, source, there) = between();
    let into = there.export.join("into");
    let places = ["siteB:/data/set", "siteC:/data/into"];
    let (id, first) = begin(&site, places, &[], &into);
    site.nodes[first].kill_daemon();
    let other = &site.nodes[(first + 1) % 3];
    wait_until("it is given up", || {
        other.admin(&["job", "cancel", &id]).code == Some(0)
    });
    wait_until("it stops", || !only_job(&source)["ended"].is_null());
    wait_until("no right stays", || rules(&source) + rules(&there) == 0);
    let ended = wait_for(other, &id, |_| true);
    assert_eq!(ended["state"], "cancelled", "{ended}");
}

/// The new node may have to run the job, and then needs access at the third site.
#[test]
fn a_node_that_joins_the_site_that_runs_a_job_gets_the_access_of_the_job() {
    let mut source = Site::of(1);
    let (mut asked, mut there) = (Rig::new(), Rig::new());
    asked.serve(&[]);
    there.serve(&[]);
    know(&asked, "siteB", &source.nodes[0]);
    know(&asked, "siteC", &there);
    allow(&source.nodes[0], &asked.identity, &["--read"]);
    allow(&there, &asked.identity, &["--write"]);
    fill(&source.nodes[0].export.join("set"));
    let into = there.export.join("into");
    fs::create_dir(&into).expect("made");
    let line = ["--limit", "100KB/s"];
    let id = submit(&asked, "siteB:/data/set", "siteC:/data/into", &line);
    wait_for_temporary(&into);
    source.join("dtn2", &[]);
    // From now on for all nodes of the cluster: the new one confirms that it is of the site.
    allow(&source.nodes[1], &asked.identity, &["--read"]);
    let joined = &source.nodes[1].identity;
    let has_access = || subjects(&there).iter().any(|one| one.contains(joined));
    wait_until("it may run the job", has_access);
    let faster = asked.admin(&["job", "limit", &id, "none"]);
    assert_eq!(faster.code, Some(0), "{faster:?}");
    assert_complete_once(&asked, &id, &source.nodes[0], &into);
    let rules = || rules(&source.nodes[0]) + rules(&there);
    wait_until("no right stays", || rules() == 0);
}
