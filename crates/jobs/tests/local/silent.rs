//! Tests nodes of a site that are silent or away while the site runs a job: they delay little, and stay nodes of the site.
//! The sites are programs of the test's, and nothing is moved.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use godwit_api::ask::{Answer, AskSites, GoOn, JobSeen, Peer, Question, Refusal, SteerVerb, code};
use godwit_api::grant::Mandate;
use godwit_api::rest::{ChangeJob, JobState, JobView};
use godwit_jobs::{Clock, Jobs};
use godwit_state::{Command, FEATURE_LEVEL, Op, Timestamp};
use serde_json::json;

use crate::world::{DEADLINE, World, alice, new, peer, site, submit, wait_for};

/// 2026-11-24 in the morning.
const MORNING: i64 = 1_795_503_600_000;

/// The nodes of the site that runs the job, and the node of its destination.
const FIRST: &str = "gw1-first";
const SECOND: &str = "gw1-second";
const THERE: &str = "gw1-there";

/// How the nodes answer the question which nodes their site has.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Mood {
    Answers,
    /// A stopped node takes the question and says nothing.
    Silent,
    /// The two named nodes of the first site are silent, and its further ones answer.
    TwoAreSilent,
    Away,
}

/// A question or a step of it, in the order in which they came.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Step {
    /// A silent node was waited for.
    Waited(String),
    WasAway(String),
    Granted(String),
    Limited(u64),
    Cancelled,
    Revoked(String),
}

struct Sites {
    mood: Mutex<Mood>,
    runs: AtomicBool,
    ended: AtomicBool,
    /// The first node shows for ever that it works on a change of the job.
    works_for_ever: AtomicBool,
    /// Further nodes of the first site.
    more: usize,
    steps: Mutex<Vec<Step>>,
}

impl Sites {
    fn note(&self, step: Step) {
        self.steps.lock().expect("no panic").push(step);
    }

    fn steps(&self) -> Vec<Step> {
        self.steps.lock().expect("no panic").clone()
    }

    /// From now on, without the steps so far.
    fn set(&self, mood: Mood) {
        *self.mood.lock().expect("no panic") = mood;
        self.steps.lock().expect("no panic").clear();
    }

