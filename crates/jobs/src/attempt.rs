//! One attempt of a job: a thread that runs the transfer, keeps what it tells, and says to the state how it ended.
//! Does not decide when the next one comes, but for the delay that the job's policy gives.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use godwit_api::event::{Channel, Channels, Event, EventSink, Progress, Status, Summary};
use godwit_api::failure::{Failure, FailureCode, Retry};
use godwit_api::job::Text;
use godwit_api::rest::{ChannelView, ProgressView, SampleView};
use godwit_run::{Control, Runner};
use godwit_state::{
    Command, FailureGroup, Finish, Job, JobOp, JobState, Op, Outcome, ProposeError, Reason, Site,
};

use crate::clock::{now, timestamp};
use crate::error::JobsError;
use crate::files::Recorder;
use crate::host::Host;
use crate::live::Attempt;
use crate::scheduler::actor;
use crate::{Shared, access, spec};

/// Groups of failed entries that are told; further ones are counted under one.
const GROUPS_MAX: usize = 60;

/// Paths that a group names.
const EXAMPLES_MAX: usize = 16;

/// Longest text of one example: the state takes no longer one.
const TEXT_BYTES_MAX: usize = 4_096;

/// While the state does not take how an attempt ended.
const PROPOSE_AGAIN: Duration = Duration::from_secs(1);

/// Starts the attempt that was claimed under `epoch`.
pub(crate) fn start(shared: &Arc<Shared>, job: Job, epoch: u64, sites: Vec<String>, limit: u64) {
    let control = Control::default();
    let progress = Arc::new(Mutex::new(None));
    let attempt = Attempt {
        owner: job.owner.clone(),
        sites,
        epoch,
        control: control.clone(),
        limit,
        progress: Arc::clone(&progress),
    };
    shared.live.insert(&job.id, attempt);
    let own = Arc::clone(shared);
    let id = job.id.clone();
    let body = move || {
        let told = AttemptEvents::new(&own, &job, epoch, progress);
        let ended = carry_out(&own, &job, limit, &control, &told);
        conclude(&own, &job, epoch, &told, ended);
        own.live.remove(&job.id);
    };
    let name = "gw-job".to_owned();
    let spawned = std::thread::Builder::new().name(name).spawn(body);
    if let Err(error) = spawned.map(|thread| shared.live.keep(thread)) {
        (shared.config.log)(&format!("job {id}: no thread for it: {error}"));
        shared.live.remove(&id);
        let reason = Reason::new("no_thread", format!("No thread could be started: {error}."));
        let backoff = JobOp::Backoff {
            epoch,
            reason,
            next_attempt: now().after(5_000),
            bytes: 0,
            files: 0,
        };
        // If the state takes nothing now, the next start of the node returns the job to the queue.
        let _ = propose(shared, &id, backoff);
    }
}

fn propose(shared: &Shared, id: &str, op: JobOp) -> Result<(), ProposeError> {
    let command = Command::new(now(), actor(shared), Op::Job(id.to_owned(), op));
    shared.replica.propose_blocking(command).map(|_| ())
}

/// Runs the transfer to its end.
fn carry_out(
    shared: &Shared,
    job: &Job,
    limit: u64,
    control: &Control,
    told: &Arc<AttemptEvents>,
) -> Result<Summary, Failure> {
    let reader = shared.replica.reader();
    let stored = reader
        .job_spec(&job.id)
        .map_err(Failure::local)?
        .ok_or_else(|| Failure::usage("the description of the job is gone"))?;
    let find = |name: &str| Ok(reader.object::<Site>(name)?);
    let new = spec::parse(&stored).map_err(Failure::usage)?;
    // What was allowed at the submission may have been taken back.
    let (sources, destination) = spec::places(&new).map_err(Failure::usage)?;
    access::check_owner(shared, &job.owner, &sources, &destination).map_err(
        |error| match error {
            JobsError::Forbidden { .. } => Failure::new(FailureCode::AccessDenied, error),
            other => Failure::local(other),
        },
    )?;
    let mut prepared = spec::prepare(&new, &find).map_err(Failure::usage)?;
    if limit > 0 {
        // From the first byte on; what changes later goes through the control.
        let text = Text::from(limit.to_string().as_str());
        prepared
            .spec
            .settings
            .insert("limit".to_owned(), vec![text]);
    }
    let env = (shared.config.make_env)(&prepared.sites);
    let events: Arc<dyn EventSink> = Arc::clone(told) as Arc<dyn EventSink>;
    Runner::run(&prepared.spec, &env, &events, control)
}

