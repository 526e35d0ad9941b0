//! A cluster that runs a divided job for another site: no member reaches more at the third site than the asking site may.
//! See `trust` for lone nodes.

use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, GrantJob, JobSeen, Question, RunJob};
use godwit_api::job::Text;
use godwit_api::rest::{JobState, NewJob, Timestamp};
use serde_json::{Value, json};

use super::super::judge::assert_identical_to_rsync;
use super::super::rig::Rig;
use super::super::trust::{JOB, allow, ask, assert_denied, peer};
use super::divided::senders;
use super::{DEADLINE, Site};

/// A push of the data set.
fn push(destination: &str) -> Value {
    json!({"sources": ["here:/data/set"], "destination": destination, "divide": "always"})
}

/// Runs a job of C at the cluster, with its other end at a node of the third site, to its end.
#[track_caller]
fn end_of(site: &Site, there: &Site, c: &Rig, job: &str, new: Value) -> JobSeen {
    let new: NewJob = serde_json::from_value(new).expect("a job");
    let run = Question::Run(Box::new(RunJob {
        job: job.to_owned(),
        again: true,
        request: None,
        deadline_ms: None,
        new,
        other: Some(peer(&there.nodes[0], "siteB")),
        may_list: Some(true),
        may_read: Some(true),
    }));
    let until = Instant::now() + DEADLINE;
    let mut question = run;
    loop {
        let seen = match ask(c, &site.nodes[0], None, &question) {
            Ok(Answer::Job(seen)) => *seen,
            other => panic!("{other:?}"),
        };
        if seen.view.ended.is_some() {
            return seen;
        }
        assert!(Instant::now() < until, "it does not end: {:?}", seen.view);
        std::thread::sleep(Duration::from_millis(50));
        let job = job.to_owned();
        question = Question::Job { job };
    }
}

fn write(site: &Site, name: &str, content: &[u8]) {
    let path = site.nodes[0].export.join(name);
    std::fs::create_dir_all(path.parent().expect("below the export")).expect("made");
    std::fs::write(path, content).expect("written");
}

/// C lets the nodes of the cluster in at a path of the third site, to write or to read: any of them may have to run the job.
#[track_caller]
fn let_in(site: &Site, there: &Site, c: &Rig, job: &str, (path, write): (&str, bool)) {
    for node in &site.nodes {
        let give = Question::Grant(GrantJob {
            job: job.to_owned(),
            identity: node.identity.clone(),
            paths: vec![Text::from(path)],
            write,
            until: Timestamp(godwit_jobs::now().0 + 3_600_000),
            lasts_ms: None,
        });
        ask(c, &there.nodes[0], None, &give).expect("given");
    }
}

/// A cluster that runs jobs; a third site that grants everything to the nodes of the cluster; and C, which has grants only at the
/// cluster.
fn three() -> (Site, Site, Rig) {
    let (site, there) = (Site::of(2), Site::of(2));
    let mut c = Rig::new();
    c.serve(&[]);
    for node in &site.nodes {
        let rights = ["--read", "--write"];
        allow(&there.nodes[0], &node.identity, "data", &rights);
    }
    allow(&site.nodes[0], &c.identity, "data", &["--read", "--write"]);
    (site, there, c)
}

pub(crate) fn rules(rig: &Rig) -> usize {
    let list = rig.admin(&["access", "list", "--json"]).out;
    let rules = list
        .lines()
        .map(|line| serde_json::from_str(line).expect("a rule"));
    rules.filter(|rule: &Value| rule["job"].is_string()).count()
}

