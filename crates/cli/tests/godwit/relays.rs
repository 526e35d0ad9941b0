//! Destinations of one job that take their data from each other, between nodes of the real binary: after a failure, by digests, by rights.
//! See `trust` for sites that distrust each other.

mod first;

use std::fs;

use serde_json::{Value, json};

use super::judge::assert_identical_to_rsync;
use super::rest::Caller;
use super::rig::Rig;
use super::sites::{allow, fill, know, wait_for};

const FILES: u8 = 12;
const BYTES: usize = 4_000_000;
const ALL: u64 = FILES as u64 * BYTES as u64;

/// A node with a data set, and two sites.
struct World {
    here: Rig,
    b: Rig,
    c: Rig,
}

impl World {
    /// The node may do this at both sites.
    fn new(rights: &[&str]) -> Self {
        let [mut here, mut b, mut c] = [Rig::new(), Rig::new(), Rig::new()];
        for rig in [&mut here, &mut b, &mut c] {
            rig.serve(&[]);
        }
        for (name, site) in [("siteB", &b), ("siteC", &c)] {
            allow(site, &here.identity, rights);
            know(&here, name, site);
        }
        fill(&here, FILES, BYTES);
        Self { here, b, c }
    }

    #[track_caller]
    fn output_of(&self, line: &[&str]) -> String {
        let outcome = self.here.admin(line);
        assert_eq!(outcome.code, Some(0), "{line:?}: {outcome:?}");
        outcome.out
    }

    /// Submits a job to both sites while the second one is away, and starts that site after the end. Returns the id of the job.
    #[track_caller]
    fn half(&mut self, more: &[&str]) -> String {
        self.half_of("here:/data/run42", more)
    }

    #[track_caller]
    fn half_of(&mut self, source: &str, more: &[&str]) -> String {
        self.c.kill_daemon();
        let line = [
            "job",
            "submit",
            source,
            "--to",
            "siteB:/data/copy",
            "--to",
            "siteC:/data/copy",
            "--retries",
            "0",
            "--setting",
            "retry-for=0s",
        ];
        let id = self.output_of(&[&line, more].concat()).trim().to_owned();
        self.ends(&id, "partial");
        self.c.serve(&[]);
        id
    }

    #[track_caller]
    fn ends(&self, id: &str, state: &str) -> Value {
        wait_for(&self.here, id, |job| {
            !job["ended"].is_null() && job["state"] == state
        })
    }

    /// The job of a destination, from 0.
    #[track_caller]
    fn child(&self, id: &str, number: usize) -> Value {
        let shown: Value =
            serde_json::from_str(&self.output_of(&["job", "show", id, "--json"])).expect("a job");
        shown["jobs"][number].clone()
    }

    /// All relays so far.
    fn relays(&self) -> Vec<Value> {
        let list = self.output_of(&["job", "list", "--all", "--json"]);
        let jobs = list.lines().map(serde_json::from_str::<Value>);
        let jobs = jobs.map(|job| job.expect("a document"));
        let is_relay = |job: &Value| {
            let label = job["label"].as_str();
            label.is_some_and(|label| label.contains("relay to job"))
        };
        jobs.filter(is_relay).collect()
    }

    #[track_caller]
    fn assert_identical(&self) {
        let [one, other] = [self.here.export.join("run42"), self.c.export.join("copy")];
        assert_identical_to_rsync("-aHO", &one, &other);
    }
}

