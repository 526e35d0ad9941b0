//! Tests a site that names its nodes with other addresses each time.
//! The site is a program of the test's, and nothing is moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use godwit_api::ask::{Answer, AskSites, GoOn, JobPast, Peer, Question, Refusal, code};
use godwit_api::grant::Mandate;
use godwit_api::rest::JobState;
use godwit_state::{Command, FEATURE_LEVEL, Op};

use crate::faithless::seen;
use crate::world::{World, alice, new, peer, site, submit, wait_for};

/// Jobs with the site, each of which asks for its nodes.
const JOBS: usize = 40;

/// Counts the answers.
#[derive(Default)]
struct Fickle(AtomicUsize);

impl AskSites for Fickle {
    fn ask_for(
        &self,
        _: Option<&Mandate>,
        node: Option<&Peer>,
        question: &Question,
        _: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        match question {
            Question::Nodes { of: Some(_), .. } => Ok(Answer::Nodes(Vec::new())),
            Question::Nodes { .. } => {
                let first = node.map_or("", |node| node.identity.as_str());
                let number = self.0.fetch_add(1, Ordering::SeqCst);
                let other = Peer {
                    addresses: vec![format!("192.0.2.1:{}", 1_000 + number)],
                    ..peer(&format!("{first}-2"))
                };
                Ok(Answer::Nodes(vec![peer(first), other]))
            }
            Question::Reach(_) | Question::Grant(_) | Question::Revoke { .. } => {
                Ok(Answer::Done {})
            }
            Question::Job { .. } => Err(Refusal::new(code::NO_SUCH_JOB, "not here")),
            Question::Run(_) | Question::Steer(_) => {
                Ok(Answer::Job(Box::new(seen(JobState::Complete))))
            }
            Question::Past(_) => Ok(Answer::Past(JobPast::default())),
            _ => Err(Refusal::new(code::UNSUPPORTED, "unknown")),
        }
    }

    fn reach(&self, _: &Peer, _: Duration) -> Result<(), Refusal> {
        Ok(())
    }
}

#[test]
fn a_site_that_changes_its_addresses_all_the_time_writes_little_into_the_state() {
    let world = World::new();
    let sites = Arc::new(Fickle::default());
    let jobs = world.start_among(sites.clone());
    let put = |op| {
        let command = Command::new(godwit_jobs::now(), alice(), op);
        jobs.replica().propose_blocking(command).expect("put");
    };
    put(Op::Level(FEATURE_LEVEL));
    for name in ["a", "b"] {
        let identity = format!("gw1-{name}");
        put(site(name, &format!("{identity}.example.org"), &identity));
    }
    for _ in 0..JOBS {
        let id = submit(&jobs, &new("a:/x/s", "b:/y/d"));
        wait_for(&jobs, &id, |job| job.ended.is_some());
    }
    let mut follower = jobs.replica().follow(0);
    let mut notes = 0;
    loop {
        let events = follower.look().expect("events");
        if events.is_empty() {
            break;
        }
        notes += events
            .iter()
            .filter(|event| event.object == "site/a")
            .count();
    }
    jobs.stop();
    assert!(sites.0.load(Ordering::SeqCst) >= 2 * JOBS);
    assert!((2..JOBS - 10).contains(&notes), "{notes} notes");
}