/// Tells the state how the attempt ended. An attempt whose claim has ended tells nothing: somebody paused or cancelled the job.
fn conclude(
    shared: &Shared,
    job: &Job,
    epoch: u64,
    told: &AttemptEvents,
    ended: Result<Summary, Failure>,
) {
    let heard = told.lock();
    let (bytes, files) = (heard.bytes, heard.files);
    let op = match &ended {
        Ok(summary) => finish(epoch, summary, &heard),
        Err(failure)
            if failure.code.is_interruption() && shared.stopping.load(Ordering::SeqCst) =>
        {
            // The next start of the node returns the job to the queue.
            return;
        }
        Err(failure) if failure.code.retry() == Retry::Transient => JobOp::Backoff {
            epoch,
            reason: Reason::new(failure.code.as_str(), clip(&failure.message)),
            next_attempt: job.retry.next_attempt(job.retries, now()),
            bytes,
            files,
        },
        Err(failure) => {
            let code = failure.code.as_str();
            JobOp::Finish(Box::new(Finish {
                epoch,
                outcome: Outcome::Failed,
                reason: Some(Reason::new(code, clip(&failure.message))),
                summary: heard.summary.clone().unwrap_or_else(|| "{}".to_owned()),
                bytes,
                files,
                failures: heard.groups(),
            }))
        }
    };
    drop(heard);
    loop {
        match propose(shared, &job.id, op.clone()) {
            Ok(()) | Err(ProposeError::Refused(_)) => return,
            Err(error) => {
                (shared.config.log)(&format!("job {}: {error}", job.id));
                // The next start of the node finds the claim, and returns the job to the queue.
                if shared.stopping.load(Ordering::SeqCst) || matches!(error, ProposeError::Ended(_))
                {
                    return;
                }
                std::thread::sleep(PROPOSE_AGAIN);
            }
        }
    }
}

/// The end of a job that was done.
fn finish(epoch: u64, summary: &Summary, heard: &Heard) -> JobOp {
    let (complete, failed) = match summary {
        Summary::Transfer(summary) => (summary.status == Status::Complete, summary.failed),
        Summary::Verify(_) => (true, 0),
    };
    let reason = (!complete).then(|| {
        let text = format!(
            "{failed} entries failed; all others arrived. See them with: godwit job report."
        );
        Reason::new("entries_failed", text)
    });
    JobOp::Finish(Box::new(Finish {
        epoch,
        outcome: if complete {
            Outcome::Complete
        } else {
            Outcome::Partial
        },
        reason,
        summary: heard.summary.clone().unwrap_or_else(|| "{}".to_owned()),
        bytes: heard.bytes,
        files: heard.files,
        failures: heard.groups(),
    }))
}