#[test]
fn a_destination_that_was_away_takes_its_data_from_another_one() {
    let mut world = World::new(&["--read", "--write"]);
    let id = world.half(&["--relay", "auto", "--label", "night-42"]);
    let before = world.here.daemon().read().expect("it runs");
    world.output_of(&["job", "retry", &id]);
    world.ends(&id, "complete");
    let read = world.here.daemon().read().expect("it runs") - before;
    assert!(read < ALL / 4, "{read} of {ALL} were read at the source");
    world.assert_identical();
    let child = world.child(&id, 1);
    assert_eq!(child["reason"]["code"], "relayed", "{child}");
    let relays = world.relays();
    let [relay] = relays.as_slice() else {
        panic!("{relays:?}");
    };
    assert_eq!(relay["state"], "complete", "{relay}");
    assert_eq!(relay["moved"]["bytes"], ALL, "{relay}");
    let why = child["reason"]["text"].as_str().expect("a text");
    let relay = relay["id"].as_str().expect("an id");
    assert!(why.contains("siteB") && why.contains(relay), "{why}");
    let child = child["id"].as_str().expect("an id");
    let report = world.output_of(&["job", "report", child]);
    assert!(report.contains("siteB"), "{report}");
    // The parent counts its two destinations only.
    let parent = world.ends(&id, "complete");
    assert_eq!(parent["destinations"]["total"], 2, "{parent}");
}

#[test]
fn without_the_word_all_data_comes_from_the_source() {
    let mut world = World::new(&["--read", "--write"]);
    let id = world.half(&[]);
    world.output_of(&["job", "retry", &id]);
    world.ends(&id, "complete");
    world.assert_identical();
    assert_eq!(world.relays(), Vec::<Value>::new());
    let child = world.child(&id, 1);
    assert_eq!(child["reason"]["code"], "complete", "{child}");
}

#[test]
fn a_copy_that_was_changed_since_is_not_passed_on() {
    let mut world = World::new(&["--read", "--write"]);
    let id = world.half(&["--relay", "auto"]);
    // The same size and time, and an entry that the source does not have.
    let changed = world.b.export.join("copy/d0/f3");
    let time = fs::metadata(&changed).expect("there").modified();
    fs::write(&changed, vec![99; BYTES]).expect("written");
    let file = fs::File::options()
        .append(true)
        .open(&changed)
        .expect("open");
    file.set_modified(time.expect("a time")).expect("set");
    fs::write(world.b.export.join("copy/foreign"), b"foreign").expect("written");
    world.output_of(&["job", "retry", &id]);
    world.ends(&id, "complete");
    world.assert_identical();
    let relays = world.relays();
    assert_eq!(relays.len(), 1, "{relays:?}");
    assert_eq!(relays[0]["state"], "failed", "{relays:?}");
    assert_eq!(relays[0]["reason"]["code"], "relay_changed", "{relays:?}");
    assert_eq!(relays[0]["moved"]["bytes"], 0, "{relays:?}");
}

#[test]
fn a_file_that_only_looks_right_is_replaced_and_the_giver_is_not_blamed() {
    let mut world = World::new(&["--read", "--write"]);
    let id = world.half_of("here:/data/run42/.", &["--relay", "auto"]);
    // The same size and time as at the source.
    let right = world.here.export.join("run42/d0/f3");
    let time = fs::metadata(&right).and_then(|found| found.modified());
    fs::create_dir_all(world.c.export.join("copy/d0")).expect("made");
    let wrong = world.c.export.join("copy/d0/f3");
    fs::write(&wrong, vec![99; BYTES]).expect("written");
    let file = fs::File::options().append(true).open(&wrong).expect("open");
    file.set_modified(time.expect("a time")).expect("set");
    world.output_of(&["job", "retry", &id]);
    world.ends(&id, "complete");
    let relays = world.relays();
    assert_eq!(relays.len(), 1, "{relays:?}");
    assert_eq!(relays[0]["state"], "complete", "{relays:?}");
    world.assert_identical();
}

