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

/// Runs a divided job of C at the cluster, with its other end at a node of the third site, to its end.
#[track_caller]
fn end_of(site: &Site, there: &Site, c: &Rig, job: &str, destination: &str) -> JobSeen {
    let new =
        json!({"sources": ["here:/data/set"], "destination": destination, "divide": "always"});
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

pub(crate) fn rules(rig: &Rig) -> usize {
    let list = rig.admin(&["access", "list", "--json"]).out;
    let rules = list
        .lines()
        .map(|line| serde_json::from_str(line).expect("a rule"));
    rules.filter(|rule: &Value| rule["job"].is_string()).count()
}

#[test]
fn members_on_both_sides_act_by_the_rights_of_the_site_that_asked() {
    let (site, there) = (Site::of(2), Site::of(2));
    let mut c = Rig::new();
    c.serve(&[]);
    // The third site grants all nodes of the cluster, and the cluster grants C.
    for node in &site.nodes {
        allow(
            &there.nodes[0],
            &node.identity,
            "data",
            &["--read", "--write"],
        );
    }
    allow(&site.nodes[0], &c.identity, "data", &["--read", "--write"]);
    for n in 0..400_u32 {
        write(
            &site,
            &format!("set/d{}/f{n}", n % 20),
            &n.to_le_bytes().repeat(5_000),
        );
    }
    // Further names, which the closer makes: it may not read there, and the members have brought the files.
    let set = site.nodes[0].export.join("set");
    std::fs::create_dir(set.join("links")).expect("made");
    for n in 0..20 {
        let (first, name) = (format!("d{n}/f{n}"), format!("links/{n}"));
        std::fs::hard_link(set.join(first), set.join(name)).expect("linked");
    }
    write(&there, "victim/f", b"old");
    let seen = end_of(&site, &there, &c, "c-evil-1", "siteB:/data/victim");
    assert_denied(&seen, &c);
    let left = std::fs::read_dir(there.nodes[0].export.join("victim")).expect("there");
    assert_eq!(left.count(), 1, "nothing was written");

    // C may write at one place of the third site, and lets the nodes of the cluster in there.
    std::fs::create_dir_all(there.nodes[0].export.join("in")).expect("made");
    allow(&there.nodes[0], &c.identity, "data:/in", &["--write"]);
    // Any node of the cluster may have to run the job.
    for node in &site.nodes {
        let give = Question::Grant(GrantJob {
            job: JOB.to_owned(),
            identity: node.identity.clone(),
            paths: vec![Text::from("data/in")],
            write: true,
            until: Timestamp(godwit_jobs::now().0 + 3_600_000),
            lasts_ms: None,
        });
        ask(&c, &there.nodes[0], None, &give).expect("given");
    }
    let seen = end_of(&site, &there, &c, "c-evil-2", "siteB:/data/victim");
    assert_denied(&seen, &c);
    let seen = end_of(&site, &there, &c, JOB, "siteB:/data/in/");
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