#[test]
fn members_on_both_sides_act_by_the_rights_of_the_site_that_asked() {
    let (site, there, c) = three();
    for n in 0..400_u32 {
        write(
            &site,
            &format!("set/d{}/f{n}", n % 20),
            &n.to_le_bytes().repeat(5_000),
        );
    }
    // Further names of files that the members have moved. The closer makes these names, though it may not read there.
    let set = site.nodes[0].export.join("set");
    std::fs::create_dir(set.join("links")).expect("made");
    for n in 0..20 {
        let (first, name) = (format!("d{n}/f{n}"), format!("links/{n}"));
        std::fs::hard_link(set.join(first), set.join(name)).expect("linked");
    }
    write(&there, "victim/f", b"old");
    let seen = end_of(&site, &there, &c, "c-evil-1", push("siteB:/data/victim"));
    assert_denied(&seen, &c);
    let left = std::fs::read_dir(there.nodes[0].export.join("victim")).expect("there");
    assert_eq!(left.count(), 1, "nothing was written");

    // C may write at one place of the third site, and lets the nodes of the cluster in there.
    std::fs::create_dir_all(there.nodes[0].export.join("in")).expect("made");
    allow(&there.nodes[0], &c.identity, "data:/in", &["--write"]);
    let_in(&site, &there, &c, JOB, ("data/in", true));
    let seen = end_of(&site, &there, &c, "c-evil-2", push("siteB:/data/victim"));
    assert_denied(&seen, &c);
    let seen = end_of(&site, &there, &c, JOB, push("siteB:/data/in/"));
    assert_eq!(seen.view.state, JobState::Complete, "{:?}", seen.view);
    let copy = there.nodes[0].export.join("in/set");
    assert_identical_to_rsync("-aH", &site.nodes[0].export.join("set"), &copy);
    let sent: usize = there.nodes.iter().map(|node| senders(node).len()).sum();
    assert!(sent >= 1, "the job was divided");
    let log = site.nodes[0].admin(&["job", "log", &seen.view.id]).out;
    assert!(log.contains("divided: "), "{log}");
    assert!(!log.contains("has no access at the destination"), "{log}");
    // C ends the access that it gave, also for the nodes of the cluster that got access through it.
    let revoke = Question::Revoke {
        job: JOB.to_owned(),
        keep: Vec::new(),
    };
    ask(&c, &there.nodes[1], None, &revoke).expect("taken back");
    assert_eq!(rules(&there.nodes[0]), 0);
}

#[test]
fn a_pull_by_members_reads_with_the_rights_of_the_site_that_asked() {
    let (site, there, c) = three();
    for n in 0..200_u32 {
        let content = n.to_le_bytes().repeat(5_000);
        write(&there, &format!("set/d{}/f{n}", n % 20), &content);
        write(&there, &format!("secret/f{n}"), &content);
    }
    let into = site.nodes[0].export.join("in");
    std::fs::create_dir_all(&into).expect("made");
    let pull = |from: &str, to: &str| {
        let from = format!("siteB:/data/{from}");
        json!({"sources": [from], "destination": format!("here:/data/{to}"), "divide": "always"})
    };
    // The destination exists in the first case, and not in the second.
    for (job, to) in [("c-evil-1", "in/"), ("c-evil-2", "new")] {
        let seen = end_of(&site, &there, &c, job, pull("secret", to));
        assert_denied(&seen, &c);
    }
    allow(&there.nodes[0], &c.identity, "data:/set", &["--read"]);
    let_in(&site, &there, &c, "c-evil-3", ("data/set", false));
    let seen = end_of(&site, &there, &c, "c-evil-3", pull("secret", "in/"));
    assert_denied(&seen, &c);
    let left = std::fs::read_dir(&into).expect("there");
    assert_eq!(left.count(), 0, "nothing was fetched");
    assert!(!site.nodes[0].export.join("new").exists());

    let_in(&site, &there, &c, JOB, ("data/set", false));
    let seen = end_of(&site, &there, &c, JOB, pull("set", "in/"));
    assert_eq!(seen.view.state, JobState::Complete, "{:?}", seen.view);
    let set = there.nodes[0].export.join("set");
    assert_identical_to_rsync("-aH", &set, &into.join("set"));
}

#[test]
fn a_verification_by_members_reads_with_the_rights_of_the_site_that_asked() {
    let (site, there, c) = three();
    write(&there, "secret/f", b"secret");
    write(&there, "open/f", b"other");
    write(&site, "mine/f", b"guess");
    let at = |name: &str| {
        let path = site.nodes[0].export.join(name);
        path.to_str().expect("text").to_owned()
    };
    let copy = site.nodes[0].path("copy").display().to_string();
    let made = site.nodes[0].client(&["cp", "--manifest", &at("list"), &at("mine/f"), &copy]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let verify = |of: &str| {
        json!({"kind": "verify", "sources": ["here:/data/list"], "destination": format!("siteB:/data/{of}"),
               "settings": {"extra": ["true"]}, "divide": "always"})
    };
    let seen = end_of(&site, &there, &c, "c-evil-1", verify("secret"));
    assert_denied(&seen, &c);
    assert!(seen.failures.is_empty(), "{:?}", seen.failures);
    allow(&there.nodes[0], &c.identity, "data:/open", &["--read"]);
    let_in(&site, &there, &c, "c-evil-2", ("data/open", false));
    let seen = end_of(&site, &there, &c, "c-evil-2", verify("secret"));
    assert_denied(&seen, &c);
    assert!(seen.failures.is_empty(), "{:?}", seen.failures);

    let_in(&site, &there, &c, JOB, ("data/open", false));
    let seen = end_of(&site, &there, &c, JOB, verify("open"));
    let code = seen.view.reason.as_ref().map(|reason| reason.code.as_str());
    assert!(code != Some("access_denied"), "{:?}", seen.view);
    assert!(!seen.failures.is_empty(), "{:?}", seen.view);
}
