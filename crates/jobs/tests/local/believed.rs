//! Nodes of a site that the site has named: for how long they are believed, and which nodes may name further ones.
//! The nodes are programs of the test's, and nothing is moved.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, AskSites, GoOn, Peer, Question, Refusal, code};
use godwit_api::grant::Mandate;
use godwit_jobs::{Clock, Jobs};
use godwit_state::{Change, Command, FEATURE_LEVEL, Op, Site, Timestamp};

use crate::world::{DEADLINE, World, alice, new, peer, site, submit, wait_for};

/// 2026-11-24 in the morning.
const MORNING: i64 = 1_795_503_600_000;
const HOUR: i64 = 3_600_000;

/// Three nodes by their identities: the one that the operator named, a second one of its site, and one that the second one names.
const FIRST: &str = "gw1-first";
const SECOND: &str = "gw1-second";
const THIRD: &str = "gw1-third";

/// Each node names the nodes that the test sets, and vouches for all. Each asked question is noted.
#[derive(Default)]
struct Named {
    names: Mutex<BTreeMap<&'static str, Vec<&'static str>>>,
    asked: Mutex<Vec<(String, String)>>,
    first_is_away: AtomicBool,
    second_refuses: Mutex<Option<Refusal>>,
}

impl AskSites for Named {
    fn ask_for(
        &self,
        _: Option<&Mandate>,
        node: Option<&Peer>,
        question: &Question,
        _: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        let identity = node.map_or("", |node| node.identity.as_str());
        let kind = format!("{question:?}");
        let kind = kind.split([' ', '(']).next().unwrap_or_default();
        self.asked
            .lock()
            .expect("no panic")
            .push((identity.to_owned(), kind.to_owned()));
        if identity == FIRST && self.first_is_away.load(Ordering::SeqCst) {
            return Err(Refusal::later(code::UNREACHABLE, "no node answers"));
        }
        let refusal = self.second_refuses.lock().expect("no panic").clone();
        let refusal = refusal.filter(|_| identity == SECOND);
        match (question, refusal) {
            (Question::Nodes { of: Some(_), .. }, Some(refusal)) => Err(refusal),
            (Question::Nodes { .. }, _) => {
                let names = self.names.lock().expect("no panic");
                let named = names.get(identity).cloned().unwrap_or_default();
                Ok(Answer::Nodes(named.into_iter().map(peer).collect()))
            }
            _ => Err(Refusal::later(code::BUSY, "later")),
        }
    }

    fn reach(&self, _: &Peer, _: Duration) -> Result<(), Refusal> {
        Err(Refusal::later(code::UNREACHABLE, "no node answers"))
    }
}

impl Named {
    fn name(&self, by: &'static str, names: &[&'static str]) {
        let mut known = self.names.lock().expect("no panic");
        known.insert(by, names.to_vec());
    }

    fn was_asked(&self, identity: &str) -> bool {
        let asked = self.asked.lock().expect("no panic");
        asked.iter().any(|(node, _)| node == identity)
    }
}

fn put(jobs: &Jobs, op: Op) {
    let command = Command::new(Timestamp(MORNING), alice(), op);
    jobs.replica().propose_blocking(command).expect("put");
}

/// A time that the test sets, and the clock that shows it.
fn hand_set() -> (Arc<AtomicI64>, Clock) {
    let time = Arc::new(AtomicI64::new(MORNING));
    let hands = Arc::clone(&time);
    let clock = Clock::new(move || Timestamp(hands.load(Ordering::SeqCst)));
    (time, clock)
}

/// The learned nodes of the site.
fn learned(jobs: &Jobs) -> Vec<String> {
    let site = jobs.replica().reader().object::<Site>("siteB");
    let nodes = site.expect("read").expect("there").nodes;
    nodes.into_iter().map(|node| node.peer.identity).collect()
}

/// Runs one attempt of a new job; why it waits.
fn attempt(jobs: &Jobs) -> String {
    let id = submit(jobs, &new("siteB:/data/x", "siteB:/data/y"));
    let waits = wait_for(jobs, &id, |job| {
        job.next_attempt.is_some() || job.ended.is_some()
    });
    jobs.cancel(alice(), &id, None).expect("cancelled");
    waits.reason.map_or_else(String::new, |reason| reason.text)
}

