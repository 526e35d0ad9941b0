//! How a node follows a job between two sites, and renews the access for it, by three nodes of the real binary.
//! See `third` for access that is taken back for good at the site that runs the job.

use std::collections::BTreeSet;
use std::io::copy;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::Value;

use super::super::rest::Caller;
use super::super::rig::Rig;
use super::third::Three;
use super::{fill, moved};

/// Ends the access that a node gives for a job.
#[track_caller]
fn take_back(rig: &Rig) {
    let admin = Caller::admin(rig);
    let rules = admin.get("access").expect(200);
    let rules = rules.as_array().expect("a list");
    let rule = rules.iter().find(|rule| rule["job"].is_string());
    let rule = rule.unwrap_or_else(|| panic!("no access for a job: {rules:?}"));
    let id = rule["id"].as_str().expect("an id");
    admin.delete(&format!("access/{id}")).expect(204);
}

#[test]
fn access_that_ends_while_the_job_runs_is_given_again() {
    let three = Three::new();
    fill(&three.source, 10, 400_000);
    let id = three.submit(&["--limit", "300KB/s"]);
    three.wait_for(&id, |job| moved(job) > 0);
    take_back(&three.destination);
    let log = || three.log(&id);
    three.wait_for(&id, |_| log().contains("the access is granted again"));
    let outcome = three.asked.admin(&["job", "limit", &id, "none"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    three.complete(&id);
}

#[test]
fn access_that_may_not_be_given_again_ends_the_job_and_names_the_site() {
    let three = Three::new();
    fill(&three.source, 10, 400_000);
    let id = three.submit(&["--limit", "300KB/s"]);
    three.wait_for(&id, |job| moved(job) > 0);
    super::deny(&three.destination, &three.asked.identity);
    let ended = three.wait_for(&id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "failed", "{ended}");
    let code = ended["reason"]["code"].as_str().unwrap_or_default();
    assert!(["access_denied", "unauthorized"].contains(&code), "{ended}");
    let text = ended["reason"]["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("siteD: "), "{ended}");
    assert_ne!(ended["ended"], Value::Null);
}

/// Starts a proxy that passes connections on to a node and counts them. Returns the address of the proxy.
fn counted(node: &str, count: &Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let (node, count) = (node.to_owned(), Arc::clone(count));
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            count.fetch_add(1, Ordering::SeqCst);
            let server = TcpStream::connect(&node).expect("the node listens");
            for (from, to) in [(&client, &server), (&server, &client)] {
                let clone = |stream: &TcpStream| stream.try_clone().expect("descriptors");
                let (mut from, mut to) = (clone(from), clone(to));
                thread::spawn(move || {
                    // Both directions are closed when either one ends.
                    let _ = copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    address
}

#[test]
fn a_node_that_follows_a_job_keeps_its_connection() {
    let three = Three::new();
    fill(&three.source, 10, 400_000);
    let count = Arc::new(AtomicUsize::new(0));
    let address = counted(three.source.address(), &count);
    let line = [
        "site",
        "add",
        "siteS",
        &address,
        "--identity",
        &three.source.identity,
    ];
    let outcome = three.asked.admin(&line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let id = three.submit(&["--limit", "300KB/s"]);
    let mut answers = BTreeSet::new();
    three.wait_for(&id, |job| {
        answers.insert(job["progress"]["at"].to_string());
        answers.len() > 6
    });
    // Two connections, if the first one was busy with another question.
    let connections = count.load(Ordering::SeqCst);
    assert!(
        connections <= 2,
        "{connections} connections for {answers:?}"
    );
    let outcome = three.asked.admin(&["job", "cancel", &id]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}
