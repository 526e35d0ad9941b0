//! The rights of a node's users at other sites, by the real binary: nothing without a rule, and no longer than the rule.
//! See the tests of the API for the kinds of requests; those tests ask no site.

use std::fs;

use serde_json::json;

use super::super::rest::Caller;
use super::super::rig::Rig;
use super::third::Three;
use super::{fill, know, moved, two_sites, wait_for};

#[track_caller]
fn output_of(rig: &Rig, line: &[&str]) -> String {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(0), "{line:?}: {outcome:?}");
    outcome.out
}

#[track_caller]
fn refused(rig: &Rig, line: &[&str], code: i32, why: &str) {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(code), "{line:?}: {outcome:?}");
    outcome.says(why);
}

#[test]
fn a_user_reaches_at_a_site_what_a_rule_names_and_nothing_else() {
    let (here, there) = two_sites();
    for name in ["run4/secret", "run42/secret"] {
        fs::create_dir_all(there.export.join(name)).expect("made");
        fs::write(there.export.join(name).join("file"), b"12345").expect("written");
    }
    here.write("export/own/file", "ours");
    let alice = Caller::user(&here, "alice", "operator");
    let list = |path: &str| alice.get(&format!("places?place=siteB:/data{path}"));
    let space = || alice.get("places/space?place=siteB:/");
    for path in ["", "/run4", "/run42"] {
        let no = list(path).expect(403);
        assert_eq!(no["code"], "not_granted", "{no}");
    }
    space().expect(403);
    // The admin of the node is not held back.
    assert!(output_of(&here, &["ls", "siteB:/data"]).contains("run42"));

    let allow = |more: &[&str]| {
        let line = [&["access", "allow", "user:alice"], more].concat();
        output_of(&here, &line)
    };
    let words = allow(&["--site", "siteB:/data/run4", "--read"]);
    assert!(
        words.contains("user:alice may now read siteB:/data/run4"),
        "{words}"
    );
    let listed = list("/run4").expect(200).to_string();
    assert!(listed.contains("secret"), "{listed}");
    list("/run42").expect(403);
    list("").expect(403);
    let room = space().expect(200);
    assert_eq!(
        (&room[0]["read"], &room[0]["write"]),
        (&json!(true), &json!(false))
    );

    let submit = |source: &str, destination: &str| {
        alice.post(
            "jobs",
            &json!({"sources": [source], "destination": destination}),
        )
    };
    allow(&["--export", "data", "--read", "--write"]);
    let job = submit("siteB:/data/run4", "here:/data/got").expect(201);
    let id = job["id"].as_str().expect("an id");
    let ended = wait_for(&here, id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    assert!(here.export.join("got/secret/file").exists());
    submit("siteB:/data/run42", "here:/data/got").expect(403);
    let no = submit("here:/data/own", "siteB:/data/run4").expect(403);
    let advice = "godwit access allow user:alice --site siteB:/data/run4 --write";
    assert!(no["detail"].to_string().contains(advice), "{no}");
    for (path, body) in [
        ("mkdir", json!({"place": "siteB:/data/run4/new"})),
        (
            "remove",
            json!({"place": "siteB:/data/run4", "recursive": true}),
        ),
        (
            "rename",
            json!({"from": "siteB:/data/run4", "to": "siteB:/data/x"}),
        ),
        (
            "clean",
            json!({"place": "siteB:/data/run4", "older_than_seconds": 0}),
        ),
    ] {
        alice.post(&format!("places/{path}"), &body).expect(403);
    }
    assert!(there.export.join("run4/secret/file").exists());
    assert!(!there.export.join("run4/new").exists());

    let shown = output_of(&here, &["access", "list"]);
    assert!(shown.contains("siteB:/data/run4"), "{shown}");
    // Deny with `--site` removes the rule for the site; the rule for this node stays.
    let words = output_of(&here, &["access", "deny", "user:alice", "--site", "siteB"]);
    assert!(
        words.contains("may no longer read siteB:/data/run4"),
        "{words}"
    );
    assert!(
        words.contains("may still read and write export data"),
        "{words}"
    );
    list("/run4").expect(403);
}

/// The site checks only the rights of the node, which may read everything.
#[test]
fn a_user_who_may_only_write_at_a_site_reads_no_file_there_by_a_further_name_of_it() {
    let (here, there) = two_sites();
    let alice = Caller::user(&here, "alice", "operator");
    for area in [
        ["--export", "data", "--read"],
        ["--site", "siteB:/data", "--write"],
    ] {
        output_of(
            &here,
            &[&["access", "allow", "user:alice"], &area[..]].concat(),
        );
    }
    // One of the two names comes first at the source.
    for (secret, public) in [("a", "b"), ("b", "a")] {
        let set = format!("set-{secret}");
        for (rig, name, content) in [(&there, secret, "secret"), (&here, secret, "guess!")] {
            rig.write(&format!("export/{set}/{name}"), content);
        }
        let [theirs, ours] = [&there, &here].map(|rig| rig.export.join(&set));
        fs::hard_link(ours.join(secret), ours.join(public)).expect("linked");
        let time = fs::metadata(theirs.join(secret)).and_then(|meta| meta.modified());
        let file = fs::File::options()
            .write(true)
            .open(ours.join(secret))
            .expect("there");
        file.set_modified(time.expect("a time")).expect("set");
        let mut new = json!({
            "sources": [format!("here:/data/{set}")], "destination": "siteB:/data/",
            "settings": {"size-only": ["true"]},
        });
        alice.post("jobs", &new).expect(403);
        new["settings"] = json!({});
        let job = alice.post("jobs", &new).expect(201);
        let id = job["id"].as_str().expect("an id");
        let ended = wait_for(&here, id, |job| !job["ended"].is_null());
        assert_eq!(ended["state"], "complete", "{ended}");
        for name in [secret, public] {
            let found = fs::read_to_string(theirs.join(name)).expect("there");
            assert_eq!(found, "guess!", "{set}/{name}");
        }
    }
}

#[test]
fn a_rule_ends_with_its_site_and_with_the_identity_of_the_site() {
    let (here, there) = two_sites();
    let alice = Caller::user(&here, "alice", "operator");
    let other = Rig::new();
    let list = || alice.get("places?place=siteB:/data").status;
    let allow = || {
        output_of(
            &here,
            &["access", "allow", "user:alice", "--site", "siteB", "--list"],
        )
    };
    let rules = || {
        output_of(&here, &["access", "list", "--json"])
            .lines()
            .count()
    };
    allow();
    assert_eq!((list(), rules()), (200, 1));
    // The same identity at another address is the same site.
    know(&here, "siteB", &there);
    assert_eq!((list(), rules()), (200, 1));
    let line = [
        "site",
        "add",
        "siteB",
        there.address(),
        "--identity",
        &other_identity(&other),
    ];
    output_of(&here, &line);
    assert_eq!((list(), rules()), (403, 0));
    know(&here, "siteB", &there);
    assert_eq!(list(), 403);
    allow();
    output_of(&here, &["site", "remove", "siteB"]);
    assert_eq!((list(), rules()), (404, 0));
    know(&here, "siteB", &there);
    assert_eq!(list(), 403);

    for (line, code, why) in [
        (
            &["user:alice", "--site", "nowhere", "--read"][..],
            2,
            "knows no site",
        ),
        (&["user:alice", "--site", "here:/data"], 2, "--export"),
        (
            &["user:alice", "--site", "siteB:data"],
            2,
            "siteB:/archive/run42",
        ),
        (&["user:alice", "--site", "siteB:/data/../x"], 2, ".."),
        (
            &[there.identity.as_str(), "--site", "siteB"],
            2,
            "for a user",
        ),
    ] {
        let line = [&["access", "allow"], line].concat();
        refused(&here, &line, code, why);
    }
}

/// The identity of a node that was never started.
fn other_identity(rig: &Rig) -> String {
    output_of(rig, &["id"]).trim().to_owned()
}

#[test]
fn a_running_job_ends_when_the_rule_at_its_site_is_taken_back() {
    let (here, _there) = two_sites();
    fill(&here, 10, 400_000);
    let alice = Caller::user(&here, "alice", "operator");
    output_of(
        &here,
        &[
            "access",
            "allow",
            "user:alice",
            "--export",
            "data",
            "--read",
        ],
    );
    let rule = [
        "access",
        "allow",
        "user:alice",
        "--site",
        "siteB:/data/copy",
        "--write",
    ];
    output_of(&here, &rule);
    let new = json!({"sources": ["here:/data/run42"], "destination": "siteB:/data/copy", "limit": 100_000});
    let schedule = json!({"cron": "* * * * * *", "job": new});
    let job = alice.post("jobs", &new).expect(201);
    let id = job["id"].as_str().expect("an id");
    wait_for(&here, id, |job| moved(job) > 0);
    output_of(&here, &["access", "deny", "user:alice", "--site", "siteB"]);
    let ended = wait_for(&here, id, |job| !job["ended"].is_null());
    assert_eq!(ended["reason"]["code"], "access_denied", "{ended}");
    let text = ended["reason"]["text"].as_str().unwrap_or_default();
    assert!(
        text.contains("may not write to siteB:/data/copy"),
        "{ended}"
    );

    // Without the rule the job is not retried, no schedule is made, and an existing schedule submits nothing.
    alice
        .post(&format!("jobs/{id}/retry"), &json!({}))
        .expect(403);
    alice.put("schedules/often", &schedule).expect(403);
    output_of(&here, &rule);
    alice.put("schedules/often", &schedule).expect(200);
    output_of(
        &here,
        &["access", "deny", "user:alice", "--site", "siteB:/data/copy"],
    );
    let admin = Caller::admin(&here);
    let why = super::super::process::wait_until(|| {
        let listed = admin.get("schedules").expect(200);
        (listed[0]["reason"]["code"] == "not_granted").then_some(listed)
    });
    assert!(why.is_some(), "the schedule goes on");
}

#[test]
fn a_job_between_two_sites_takes_a_rule_at_each() {
    let three = Three::new();
    fill(&three.source, 10, 400_000);
    let alice = Caller::user(&three.asked, "alice", "operator");
    let new = json!({"sources": ["siteS:/data/run42"], "destination": "siteD:/data/copy", "limit": 100_000});
    let allow = |place: &str, right: &str| {
        output_of(
            &three.asked,
            &["access", "allow", "user:alice", "--site", place, right],
        );
    };
    alice.post("jobs", &new).expect(403);
    allow("siteS:/data/run42", "--read");
    let no = alice.post("jobs", &new).expect(403);
    assert!(
        no["detail"].to_string().contains("siteD:/data/copy"),
        "{no}"
    );
    allow("siteD:/data/copy", "--write");
    let job = alice.post("jobs", &new).expect(201);
    let id = job["id"].as_str().expect("an id");
    three.wait_for(id, |job| moved(job) > 0);
    output_of(
        &three.asked,
        &["access", "deny", "user:alice", "--site", "siteS"],
    );
    let ended = three.wait_for(id, |job| !job["ended"].is_null());
    assert_eq!(ended["reason"]["code"], "access_denied", "{ended}");
    // The site that ran the job learned that the access ended, and the other site has no rule any more.
    three.wait_for(id, |_| super::third::rules(&three.destination) == 0);
}

#[test]
fn a_directory_is_not_made_above_the_place_of_a_rule() {
    let (here, there) = two_sites();
    let alice = Caller::user(&here, "alice", "operator");
    let rules = [
        ["--export", "data:/m/deep"],
        ["--site", "siteB:/data/m/deep"],
    ];
    for rule in rules {
        let line = ["access", "allow", "user:alice", rule[0], rule[1], "--write"];
        output_of(&here, &line);
    }
    // A peer with such a rule.
    let peer = Rig::new();
    let identity = peer.admin(&["id"]).out;
    for rig in [&here, &there] {
        let who = identity.trim();
        let line = [
            "access",
            "allow",
            who,
            "--export",
            "data:/m/deep",
            "--write",
        ];
        output_of(rig, &line);
    }
    let mut peer = peer;
    peer.serve(&[]);
    know(&peer, "siteA", &here);
    for (site, rig) in [("here", &here), ("siteB", &there)] {
        let make = |path: &str| {
            let place = format!("{site}:/data/{path}");
            alice.post("places/mkdir", &json!({"place": place, "parents": true}))
        };
        let no = make("m/deep/er/x").expect(403);
        assert_eq!(no["code"], "not_granted", "{no}");
        if site == "here" {
            let outcome = peer.admin(&["mkdir", "-p", "siteA:/data/m/deep/er/x"]);
            assert_ne!(outcome.code, Some(0), "{outcome:?}");
            outcome.says("may not make");
        }
        assert!(!rig.export.join("m").exists());
        fs::create_dir(rig.export.join("m")).expect("made");
        make("m/deep/er/x").expect(200);
        assert!(rig.export.join("m/deep/er/x").is_dir());
    }
    output_of(&peer, &["mkdir", "-p", "siteA:/data/m/deep/by/peer"]);
}
