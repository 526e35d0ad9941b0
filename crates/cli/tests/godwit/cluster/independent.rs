//! A site of independent nodes: they serve one file system, and are no cluster. Jobs to the site are divided among them.
//! Leaves sites that are clusters to `sites`.

use std::fs;

use super::super::judge::{assert_identical_to_rsync, assert_no_temporaries};
use super::super::process::wait_until;
use super::super::sites::{submit, wait_for};
use super::Site;
use super::divided::senders;
use super::sites::fill;

/// Independent nodes that serve one directory.
fn independent(number: usize) -> Site {
    let mut site = Site::empty();
    for _ in 0..number {
        let mut rig = site.rig();
        rig.serve(&[]);
        site.nodes.push(rig);
    }
    site
}

/// Grants the nodes of `site` access to each node of `there`, then names the nodes of `there` as one site.
fn know(site: &Site, there: &Site) {
    for node in &there.nodes {
        for mate in &site.nodes {
            let line = ["access", "allow", &mate.identity, "--all-exports"];
            let outcome = node.admin(&[&line[..], &["--read", "--write"]].concat());
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
        }
    }
    let all = |of: fn(&super::Rig) -> String| {
        let nodes = there.nodes.iter().map(of);
        nodes.collect::<Vec<_>>().join(",")
    };
    let addresses = all(|node| node.address().to_owned());
    let identities = all(|node| node.identity.clone());
    // The cluster raises its level once each of its nodes is known to support it.
    let added = wait_until(|| {
        let line = [
            "site",
            "add",
            "siteB",
            &addresses,
            "--identity",
            &identities,
        ];
        (site.nodes[0].admin(&line).code == Some(0)).then_some(())
    });
    assert!(added.is_some(), "the site is known");
}

#[test]
fn independent_nodes_share_a_job_and_one_of_them_may_be_lost() {
    let (site, mut there) = (Site::of(2), independent(3));
    know(&site, &there);
    fill(&site.nodes[0].export);
    let line = ["--limit", "2MB"];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    let shares = wait_until(|| {
        let receivers = there.nodes.iter().filter(|node| !senders(node).is_empty());
        (receivers.count() > 1).then_some(())
    });
    let log = site.nodes[0].admin(&["job", "log", &id]).out;
    assert!(shares.is_some(), "two nodes of the destination work: {log}");
    // The node by which the site is known first.
    there.nodes[0].kill_daemon();
    let faster = site.nodes[0].admin(&["job", "limit", &id, "30MB"]);
    assert_eq!(faster.code, Some(0), "{faster:?}");
    let ended = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
    let log = site.nodes[0].admin(&["job", "log", &id]).out;
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
    let copy = there.nodes[0].export.join("copy");
    assert_identical_to_rsync("-aH", &site.nodes[0].export.join("set"), &copy);
    assert_no_temporaries(&there.nodes[0].export);
    for node in &there.nodes[1..] {
        let rules = node.admin(&["access", "list"]).out;
        assert!(
            !rules.contains(&id),
            "no access for the job is left: {rules}"
        );
    }
    // The first node is dead. A job that is not divided reaches the site by another node.
    let line = ["--divide", "never"];
    let id = submit(
        &site.nodes[0],
        "here:/data/set/d0",
        "siteB:/data/one",
        &line,
    );
    let ended = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
}

#[test]
fn each_independent_node_of_a_site_is_tested_and_any_of_them_answers_about_places() {
    let (site, mut there) = (Site::of(1), independent(2));
    know(&site, &there);
    let test = || site.nodes[0].admin(&["site", "test", "siteB"]);
    let answers = |node: usize| {
        let address = there.nodes[node].address();
        format!("siteB at {address} answers; you may use data (read and write)")
    };
    let (first, second) = (answers(0), answers(1));
    let outcome = test();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.out.contains(&first), "{outcome:?}");
    assert!(outcome.out.contains(&second), "{outcome:?}");
    // A node that does not answer is named, and the other node is still asked.
    let away = format!("testing the site siteB at {}", there.nodes[0].address());
    there.nodes[0].kill_daemon();
    let outcome = test();
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.complaint.contains(&away), "{outcome:?}");
    assert!(outcome.out.contains(&second), "{outcome:?}");
    // The other one answers about places meanwhile, and makes them.
    let made = site.nodes[0].admin(&["mkdir", "siteB:/data/made"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let listed = site.nodes[0].admin(&["ls", "siteB:/data/"]);
    assert!(listed.out.contains("made"), "{listed:?}");
}

#[test]
fn an_independent_node_of_another_file_system_gets_no_work() {
    let (site, mut there, mut odd) = (Site::of(2), independent(1), independent(1));
    let export = odd.nodes[0].export.clone();
    there.nodes.append(&mut odd.nodes);
    know(&site, &there);
    let from = site.nodes[0].export.join("set");
    fs::create_dir_all(&from).expect("made");
    fs::write(from.join("f"), b"f").expect("written");
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &[]);
    let ended = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
    let log = site.nodes[0].admin(&["job", "log", &id]).out;
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
    assert_identical_to_rsync("-aH", &from, &there.nodes[0].export.join("copy"));
    assert!(log.contains("is not used for now"), "{log}");
    let odd = fs::read_dir(&export).expect("read").count();
    assert_eq!(odd, 0, "nothing is written into the other file system");
}
