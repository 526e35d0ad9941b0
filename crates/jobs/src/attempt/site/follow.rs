//! Follows a job that another site runs: asks about once a second, reports news, and passes changes of limit and priority on.
//! Decides no end.

use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, JobSeen, Question, Refusal, SteerJob, SteerVerb};
use godwit_api::event::EventSink as _;
use godwit_api::failure::{Code, FailureCode};
use godwit_api::rest::ProgressView;
use godwit_state::{JobOp, JobState, Moved, Reason, Timestamp};

use super::let_in::Changed;
use super::{
    Direction, SiteAttempt, Stop, answered_another_question, is_denied, is_passing, is_stopped,
    renew_at,
};
use crate::asking::abroad::{WAITS, waits_for_attempt};
use crate::basis::words::clip;

/// Between two questions.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The same while the site does not answer.
const AWAY_EVERY: Duration = Duration::from_secs(3);

/// Between two questions for the nodes of the site that runs the job: a new one may take the job over at once.
const RUNNERS_EVERY: Duration = Duration::from_secs(10);

/// Between two looks whether the attempt is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The longest pause before lost access is granted again, and the lifetime of access after which the next pause is short again.
const REST_MAX: Duration = Duration::from_mins(5);
const STEADY_AFTER: Duration = Duration::from_mins(10);

/// How often an attempt restarts a job that a command of this cluster had stopped; such commands are rare.
const RESTARTS_MAX: u32 = 8;

/// How long to wait after this many losses in a row.
fn rest_after(losses: u32) -> Duration {
    ASK_EVERY
        .saturating_mul(1_u32.checked_shl(losses).unwrap_or(u32::MAX))
        .min(REST_MAX)
}

/// A job that another site runs, as of the last answer.
pub(super) struct Followed<'a> {
    attempt: &'a SiteAttempt<'a>,
    direction: Direction,
    renew: Timestamp,
    /// When the nodes of the site that runs the job were read last.
    runners_at: Instant,
    limit: u64,
    priority: i32,
    /// State and code that were reported last.
    reported: Option<(JobState, Option<Code>)>,
    moving: JobState,
    away: bool,
    /// Bytes that were done when access was given last.
    done_at_grant: u64,
    /// Access was taken back here while the job ran, and given again.
    given_again: bool,
    /// How often access was lost in a row, and when for the last time.
    losses: u32,
    lost_at: Option<Instant>,
    /// Number of restarts of a job that stood still by a command of this cluster.
    restarts: u32,
}

impl<'a> Followed<'a> {
    pub(super) fn new(attempt: &'a SiteAttempt<'a>, direction: Direction, first: &JobSeen) -> Self {
        let abroad = &attempt.context.asking.abroad;
        abroad.note(&attempt.job.id, waits_for_attempt(first));
        // The job may have waited for this node.
        abroad.wake(&attempt.job.id);
        Self {
            attempt,
            direction,
            renew: renew_at(attempt.context.this.now()),
            runners_at: Instant::now(),
            limit: first.view.limit.unwrap_or(0),
            priority: first.view.priority,
            reported: None,
            moving: JobState::Scanning,
            away: false,
            done_at_grant: attempt.events.moved().bytes,
            given_again: false,
            losses: 0,
            lost_at: None,
            restarts: 0,
        }
    }

    /// Whether the job is stopped at the site although it should run.
    pub(super) fn is_to_run_again(&mut self, seen: &JobSeen) -> bool {
        let events = &self.attempt.events;
        if self.lost_access(seen) {
            events.note(
                "the access for this job ended while the job ran; the access is granted again",
            );
            return true;
        }
        let is_stopped = is_stopped(seen) && self.restarts < RESTARTS_MAX;
        if is_stopped {
            self.restarts += 1;
            events.note(
                "a stop request for an earlier attempt stopped the job there; the job resumes",
            );
        }
        is_stopped
    }

