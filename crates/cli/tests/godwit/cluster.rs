//! Several nodes as one cluster, by the real binary: joining, jobs at any node, lost, drained and removed nodes, a lost majority.
//! See the tests of the state for the consensus itself.

mod addresses;
mod amounts;
mod closes;
mod distributed;
mod divided;
mod faults;
mod full;
mod grown;
pub(crate) mod guests;
mod held_up;
mod independent;
mod invitations;
mod left;
mod levels;
mod membership;
mod memory;
mod no_room;
mod past;
mod paused;
mod pooled;
mod recovery;
mod refused;
mod shown;
mod sites;
mod story;
mod subjects;
mod taken_over;
mod watched;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::judge::assert_identical_to_rsync;
use super::rig::Rig;
use super::sites::{submit, wait_for};

/// For work of some seconds, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// Nodes with one export on a shared file system.
struct Site {
    shared: TempDir,
    nodes: Vec<Rig>,
}

impl Site {
    fn of(nodes: usize) -> Self {
        Self::with(nodes, &[])
    }

    /// The file system alone.
    fn empty() -> Self {
        let memory = Path::new("/dev/shm");
        let shared = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir());
        Self {
            shared: shared.expect("a directory"),
            nodes: Vec::new(),
        }
    }

    /// Nodes that run with further arguments.
    fn with(nodes: usize, more: &[&str]) -> Self {
        let mut site = Self::empty();
        let mut first = site.rig();
        first.serve(more);
        site.nodes.push(first);
        for number in 2..=nodes {
            site.join(&format!("dtn{number}"), more);
        }
        site.wait("all vote who shall", |view| {
            let seats = [1, 1, 3, 3][nodes - 1];
            up(view).len() == nodes && voters(view) == seats
        });
        site
    }

    /// A node for each of these exports, which are one file system by several mounts.
    fn at(exports: &[PathBuf]) -> Self {
        let shared = tempfile::tempdir().expect("a directory");
        let mut site = Self {
            shared,
            nodes: Vec::new(),
        };
        for (number, export) in exports.iter().enumerate() {
            let own = tempfile::tempdir_in(site.shared.path()).expect("a directory");
            let mut rig = Rig::with(own, Some(export), None);
            match site.nodes.last() {
                None => rig.serve(&[]),
                Some(by) => join_by(
                    &mut rig,
                    by,
                    &invite(by),
                    &format!("dtn{}", number + 1),
                    &[],
                ),
            }
            site.nodes.push(rig);
        }
        site.wait("all are up", |view| up(view).len() == exports.len());
        site
    }

    fn rig(&self) -> Rig {
        let own = tempfile::tempdir_in(self.shared.path()).expect("a directory");
        Rig::with(own, Some(&self.shared.path().join("export")), None)
    }

    /// Starts another node, which joins by an invitation of the last one.
    fn join(&mut self, name: &str, more: &[&str]) {
        let mut rig = self.rig();
        let by = self.nodes.last().expect("a node");
        join_by(&mut rig, by, &invite(by), name, more);
        self.nodes.push(rig);
    }

    /// The state of the cluster, from the node.
    fn view(&self, node: usize) -> Option<Value> {
        view(&self.nodes[node])
    }

    /// Waits until every running node reports the same cluster.
    #[track_caller]
    fn wait(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        self.wait_at(&all, what, is_so);
    }

    #[track_caller]
    fn wait_at(&self, nodes: &[usize], what: &str, is_so: impl Fn(&Value) -> bool) {
        let until = Instant::now() + DEADLINE;
        loop {
            let views: Vec<Option<Value>> = nodes.iter().map(|node| self.view(*node)).collect();
            if views.iter().all(|view| view.as_ref().is_some_and(&is_so)) {
                return;
            }
            assert!(Instant::now() < until, "in vain: {what}: {views:#?}");
            // Each look starts a program for each node.
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Which of the nodes leads.
    fn leader(&self, asked: usize) -> usize {
        let view = self.view(asked).expect("a view");
        let name = view["leader"].as_str().expect("a leader");
        self.place_of(name)
    }

    fn place_of(&self, name: &str) -> usize {
        match name.strip_prefix("dtn") {
            Some(number) => number.parse::<usize>().expect("a number") - 1,
            None => 0,
        }
    }
}

fn view(rig: &Rig) -> Option<Value> {
    let outcome = rig.admin(&["cluster", "status", "--json"]);
    serde_json::from_str(&outcome.out).ok()
}

fn invite(rig: &Rig) -> String {
    let outcome = rig.admin(&["cluster", "invite"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.complaint.contains("--join"),
        "it says what to do: {outcome:?}"
    );
    outcome.out.trim().to_owned()
}

/// Writes a token where its owner alone can read it.
fn token_file(rig: &Rig, token: &str) -> String {
    let file = rig.path("token");
    fs::write(&file, token).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("closed");
    file.to_str().expect("text").to_owned()
}

fn join_by(rig: &mut Rig, by: &Rig, token: &str, name: &str, more: &[&str]) {
    let file = token_file(rig, token);
    let line = [
        "--join",
        by.address(),
        "--token-file",
        &file,
        "--name",
        name,
    ];
    rig.serve(&[&line, more].concat());
}

/// Has a node try to join; returns its output.
#[track_caller]
fn refused(rig: &Rig, by: &Rig, token: &str, name: &str) -> String {
    let file = token_file(rig, token);
    let outcome = rig.admin(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--join",
        by.address(),
        "--token-file",
        &file,
        "--name",
        name,
    ]);
    assert!(matches!(outcome.code, Some(1 | 2)), "{outcome:?}");
    outcome.complaint
}

fn nodes(view: &Value) -> Vec<&Value> {
    view["nodes"].as_array().into_iter().flatten().collect()
}

fn up(view: &Value) -> Vec<&str> {
    let up = nodes(view).into_iter().filter(|node| node["state"] == "up");
    up.filter_map(|node| node["name"].as_str()).collect()
}

fn voters(view: &Value) -> usize {
    nodes(view)
        .iter()
        .filter(|node| node["votes"] == true)
        .count()
}

fn state_of(view: &Value, name: &str) -> String {
    let nodes = nodes(view);
    let node = nodes.iter().find(|node| node["name"] == name);
    node.and_then(|node| node["state"].as_str())
        .unwrap_or("none")
        .to_owned()
}

/// A site of one node, to which the nodes of the cluster may write.
fn archive(site: &Site) -> Rig {
    let mut there = Rig::new();
    // A node that is gone does not come back for its transfer.
    there.serve(&["--keep-for", "1s"]);
    for node in &site.nodes {
        let line = [
            "access",
            "allow",
            &node.identity,
            "--all-exports",
            "--read",
            "--write",
        ];
        let outcome = there.admin(&line);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    let line = [
        "site",
        "add",
        "siteB",
        there.address(),
        "--identity",
        &there.identity,
    ];
    let outcome = site.nodes[0].admin(&line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    there
}

/// Compares files only: temporary files of a lost node stay at the destination until they are cleaned.
#[track_caller]
fn assert_same_files(source: &Path, copy: &Path) {
    for entry in fs::read_dir(source).expect("a directory") {
        let name = entry.expect("an entry").file_name();
        let same = fs::read(source.join(&name)).ok() == fs::read(copy.join(&name)).ok();
        assert!(same, "{name:?} differs in {}", copy.display());
    }
}

fn runner(job: &Value) -> Option<&str> {
    job["node"].as_str()
}

#[test]
fn nodes_join_and_any_of_them_takes_a_job_and_shows_it() {
    let site = Site::of(3);
    let there = archive(&site);
    for n in 0..6 {
        let directory = site.nodes[0].export.join(format!("run{n}"));
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join("f"), vec![n; 300_000]).expect("written");
    }
    let mut ids = Vec::new();
    for n in 0..6 {
        let node = &site.nodes[n % 3];
        let (source, destination) = (format!("here:/data/run{n}"), format!("siteB:/data/run{n}"));
        ids.push(submit(node, &source, &destination, &[]));
    }
    for (n, id) in ids.iter().enumerate() {
        let asked = &site.nodes[(n + 1) % 3];
        let ended = wait_for(asked, id, |job| !job["ended"].is_null());
        assert_eq!(ended["state"], "complete", "{ended}");
        let run = format!("run{n}");
        assert_identical_to_rsync(
            "-aHO",
            &site.nodes[0].export.join(&run),
            &there.export.join(&run),
        );
    }
    let view = site.view(2).expect("a view");
    for node in nodes(&view) {
        assert_eq!(node["exports"][0], "data", "{view:#}");
        assert!(node["resources"]["cores"].as_u64() > Some(0), "{view:#}");
        assert!(
            node["resources"]["room"][0]["free_bytes"].as_u64() > Some(0),
            "{view:#}"
        );
    }
    let text = site.nodes[1].admin(&["cluster", "status"]);
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(
        text.out.contains("leads") && text.out.contains("dtn3"),
        "{text:?}"
    );
}

#[test]
fn jobs_of_a_killed_node_continue_at_others_and_it_comes_back() {
    let mut site = Site::of(3);
    let there = archive(&site);
    let export = site.nodes[0].export.clone();
    fs::create_dir_all(export.join("run")).expect("made");
    for n in 0..8 {
        fs::write(export.join(format!("run/f{n}")), vec![n; 1_000_000]).expect("written");
    }
    // One job for each node.
    let ids: Vec<String> = (0..3)
        .map(|n| {
            let destination = format!("siteB:/data/copy{n}/");
            submit(
                &site.nodes[0],
                "here:/data/run",
                &destination,
                &["--limit", "1MB"],
            )
        })
        .collect();
    let mut runners = Vec::new();
    for id in &ids {
        let job = wait_for(&site.nodes[0], id, |job| job["state"] == "running");
        runners.push(runner(&job).expect("a runner").to_owned());
    }
    runners.sort();
    assert_eq!(
        runners,
        ["dtn2", "dtn3", "node1"],
        "jobs spread over the nodes"
    );
    let leader = site.leader(0);
    site.nodes[leader].kill_daemon();
    let left: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
    for (n, id) in ids.iter().enumerate() {
        let ended = wait_for(&site.nodes[left[0]], id, |job| !job["ended"].is_null());
        assert_eq!(ended["state"], "complete", "{ended}");
        assert_same_files(
            &export.join("run"),
            &there.export.join(format!("copy{n}/run")),
        );
    }
    site.nodes[leader].serve(&[]);
    site.wait("it is back", |view| up(view).len() == 3);
}

#[test]
fn a_drained_node_gives_its_jobs_away_and_can_be_removed() {
    let mut site = Site::of(3);
    let there = archive(&site);
    let export = site.nodes[0].export.clone();
    fs::create_dir_all(export.join("run")).expect("made");
    for n in 0..8 {
        fs::write(export.join(format!("run/f{n}")), vec![n; 1_000_000]).expect("written");
    }
    let id = submit(
        &site.nodes[0],
        "here:/data/run",
        "siteB:/data/to/",
        &["--limit", "1MB"],
    );
    let job = wait_for(&site.nodes[0], &id, |job| job["state"] == "running");
    let name = runner(&job).expect("a runner").to_owned();
    let asked = (site.place_of(&name) + 1) % 3;
    let live = site.nodes[asked].admin(&["cluster", "remove", &name]);
    assert_eq!(live.code, Some(2), "{live:?}");
    assert!(live.complaint.contains("drain the node first"), "{live:?}");
    let drained = site.nodes[asked].admin(&["cluster", "drain", &name]);
    assert_eq!(drained.code, Some(0), "{drained:?}");
    let job = wait_for(&site.nodes[asked], &id, |job| {
        job["state"] == "running" && runner(job) != Some(&name)
    });
    assert!(job["attempts"].as_u64() >= Some(2), "{job}");
    site.wait_at(&[asked], "it is drained", |view| {
        state_of(view, &name) == "drained"
    });
    let removed = site.nodes[asked].admin(&["cluster", "remove", &name]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    site.wait_at(&[asked], "it is gone, and one of two votes", |view| {
        nodes(view).len() == 2 && voters(view) == 1
    });
    let ended = wait_for(&site.nodes[asked], &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_same_files(&export.join("run"), &there.export.join("to/run"));
    // The removed node reports its state, and may join again once it has left.
    let place = site.place_of(&name);
    site.nodes[place]
        .daemon()
        .wait_for("is not a node of this cluster");
    site.nodes[place].kill_daemon();
    let left = site.nodes[place].admin(&["cluster", "leave", "--yes"]);
    assert_eq!(left.code, Some(0), "{left:?}");
    let token = invite(&site.nodes[asked]);
    let mut back = site.nodes.remove(place);
    let by = &site.nodes[asked - usize::from(asked > place)];
    join_by(&mut back, by, &token, "again", &[]);
    site.nodes.insert(place, back);
    site.wait("it is back", |view| {
        up(view).len() == 3 && voters(view) == 3
    });
}

#[test]
fn a_refused_node_learns_the_reason_and_changes_nothing() {
    let site = Site::of(2);
    let first = &site.nodes[0];
    let stranger = site.rig();
    let token = invite(first);
    let wrong = token.replacen("gwi1-", "gwi1-aaaa", 1);
    let said = refused(&stranger, first, &wrong, "dtn9");
    assert!(said.contains("does not know this invitation"), "{said}");
    let said = refused(&stranger, first, &token, "dtn2");
    assert!(
        said.contains("already has a node \"dtn2\"") && said.contains("--name"),
        "{said}"
    );
    let said = refused(&stranger, first, "gwt_abc", "dtn9");
    assert!(said.contains("this is not an invitation"), "{said}");
    // The node at the address is not the one that the token names.
    let other = {
        let mut other = Rig::new();
        other.serve(&[]);
        other
    };
    let said = refused(&stranger, &other, &token, "dtn9");
    assert!(said.contains("the node that made the invitation"), "{said}");
    let said = refused(
        &stranger,
        first,
        &invite(&other).replace(&other.identity, &first.identity),
        "dtn9",
    );
    assert!(said.contains("does not know this invitation"), "{said}");
    // A node with jobs keeps them.
    let said = {
        let mut with_state = site.rig();
        with_state.serve(&[]);
        with_state.kill_daemon();
        refused(&with_state, first, &token, "dtn9")
    };
    assert!(
        said.contains("already has a state") && said.contains("cluster leave"),
        "{said}"
    );
    // Other users must not be able to read the token.
    let file = token_file(&stranger, &token);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("opened");
    let line = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--join",
        first.address(),
        "--token-file",
        &file,
    ];
    let open = stranger.admin(&line);
    assert_eq!(open.code, Some(2), "{open:?}");
    assert!(open.complaint.contains("chmod 600"), "{open:?}");
    // After all that it is still good, and then it is used up.
    let mut joins = site.rig();
    join_by(&mut joins, first, &token, "dtn3", &[]);
    let said = refused(&stranger, first, &token, "dtn4");
    assert!(
        said.contains("another node has joined with this invitation"),
        "{said}"
    );
    site.wait("three nodes", |view| up(view).len() == 3);
}
