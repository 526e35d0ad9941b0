//! Tests jobs of another site that ends them with texts which no state accepts.
//! The site is a program of the test; the operator of a site could write such a program.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, AskSites, GoOn, JobPast, JobSeen, Peer, Question, Refusal, code};
use godwit_api::failure::{Code, FailureCode};
use godwit_api::grant::Mandate;
use godwit_api::rest::{FailureGroup, JobState, JobView, Reason, SampleView, Timestamp};
use godwit_jobs::{Jobs, Seen};
use godwit_state::{
    AccessRight, AccessRule, Change, Command, LEVEL_SITES, Op, Role, RuleSite, User,
};
use serde_json::json;

use crate::world::{World, alice, new, site, submit, wait_for};

/// Runs each job at once, and sends this report on it.
struct Faithless {
    seen: JobSeen,
    /// Bytes of each sample that it sends.
    sample_bytes: usize,
    /// Rights of owners that it was asked to go by: to list, to read.
    sights: Mutex<Vec<(bool, bool)>>,
}

fn faithless(seen: JobSeen) -> Arc<Faithless> {
    Arc::new(Faithless {
        seen,
        sample_bytes: 0,
        sights: Mutex::default(),
    })
}

impl AskSites for Faithless {
    fn ask_for(
        &self,
        _: Option<&Mandate>,
        _: Option<&Peer>,
        question: &Question,
        _: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        match question {
            Question::Reach(_) | Question::Grant(_) | Question::Revoke { .. } => {
                Ok(Answer::Done {})
            }
            Question::Job { .. } => Err(Refusal::new(code::NO_SUCH_JOB, "not here")),
            Question::Run(wish) => {
                let mut sights = self.sights.lock().expect("no panic");
                sights.push((wish.may_list == Some(true), wish.may_read == Some(true)));
                Ok(Answer::Job(Box::new(self.seen.clone())))
            }
            Question::Steer(_) => Ok(Answer::Job(Box::new(self.seen.clone()))),
            Question::Past(wish) if self.sample_bytes > 0 => {
                let sample = SampleView {
                    at: Timestamp(wish.sample.0 + 1),
                    stages: [("x".repeat(self.sample_bytes), 1.0)].into(),
                    ..SampleView::default()
                };
                Ok(Answer::Past(JobPast {
                    samples: vec![sample],
                    more: true,
                    ..JobPast::default()
                }))
            }
            Question::Past(_) => Ok(Answer::Past(JobPast::default())),
            _ => Err(Refusal::new(code::UNSUPPORTED, "unknown")),
        }
    }

    fn reach(&self, _: &Peer, _: Duration) -> Result<(), Refusal> {
        Ok(())
    }
}

pub(crate) fn seen(state: JobState) -> JobSeen {
    let view: JobView = serde_json::from_value(json!({
        "id": "j", "label": "", "owner": "site:c", "kind": "copy", "sources": ["here:/x/s"], "destination": "b:/y/d",
        "state": state, "reason": null, "since": Timestamp(0), "next_attempt": null, "priority": 0, "limit": null,
        "not_before": null, "deadline": null, "attempts": 1, "node": null, "created": Timestamp(0), "started": null,
        "ended": Timestamp(1), "progress": null, "summary": null,
    }))
    .expect("a job");
    JobSeen {
        view,
        failures: Vec::new(),
    }
}

fn reason(code: &str) -> Reason {
    Reason {
        code: Code::of_word(code),
        text: "x".to_owned(),
    }
}

#[test]
fn a_job_ends_whatever_the_site_says_that_ran_it() {
    let mut long = seen(JobState::Complete);
    long.view.summary = Some(json!({"bytes": 1, "words": "x".repeat(300 << 10)}));
    let mut word = seen(JobState::Failed);
    word.view.reason = Some(reason("a\nb"));
    let none = seen(JobState::Failed);
    let mut groups = seen(JobState::Partial);
    groups.view.reason = Some(reason("entries_failed"));
    let group = FailureGroup {
        reason: reason("permission"),
        count: 1,
        examples: Vec::new(),
    };
    groups.failures = vec![group; 65];
    let mut stuck = Vec::new();
    for (name, reported) in [
        ("what makes sense", sane()),
        ("a long summary", long),
        ("a code of two lines", word),
        ("no reason", none),
        ("many groups", groups),
    ] {
        let world = World::new();
        let jobs = world.start_among(faithless(reported));
        let view = end_of(&jobs);
        if view.ended.is_none() && view.next_attempt.is_none() {
            stuck.push(format!("{name}: {:?} {:?}", view.state, view.reason));
        }
        jobs.stop();
    }
    assert!(stuck.is_empty(), "{}", stuck.join("\n"));
}

