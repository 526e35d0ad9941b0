//! A kit for three sites that distrust each other: the actions that one site may ask of another at a third, by a separate client.
//! See `sites::third` for jobs that all three allow.
//!
//! A runs jobs, B has data, C asks. Each test states the grants of each site. A new feature that moves data for others adds its
//! cases here.

mod bounds;
mod clocks;
mod deputy;
mod flows;
mod given;
mod hidden;
mod mates;
mod named;
mod redirected;
mod relays;
mod roles;
mod scanned;
mod silent;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, AskSites as _, GrantJob, JobSeen, Peer, Question, Refusal, RunJob};
use godwit_api::grant::Mandate;
use godwit_api::job::Text;
use godwit_api::rest::{JobState, NewJob, Timestamp};
use godwit_api::settings::Cipher;
use godwit_data_port::{Asker, Here};
use godwit_run::{Home, client_tls};
use serde_json::{Value, json};

use super::rig::Rig;

/// Time for jobs to end on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

const DAY_MILLIS: i64 = 24 * 3_600_000;

/// The id that a job has at C. A test with several jobs adds a number.
pub(crate) const JOB: &str = "c-job";

/// Three nodes that know nothing of each other.
struct Trust {
    a: Rig,
    b: Rig,
    c: Rig,
}

impl Trust {
    fn new() -> Self {
        let [mut a, mut b, mut c] = [Rig::new(), Rig::new(), Rig::new()];
        for rig in [&mut a, &mut b, &mut c] {
            rig.serve(&[]);
        }
        let trust = Self { a, b, c };
        trust.lay_out();
        trust
    }

    /// Puts what B has and what A needs into their exports.
    fn lay_out(&self) {
        self.b.write("export/data/secret", b"secret");
        self.b.write("export/data/old/f", b"old");
        self.a.write("export/mine/evil", b"evil");
        fs::create_dir_all(self.a.export.join("empty")).expect("made");
        fs::create_dir_all(self.a.export.join("in")).expect("made");
    }

    /// Asks with the key of C, by a client of the test.
    fn c_asks(&self, of: &Rig, question: &Question) -> Result<Answer, Refusal> {
        ask(&self.c, of, None, question)
    }

    /// Has C ask A for a job with its other end at B.
    fn run(&self, job: &str, new: &Value) -> Result<JobSeen, Refusal> {
        let new: NewJob = serde_json::from_value(new.clone()).expect("a job");
        let other = Some(peer(&self.b, "siteB"));
        let question = Question::Run(Box::new(RunJob {
            job: job.to_owned(),
            again: true,
            request: None,
            deadline_ms: None,
            new,
            other,
            may_list: Some(true),
            may_read: Some(true),
        }));
        match self.c_asks(&self.a, &question)? {
            Answer::Job(seen) => Ok(*seen),
            other => panic!("{other:?}"),
        }
    }

    /// Runs the job to its end.
    #[track_caller]
    fn end_of(&self, job: &str, new: &Value) -> Result<JobSeen, Refusal> {
        let mut seen = self.run(job, new)?;
        let until = Instant::now() + DEADLINE;
        while seen.view.ended.is_none() {
            assert!(Instant::now() < until, "it does not end: {:?}", seen.view);
            std::thread::sleep(Duration::from_millis(50));
            let job = job.to_owned();
            match self.c_asks(&self.a, &Question::Job { job })? {
                Answer::Job(now) => seen = *now,
                other => panic!("{other:?}"),
            }
        }
        Ok(seen)
    }

    /// Has B admit `who` for C's job, as C does for the node that runs the job.
    fn give(&self, job: &str, who: &Rig, path: &str, write: bool) -> Result<(), Refusal> {
        let question = Question::Grant(GrantJob {
            job: job.to_owned(),
            identity: who.identity.clone(),
            paths: vec![Text::from(path)],
            write,
            until: Timestamp(godwit_jobs::now().0 + 30 * DAY_MILLIS),
            lasts_ms: None,
        });
        self.c_asks(&self.b, &question).map(drop)
    }

    /// B is unchanged, and A has received nothing.
    #[track_caller]
    fn assert_untouched(&self) {
        let read = |rig: &Rig, path: &str| fs::read(rig.export.join(path)).ok();
        assert_eq!(
            read(&self.b, "data/secret").as_deref(),
            Some(&b"secret"[..])
        );
        assert_eq!(read(&self.b, "data/old/f").as_deref(), Some(&b"old"[..]));
        let entries = |path: &Path| fs::read_dir(path).expect("there").count();
        assert_eq!(entries(&self.b.export.join("data")), 2, "nothing new at B");
        assert_eq!(entries(&self.a.export.join("in")), 0, "nothing new at A");
    }
}

pub(crate) fn peer(rig: &Rig, name: &str) -> Peer {
    Peer {
        name: name.to_owned(),
        addresses: vec![rig.address().to_owned()],
        identity: rig.identity.clone(),
    }
}

/// Asks a node with the key of another one.
pub(crate) fn ask(
    with_key_of: &Rig,
    of: &Rig,
    mandate: Option<&Mandate>,
    question: &Question,
) -> Result<Answer, Refusal> {
    let home = Home::at(with_key_of.daemon_home.clone());
    let identity = home.identity().expect("a key");
    let tls = client_tls(Cipher::Aes256Gcm, &identity).expect("usable");
    let here = Here::new(
        Vec::new(),
        home.path().to_owned(),
        godwit_store::Syncs::default(),
    );
    let asker = Asker::new(here, tls);
    let until = Instant::now() + DEADLINE;
    let mut go_on = |_| Instant::now() < until;
    asker.ask_for(mandate, Some(&peer(of, "other")), question, &mut go_on)
}

/// Lets an identity in at paths of an export.
#[track_caller]
pub(crate) fn allow(rig: &Rig, identity: &str, area: &str, rights: &[&str]) {
    let line = [&["access", "allow", identity, "--export", area], rights].concat();
    let outcome = rig.admin(&line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

/// Requests that C may make to B through A: each kind of transfer and each kind of change.
fn wishes() -> Vec<(&'static str, Value)> {
    let mut wishes = vec![
        (
            "a pull",
            json!({"sources": ["siteB:/data/data/secret"], "destination": "here:/data/in/"}),
        ),
        (
            "a push over a file",
            json!({"sources": ["here:/data/mine/evil"], "destination": "siteB:/data/data/secret"}),
        ),
        (
            "a sync that empties a directory",
            json!({"kind": "sync", "sources": ["here:/data/empty/"], "destination": "siteB:/data/data/old",
                   "settings": {"delete": ["true"]}}),
        ),
        (
            "a dry run, which tells names",
            json!({"sources": ["siteB:/data/data"], "destination": "here:/data/in/",
                   "settings": {"dry-run": ["true"]}}),
        ),
    ];
    let divided: Vec<_> = wishes
        .iter()
        .map(|(name, wish)| {
            let mut wish = wish.clone();
            wish["divide"] = json!("always");
            (*name, wish)
        })
        .collect();
    wishes.extend(divided);
    wishes
}

/// The job ended without any effect, and names the peer without the right.
#[track_caller]
pub(crate) fn assert_denied(seen: &JobSeen, c: &Rig) {
    let view = &seen.view;
    assert_eq!(view.state, JobState::Failed, "{view:?}");
    let reason = view.reason.as_ref().expect("a reason");
    assert_eq!(reason.code.as_str(), "access_denied", "{view:?}");
    assert!(reason.text.contains(&c.identity), "{}", reason.text);
}
