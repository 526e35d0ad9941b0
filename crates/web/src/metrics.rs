//! Owns the figures of the node for Prometheus. The number of their time series is bounded: labels are states, outcomes and routes.
//! Measures no transfer: it counts what the state and the jobs report.

mod channels;
mod host;
mod jobs;
mod room;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use godwit_api::failure::FailureCode;
use godwit_api::record::{StrangerDid, TransferDirection, TransferRecord, TransferStart};
use godwit_api::rest::HERE;
use godwit_jobs::{is_for_other_site, progress_of};
use godwit_state::{Agreed, Event, Job, JobState, Site, Topic};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::app::App;
use crate::problem::ApiError;
use channels::ChannelMetrics;
use host::HostMetrics;
use jobs::JobMetrics;
use room::RoomMetrics;

/// Upper bounds of the durations of requests, in seconds: from a read of one row to a proposal that waits for a slow disk.
const DURATIONS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0];

/// Peers that have time series of their own.
const PEERS_MAX: usize = 100;

/// Running jobs that have time series of their own.
const JOBS_MAX: usize = 100;

/// All outcomes of attempts that the state knows.
const OUTCOMES: [&str; 9] = [
    "complete",
    "partial",
    "failed",
    "cancelled",
    "paused",
    "queued",
    "scheduled",
    "backoff",
    "restart",
];

/// All outcomes of transfers that figures distinguish.
const ENDS: [&str; 4] = ["complete", "partial", "interrupted", "failed"];

/// Directions of transfers: those of peers, and those that only a job of this node can have.
const DIRECTIONS: [TransferDirection; 5] = [
    TransferDirection::Receive,
    TransferDirection::Send,
    TransferDirection::Verify,
    TransferDirection::Local,
    TransferDirection::ThirdParty,
];