fn sane() -> JobSeen {
    let mut sane = seen(JobState::Complete);
    sane.view.summary = Some(json!({"bytes": 1, "files": 1}));
    sane
}

/// A job between two sites, at its end or after some seconds.
fn end_of(jobs: &Jobs) -> JobView {
    for name in ["a", "b"] {
        let op = site(name, "192.0.2.1", &format!("gw1-{}", name.repeat(52)));
        let put = Command::new(godwit_jobs::now(), alice(), op);
        jobs.replica().propose_blocking(put).expect("put");
    }
    let id = submit(jobs, &new("a:/x/s", "b:/y/d"));
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let view = jobs.job(&id).expect("the job");
        if view.ended.is_some() || view.next_attempt.is_some() || Instant::now() > until {
            return view;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Texts of a site are never texts of the program, with any code.
#[test]
fn an_outline_has_no_words_of_the_site_that_ran_the_job() {
    let mut reported = sane();
    reported.view.state = JobState::Failed;
    reported.view.reason = Some(Reason {
        code: FailureCode::NodeLost.into(),
        text: "secret.txt".to_owned(),
    });
    reported.view.summary = Some(json!({"status": "secret.txt"}));
    let world = World::new();
    let jobs = world.start_among(faithless(reported));
    let id = end_of(&jobs).id;
    let outline = Seen::by(&jobs, "vera", Role::Viewer).expect("a viewer");
    let outline = outline.job(&id).expect("the job");
    jobs.stop();
    assert!(!format!("{outline:?}").contains("secret"), "{outline:?}");
}

#[test]
fn a_site_fills_no_disk_with_samples() {
    let world = World::new();
    let jobs = world.start_among(Arc::new(Faithless {
        seen: sane(),
        sample_bytes: 900 << 10,
        sights: Mutex::default(),
    }));
    let id = end_of(&jobs).id;
    jobs.stop();
    let file = world.path("home/jobs").join(id).join("samples.jsonl");
    let bytes = std::fs::metadata(file).map_or(0, |file| file.len());
    assert!(
        bytes < 16 << 20,
        "{bytes} bytes of samples of one job that ended at once"
    );
}

/// The site that runs a job checks the rights of the asking node, which are wider than the rights of a user.
#[test]
fn a_site_hears_what_the_owner_of_a_job_may_see_at_the_destination() {
    let world = World::new();
    let site = faithless(sane());
    let jobs = world.start_among(site.clone());
    end_of(&jobs);
    let put = |op| {
        let command = Command::new(godwit_jobs::now(), alice(), op);
        jobs.replica().propose_blocking(command).expect("put");
    };
    put(Op::Level(LEVEL_SITES));
    put(Op::User(Change::Put(User {
        name: "bob".to_owned(),
        role: Role::Operator,
        password: None,
        disabled: false,
    })));
    let rule = |site: &str, export: &str, right: AccessRight| {
        Op::Access(Change::Put(AccessRule {
            id: format!("{site}-{right:?}"),
            subject: "user:bob".to_owned(),
            site: Some(RuleSite {
                name: site.to_owned(),
                identity: format!("gw1-{}", site.repeat(52)),
            }),
            export: export.to_owned(),
            path: String::new(),
            rights: vec![right],
            expires: None,
            comment: String::new(),
            job: None,
        }))
    };
    put(rule("a", "x", AccessRight::Read));
    put(rule("b", "y", AccessRight::Write));
    let run = || {
        let submitted = jobs.submit(alice(), "bob", &new("a:/x/s", "b:/y/d"), None);
        let (job, _) = submitted.expect("submitted");
        wait_for(&jobs, &job.id, |job| job.ended.is_some());
    };
    run();
    put(rule("b", "y", AccessRight::List));
    run();
    jobs.stop();
    let sights = site.sights.lock().expect("no panic");
    assert_eq!(*sights, [(true, true), (false, false), (true, false)]);
}