    #[track_caller]
    fn wait(&self, is_it: impl Fn(&[Step]) -> bool) {
        let until = std::time::Instant::now() + DEADLINE;
        while !is_it(&self.steps()) {
            let now = std::time::Instant::now();
            assert!(now < until, "it does not come: {:?}", self.steps());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn nodes(&self, node: &str, go_on: &mut GoOn<'_>) -> Result<Answer, Refusal> {
        let mood = *self.mood.lock().expect("no panic");
        match mood {
            Mood::Away => {
                self.note(Step::WasAway(node.to_owned()));
                return Err(Refusal::later(code::UNREACHABLE, "no node answers"));
            }
            Mood::Silent => {
                if go_on(0) {
                    self.note(Step::Waited(node.to_owned()));
                }
                return never(go_on);
            }
            Mood::TwoAreSilent if [FIRST, SECOND].contains(&node) => return never(go_on),
            Mood::Answers | Mood::TwoAreSilent => {}
        }
        if node == THERE {
            return Ok(Answer::Nodes(vec![peer(THERE)]));
        }
        let more = (0..self.more).map(|number| peer(&format!("gw1-more-{number}")));
        Ok(Answer::Nodes(
            [FIRST, SECOND].into_iter().map(peer).chain(more).collect(),
        ))
    }
}

/// No answer: the asker gives up.
fn never(go_on: &mut GoOn<'_>) -> Result<Answer, Refusal> {
    while go_on(0) {
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(Refusal::later(code::GIVEN_UP, "given up"))
}

fn seen(state: JobState, ended: Option<Timestamp>) -> Answer {
    let view: JobView = serde_json::from_value(json!({
        "id": "j", "label": "", "owner": "site:c", "kind": "copy", "sources": ["here:/x/s"], "destination": "b:/y/d",
        "state": state, "reason": null, "since": Timestamp(0), "next_attempt": null, "priority": 0, "limit": null,
        "not_before": null, "deadline": null, "attempts": 1, "node": null, "created": Timestamp(0), "started": null,
        "ended": ended, "progress": null, "summary": null,
    }))
    .expect("a job");
    Answer::Job(Box::new(JobSeen {
        view,
        failures: Vec::new(),
    }))
}

impl AskSites for Sites {
    fn ask_for(
        &self,
        _: Option<&Mandate>,
        node: Option<&Peer>,
        question: &Question,
        go_on: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        let node = node.map_or("", |node| node.identity.as_str());
        match question {
            Question::Nodes { .. } => self.nodes(node, go_on),
            Question::Grant(wish) => {
                self.note(Step::Granted(wish.identity.clone()));
                Ok(Answer::Done {})
            }
            Question::Reach(_) => Ok(Answer::Done {}),
            Question::Revoke { .. } => {
                self.note(Step::Revoked(node.to_owned()));
                Ok(Answer::Done {})
            }
            Question::Run(_) => {
                self.runs.store(true, Ordering::SeqCst);
                Ok(seen(JobState::Running, None))
            }
            Question::Job { .. } | Question::Steer(_) if !self.runs.load(Ordering::SeqCst) => {
                Err(Refusal::new(code::NO_SUCH_JOB, "not here"))
            }
            Question::Steer(_) if node == FIRST && self.works_for_ever.load(Ordering::SeqCst) => {
                never(go_on)
            }
            Question::Steer(wish) => {
                if wish.verb == Some(SteerVerb::Cancel) {
                    self.ended.store(true, Ordering::SeqCst);
                    self.note(Step::Cancelled);
                }
                if let Some(limit) = wish.limit {
                    self.note(Step::Limited(limit));
                }
                self.job()
            }
            Question::Job { .. } => self.job(),
            Question::Past(_) => Ok(Answer::Past(Default::default())),
            _ => Err(Refusal::new(code::UNSUPPORTED, "unknown")),
        }
    }

    fn reach(&self, _: &Peer, _: Duration) -> Result<(), Refusal> {
        Ok(())
    }
}

impl Sites {
    fn job(&self) -> Result<Answer, Refusal> {
        Ok(match self.ended.load(Ordering::SeqCst) {
            true => seen(JobState::Cancelled, Some(Timestamp(1))),
            false => seen(JobState::Running, None),
        })
    }
}

/// A job that the first site runs, and the clock of the node that follows the job.
struct Followed {
    _world: World,
    sites: Arc<Sites>,
    time: Arc<AtomicI64>,
    jobs: Jobs,
    id: String,
}

impl Followed {
    fn new() -> Self {
        Self::with(0)
    }

    /// With more nodes of the first site.
    fn with(more: usize) -> Self {
        let world = World::new();
        let time = Arc::new(AtomicI64::new(MORNING));
        let hands = Arc::clone(&time);
        let clock = Clock::new(move || Timestamp(hands.load(Ordering::SeqCst)));
        let sites = Arc::new(Sites {
            mood: Mutex::new(Mood::Answers),
            runs: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            works_for_ever: AtomicBool::new(false),
            more,
            steps: Mutex::default(),
        });
        let jobs = world.start_among_by(sites.clone(), clock);
        let put = |op| {
            let command = Command::new(Timestamp(MORNING), alice(), op);
            jobs.replica().propose_blocking(command).expect("put");
        };
        put(Op::Level(FEATURE_LEVEL));
        for (name, identity) in [("a", FIRST), ("b", THERE)] {
            put(site(name, &format!("{identity}.example.org"), identity));
        }
        let id = submit(&jobs, &new("a:/x/s", "b:/y/d"));
        wait_for(&jobs, &id, |job| job.state == JobState::Running);
        let granted = |identity: &str| Step::Granted(identity.to_owned());
        sites.wait(|steps| {
            [FIRST, SECOND]
                .iter()
                .all(|of| steps.contains(&granted(of)))
        });
        Self {
            _world: world,
            sites,
            time,
            jobs,
            id,
        }
    }
}

/// The two nodes would be waited for in turn, ten seconds each.
#[test]
fn a_silent_node_holds_up_neither_a_limit_nor_a_cancellation() {
    let followed = Followed::new();
    let Followed {
        sites, jobs, id, ..
    } = &followed;
    let first_alone = [Step::Waited(FIRST.to_owned())];
    sites.set(Mood::Silent);
    sites.wait(|steps| !steps.is_empty());
    let wish = ChangeJob {
        limit: Some(1_000),
        ..ChangeJob::default()
    };
    jobs.change(alice(), id, &wish).expect("changed");
    sites.wait(|steps| steps.contains(&Step::Limited(1_000)));
    assert_eq!(sites.steps()[..1], first_alone);
    assert_eq!(sites.steps().len(), 2, "{:?}", sites.steps());
    // Again, ten seconds later.
    sites.set(Mood::Silent);
    sites.wait(|steps| !steps.is_empty());
    jobs.cancel(alice(), id, None).expect("cancelled");
    sites.wait(|steps| steps.contains(&Step::Cancelled));
    let waited = sites.steps();
    let waited: Vec<&Step> = waited
        .iter()
        .take_while(|step| **step != Step::Cancelled)
        .collect();
    assert_eq!(waited, [&first_alone[0]]);
    jobs.stop();
}

#[test]
fn a_site_of_which_no_node_answers_keeps_its_nodes() {
    let followed = Followed::new();
    let Followed {
        sites, jobs, time, ..
    } = &followed;
    sites.set(Mood::Away);
    let away = |identity: &str| Step::WasAway(identity.to_owned());
    sites.wait(|steps| [FIRST, SECOND].iter().all(|of| steps.contains(&away(of))));
    // Access is given again in time, to each node that may run the job.
    time.store(MORNING + 8 * 3_600_000, Ordering::SeqCst);
    let granted = |identity: &str| Step::Granted(identity.to_owned());
    sites.wait(|steps| steps.contains(&granted(FIRST)));
    sites.wait(|steps| steps.contains(&granted(SECOND)));
    jobs.stop();
}

/// The other end of the job must not wait for it: the site would keep its access there.
#[test]
fn a_site_that_works_for_ever_keeps_no_access_for_a_cancelled_job() {
    let followed = Followed::new();
    let Followed {
        sites, jobs, id, ..
    } = &followed;
    sites.works_for_ever.store(true, Ordering::SeqCst);
    jobs.cancel(alice(), id, None).expect("cancelled");
    let revoked = Step::Revoked(THERE.to_owned());
    // First by the attempt, then by the thread that reports the state of all jobs to their sites.
    sites.wait(|steps| steps.iter().filter(|step| **step == revoked).count() > 1);
    jobs.stop();
}

/// Each silent node takes ten seconds, and all jobs wait for the thread that asks.
#[test]
fn a_site_of_many_silent_nodes_holds_up_no_notice_to_another_site() {
    let followed = Followed::with(10);
    let Followed {
        sites, jobs, id, ..
    } = &followed;
    sites.set(Mood::Silent);
    jobs.cancel(alice(), id, None).expect("cancelled");
    let revoked = Step::Revoked(THERE.to_owned());
    sites.wait(|steps| steps.iter().filter(|step| **step == revoked).count() > 1);
    jobs.stop();
}

/// The search for a node that answers has a time limit, and must reach the third node within it.
#[test]
fn a_site_with_two_silent_nodes_hears_by_the_third_that_a_job_is_cancelled() {
    let followed = Followed::with(1);
    let Followed {
        sites, jobs, id, ..
    } = &followed;
    sites.set(Mood::TwoAreSilent);
    jobs.cancel(alice(), id, None).expect("cancelled");
    let revoked = Step::Revoked("gw1-more-0".to_owned());
    sites.wait(|steps| steps.contains(&revoked));
    jobs.stop();
}
