//! Owns the stream of events: changes of jobs as they come, resumed where a client stopped, and the progress of running jobs.
//! A client that does not read is cut off. It delays no other, for each stream reads the state separately. A stream ends with its token.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::response::sse::{Event, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use godwit_api::failure::FailureCode;
use godwit_api::rest::JobProgress;
use godwit_jobs::JobsError;
use godwit_state::{FollowError, Follower, PAGE_BYTES, Role, Topic};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::{Caller, Need, Request, Viewer};
use crate::extract::Parameters;
use crate::hub::StreamPlace;
use crate::lasting::Lasting;
use crate::problem::ApiError;
use crate::server::stopped;
use crate::turns::{self, Holder};

/// Interval of pings on a silent stream. Clients treat a stream as dead after 45 s.
const PING_EVERY: Duration = Duration::from_secs(10);

/// Changes within this time are sent together: the last change of each job.
const GATHER: Duration = Duration::from_millis(50);

/// Events that wait for a client to read them. The sixteen streams of a token together hold one page.
const WAITING_BYTES: usize = PAGE_BYTES / 16;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(events))
}

/// Selects the events of the stream.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    /// Topic of the events: `job`, the only topic.
    topic: Option<String>,
    /// Events of this job only. A stream without `Last-Event-ID` then begins with the job as it is.
    job: Option<String>,
    /// The stream ends after this number of events. Without a limit, it ends when the client hangs up.
    #[param(minimum = 1)]
    limit: Option<u64>,
}

/// Sends changes as server-sent events.
///
/// `job` carries a changed job, and `progress` the progress of a running one. `gone` means that events were missed: read the jobs again
/// then.
#[utoipa::path(
    get, path = "/events", tag = "events",
    params(EventsQuery, ("Last-Event-ID" = Option<u64>, Header, description = "The id of the last event that the client has; the stream begins after it.")),
    responses((status = 200, description = "A stream of server-sent events.", content_type = "text/event-stream", body = String), Problems),
)]
async fn events(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    parts: Parts,
    Parameters(query): Parameters<EventsQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let bad = |detail: &str| ApiError::new(StatusCode::BAD_REQUEST, FailureCode::BadQuery, detail);
    if query.topic.as_deref().is_some_and(|topic| topic != "job") {
        return Err(bad("topic: the only topic is \"job\""));
    }
    if query.limit == Some(0) {
        return Err(bad("limit: at least 1"));
    }
    let place = app.hub.stream(&caller.name, caller.credential())?;
    let resume = last_event_id(&parts.headers)?;
    let (newest, moved) = (app.hub.newest.clone(), app.hub.moved.clone());
    let wanted = query.job.clone();
    let (after, first) = app
        .run(move |app| {
            let after = match resume {
                Some(after) => after,
                None => app.reader().last_event()?,
            };
            let first = match wanted {
                Some(id) => Some(app.seen(&caller)?.job(&id)?),
                None => None,
            };
            Ok((after, first))
        })
        .await?;
    let mut pending = VecDeque::new();
    if let (Some(job), None) = (first, resume) {
        pending.push_back(event("job", Some(after), &job).0);
    }
    let events = EventStream {
        follower: Some(app.jobs.replica().follow(after)),
        lasting: Lasting::new(
            Arc::clone(&app),
            Request::of(&parts),
            Need::Role(Role::Viewer),
        ),
        stopping: app.stopping.clone(),
        app,
        job: query.job,
        newest,
        moved,
        pending,
        changed: VecDeque::new(),
        left: query.limit,
        look: true,
        holder: turns::holder(),
        _place: place,
    };
    Ok(Sse::new(stream(events)))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| {
        ApiError::new(
            StatusCode::BAD_REQUEST,
            FailureCode::BadHeader,
            "Last-Event-ID: not the id of an event of this node; leave the header out to start with new events",
        )
    })
}

/// One stream.
struct EventStream {
    app: Arc<App>,
    lasting: Lasting,
    follower: Option<Follower>,
    job: Option<String>,
    newest: watch::Receiver<u64>,
    moved: watch::Receiver<Arc<Vec<JobProgress>>>,
    stopping: watch::Receiver<bool>,
    pending: VecDeque<Event>,
    /// Changed jobs whose events follow the pending ones.
    changed: VecDeque<(u64, String)>,
    left: Option<u64>,
    /// The state may have further events.
    look: bool,
    /// Holder for whom the events are read.
    holder: Option<Holder>,
    _place: StreamPlace,
}

fn stream(events: EventStream) -> impl Stream<Item = Result<Event, Infallible>> {
    unfold(events, |mut events| async move {
        let event = events.next().await?;
        Some((Ok(event), events))
    })
}

