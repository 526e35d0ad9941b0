//! Tests how a node finds out whether a site of many nodes is back.
//! No node of the sites answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, AskSites, GoOn, Peer, Question, Refusal, code};
use godwit_api::grant::Mandate;
use godwit_state::{Command, FEATURE_LEVEL, Learn, Op};

use crate::world::{DEADLINE, World, alice, new, peer, site, submit};

/// Nodes of the first site.
const NODES: usize = 200;

/// Counts the dials, each of which takes a moment.
#[derive(Default)]
struct Away(AtomicUsize);

impl AskSites for Away {
    fn ask_for(
        &self,
        _: Option<&Mandate>,
        _: Option<&Peer>,
        _: &Question,
        _: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        Err(Refusal::later(code::UNREACHABLE, "no node answers"))
    }

    fn reach(&self, _: &Peer, _: Duration) -> Result<(), Refusal> {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(200));
        Err(Refusal::later(code::UNREACHABLE, "no node answers"))
    }
}

/// A node that stops waits for the dials that have begun.
#[test]
fn the_nodes_of_a_silent_site_do_not_hold_up_a_node_that_stops() {
    let world = World::new();
    let sites = Arc::new(Away::default());
    let jobs = world.start_among(sites.clone());
    let put = |op| {
        let command = Command::new(godwit_jobs::now(), alice(), op);
        jobs.replica().propose_blocking(command).expect("put");
    };
    put(Op::Level(FEATURE_LEVEL));
    for name in ["a", "b"] {
        put(site(
            name,
            &format!("{name}.example.org"),
            &format!("gw1-{name}"),
        ));
    }
    put(Op::Learn(Box::new(Learn {
        site: "a".to_owned(),
        identity: "gw1-a".to_owned(),
        nodes: (0..NODES)
            .map(|number| peer(&format!("gw1-{number}")))
            .collect(),
        named: true,
    })));
    submit(&jobs, &new("a:/x/s", "b:/y/d"));
    let until = Instant::now() + DEADLINE;
    while sites.0.load(Ordering::SeqCst) == 0 {
        assert!(Instant::now() < until, "no site is dialled");
        std::thread::sleep(Duration::from_millis(10));
    }
    jobs.stop();
    let dials = sites.0.load(Ordering::SeqCst);
    assert!(dials < NODES / 2, "{dials} dials");
}
