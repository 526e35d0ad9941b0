//! Owns the stream of a node's events: it reconnects when the connection breaks. Stores no state of jobs.

use std::time::Duration;

use godwit_api::rest::{JobView, ProgressView};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::error::ClientError;
use crate::http::{ANSWER_DEADLINE, Ask};
use crate::sse::{Parser, ServerEvent};
use crate::transport::Client;

/// A stream that is silent for this time counts as broken: a node sends data at least every 15 s, and two messages may be late.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// The pause before the first new connection; each later pause is twice as long, up to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// Time during which new connections are tried: enough for the restart of a machine.
const RECONNECT_FOR: Duration = Duration::from_secs(300);

/// A piece of news.
#[derive(Debug)]
pub enum News {
    /// A job changed.
    Job(Box<JobView>),
    /// A running job made progress.
    Progress {
        /// The id of the job.
        job: String,
        /// The progress of the job.
        progress: Box<ProgressView>,
    },
    /// Events may be missing: read the jobs themselves.
    Missed,
    /// The node cannot be reached; new connections are tried.
    Lost(ClientError),
}

/// A stream of events.
pub struct Events<'a> {
    client: &'a Client,
    path: String,
    last_id: Option<String>,
    body: Option<Incoming>,
    parser: Parser,
    received_at: Instant,
    /// New connections since the last event.
    tries: u32,
    lost: Option<Instant>,
}

/// The data of a progress event.
#[derive(Deserialize)]
struct ProgressData {
    #[serde(alias = "job")]
    id: String,
    progress: Option<Box<ProgressView>>,
}

impl Client {
    /// The events of all jobs, or of one.
    ///
    /// # Errors
    /// The node cannot be reached now, or refuses.
    pub fn events(&self, job: Option<&str>) -> Result<Events<'_>, ClientError> {
        let mut path = "/api/v1/events?topic=job".to_owned();
        if let Some(job) = job {
            path.push_str(&format!("&job={}", crate::calls::escaped(job)));
        }
        let mut events = Events {
            client: self,
            path,
            last_id: None,
            body: None,
            parser: Parser::default(),
            received_at: Instant::now(),
            tries: 0,
            lost: None,
        };
        self.block_on(events.open())?;
        Ok(events)
    }
}

impl Events<'_> {
    /// The next piece of news; `None` if nothing happens within `wait`.
    ///
    /// # Errors
    /// The node refuses, or stays unreachable.
    pub fn next(&mut self, wait: Duration) -> Result<Option<News>, ClientError> {
        let client = self.client;
        client.block_on(async {
            let until = Instant::now() + wait;
            loop {
                while let Some(event) = self.parser.poll_event() {
                    if let Some(news) = self.handle_event(event)? {
                        return Ok(Some(news));
                    }
                }
                let news = match self.body.is_some() {
                    true => self.read(until).await?,
                    false => self.reconnect(until).await?,
                };
                if news.is_some() || Instant::now() >= until {
                    return Ok(news);
                }
            }
        })
    }

    fn handle_event(&mut self, event: ServerEvent) -> Result<Option<News>, ClientError> {
        self.tries = 0;
        if event.id.is_some() {
            self.last_id = event.id;
        }
        let target = &self.client.target;
        Ok(match event.name.as_str() {
            "job" => Some(News::Job(target.parse(event.data.as_bytes())?)),
            "progress" => {
                let moved: ProgressData = target.parse(event.data.as_bytes())?;
                let job = moved.id;
                moved
                    .progress
                    .map(|progress| News::Progress { job, progress })
            }
            "gone" => Some(News::Missed),
            // The event belongs to a newer version of the API.
            _ => None,
        })
    }

    /// Reads until there is news, or until the time `until`.
    async fn read(&mut self, until: Instant) -> Result<Option<News>, ClientError> {
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        let dead = self.received_at + SILENCE_MAX;
        match timeout_at(until.min(dead), body.frame()).await {
            Ok(Some(Ok(frame))) => {
                self.received_at = Instant::now();
                if let Some(bytes) = frame.data_ref()
                    && let Err(fault) = self.parser.handle_bytes(bytes)
                {
                    return Err(ClientError::Answer {
                        node: self.client.node_name(),
                        reason: format!("the event stream is malformed ({fault:?})"),
                    });
                }
            }
            Err(_quiet) if Instant::now() < dead => {}
            Ok(None | Some(Err(_))) | Err(_) => self.close(),
        }
        Ok(None)
    }

    fn close(&mut self) {
        self.body = None;
        self.parser = Parser::default();
        self.received_at = Instant::now();
    }

    /// Reconnects after a pause; each pause is longer than the one before.
    async fn reconnect(&mut self, until: Instant) -> Result<Option<News>, ClientError> {
        let pause = PAUSE_FIRST
            .saturating_mul(2_u32.saturating_pow(self.tries))
            .min(PAUSE_MAX);
        let at = self.received_at + pause;
        if at > until {
            sleep_until(until).await;
            return Ok(None);
        }
        sleep_until(at).await;
        self.tries = self.tries.saturating_add(1);
        match self.open().await {
            Ok(()) => {
                self.lost = None;
                Ok(Some(News::Missed))
            }
            Err(error) if error.is_passing() => {
                self.received_at = Instant::now();
                let first = self.lost.is_none();
                let since = *self.lost.get_or_insert(self.received_at);
                if since.elapsed() >= RECONNECT_FOR {
                    return Err(error);
                }
                Ok(first.then_some(News::Lost(error)))
            }
            Err(error) => Err(error),
        }
    }

    async fn open(&mut self) -> Result<(), ClientError> {
        let mut ask = Ask::get(self.path.clone()).header("accept", "text/event-stream");
        if let Some(id) = &self.last_id {
            ask = ask.header("last-event-id", id.clone());
        }
        let target = &self.client.target;
        let answer = timeout(ANSWER_DEADLINE, target.open(ask))
            .await
            .unwrap_or_else(|_late| {
                Err(ClientError::TimedOut {
                    node: self.client.node_name(),
                    seconds: ANSWER_DEADLINE.as_secs(),
                })
            })?;
        self.received_at = Instant::now();
        self.body = Some(answer.into_body());
        Ok(())
    }
}
