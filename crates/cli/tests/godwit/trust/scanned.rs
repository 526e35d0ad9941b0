//! Tests that a site that runs jobs of another site tries only few addresses for that site.
//! See the unit tests of `jobs::guests::reach` for questions about reach.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use godwit_api::ask::{Answer, Peer, Question, RunJob};
use godwit_api::failure::FailureCode;
use serde_json::json;

use super::{DEADLINE, JOB, Trust, allow};

/// Jobs with another site each.
const JOBS: u64 = 40;

#[test]
fn jobs_of_another_site_try_few_addresses_and_say_nothing_about_them() {
    let trust = Trust::new();
    allow(&trust.a, &trust.c.identity, "data", &["--read", "--write"]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let tried = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&tried);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            drop(connection);
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    let begun = Instant::now();
    for number in 0..JOBS {
        let site = format!("site{number}");
        let new = json!({"sources": [format!("{site}:/data/x")], "destination": "here:/data/in/"});
        let question = Question::Run(Box::new(RunJob {
            job: format!("{JOB}-{number}"),
            again: true,
            request: None,
            deadline_ms: None,
            new: serde_json::from_value(new).expect("a job"),
            other: Some(Peer {
                name: site,
                addresses: vec![address.clone()],
                identity: trust.b.identity.clone(),
            }),
            may_list: Some(true),
            may_read: Some(true),
        }));
        trust.c_asks(&trust.a, &question).expect("accepted");
    }
    // Every job was tried and waits.
    for number in 0..JOBS {
        let job = format!("{JOB}-{number}");
        loop {
            let question = Question::Job { job: job.clone() };
            let Answer::Job(seen) = trust.c_asks(&trust.a, &question).expect("seen") else {
                panic!("another answer");
            };
            let code = seen.view.reason.as_ref();
            match code.and_then(|reason| reason.code.known()) {
                Some(FailureCode::Unreachable | FailureCode::PeerBusy) => break,
                _ => assert!(begun.elapsed() < DEADLINE, "{:?}", seen.view),
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
    // 16 at once, and one more each 5 s.
    let most = 17 + begun.elapsed().as_secs() / 5;
    let tried = tried.load(Ordering::SeqCst);
    assert!((1..=most).contains(&tried), "{tried} of {most}");
    assert!(most < JOBS, "the test took too long to say anything");
}