    /// Whether the job ended because its access had ended, after the job had moved data with that access. Then the access is to be given
    /// again; a site that refuses the job from the start would refuse it again.
    fn lost_access(&mut self, seen: &JobSeen) -> bool {
        let done = self.attempt.events.moved().bytes;
        let lost = seen.view.ended.is_some()
            && is_denied(seen)
            && self.attempt.ends.granter(self.direction).is_some()
            && (done > self.done_at_grant || self.given_again);
        if lost {
            self.done_at_grant = done;
            self.given_again = false;
        }
        lost
    }

    /// Waits before access is given again that was lost: longer each time in a row. False if the attempt is to stop.
    pub(super) fn rest(&mut self) -> bool {
        let now = Instant::now();
        let is_in_a_row = self.lost_at.is_some_and(|at| now - at < STEADY_AFTER);
        self.losses = if is_in_a_row { self.losses + 1 } else { 0 };
        let rested = self.sleep(rest_after(self.losses));
        self.lost_at = Some(Instant::now());
        rested
    }

    /// Reports the news of an answer.
    pub(super) fn update(&mut self, seen: &JobSeen) {
        let attempt = self.attempt;
        if self.away {
            self.away = false;
            let runner = &attempt.ends.runner(self.direction).name;
            attempt.events.note(&format!("{runner} answers again"));
        }
        let abroad = &attempt.context.asking.abroad;
        abroad.note(&attempt.job.id, waits_for_attempt(seen));
        if let Some(progress) = &seen.view.progress {
            attempt.events.seen(progress.clone(), moved(seen), &|| None);
        }
        match seen.view.state {
            JobState::Scanning => self.moving = JobState::Scanning,
            JobState::Running => self.moving = JobState::Running,
            JobState::Verifying => self.moving = JobState::Verifying,
            _ => {}
        }
        let mut text = format!(
            "{}, as job {} of that site",
            attempt.ends.route_text(self.direction),
            seen.view.id
        );
        let moves = matches!(
            seen.view.state,
            JobState::Scanning | JobState::Running | JobState::Verifying
        );
        let mut short = None;
        if !moves && let Some(reason) = &seen.view.reason {
            text = format!("{text}{WAITS}{}", reason.text);
            short = Some(reason.code.clone());
        }
        self.report(short, text);
    }

    /// Reports state and reason, if they have changed.
    fn report(&mut self, short: Option<Code>, text: String) {
        let now = (self.moving, short);
        if self.reported.as_ref() == Some(&now) {
            return;
        }
        let report = JobOp::Report {
            epoch: self.attempt.epoch,
            state: self.moving,
            reason: Some(Reason::new(FailureCode::ThirdParty, clip(&text))),
        };
        // A lost report is repeated by the next one.
        let _ = self
            .attempt
            .context
            .this
            .propose_for(&self.attempt.job.id, report);
        self.reported = Some(now);
    }

    /// Waits for the time of the next question. False if the attempt is to stop.
    pub(super) fn wait(&self) -> bool {
        self.sleep(if self.away { AWAY_EVERY } else { ASK_EVERY })
    }

