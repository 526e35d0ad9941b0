//! Owns the figures of the node for Prometheus. The number of their time series is bounded: labels are states, outcomes and routes.
//! Measures no transfer: it counts what the state and the jobs report.

mod amounts;
mod buffer;
mod channels;
mod done;
mod flows;
mod host;
mod jobs;
mod labels;
mod receivers;
mod room;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use godwit_api::failure::FailureCode;
use godwit_api::record::{StrangerAction, TransferDirection, TransferRecord};
use godwit_api::rest::{Bottleneck, HERE};
use godwit_jobs::now;
use godwit_state::{
    Attempt, AttemptOutcome, Event, Families, Flow, GuestJobs, Job, JobState, Node, Site, Topic,
};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::app::App;
use crate::problem::ApiError;
use amounts::CountedAmounts;
use buffer::BufferMetrics;
use channels::ChannelMetrics;
use flows::{FLOWS_SHOWN, FlowMetrics};
use host::HostMetrics;
use jobs::{JobMetrics, Runs};
use labels::{
    DIRECTIONS, ENDS, OUTCOMES, OutcomeLabel, PeerLabel, RequestLabel, RouteLabel, RunsLabel,
    StageLabel, StateLabel, StaticText, StrangerLabel, TransferLabel, asked_of, peer_of, site,
};
use room::RoomMetrics;

/// Upper bounds of the durations of requests, in seconds: from a read of one row to a proposal that waits for a slow disk.
const DURATIONS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0];

/// Peers that have time series of their own.
const PEERS_MAX: usize = 100;

/// Running jobs that have time series of their own.
const JOBS_MAX: usize = 100;

/// The figures.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    jobs: Family<StateLabel, Gauge>,
    running_rate: Family<RunsLabel, Gauge<f64, AtomicU64>>,
    bytes: Family<RunsLabel, Counter>,
    counted: CountedAmounts,
    received: Counter,
    attempts: Family<OutcomeLabel, Counter>,
    transfers: Family<TransferLabel, Counter>,
    peers: Family<PeerLabel, Counter>,
    /// Peers that have time series of their own.
    known_peers: Mutex<BTreeSet<String>>,
    stages: Family<StageLabel, Counter>,
    strangers: Family<StrangerLabel, Counter>,
    running: JobMetrics,
    channels: ChannelMetrics,
    flows: FlowMetrics,
    room: RoomMetrics,
    buffer: BufferMetrics,
    host: HostMetrics,
    requests: Family<RequestLabel, Counter>,
    durations: Family<RouteLabel, Histogram, fn() -> Histogram>,
}