#[test]
fn a_node_is_believed_for_a_day_after_the_first_one_named_it_and_names_no_other() {
    let world = World::new();
    let (time, clock) = hand_set();
    let sites = Arc::new(Named::default());
    sites.name(FIRST, &[FIRST, SECOND]);
    sites.name(SECOND, &[FIRST, SECOND, THIRD]);
    let jobs = world.start_among_by(sites.clone(), clock);
    put(&jobs, Op::Level(FEATURE_LEVEL));
    put(&jobs, site("siteB", "first.example.org", FIRST));
    attempt(&jobs);
    assert_eq!(learned(&jobs), [FIRST, SECOND]);
    // The second one answers alone, and names a node that the first one does not know.
    sites.first_is_away.store(true, Ordering::SeqCst);
    time.store(MORNING + 2 * HOUR, Ordering::SeqCst);
    let why = attempt(&jobs);
    assert!(!why.contains("believed"), "{why}");
    assert!(!sites.was_asked(THIRD), "{:?}", sites.asked);
    assert_eq!(learned(&jobs), [FIRST, SECOND]);
    // Names by a believed node keep no node believed.
    time.store(MORNING + 26 * HOUR, Ordering::SeqCst);
    let why = attempt(&jobs);
    for word in [FIRST, "25 h", "godwit site add siteB"] {
        assert!(why.contains(word), "{why}");
    }
    // The first node answers again. Its list of the nodes of the site no longer has the second node.
    sites.first_is_away.store(false, Ordering::SeqCst);
    sites.name(FIRST, &[FIRST, THIRD]);
    attempt(&jobs);
    assert_eq!(learned(&jobs), [FIRST, THIRD]);
    jobs.stop();
}

#[test]
fn a_named_node_that_refuses_to_be_of_the_site_is_believed_no_longer_than_before() {
    let world = World::new();
    let (time, clock) = hand_set();
    let sites = Arc::new(Named::default());
    sites.name(FIRST, &[FIRST, SECOND]);
    let jobs = world.start_among_by(sites.clone(), clock);
    put(&jobs, Op::Level(FEATURE_LEVEL));
    put(&jobs, site("siteB", "first.example.org", FIRST));
    attempt(&jobs);
    let refuse = |refusal: Refusal| {
        *sites.second_refuses.lock().expect("no panic") = Some(refusal);
    };
    // A busy node says nothing about its site.
    refuse(Refusal::later(code::BUSY, "too many questions"));
    time.store(MORNING + 2 * HOUR, Ordering::SeqCst);
    attempt(&jobs);
    refuse(Refusal::new(code::OTHER_CLUSTER, "no node of this site"));
    time.store(MORNING + 4 * HOUR, Ordering::SeqCst);
    attempt(&jobs);
    let site = jobs.replica().reader().object::<Site>("siteB");
    let nodes = site.expect("read").expect("there").nodes;
    let named: Vec<(&str, Option<Timestamp>)> = nodes
        .iter()
        .map(|node| (node.peer.identity.as_str(), node.named))
        .collect();
    let expected = [
        (FIRST, Some(Timestamp(MORNING + 4 * HOUR))),
        (SECOND, Some(Timestamp(MORNING + 2 * HOUR))),
    ];
    assert_eq!(named, expected);
    jobs.stop();
}

#[test]
fn the_first_node_of_an_idle_site_is_asked_again() {
    let world = World::new();
    let (_, clock) = hand_set();
    let sites = Arc::new(Named::default());
    sites.name(FIRST, &[FIRST, SECOND]);
    let site = |time: i64| Site {
        name: "siteB".to_owned(),
        addresses: vec!["first.example.org".to_owned()],
        identity: FIRST.to_owned(),
        comment: String::new(),
        nodes: [FIRST, SECOND]
            .map(|identity| godwit_state::SiteNode {
                peer: Peer {
                    name: identity.to_owned(),
                    identity: identity.to_owned(),
                    addresses: vec![format!("{identity}.example.org")],
                },
                named: Some(Timestamp(time)),
                independent: false,
            })
            .to_vec(),
    };
    let jobs = world.start_among_by(sites, clock);
    put(&jobs, Op::Level(FEATURE_LEVEL));
    put(&jobs, Op::Site(Change::Put(site(MORNING - HOUR))));
    let until = Instant::now() + DEADLINE;
    loop {
        let site = jobs.replica().reader().object::<Site>("siteB");
        let nodes = site.expect("read").expect("there").nodes;
        if nodes
            .iter()
            .all(|node| node.named == Some(Timestamp(MORNING)))
        {
            break;
        }
        assert!(Instant::now() < until, "it does not come: {nodes:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    jobs.stop();
}