/// Cuts what is longer than the state takes.
fn clip(text: &str) -> String {
    let mut text = text.to_owned();
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

/// Hears what the transfer tells.
struct AttemptEvents {
    shared: Arc<Shared>,
    id: String,
    epoch: u64,
    attempt: u32,
    progress: Arc<Mutex<Option<ProgressView>>>,
    heard: Mutex<Heard>,
}

/// What was heard.
struct Heard {
    recorder: Recorder,
    host: Host,
    /// The state knows that data moves.
    running: bool,
    groups: BTreeMap<String, FailureGroup>,
    failed: u64,
    bytes: u64,
    files: u64,
    summary: Option<String>,
    /// The network paths, as they were told last.
    channels: Vec<ChannelView>,
}

impl Heard {
    fn groups(&self) -> Vec<FailureGroup> {
        self.groups.values().cloned().collect()
    }

    fn failed(&mut self, code: &str, message: &str, path: &[u8]) {
        self.failed += 1;
        let full = self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(code);
        let code = if full { "other" } else { code };
        let group = self
            .groups
            .entry(code.to_owned())
            .or_insert_with(|| FailureGroup {
                reason: Reason::new(code, clip(message)),
                count: 0,
                examples: Vec::new(),
            });
        group.count += 1;
        if group.examples.len() < EXAMPLES_MAX {
            group.examples.push(clip(&String::from_utf8_lossy(path)));
        }
    }
}

impl AttemptEvents {
    fn new(
        shared: &Arc<Shared>,
        job: &Job,
        epoch: u64,
        progress: Arc<Mutex<Option<ProgressView>>>,
    ) -> Arc<Self> {
        let attempt = job.attempts + 1;
        Arc::new(Self {
            id: job.id.clone(),
            epoch,
            attempt,
            progress,
            heard: Mutex::new(Heard {
                recorder: Recorder::open(&shared.config.directory, &job.id, attempt),
                host: Host::new(),
                running: false,
                groups: BTreeMap::new(),
                failed: 0,
                bytes: 0,
                files: 0,
                summary: None,
                channels: Vec::new(),
            }),
            shared: Arc::clone(shared),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self, progress: &Progress) {
        let mut heard = self.lock();
        heard.bytes = progress.bytes;
        heard.files = progress.files;
        let at = timestamp();
        let bottleneck = progress.bottleneck.as_ref();
        let view = ProgressView {
            at,
            bytes: progress.bytes,
            bytes_total: progress.bytes_total,
            bytes_per_second: progress.bytes_per_second,
            files: progress.files,
            streams: progress.streams,
            bottleneck: bottleneck.map(|limited| limited.stage.clone()),
            bottleneck_text: bottleneck.map(|limited| {
                let advice = limited.told.advice.as_deref();
                let advice = advice.map_or_else(String::new, |advice| format!("; {advice}"));
                format!("{}: {}{advice}", limited.stage, limited.told.figure)
            }),
            failed: heard.failed,
            stages: progress.stages.clone(),
            channels: heard.channels.clone(),
        };
        if heard.recorder.is_due() {
            let before = heard
                .recorder
                .last()
                .map(|sample| (sample.at.0, sample.bytes));
            let rate = before.map_or(0.0, |(then, bytes)| {
                let seconds = Duration::from_millis(at.0.saturating_sub(then).unsigned_abs());
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "a rate needs no more than 53 bits"
                )]
                let moved = view.bytes.saturating_sub(bytes) as f64;
                moved / seconds.as_secs_f64().max(0.001)
            });
            let sample = SampleView {
                at,
                attempt: self.attempt,
                bytes: view.bytes,
                files: view.files,
                bytes_per_second: rate,
                streams: view.streams,
                bottleneck: view.bottleneck.clone(),
                stages: view.stages.clone(),
                host: heard.host.figures(),
            };
            heard.recorder.sample(sample);
        }
        let begins = !heard.running && view.bytes_total.is_some();
        heard.running |= begins;
        drop(heard);
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(view);
        if begins {
            let report = JobOp::Report {
                epoch: self.epoch,
                state: JobState::Running,
                reason: None,
            };
            // The state is of more use than exact: the next one says how the attempt ended.
            let _ = propose(&self.shared, &self.id, report);
        }
    }
}

fn channels(told: &Channels) -> Vec<ChannelView> {
    let view = |channel: &Channel| ChannelView {
        number: channel.number,
        name: channel.name.clone(),
        streams: channel.streams,
        bytes_per_second: channel.bytes_per_second,
        round_trip_seconds: channel.round_trip_seconds,
        cuts: channel.cuts,
    };
    told.channels.iter().map(view).collect()
}

impl EventSink for AttemptEvents {
    fn tell(&self, event: Event) {
        match &event {
            Event::Progress(progress) => return self.progress(progress),
            Event::Failed(failed) => {
                let code = failed.code.as_deref().unwrap_or("other");
                self.lock().failed(code, &failed.message, &failed.path);
            }
            Event::Channels(told) => self.lock().channels = channels(told),
            Event::Summary(summary) => {
                let mut heard = self.lock();
                heard.summary = serde_json::to_string(summary).ok();
                if let Summary::Transfer(summary) = summary {
                    heard.bytes = summary.bytes.unwrap_or(heard.bytes);
                    heard.files = summary.files;
                }
            }
            _ => {}
        }
        if let Ok(value) = serde_json::to_value(&event) {
            self.lock().recorder.log(value);
        }
    }
}