#[test]
fn a_paused_destination_continues_where_it_was() {
    let world = World::new(&["--read", "--write"]);
    let line = [
        "job",
        "submit",
        "here:/data/run42",
        "--to",
        "siteB:/data/copy",
        "--to",
        "siteC:/data/copy",
        "--relay",
        "auto",
        "--limit",
        "8MB/s",
        "--setting",
        "memory=8MiB",
    ];
    let id = world.output_of(&line).trim().to_owned();
    let child = |number: usize| {
        let child = world.child(&id, number)["id"].clone();
        child.as_str().expect("an id").to_owned()
    };
    let (first, second) = (child(0), child(1));
    wait_for(&world.here, &second, |job| {
        job["progress"]["bytes"].as_u64() > Some(0)
    });
    world.output_of(&["job", "pause", &second]);
    world.ends(&first, "complete");
    world.output_of(&["job", "resume", &second]);
    world.ends(&id, "complete");
    world.assert_identical();
    assert_eq!(world.relays(), Vec::<Value>::new());
}

#[test]
fn wrong_data_on_the_way_is_found_named_and_replaced_from_the_source() {
    let mut world = World::new(&["--read", "--write"]);
    let slow = [
        "--relay",
        "auto",
        "--limit",
        "8MB/s",
        "--setting",
        "memory=8MiB",
    ];
    let id = world.half(&slow);
    world.output_of(&["job", "retry", &id]);
    let child = world.child(&id, 1)["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    wait_for(&world.here, &child, |job| {
        job["reason"]["code"] == "relaying"
    });
    let relay = world.relays()[0]["id"].as_str().expect("an id").to_owned();
    wait_for(&world.here, &relay, |job| {
        job["progress"]["bytes"].as_u64() > Some(0)
    });
    // The copy was right when it was checked.
    for n in 0..FILES {
        let path = world.b.export.join(format!("copy/d{}/f{n}", n % 3));
        fs::write(path, vec![200 + n; BYTES]).expect("written");
    }
    world.ends(&id, "complete");
    let relay = world.ends(&relay, "failed");
    assert_eq!(relay["reason"]["code"], "relay_wrong", "{relay}");
    let why = relay["reason"]["text"].as_str().expect("a text");
    assert!(why.contains("siteB"), "{why}");
    world.assert_identical();
    let child = world.child(&id, 1);
    assert_eq!(child["reason"]["code"], "complete", "{child}");
}

#[test]
fn a_user_who_may_not_read_at_a_destination_gets_nothing_from_it() {
    let mut world = World::new(&["--read", "--write"]);
    let user = |more: &[&str]| {
        let line = [&["access", "allow", "user:alice"], more].concat();
        world.output_of(&line);
    };
    let alice = Caller::user(&world.here, "alice", "operator");
    user(&["--export", "data", "--read"]);
    user(&["--site", "siteB:/data", "--write"]);
    user(&["--site", "siteC:/data", "--read", "--write"]);
    world.c.kill_daemon();
    let new = json!({
        "sources": ["here:/data/run42"], "destination": "siteB:/data/copy", "more_destinations": ["siteC:/data/copy"],
        "relay": "auto", "retries_max": 0, "settings": {"retry-for": ["0s"]},
    });
    let made = alice.post("jobs", &new).expect(201);
    let id = made["id"].as_str().expect("an id");
    world.ends(id, "partial");
    world.c.serve(&[]);
    // The node itself may read there, and so may the admin that lets the job run again.
    world.output_of(&["job", "retry", id]);
    world.ends(id, "complete");
    world.assert_identical();
    assert_eq!(world.relays(), Vec::<Value>::new());
}

#[test]
fn a_key_of_the_node_is_refused_to_users_and_a_lone_copy_relays_nothing() {
    let world = World::new(&["--write"]);
    let line = ["job", "submit", "here:/data/run42", "siteB:/data/copy"];
    let with = |more: &[&str], word: &str| {
        let outcome = world.here.admin(&[&line, more].concat());
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
        assert!(outcome.complaint.contains(word), "{outcome:?}");
    };
    with(&["--idempotency-key", "relay:a:b"], "idempotency keys");
    with(&["--relay", "auto"], "several destinations");
    with(&["--relay", "always"], "never, auto");
}
