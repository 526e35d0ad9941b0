//! Copies the log and the samples of a job from the site that runs it, so that this node shows and keeps them.
//! Asks for nothing else, and ends no attempt: a site that does not send them runs the job anyway.

use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, PastAfter, Question, Refusal, code};
use godwit_api::event::EventSink as _;

use super::{Direction, SiteAttempt, answered_another_question};

/// Between two questions.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// Questions before the job is checked again.
const AT_ONCE_MAX: usize = 4;

/// Limit of questions at the end of the job, enough for the longest log and samples that a node allows.
const AT_END_MAX: usize = 100;

/// How far the log and the samples of the site are known here.
pub(super) struct Copying {
    due: Instant,
    /// The site sends no part of the record.
    ended: bool,
}

impl Copying {
    pub(super) fn new() -> Self {
        Self {
            due: Instant::now(),
            ended: false,
        }
    }

    /// Asks the site for new log lines and samples and copies them, if the next question is due. `job` is its id at the site.
    pub(super) fn go_on(&mut self, attempt: &SiteAttempt<'_>, direction: Direction, job: &str) {
        if Instant::now() >= self.due {
            self.copy(attempt, direction, job, AT_ONCE_MAX);
            self.due = Instant::now() + ASK_EVERY;
        }
    }

    /// Copies the rest.
    pub(super) fn end(&mut self, attempt: &SiteAttempt<'_>, direction: Direction, job: &str) {
        self.copy(attempt, direction, job, AT_END_MAX);
    }

    fn copy(
        &mut self,
        attempt: &SiteAttempt<'_>,
        direction: Direction,
        job: &str,
        questions: usize,
    ) {
        for _ in 0..questions {
            if self.ended {
                return;
            }
            match ask(attempt, direction, job) {
                Ok(true) => {}
                Ok(false) => return,
                // The next question fetches the rest.
                Err(refusal) if refusal.retryable || refusal.code == code::BROKEN => return,
                Err(refusal) => {
                    self.ended = true;
                    let site = &attempt.ends.runner(direction).name;
                    attempt.events.note(&format!(
                        "the log and figures of the job are kept only at {site}: {refusal}"
                    ));
                }
            }
        }
    }
}

/// Asks once; whether there is more to ask for.
fn ask(attempt: &SiteAttempt<'_>, direction: Direction, job: &str) -> Result<bool, Refusal> {
    let site = attempt.ends.runner(direction);
    let (line, sample) = attempt.events.copied(&site.name, job);
    let question = Question::Past(PastAfter {
        job: attempt.job.id.clone(),
        attempt: 0,
        line,
        sample,
    });
    match attempt.ask(site, &question)? {
        Answer::Past(past) => {
            let more = past.more;
            // A site that repeats itself would be asked for ever.
            Ok(attempt.events.copy(&site.name, job, past) && more)
        }
        _ => Err(answered_another_question(site)),
    }
}
