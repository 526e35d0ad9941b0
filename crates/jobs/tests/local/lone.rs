//! A job from a site of independent nodes: one of them has it, and no other one starts it a second time.
//! The nodes are programs of the test's, and nothing is moved.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, AskSites, GoOn, Peer, Question, Refusal, SteerVerb, code};
use godwit_api::grant::Mandate;
use godwit_api::rest::JobState;
use godwit_jobs::{Jobs, now};
use godwit_state::{Change, Command, FEATURE_LEVEL, Op, Site, SiteNode};

use crate::faithless::seen;
use crate::world::{DEADLINE, World, alice, new, submit, wait_for};

/// The independent nodes of the site of the sources.
const FIRST: &str = "gw1-first";
const SECOND: &str = "gw1-second";

#[derive(Default)]
struct Lone {
    first_is_away: AtomicBool,
    /// Nodes that run the job.
    runs: Mutex<BTreeSet<String>>,
    /// Nodes that received the cancellation of the job, and nodes that take access back.
    stopped: Mutex<BTreeSet<String>>,
    revoked: Mutex<BTreeSet<String>>,
}

impl AskSites for Lone {
    fn ask_for(
        &self,
        _: Option<&Mandate>,
        node: Option<&Peer>,
        question: &Question,
        _: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        let identity = node.map_or("", |node| node.identity.as_str());
        if identity == FIRST && self.first_is_away.load(Ordering::SeqCst) {
            return Err(Refusal::later(code::UNREACHABLE, "no node answers"));
        }
        let mut runs = self.runs.lock().expect("no panic");
        let is_there = runs.contains(identity);
        let no_job = || Refusal::new(code::NO_SUCH_JOB, "not here");
        let note = |all: &Mutex<BTreeSet<String>>| {
            all.lock().expect("no panic").insert(identity.to_owned());
        };
        match question {
            Question::Nodes { .. } => Ok(Answer::Nodes(Vec::new())),
            Question::Reach(_) | Question::Grant(_) => Ok(Answer::Done {}),
            Question::Revoke { .. } => {
                note(&self.revoked);
                Ok(Answer::Done {})
            }
            Question::Run(_) => {
                runs.insert(identity.to_owned());
                Ok(Answer::Job(Box::new(running())))
            }
            Question::Steer(wish) => {
                if wish.verb == Some(SteerVerb::Cancel) {
                    note(&self.stopped);
                }
                is_there
                    .then(|| Answer::Job(Box::new(running())))
                    .ok_or_else(no_job)
            }
            Question::Job { .. } if is_there => Ok(Answer::Job(Box::new(running()))),
            Question::Job { .. } => Err(no_job()),
            _ => Err(Refusal::new(code::UNSUPPORTED, "unknown")),
        }
    }

    fn reach(&self, _: &Peer, _: Duration) -> Result<(), Refusal> {
        Ok(())
    }
}

fn running() -> godwit_api::ask::JobSeen {
    let mut running = seen(JobState::Running);
    running.view.ended = None;
    running
}

fn put(jobs: &Jobs, op: Op) {
    let command = Command::new(now(), alice(), op);
    jobs.replica().propose_blocking(command).expect("put");
}

fn site(name: &str, identity: &str, nodes: Vec<SiteNode>) -> Op {
    Op::Site(Change::Put(Site {
        name: name.to_owned(),
        addresses: vec![format!("{name}.example.org")],
        identity: identity.to_owned(),
        comment: String::new(),
        nodes,
    }))
}

#[test]
fn a_job_runs_at_one_independent_node_and_all_hear_that_it_stops() {
    let world = World::new();
    let sites = Arc::new(Lone::default());
    let jobs = world.start_among(sites.clone());
    put(&jobs, Op::Level(FEATURE_LEVEL));
    let second = SiteNode {
        peer: Peer {
            name: "second".to_owned(),
            identity: SECOND.to_owned(),
            addresses: vec!["second.example.org".to_owned()],
        },
        named: None,
        independent: true,
    };
    put(&jobs, site("a", FIRST, vec![second]));
    put(&jobs, site("b", "gw1-b", Vec::new()));
    let id = submit(&jobs, &new("a:/x/s", "b:/y/d"));
    wait_for(&jobs, &id, |job| job.state == JobState::Running);
    jobs.stop();
    drop(jobs);
    let runs = || sites.runs.lock().expect("no panic").clone();
    assert_eq!(runs(), BTreeSet::from([FIRST.to_owned()]));

    // The job still runs there, but this node cannot reach that node.
    sites.first_is_away.store(true, Ordering::SeqCst);
    let jobs = world.start_among(sites.clone());
    let waits = wait_for(&jobs, &id, |job| {
        job.next_attempt.is_some() || runs().len() > 1
    });
    assert_eq!(runs(), BTreeSet::from([FIRST.to_owned()]), "{waits:?}");

    sites.first_is_away.store(false, Ordering::SeqCst);
    jobs.cancel(alice(), &id, None).expect("cancelled");
    let both = BTreeSet::from([FIRST.to_owned(), SECOND.to_owned()]);
    let until = Instant::now() + DEADLINE;
    let has_both = |all: &Mutex<BTreeSet<String>>| both.is_subset(&all.lock().expect("no panic"));
    while !(has_both(&sites.stopped) && has_both(&sites.revoked)) {
        assert!(Instant::now() < until, "not all nodes of the site hear it");
        std::thread::sleep(Duration::from_millis(20));
    }
    jobs.stop();
}
