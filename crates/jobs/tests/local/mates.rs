//! A node that acts for the asker of a job: which audit lines its questions leave.
//! Reaches no node; the questions come as they do from the data port.

use godwit_api::ask::{AnswerJobs as _, GrantJob, Question, RunJob, SteerJob};
use godwit_api::grant::Mandate;
use godwit_api::job::Text;
use godwit_api::rest::Timestamp;
use godwit_jobs::Guests;
use godwit_state::AuditFilter;

use crate::world::{World, new};

/// The lines of one asker are bounded by its name.
#[test]
fn questions_of_a_mate_without_effect_leave_no_line_and_the_others_count_as_the_askers() {
    let world = World::new();
    // The job waits, so it cannot end before the questions about it.
    let jobs = world.start(0);
    let guests = Guests::new(jobs.clone());
    let identity = |letter: &str| format!("gw1-{}a", letter.repeat(51));
    let (asker, mate) = (identity("c"), identity("d"));
    let asks = |who: &str, mandate: Option<&Mandate>, question: &Question| {
        let answer = guests.answer(who, mandate, question, &|_, _, _| Ok(()));
        answer.expect("answered");
    };
    let job = || "j".to_owned();
    let run = Question::Run(Box::new(RunJob {
        job: job(),
        again: true,
        new: new("here:/from/a", "here:/to/a"),
        request: None,
        deadline_ms: None,
        other: None,
        may_list: Some(true),
        may_read: Some(true),
    }));
    asks(&asker, None, &run);
    let let_in = Question::Grant(GrantJob {
        job: job(),
        identity: mate.clone(),
        paths: vec![Text::from("to/a")],
        write: true,
        until: Timestamp(0),
        lasts_ms: Some(3_600_000),
    });
    asks(&asker, None, &let_in);
    let lines = || {
        let lines = jobs.replica().reader().audit(&AuditFilter::default(), 500);
        lines.expect("read")
    };
    let mandate = Mandate {
        asker: asker.clone(),
        job: job(),
    };
    let steer = |priority: Option<i32>| {
        Question::Steer(SteerJob {
            job: job(),
            priority,
            ..SteerJob::default()
        })
    };
    for _ in 0..5 {
        asks(&mate, Some(&mandate), &steer(None));
        asks(&mate, Some(&mandate), &run);
    }
    let of_mate = |line: &godwit_state::AuditLine| {
        line.remote.as_ref() == Some(&mate) || line.object.contains(&format!("by {mate}"))
    };
    let none = lines();
    assert!(!none.iter().any(of_mate), "{none:?}");
    for _ in 0..5 {
        asks(&mate, Some(&mandate), &steer(Some(-3)));
    }
    let lines: Vec<_> = lines().into_iter().filter(of_mate).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0].actor, format!("site:{asker}"));
    jobs.stop();
}
