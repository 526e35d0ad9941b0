//! The buffers of a cluster as one pool: its nodes fill it together, each byte of the source is read once, and a lost node holds nothing up.
//! See `served` for the buffer of one node, and the tests of the pool for nodes that lie.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::super::process::wait_until;
use super::super::rig::Rig;
use super::super::sites::{submit, wait_for};
use super::{Site, invite, join_by, up};

const NODES: usize = 3;
const LARGE: usize = 20 * 1024 * 1024 + 77;
const SMALL: usize = 3000;
const SMALL_FILES: usize = 30;
const TOTAL: u64 = (LARGE + SMALL * SMALL_FILES) as u64;

fn contents(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes)
        .map(|at| u8::try_from(at / 13 % 251).expect("small") ^ seed)
        .collect()
}

/// Three nodes, each with a buffer.
fn site() -> Site {
    let shared = tempfile::tempdir().expect("a directory");
    let mut site = Site {
        shared,
        nodes: Vec::new(),
    };
    for number in 1..=NODES {
        let mut rig = site.rig();
        let place = rig.path("flash").to_str().expect("text").to_owned();
        let flags = ["--buffer-path", &place, "--buffer-bytes", "128MiB"];
        match site.nodes.last() {
            None => rig.serve(&flags),
            Some(by) => join_by(&mut rig, by, &invite(by), &format!("dtn{number}"), &flags),
        }
        site.nodes.push(rig);
    }
    site.wait("all are up", |view| up(view).len() == NODES);
    for rig in &site.nodes {
        wait_for_rows(rig, &["well"; NODES]);
    }
    site
}

fn write(site: &Site, set: &str, seed: u8) {
    let directory = site.nodes[0].export.join(set);
    fs::create_dir_all(&directory).expect("made");
    let mut files = vec![("large".to_owned(), LARGE)];
    files.extend((0..SMALL_FILES).map(|number| (format!("small{number}"), SMALL)));
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    for (name, bytes) in files {
        let path = directory.join(name);
        fs::write(&path, contents(bytes, seed)).expect("written");
        let file = File::options().write(true).open(&path).expect("opened");
        file.set_modified(hour_ago).expect("a time");
    }
    // A file that has just changed may change again and keep its generation, so no buffer takes it.
    std::thread::sleep(Duration::from_millis(200));
}

fn status(rig: &Rig) -> Value {
    let shown = rig.admin(&["buffer", "status", "--json"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    serde_json::from_str(&shown.out).expect("JSON")
}

/// Waits until the node shows these states of the nodes, in the order of the alphabet.
#[track_caller]
fn wait_for_rows(rig: &Rig, wanted: &[&str]) {
    let mut seen = Value::Null;
    let found = wait_until(|| {
        seen = status(rig);
        let rows = seen["nodes"].as_array()?;
        let mut states: Vec<&str> = rows
            .iter()
            .filter_map(|row| row["state"].as_str())
            .collect();
        states.sort_unstable();
        (states == wanted).then_some(())
    });
    assert!(found.is_some(), "{seen:#}");
}

/// A figure of each node.
fn figures(site: &Site, name: &str) -> Vec<u64> {
    let view = status(&site.nodes[0]);
    let rows = view["nodes"].as_array().expect("rows");
    rows.iter()
        .map(|row| row[name].as_u64().expect("a number"))
        .collect()
}

fn sum(site: &Site, name: &str) -> u64 {
    figures(site, name).iter().sum()
}

/// Bytes that the pool has of a set, as a node lists them.
fn held(rig: &Rig, set: &str) -> u64 {
    let list = rig.admin(&["buffer", "list", &format!("here:/data/{set}"), "--json"]);
    assert_eq!(list.code, Some(0), "{list:?}");
    let files = list.out.lines().map(|line| {
        let file: Value = serde_json::from_str(line).expect("JSON");
        file["bytes_held"].as_u64().expect("a number")
    });
    files.sum()
}

#[track_caller]
fn copy(site: &Site, set: &str, to: &str, seed: u8) {
    let (from, to_place) = (format!("here:/data/{set}"), format!("here:/data/{to}"));
    let id = submit(&site.nodes[1], &from, &to_place, &[]);
    let ended = wait_for(&site.nodes[1], &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let directory = site.nodes[0].export.join(to);
    for (name, bytes) in [("large", LARGE), ("small7", SMALL)] {
        let got = fs::read(directory.join(name)).expect("copied");
        assert!(got == contents(bytes, seed), "{to}/{name}");
    }
}

#[test]
fn nodes_fill_their_buffers_together_and_a_lost_one_holds_nothing_up() {
    let mut site = site();
    let mut read_once = None;
    // A node that is stopped for seconds is left out, and another node reads its part.
    for (set, seed) in [("run1", 1), ("run2", 2), ("run3", 3)] {
        write(&site, set, seed);
        let before = sum(&site, "missed_bytes");
        let place = format!("here:/data/{set}");
        let warmed = site.nodes[0].admin(&["buffer", "warm", &place, "--for", "2h"]);
        assert_eq!(warmed.code, Some(0), "{warmed:?}");
        let id = warmed.out.trim();
        let ended = wait_for(&site.nodes[0], id, |job| !job["ended"].is_null());
        assert_eq!(ended["state"], "complete", "{ended}");
        let all = wait_until(|| (held(&site.nodes[2], set) == TOTAL).then_some(()));
        assert!(all.is_some(), "{}", status(&site.nodes[0]));
        if sum(&site, "missed_bytes") - before == TOTAL {
            read_once = Some((set, seed));
            break;
        }
    }
    let (set, seed) = read_once.expect("each byte of the source is read once");
    let filled = figures(&site, "filled_bytes");
    assert!(filled.iter().all(|bytes| *bytes > 0), "{filled:?}");

    let comes_from_the_pool = (0..3).any(|number| {
        let before = sum(&site, "missed_bytes");
        copy(&site, set, &format!("copy1{number}"), seed);
        sum(&site, "missed_bytes") == before
    });
    assert!(comes_from_the_pool, "{}", status(&site.nodes[0]));
    assert!(sum(&site, "pooled_bytes") > 0);
    write(&site, set, 9);
    copy(&site, set, "copy2", 9);

    let place = format!("here:/data/{set}");
    let pinned = site.nodes[1].admin(&["buffer", "pin", &place]);
    assert_eq!(pinned.code, Some(0), "{pinned:?}");
    assert!(pinned.out.contains("the node dtn3 has"), "{pinned:?}");
    site.nodes[2].kill_daemon();
    wait_for_rows(&site.nodes[0], &["silent", "well", "well"]);
    let table = site.nodes[0].admin(&["buffer", "status"]);
    assert!(
        table.out.contains("silent (it does not answer)"),
        "{table:?}"
    );
    copy(&site, set, "copy3", 9);
    let dropped = site.nodes[1].admin(&["buffer", "drop", &place]);
    assert_eq!(dropped.code, Some(3), "{dropped:?}");
    assert!(dropped.complaint.contains("the node dtn3"), "{dropped:?}");
}
