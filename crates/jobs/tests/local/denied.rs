//! Tests a job whose owner has lost the right to it before it begins: no site is asked about its places.
//! The site is a program of the test's, and nothing is moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use godwit_api::ask::{Answer, AskSites, GoOn, Peer, Question, Refusal, code};
use godwit_api::failure::FailureCode;
use godwit_api::grant::Mandate;
use godwit_api::job::Text;
use godwit_api::rest::NewJob;
use godwit_state::Command;

use crate::settings::keep;
use crate::world::{World, alice, new, site, wait_for};

/// Counts the questions about places.
#[derive(Default)]
struct Counted(AtomicUsize);

impl AskSites for Counted {
    fn ask_for(
        &self,
        _: Option<&Mandate>,
        _: Option<&Peer>,
        question: &Question,
        _: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        match question {
            Question::Nodes { .. } => Ok(Answer::Nodes(Vec::new())),
            Question::Seal(_) => {
                self.0.fetch_add(1, Ordering::SeqCst);
                Ok(Answer::Done {})
            }
            _ => Err(Refusal::new(code::UNSUPPORTED, "unknown")),
        }
    }

    fn reach(&self, _: &Peer, _: Duration) -> Result<(), Refusal> {
        Err(Refusal::later(code::UNREACHABLE, "no node answers"))
    }
}

/// The site answers by the rights of the node, which are wider than those of the owner.
#[test]
fn a_job_of_an_owner_without_the_right_asks_no_site_whether_it_would_seal() {
    let world = World::new();
    world.write("from/a", b"alpha");
    let sites = Arc::new(Counted::default());
    let jobs = world.start_among(sites.clone());
    let put = Command::new(godwit_jobs::now(), alice(), site("b", "192.0.2.1", "gw1-b"));
    jobs.replica().propose_blocking(put).expect("put");
    let mut job: NewJob = new("here:/from/a", "b:/y/in/");
    let ascmhl = vec![Text::from("ascmhl")];
    job.settings.insert("manifest".to_owned(), ascmhl);
    let id = keep(&jobs, "bob", &job);
    let ended = wait_for(&jobs, &id, |job| job.ended.is_some());
    jobs.stop();
    let reason = ended.reason.expect("a reason");
    assert_eq!(reason.code, FailureCode::AccessDenied, "{reason:?}");
    assert_eq!(sites.0.load(Ordering::SeqCst), 0);
}