/// Stages that the engine may name as the limit of a transfer.
const STAGES: [&str; 6] = [
    "source storage",
    "source CPU",
    "network",
    "destination CPU",
    "destination storage",
    "limit",
];

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct StateLabel {
    state: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OutcomeLabel {
    outcome: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct TransferLabel {
    direction: StaticText,
    outcome: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct PeerLabel {
    peer: String,
    direction: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct StageLabel {
    stage: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct StrangerLabel {
    did: StaticText,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct RequestLabel {
    method: StaticText,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct RouteLabel {
    route: String,
}

/// The peer of a transfer, as figures name it. A job for another site counts under that site. As in the outline of the job and in the
/// rates, viewers may not see its other end.
fn peer_of(start: &TransferStart) -> Option<&String> {
    let peer = start.identity.as_ref().or(start.peer.as_ref())?;
    let asker = start
        .owner
        .as_ref()
        .filter(|owner| is_for_other_site(owner));
    Some(asker.unwrap_or(peer))
}

/// A text that the program has.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct StaticText(&'static str);

impl EncodeLabelValue for StaticText {
    fn encode(
        &self,
        encoder: &mut prometheus_client::encoding::LabelValueEncoder<'_>,
    ) -> Result<(), fmt::Error> {
        self.0.encode(encoder)
    }
}

/// The figures.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    jobs: Family<StateLabel, Gauge>,
    running_rate: Gauge<f64, std::sync::atomic::AtomicU64>,
    bytes: Counter,
    attempts: Family<OutcomeLabel, Counter>,
    transfers: Family<TransferLabel, Counter>,
    peers: Family<PeerLabel, Counter>,
    /// Peers that have time series of their own.
    known_peers: Mutex<BTreeSet<String>>,
    stages: Family<StageLabel, Counter>,
    strangers: Family<StrangerLabel, Counter>,
    running: JobMetrics,
    channels: ChannelMetrics,
    room: RoomMetrics,
    host: HostMetrics,
    requests: Family<RequestLabel, Counter>,
    durations: Family<RouteLabel, Histogram, fn() -> Histogram>,
}

impl Metrics {
    pub(crate) fn new(version: &str) -> Self {
        let mut registry = Registry::with_prefix("godwit");
        let metrics = Self {
            registry: Mutex::default(),
            jobs: Family::default(),
            running_rate: Gauge::default(),
            bytes: Counter::default(),
            attempts: Family::default(),
            transfers: Family::default(),
            peers: Family::default(),
            known_peers: Mutex::default(),
            stages: Family::default(),
            strangers: Family::default(),
            running: JobMetrics::default(),
            channels: ChannelMetrics::default(),
            room: RoomMetrics::default(),
            host: HostMetrics::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
        };
        registry.register(
            "build",
            "The program",
            Info::new([("version", version.to_owned())]),
        );
        registry.register("jobs", "Jobs by state", metrics.jobs.clone());
        registry.register_with_unit(
            "running_rate",
            "Rate of all running attempts together, per second",
            Unit::Bytes,
            metrics.running_rate.clone(),
        );
        registry.register_with_unit(
            "moved",
            "Amounts that ended attempts moved since the start of the node",
            Unit::Bytes,
            metrics.bytes.clone(),
        );
        registry.register(
            "attempts",
            "Attempts that ended since the start of the node, by outcome",
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
        metrics.room.register(&mut registry);
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
        for outcome in OUTCOMES {
            let outcome = StaticText(outcome);
            drop(self.attempts.get_or_create(&OutcomeLabel { outcome }));
        }
        for direction in DIRECTIONS {
            let direction = StaticText(direction.name());
            for outcome in ENDS {
                let outcome = StaticText(outcome);
                let label = TransferLabel { direction, outcome };
                drop(self.transfers.get_or_create(&label));
            }
        }
        for stage in STAGES {
            let stage = stage.to_owned();
            drop(self.stages.get_or_create(&StageLabel { stage }));
        }
        for did in StrangerDid::ALL {
            drop(self.strangers.get_or_create(&StrangerLabel {
                did: StaticText(did.name()),
            }));
        }
    }

    /// Counts an action of a stranger.
    pub(crate) fn stranger(&self, did: StrangerDid) {
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
        if let Some(stage) = &record.bottleneck {
            let stage = stage.clone();
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

    /// Counts the attempts that these events ended. Blocks.
    pub(crate) fn heard(&self, app: &App, events: &[Event]) {
        for event in events {
            let ends = !matches!(
                event.change.as_str(),
                "job.submit" | "job.claim" | "job.report"
            );
            if event.topic != Topic::Job || !ends {
                continue;
            }
            let job = app.reader().job(&event.object).ok().flatten();
            let last =
                job.and_then(|job| Agreed(&app.reader()).attempt(&job.id, job.attempts).ok()?);
            // The event ended no attempt: its time differs from the end of the last one.
            let Some(last) = last.filter(|last| last.ended == Some(event.at)) else {
                continue;
            };
            let outcome = last.outcome.as_deref().unwrap_or_default();
            let known = OUTCOMES.into_iter().find(|known| *known == outcome);
            let label = OutcomeLabel {
                outcome: StaticText(known.unwrap_or("other")),
            };
            self.attempts.get_or_create(&label).inc();
            self.bytes.inc_by(last.moved.bytes);
        }
    }

    /// All figures as text. Blocks.
    pub(crate) fn text(&self, app: &App) -> Result<String, ApiError> {
        // Held until the end. Another reader would otherwise see incomplete series.
        let registry = self
            .registry
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let counts = app.reader().job_counts(None)?;
        for state in JobState::ALL {
            let count = counts.iter().find(|(of, _)| *of == state);
            let count = count.map_or(0, |(_, count)| *count);
            let label = StateLabel {
                state: StaticText(state.name()),
            };
            self.jobs
                .get_or_create(&label)
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.know_sites(app.reader().objects::<Site>()?);
        self.host.look();
        self.room.set(&app.node.exports);
        let running = progress_of(&app.jobs);
        let rates = running
            .iter()
            .filter_map(|one| one.progress.bytes_per_second);
        self.running_rate.set(rates.sum());
        // Running jobs only, so that ended jobs leave no time series.
        self.running.clear();
        self.channels.clear();
        for one in running.iter().take(JOBS_MAX) {
            let row = app.reader().job(&one.id)?;
            let is_here = row.is_some_and(|row| is_of_here(&row));
            let own = is_here.then_some(app.node.name.as_str());
            self.running.set(&one.id, &one.progress, own);
            self.channels.set(&one.id, &one.progress.channels);
        }
        let mut text = String::new();
        encode(&mut text, &registry)
            .map_err(|error| ApiError::internal(format!("the figures: {error}")))?;
        Ok(text)
    }
}

/// Whether this site sends or receives the data of the job. Of other jobs it only follows the progress.
fn is_of_here(job: &Job) -> bool {
    let mut places = job.sources.iter().chain([&job.destination]);
    places.any(|place| place.site == HERE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_of_a_job_for_another_site_is_in_no_figure() {
        let start = |owner: &str, identity: Option<&str>, peer: Option<&str>| TransferStart {
            id: "t".to_owned(),
            job: Some("j".to_owned()),
            identity: identity.map(ToOwned::to_owned),
            peer: peer.map(ToOwned::to_owned),
            owner: Some(owner.to_owned()),
            direction: TransferDirection::Send,
            places: Vec::new(),
            label: None,
            request: None,
            encryption: None,
            counted_as: Vec::new(),
        };
        let named = |start: &TransferStart| peer_of(start).cloned();
        let guest = start("site:gw1-x", None, Some("secret-site"));
        assert_eq!(named(&guest).as_deref(), Some("site:gw1-x"));
        let own = start("otto", None, Some("siteB"));
        assert_eq!(named(&own).as_deref(), Some("siteB"));
        let peer = start("otto", Some("gw1-y"), Some("siteB"));
        assert_eq!(named(&peer).as_deref(), Some("gw1-y"));
        assert_eq!(named(&start("site:gw1-x", None, None)), None);
    }
}