impl EventStream {
    /// The next event; None ends the stream.
    async fn next(&mut self) -> Option<Event> {
        let ping = tokio::time::Instant::now() + PING_EVERY;
        loop {
            if self.left == Some(0) || !self.lasting.holds().await {
                return None;
            }
            if let Some(event) = self.pending.pop_front() {
                self.left = self.left.map(|left| left - 1);
                return Some(event);
            }
            if self.look || !self.changed.is_empty() {
                self.read().await?;
                continue;
            }
            tokio::select! {
                () = stopped(&mut self.stopping) => return None,
                changed = self.newest.changed() => {
                    changed.ok()?;
                    sleep(GATHER).await;
                    self.newest.mark_unchanged();
                    self.look = true;
                }
                changed = self.moved.changed() => {
                    changed.ok()?;
                    self.read_progress().await?;
                }
                () = sleep_until(ping) => return Some(Event::default().comment("")),
                () = sleep_until(self.lasting.next()) => {}
            }
        }
    }

    /// Takes the progress of running jobs, as the caller may see it now.
    async fn read_progress(&mut self) -> Option<()> {
        let is_wanted = |id: &str| self.job.as_deref().is_none_or(|job| job == id);
        let moved = Arc::clone(&self.moved.borrow_and_update());
        let wanted = moved.iter().filter(|one| is_wanted(&one.id)).cloned();
        let wanted: Vec<JobProgress> = wanted.collect();
        if wanted.is_empty() {
            return Some(());
        }
        let request = self.lasting.request().clone();
        let read = self.app.run_for(self.holder.clone(), move |app| {
            let seen = app.seen(&request.caller(Need::Role(Role::Viewer), app)?)?;
            let mut events = Vec::with_capacity(wanted.len());
            for one in wanted {
                let progress = seen.progress(one)?;
                events.extend(progress.map(|progress| event("progress", None, &progress).0));
            }
            Ok(events)
        });
        self.pending.extend(read.await.ok()?);
        Some(())
    }

    /// Reads the changes since the last look.
    async fn read(&mut self) -> Option<()> {
        let mut follower = self.follower.take()?;
        let (job, request) = (self.job.clone(), self.lasting.request().clone());
        let mut changed = std::mem::take(&mut self.changed);
        let read = self.app.run_for(self.holder.clone(), move |app| {
            // Checked each time: the caller's rights can change while the stream is open.
            let caller = request.caller(Need::Role(Role::Viewer), app)?;
            let mut events = VecDeque::new();
            let more = match changed.is_empty() {
                true => look(
                    app,
                    &mut follower,
                    job.as_deref(),
                    &mut changed,
                    &mut events,
                )?,
                false => true,
            };
            queue_states(app, &caller, &mut changed, &mut events)?;
            Ok((follower, changed, events, more))
        });
        let (follower, changed, events, more) = read.await.ok()?;
        self.follower = Some(follower);
        self.changed = changed;
        self.pending.extend(events);
        self.look = more;
        Some(())
    }
}

/// Finds the jobs that changed after the follower's position, with the last change of each. Returns false if there are none. Blocks.
fn look(
    app: &App,
    follower: &mut Follower,
    job: Option<&str>,
    changed: &mut VecDeque<(u64, String)>,
    pending: &mut VecDeque<Event>,
) -> Result<bool, ApiError> {
    let events = match follower.look() {
        Ok(events) => events,
        Err(FollowError::Gone { after, last }) => {
            *follower = app.jobs.replica().follow(last);
            let gone = json!({"after": after, "last": last});
            pending.push_back(event("gone", Some(last), &gone).0);
            return Ok(true);
        }
        Err(error) => return Err(ApiError::internal(error.to_string())),
    };
    if events.is_empty() {
        return Ok(false);
    }
    for event in events {
        if event.topic != Topic::Job || job.is_some_and(|job| job != event.object) {
            continue;
        }
        changed.retain(|(_, id)| *id != event.object);
        changed.push_back((event.seq, event.object));
    }
    Ok(true)
}

/// Takes changed jobs and queues their current states, up to the bound of waiting bytes. Blocks.
fn queue_states(
    app: &App,
    caller: &Caller,
    changed: &mut VecDeque<(u64, String)>,
    pending: &mut VecDeque<Event>,
) -> Result<(), ApiError> {
    let (seen, mut waiting) = (app.seen(caller)?, 0);
    while waiting < WAITING_BYTES
        && let Some((seq, id)) = changed.pop_front()
    {
        match seen.job(&id) {
            Ok(view) => {
                let (event, bytes) = event("job", Some(seq), &view);
                waiting += bytes;
                pending.push_back(event);
            }
            // Deleted with the history meanwhile.
            Err(JobsError::NoJob(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The event, and its approximate size in bytes.
fn event(name: &str, id: Option<u64>, data: &impl Serialize) -> (Event, usize) {
    let text = serde_json::to_string(data).unwrap_or_default();
    let bytes = text.len();
    let event = Event::default().event(name).data(text);
    let event = match id {
        Some(id) => event.id(id.to_string()),
        None => event,
    };
    (event, bytes)
}