    fn sleep(&self, span: Duration) -> bool {
        let until = Instant::now() + span;
        loop {
            if self.attempt.control.is_cancelled() {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// Asks for the progress of the job, after passing changes on. None while the site does not answer.
    pub(super) fn ask_again(&mut self) -> Result<Option<JobSeen>, Stop> {
        let attempt = self.attempt;
        match attempt.access().follow_mates(self.direction)? {
            Changed::No => {}
            Changed::Came => self.renew = attempt.context.this.now(),
            Changed::Left => {
                self.renew = attempt.context.this.now();
                self.given_again = true;
            }
        }
        if !self.away && self.runners_at.elapsed() >= RUNNERS_EVERY {
            self.runners_at = Instant::now();
            let (control, live, id) = (attempt.control, &attempt.context.live, &attempt.job.id);
            // A node that is silent takes seconds. Neither a cancellation nor a new limit waits for that.
            let limit = self.limit;
            let goes_on =
                || !control.is_cancelled() && live.limit(id).is_none_or(|wanted| wanted == limit);
            if attempt.access().follow_runners(self.direction, &goes_on) {
                self.renew = attempt.context.this.now();
            }
        }
        if attempt.context.this.now() >= self.renew {
            match attempt.access().grant(self.direction) {
                Ok(()) => {
                    attempt.access().let_mates_in(self.direction);
                    self.renew = renew_at(attempt.context.this.now());
                }
                Err(refusal) if refusal.retryable => {}
                Err(refusal) => return Err(refusal.into()),
            }
        }
        try_now(attempt, self.direction);
        let limit = attempt
            .context
            .live
            .limit(&attempt.job.id)
            .unwrap_or(self.limit);
        let job = attempt.context.this.reader().job(&attempt.job.id);
        let priority = match job {
            Ok(Some(job)) => job.priority,
            _ => self.priority,
        };
        let steer = SteerJob {
            job: attempt.job.id.clone(),
            verb: None,
            limit: (limit != self.limit).then_some(limit),
            priority: (priority != self.priority).then_some(priority),
        };
        let question = if steer.limit.is_some() || steer.priority.is_some() {
            Question::Steer(steer)
        } else {
            Question::Job { job: steer.job }
        };
        let runner = attempt.ends.runner(self.direction);
        match attempt.ask(runner, &question) {
            Ok(Answer::Job(seen)) => {
                (self.limit, self.priority) = (limit, priority);
                Ok(Some(*seen))
            }
            Ok(_) => Err(answered_another_question(runner).into()),
            Err(refusal) if is_passing(&refusal) => {
                self.goes_away(&refusal);
                Ok(None)
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// The site does not answer: the job presumably continues there.
    fn goes_away(&mut self, refusal: &Refusal) {
        if self.away {
            return;
        }
        self.away = true;
        let text = format!(
            "{}; the site cannot be asked for progress: {}",
            self.attempt.ends.route_text(self.direction),
            refusal.message
        );
        self.attempt.events.note(&text);
        self.report(Some(FailureCode::NodeUnreachable.into()), text);
    }
}

impl Drop for Followed<'_> {
    fn drop(&mut self) {
        let abroad = &self.attempt.context.asking.abroad;
        abroad.note(&self.attempt.job.id, false);
    }
}

/// Has the site try the job now, if what the job waits for there may be back.
fn try_now(attempt: &SiteAttempt<'_>, direction: Direction) {
    let (abroad, id) = (&attempt.context.asking.abroad, &attempt.job.id);
    if !abroad.take(id) {
        return;
    }
    let question = Question::Steer(SteerJob {
        job: id.clone(),
        verb: Some(SteerVerb::TryNow),
        ..SteerJob::default()
    });
    let runner = attempt.ends.runner(direction);
    match attempt.ask(runner, &question) {
        Ok(_) => {
            let name = &runner.name;
            attempt
                .events
                .note(&format!("{name} is asked to try the job now"));
        }
        Err(refusal) if is_passing(&refusal) => abroad.wake(id),
        // A site of an older version knows no such request, and tries the job at its time.
        Err(_) => {}
    }
}

/// Sum over all attempts of the job there, by the site's report.
pub(super) fn moved(seen: &JobSeen) -> Moved {
    let view = &seen.view;
    let moved = view.moved;
    if moved == Moved::default() {
        // A site of an earlier version reports its last attempt alone.
        let progress = view.progress.as_ref();
        let number = |name: &str, of: fn(&ProgressView) -> u64| {
            let summary = view.summary.as_ref();
            let count = summary.and_then(|summary| summary.get(name)?.as_u64());
            count.or_else(|| progress.map(of)).unwrap_or(0)
        };
        return Moved {
            bytes: number("bytes", |progress| progress.bytes),
            files: number("files", |progress| progress.files),
            bytes_again: 0,
        };
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_that_is_lost_again_and_again_is_given_more_and_more_slowly() {
        let rests: Vec<u64> = (0..10).map(|losses| rest_after(losses).as_secs()).collect();
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(rest_after(u32::MAX), REST_MAX);
    }
}