impl Metrics {
    pub(crate) fn new(version: &str, cluster_id: &str) -> Self {
        let mut registry = Registry::with_prefix("godwit");
        let metrics = Self {
            registry: Mutex::default(),
            jobs: Family::default(),
            running_rate: Family::default(),
            bytes: Family::default(),
            counted: CountedAmounts::default(),
            received: Counter::default(),
            attempts: Family::default(),
            transfers: Family::default(),
            peers: Family::default(),
            known_peers: Mutex::default(),
            stages: Family::default(),
            strangers: Family::default(),
            running: JobMetrics::default(),
            channels: ChannelMetrics::default(),
            flows: FlowMetrics::default(),
            room: RoomMetrics::default(),
            buffer: BufferMetrics::default(),
            host: HostMetrics::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
        };
        registry.register(
            "build",
            "The program, and the cluster of the node; all nodes of a cluster count the same jobs and attempts",
            Info::new([
                ("version", version.to_owned()),
                ("cluster_id", cluster_id.to_owned()),
            ]),
        );
        let text = "Jobs by state and by the site that was asked, without parents";
        registry.register("jobs", text, metrics.jobs.clone());
        registry.register_with_unit(
            "running_rate",
            "Rate of all running attempts together, per second, by the site that runs their transfers",
            Unit::Bytes,
            metrics.running_rate.clone(),
        );
        registry.register_with_unit(
            "moved",
            "Amounts that ended attempts moved since the start of the node, by the site that ran their transfers",
            Unit::Bytes,
            metrics.bytes.clone(),
        );
        registry.register_with_unit(
            "received",
            "Amounts that transfers of peers wrote at this node since its start, running transfers included",
            Unit::Bytes,
            metrics.received.clone(),
        );
        registry.register(
            "attempts",
            "Attempts that ended since the start of the node, by outcome, and by the site that the job was given to",
            metrics.attempts.clone(),
        );
        registry.register(
            "transfers",
            "Transfers that ended since the start of the node, by direction and outcome",
            metrics.transfers.clone(),
        );
        registry.register_with_unit(
            "peer_moved",
            "Amounts moved by transfers with each peer since the start of the node; peers beyond the first 100 are counted together",
            Unit::Bytes,
            metrics.peers.clone(),
        );
        registry.register(
            "bottlenecks",
            "Transfers that ended since the start of the node, by the stage that limited them",
            metrics.stages.clone(),
        );
        registry.register(
            "strangers",
            "Peers without a grant that the data port refused since the start of the node, by their request",
            metrics.strangers.clone(),
        );
        metrics.running.register(&mut registry);
        metrics.channels.register(&mut registry);
        metrics.flows.register(&mut registry);
        metrics.room.register(&mut registry);
        metrics.buffer.register(&mut registry);
        metrics.host.register(&mut registry);
        registry.register(
            "http_requests",
            "Answered requests by method, route and status",
            metrics.requests.clone(),
        );
        registry.register_with_unit(
            "http_request_duration",
            "Time until the head of the answer, by route",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        metrics.begin();
        Self {
            registry: Mutex::new(registry),
            ..metrics
        }
    }

    /// Makes the time series whose labels are known before anything happens, so that the first event is an increase.
    fn begin(&self) {
        for label in RunsLabel::ALL {
            drop(self.bytes.get_or_create(&label));
        }
        for outcome in OUTCOMES {
            let outcome = StaticText(outcome);
            for asked in [site(false), site(true)] {
                let label = OutcomeLabel { outcome, asked };
                drop(self.attempts.get_or_create(&label));
            }
        }
        for direction in DIRECTIONS {
            let direction = StaticText(direction.name());
            for outcome in ENDS {
                let outcome = StaticText(outcome);
                let label = TransferLabel { direction, outcome };
                drop(self.transfers.get_or_create(&label));
            }
        }
        for stage in Bottleneck::ALL {
            let stage = StaticText(stage.as_str());
            drop(self.stages.get_or_create(&StageLabel { stage }));
        }
        for did in StrangerAction::ALL {
            drop(self.strangers.get_or_create(&StrangerLabel {
                did: StaticText(did.name()),
            }));
        }
    }

    /// Counts an action of a stranger.
    pub(crate) fn stranger(&self, did: StrangerAction) {
        let did = StaticText(did.name());
        self.strangers.get_or_create(&StrangerLabel { did }).inc();
    }

    /// Counts an answered request. The route is its template, so that ids make no time series.
    pub(crate) fn answered(&self, method: &str, route: &str, status: u16, took: Duration) {
        let known = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
        let method = known.into_iter().find(|known| *known == method);
        let label = RequestLabel {
            method: StaticText(method.unwrap_or("other")),
            route: route.to_owned(),
            status,
        };
        self.requests.get_or_create(&label).inc();
        let route = RouteLabel {
            route: route.to_owned(),
        };
        self.durations
            .get_or_create(&route)
            .observe(took.as_secs_f64());
    }

    /// Counts a transfer that ended.
    pub(crate) fn transferred(&self, record: &TransferRecord) {
        let direction = StaticText(record.start.direction.name());
        let outcome = StaticText(match record.code.known() {
            Some(
                code @ (FailureCode::Complete | FailureCode::Partial | FailureCode::Interrupted),
            ) => code.as_str(),
            _ => "failed",
        });
        let label = TransferLabel { direction, outcome };
        self.transfers.get_or_create(&label).inc();
        if let Some(stage) = record.bottleneck {
            let stage = StaticText(stage.as_str());
            self.stages.get_or_create(&StageLabel { stage }).inc();
        }
        let Some(peer) = peer_of(&record.start) else {
            return;
        };
        let mut known = self
            .known_peers
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let peer = if known.contains(peer) || known.len() < PEERS_MAX {
            known.insert(peer.clone());
            peer.clone()
        } else {
            "other".to_owned()
        };
        drop(known);
        let label = PeerLabel { peer, direction };
        self.peers.get_or_create(&label).inc_by(record.bytes);
    }

    /// Makes the time series of the sites that this node knows. Jobs name their peer so.
    fn know_sites(&self, sites: Vec<Site>) {
        let mut known = self
            .known_peers
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        for site in sites {
            if known.len() >= PEERS_MAX || !known.insert(site.name.clone()) {
                continue;
            }
            for direction in [TransferDirection::Receive, TransferDirection::Send] {
                let label = PeerLabel {
                    peer: site.name.clone(),
                    direction: StaticText(direction.name()),
                };
                drop(self.peers.get_or_create(&label));
            }
        }
    }

    /// Counts the attempts that these events ended, and the amounts of ended attempts. Blocks.
    pub(crate) fn count_events(&self, app: &App, events: &[Event]) {
        for event in events {
            let ends_none = ["job.submit", "job.claim", "job.report"];
            if event.topic != Topic::Job || ends_none.contains(&event.change.as_str()) {
                continue;
            }
            let Ok(mut ended) = app.reader().attempts(&event.object) else {
                continue;
            };
            ended.retain(|attempt| attempt.ended.is_some());
            let job = app.reader().job(&event.object).unwrap_or_default();
            let asked = asked_of(job.as_ref());
            // The event ended the attempts that have its time. The amounts of an attempt may arrive after its end.
            let of_event =
                |attempt: &&Attempt| event.change != "job.moved" && attempt.ended == Some(event.at);
            for attempt in ended.iter().filter(of_event) {
                let outcome = attempt.outcome.as_ref().map_or("", AttemptOutcome::as_str);
                let known = OUTCOMES.into_iter().find(|known| *known == outcome);
                let label = OutcomeLabel {
                    outcome: StaticText(known.unwrap_or("other")),
                    asked,
                };
                self.attempts.get_or_create(&label).inc();
            }
            let before = |attempt: &&Attempt| attempt.ended < Some(event.at);
            let (all, earlier) = (bytes(ended.iter()), bytes(ended.iter().filter(before)));
            let news = self.counted.take(&event.object, all, earlier);
            if news == 0 {
                continue;
            }
            let label = RunsLabel::of_job(&app.reader(), job.as_ref());
            self.bytes.get_or_create(&label).inc_by(news);
        }
    }

    /// All figures as text. Blocks.
    pub(crate) fn text(&self, app: &App) -> Result<String, ApiError> {
        // Held until the end. Another reader would otherwise see incomplete series.
        let registry = self
            .registry
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let all = app.reader().job_counts(None)?;
        let guests = GuestJobs(&app.reader()).counts()?;
        // Their destinations are counted. No job of another site is a parent.
        let parents = Families(&app.reader()).parents()?;
        for state in JobState::ALL {
            let guests = count_of(&guests, state);
            let others = guests.saturating_add(count_of(&parents, state));
            let own = count_of(&all, state).saturating_sub(others);
            for (count, asked) in [(own, site(false)), (guests, site(true))] {
                let label = StateLabel {
                    state: StaticText(state.name()),
                    asked,
                };
                self.jobs
                    .get_or_create(&label)
                    .set(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
        self.know_sites(app.reader().objects::<Site>()?);
        self.host.look();
        let received = (app.node.received)();
        self.received.inner().store(received, Ordering::Relaxed);
        self.room.set(&app.node.exports);
        if let Some(buffer) = &app.node.buffer {
            self.buffer.set(&buffer.view(), &app.node.exports, now());
        }
        self.flows.clear();
        for flow in app.reader().objects::<Flow>()?.iter().take(FLOWS_SHOWN) {
            self.flows
                .set(&flow.id, &app.jobs.flows().hops(flow)?, now());
        }
        let running = app.jobs.progress();
        let nodes = app.reader().objects::<Node>()?.into_iter();
        let nodes: BTreeSet<String> = nodes.map(|node| node.name).collect();
        let none = BTreeSet::new();
        for label in RunsLabel::ALL {
            self.running_rate.get_or_create(&label).set(0.0);
        }
        // Running jobs only, so that ended jobs leave no time series.
        self.running.clear();
        self.channels.clear();
        for (place, one) in running.iter().enumerate() {
            let row = app.reader().job(&one.id)?;
            let label = RunsLabel::of_job(&app.reader(), row.as_ref());
            let rate = one.progress.bytes_per_second.unwrap_or(0.0);
            self.running_rate.get_or_create(&label).inc_by(rate);
            if place >= JOBS_MAX {
                continue;
            }
            let is_here = row.as_ref().is_some_and(is_of_here);
            let ends_here = row.is_some_and(|row| row.destination.site == HERE);
            let runs = Runs {
                label,
                alone: is_here.then_some(app.node.name.as_str()),
                receivers: if ends_here { &nodes } else { &none },
            };
            self.running.set(&one.id, &one.progress, &runs);
            self.channels.set(&one.id, &one.progress.channels);
        }
        let mut text = String::new();
        encode(&mut text, &registry)
            .map_err(|error| ApiError::internal(format!("the figures: {error}")))?;
        Ok(text)
    }
}

/// The number of jobs in this state.
fn count_of(counts: &[(JobState, u64)], state: JobState) -> u64 {
    let count = counts.iter().find(|(of, _)| *of == state);
    count.map_or(0, |(_, count)| *count)
}

/// Bytes that these attempts moved.
fn bytes<'a>(attempts: impl Iterator<Item = &'a Attempt>) -> u64 {
    attempts.fold(0, |sum, attempt| sum.saturating_add(attempt.moved.bytes))
}

/// Whether this site sends or receives the data of the job. For other jobs this site only follows the progress.
fn is_of_here(job: &Job) -> bool {
    let mut places = job.sources.iter().chain([&job.destination]);
    places.any(|place| place.site == HERE)
}
