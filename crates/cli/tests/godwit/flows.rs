//! Flows by three nodes of the real binary: files pass the centre while a large one is on its way to it, and after a kill.
//! See the tests of the API for the rights of the owner, and `trust::flows` for sites that refuse a hop.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::judge::{assert_identical_to_rsync, assert_no_temporaries};
use super::rig::Rig;
use super::sites::{DEADLINE, allow, know};

/// The large file: a minute at the rate of the first hop.
const LARGE: usize = 64 << 20;

/// Where files are made, where they are kept and where they are wanted. The centre keeps the flow; the other two know no peer.
struct World {
    telescope: Rig,
    centre: Rig,
    partner: Rig,
}

impl World {
    fn new() -> Self {
        let [mut telescope, mut centre, mut partner] = [Rig::new(), Rig::new(), Rig::new()];
        for rig in [&mut telescope, &mut centre, &mut partner] {
            rig.serve(&[]);
        }
        know(&centre, "telescope", &telescope);
        know(&centre, "partners", &partner);
        allow(&telescope, &centre.identity, &["--read"]);
        allow(&partner, &centre.identity, &["--write"]);
        telescope.write("export/raw/early", "early");
        Self {
            telescope,
            centre,
            partner,
        }
    }

    fn add(&self, more: &[&str]) {
        let places = [
            "--from",
            "telescope:/data/raw",
            "--to",
            "here:/data/archive",
            "--then",
            "partners:/data/in",
            "--every",
            "1s",
        ];
        add(&self.centre, &[&places[..], more].concat());
    }

    /// Content of a file at the partner, once it has arrived.
    #[track_caller]
    fn arrived(&self, name: &str) -> Vec<u8> {
        let path = self.partner.export.join("in").join(name);
        let until = Instant::now() + DEADLINE;
        loop {
            if let Ok(content) = std::fs::read(&path) {
                return content;
            }
            let flow = shown(&self.centre);
            assert!(Instant::now() < until, "{name} does not arrive: {flow:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until all files have arrived, as they are at their origin.
    #[track_caller]
    fn assert_all_arrive(&self) {
        let files = std::fs::read_dir(self.telescope.export.join("raw")).expect("there");
        for file in files {
            let name = file.expect("an entry").file_name();
            self.arrived(name.to_str().expect("text"));
        }
        for there in [
            self.centre.export.join("archive"),
            self.partner.export.join("in"),
        ] {
            assert_identical_to_rsync("-rlO", &self.telescope.export.join("raw"), &there);
        }
    }
}

/// Adds the flow `night` to a node. All nodes of a cluster know flows a moment after their start.
#[track_caller]
pub(crate) fn add(rig: &Rig, more: &[&str]) {
    let line = [&["flow", "add", "night"], more].concat();
    let until = Instant::now() + DEADLINE;
    loop {
        let outcome = rig.admin(&line);
        if outcome.code == Some(0) {
            return;
        }
        let is_early = outcome.complaint.contains("cluster is at level");
        assert!(is_early && Instant::now() < until, "{outcome:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The flow `night` of a node; None while the node does not answer.
pub(crate) fn shown(rig: &Rig) -> Option<Value> {
    let outcome = rig.admin(&["flow", "show", "night", "--json"]);
    serde_json::from_str(&outcome.out).ok()
}

/// Waits until the flow `night` of a node passes the test.
#[track_caller]
pub(crate) fn wait(rig: &Rig, is_it: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + DEADLINE;
    loop {
        let now = shown(rig);
        if let Some(flow) = now.as_ref().filter(|flow| is_it(flow)) {
            return flow.clone();
        }
        assert!(Instant::now() < until, "it does not come: {now:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Files that a hop has moved.
pub(crate) fn files(flow: &Value, hop: usize) -> u64 {
    flow["hops"][hop]["files"].as_u64().unwrap_or(0)
}

/// Whether both hops are in this state.
fn all_are(flow: &Value, state: &str) -> bool {
    let hops = flow["hops"].as_array().expect("hops");
    hops.iter().all(|hop| hop["state"] == state)
}

#[track_caller]
fn output_of(rig: &Rig, line: &[&str]) -> String {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome.out
}

#[test]
fn files_reach_the_partner_while_a_large_one_is_on_its_way_to_the_centre() {
    let world = World::new();
    let World {
        telescope, centre, ..
    } = &world;
    world.add(&["--hop", "1:limit=1MB/s", "--label", "night"]);
    assert_eq!(world.arrived("early"), b"early");
    // One run takes the large file and the small ones.
    output_of(centre, &["flow", "pause", "night"]);
    wait(centre, |flow| all_are(flow, "paused"));
    telescope.write("export/raw/large", vec![7; LARGE]);
    for number in 0..20 {
        telescope.write(&format!("export/raw/small{number}"), number.to_string());
    }
    output_of(centre, &["flow", "resume", "night"]);
    for number in 0..20 {
        let content = world.arrived(&format!("small{number}"));
        assert_eq!(content, number.to_string().as_bytes());
    }
    let flow = shown(centre).expect("a flow");
    assert!(!centre.export.join("archive/large").exists(), "{flow}");
    assert_eq!(flow["hops"][0]["state"], "running", "{flow}");
    // The scan has ended, and the node has had its sum.
    let flow = wait(centre, |flow| {
        flow["hops"][0]["backlog_bytes"].as_u64() > Some(0)
    });
    assert!(flow["hops"][0]["oldest"].is_string(), "{flow}");
    let list = output_of(centre, &["flow", "list"]);
    assert!(
        list.contains("telescope:/data/raw/. -> here:/data/archive/ -> partners:/data/in/"),
        "{list}"
    );
    // A file that is still on its way is neither passed on nor missed.
    let jobs = output_of(centre, &["job", "list", "--all", "--json"]);
    for job in jobs.lines() {
        let job: Value = serde_json::from_str(job).expect("a job");
        let state = job["state"].as_str().expect("a state");
        assert!(!["partial", "failed"].contains(&state), "{job}");
    }
    let run = flow["hops"][0]["run"].as_str().expect("a run");
    output_of(centre, &["job", "limit", run, "none"]);
    world.assert_all_arrive();
    // New files go on, too.
    telescope.write("export/raw/late", "late");
    assert_eq!(world.arrived("late"), b"late");
    let flow = wait(centre, |flow| files(flow, 1) >= 23);
    assert!(files(&flow, 0) >= 23, "{flow}");
    output_of(centre, &["flow", "pause", "night"]);
    wait(centre, |flow| all_are(flow, "paused"));
    assert_no_temporaries(&world.partner.export);
    // A change does not start a paused flow.
    world.add(&["--comment", "later"]);
    let changed = shown(centre).expect("a flow");
    assert_eq!(
        (&changed["paused"], &changed["comment"]),
        (&json!(true), &json!("later"))
    );
    output_of(centre, &["flow", "remove", "night"]);
    assert!(output_of(centre, &["flow", "list"]).contains("there are no flows"));
    world.assert_all_arrive();
}

#[test]
fn a_flow_continues_when_its_node_and_a_site_are_killed() {
    let mut world = World::new();
    world.telescope.write("export/raw/large", vec![7; LARGE]);
    world.add(&["--hop", "1:limit=4MB/s", "--hop", "2:limit=8MB/s"]);
    world.arrived("early");
    world.centre.kill_daemon();
    world.centre.serve(&[]);
    wait(&world.centre, |flow| flow["hops"][0]["state"] == "running");
    world.partner.kill_daemon();
    world.telescope.write("export/raw/late", "late");
    world.partner.serve(&[]);
    world.assert_all_arrive();
}
